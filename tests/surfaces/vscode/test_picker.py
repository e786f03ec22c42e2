"""The Chat view of a real VS Code, from the first start with nothing to a gateway that goes away and comes back."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from penstock import events as ev
from penstock.testing import Reply, scripted
from tests.surfaces.vscode.e2e import Control, Editor, Gateway, alone, need_editor

pytestmark = pytest.mark.timeout(1800)

PROVIDER = """
[providers.mine]
like = "openai-compatible"
base_url = "{url}/v1"
key = "made-up"
[providers.mine.models.tide]
name = "Tide"
context = 60_000
max_output = 8_000
prices = {{ input = 1.25, output = 10 }}
"""
SETTINGS = {
    "workbench.startupEditor": "none",
    "workbench.secondarySideBar.defaultVisibility": "maximized",
    "chat.viewSessions.enabled": False,
    "telemetry.telemetryLevel": "off",
}
BANNER = "Set BYOK utility models"
SCENES: dict[str, list[list[Any]]] = {
    "empty": [["chat", "Add a provider…"], ["ask", "Hello?"], ["said"], ["shot", "add-provider"]],
    "added": [
        ["outside", "add"], ["command", "Penstock: Restart Gateway"], ["chat", "Tide"], ["ask", "Hello?"], ["said"],
        ["names", "Tide"],
    ],
    "banner": [["shows", BANNER], ["command", "Penstock: Use Utility Model"], ["hides", BANNER], ["shot", "utility"]],
    "killed": [["outside", "kill"], ["chat", "Tide"], ["ask", "Still there?"], ["said"], ["shot", "gateway-down"]],
    "reloaded": [["reload"], ["count", "Tide"], ["chat", "Tide"], ["ask", "And after a restart?"], ["said"]],
    "back": [["outside", "start"], ["chat", "Tide"], ["ask", "And now?"], ["said"]],
    "prices": [
        ["size", [1200, 800]], ["command", "Manage Language Models"], ["fits", ".model-cost-cell"], ["shot", "prices"],
        ["keys", ["Control+w"]], ["size", [760, 640]],
    ],
}  # fmt: skip


def answer(seen: Any) -> Reply:
    if not seen.body:
        return Reply.body({"data": []})
    said: list[ev.AnyEvent] = [
        ev.Start("m", "tide"),
        ev.TextStart(0),
        ev.TextDelta(0, "The tide is in."),
        ev.TextEnd(0),
    ]
    return Reply.of("openai-chat", [*said, ev.Usage(input=900, output=9), ev.Finish("stop")])


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each scene showed."""
    need_editor()
    from tools.vscode_pack import pack

    work = tmp_path_factory.mktemp("picker")
    with alone():
        pack(work / "penstock.vsix")
        return play(work)


def play(work: Path) -> dict[str, Any]:
    shots = Path(os.environ.get("PENSTOCK_SHOTS") or work).resolve()
    results = work / "results.json"
    with scripted(answer) as upstream, Gateway(work, config="# nothing yet\n") as gateway:
        commands = {
            "add": lambda _: gateway.configure(PROVIDER.format(url=upstream.url)),
            "kill": lambda _: gateway.stop(signal.SIGKILL), "start": lambda _: gateway.start(),
        }  # fmt: skip
        with Control(commands) as control:
            editor = Editor(work, {**SETTINGS, "penstock.gateway.url": gateway.url})
            job = {"vsix": str(work / "penstock.vsix"), "shots": str(shots), "results": str(results)}
            done = editor.drive("chat.mjs", {**job, "control": control.url, "scenes": SCENES}, limit=900.0)
    found: dict[str, Any] = json.loads(results.read_text())
    assert done.returncode == 0, f"{done.stdout}\n{found}"
    return found


def test_the_first_start_with_nothing_has_one_entry_that_leads_on(scenes: dict[str, Any]) -> None:
    said = scenes["empty"]["said"]
    assert "No provider is set up yet: run Penstock: Add Provider to add one, with its key." in said
    assert "Sorry, your request failed" not in said
    assert "The tide is in." in scenes["added"]["said"]
    names = [name.partition(",")[0] for name in scenes["added"]["names"]]
    assert "Tide" in names
    assert not [name for name in names if name.startswith(("Add a provider", "Replay"))], "nor packaged models"


def test_the_banner_for_utility_models_goes_with_one_command(scenes: dict[str, Any]) -> None:
    assert BANNER in scenes["banner"]["shows"]


def test_the_price_is_seen_whole_in_its_column(scenes: dict[str, Any]) -> None:
    assert ["$1/10", True] in scenes["prices"]["fits"]


@pytest.mark.parametrize("scene", ["killed", "reloaded"])
def test_models_of_a_gateway_that_is_gone_stay_and_say_why(scenes: dict[str, Any], scene: str) -> None:
    said = scenes[scene]["said"]
    assert "does not answer" in said
    assert "start it, or clear penstock.gateway.url" in said or "run “Penstock: Check Set-up”" in said
    assert "is not registered" not in said
    assert "    at " not in said


def test_after_a_restart_the_last_list_is_there(scenes: dict[str, Any]) -> None:
    assert scenes["reloaded"]["count"] == 1
    assert "The tide is in." in scenes["back"]["said"]
