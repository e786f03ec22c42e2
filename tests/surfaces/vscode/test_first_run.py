"""From the installation to the first answer, in a real VS Code with a clean profile, without Python and without a network."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.providers import providers
from tests.surfaces.vscode.e2e import ROOT, alone, need_editor
from tests.surfaces.vscode.first_run import FIRST, SECOND, URL, WRONG
from tests.surfaces.vscode.standalone import built, without_network

pytestmark = pytest.mark.timeout(1800)

LIMIT = 900.0
SETTINGS = {
    "workbench.startupEditor": "none",
    "workbench.secondarySideBar.defaultVisibility": "maximized",
    "chat.viewSessions.enabled": False,
    "telemetry.telemetryLevel": "off",
}
MODEL = "tide-1"
SCENES: dict[str, list[list[Any]]] = {
    "start": [
        ["command", "Notifications: Show Notifications"], ["shows", "key yet"], ["shot", "first-start"],
    ],
    "added": [
        ["press", "Add Provider"], ["box", "Search for a provider"], ["shot", "first-providers"], ["fill", "compatible"],
        ["box", "chat/completions is added to"], ["fill", URL], ["box", "A name for the server"], ["fill", "lab"],
        ["box", "Its key"], ["fill", WRONG], ["box", "Incorrect API key"], ["shot", "first-wrong-key"], ["fill", FIRST],
        ["box", "Pick a model"], ["fill", "Done"],
    ],
    "answer": [["chat", MODEL], ["ask", "Is the tide in?"], ["said"], ["clock"], ["shot", "first-answer"]],
    "agent": [["ask", "How high is the water?"], ["said", "first-allow"], ["shot", "first-agent"]],
    "restarted": [["restart"], ["chat", MODEL], ["ask", "Is the tide still in?"], ["said"], ["shot", "first-restart"]],
    "refused": [["outside", "change-key"], ["chat", MODEL], ["ask", "And now?"], ["said"], ["shot", "first-refused"]],
    "changed": [
        ["command", "Penstock: Manage Providers"], ["box", "Pick a provider to change it"], ["fill", "lab"],
        ["box", "Change Key"], ["fill", "Change Key"], ["box", "The new key"], ["fill", SECOND],
        ["box", "Pick a provider to change it"], ["keys", ["Escape"]],
        ["chat", MODEL], ["ask", "With the new key?"], ["said"], ["shot", "first-new-key"],
    ],
    "second window": [["window", 1], ["chat", MODEL], ["ask", "Here too?"], ["said"], ["shot", "first-second-window"]],
    "first window": [["window", 0], ["chat", MODEL], ["ask", "And here?"], ["said"]],
}  # fmt: skip


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each scene showed."""
    need_editor()
    from tools.standalone.targets import this_target
    from tools.vscode_pack import pack

    work = tmp_path_factory.mktemp("first")
    gateway = built()
    with alone():
        pack(work / "penstock.vsix", this_target(), gateway)
        return play(work)


def play(work: Path) -> dict[str, Any]:
    alone_on_the_net = without_network()
    env = {
        "PATH": "/nonexistent", "PENSTOCK_DATA": str(work / "penstock"),
        **{name: "" for row in providers().values() for name in row.env},
    }  # fmt: skip
    job = {
        "work": str(work), "settings": SETTINGS, "env": env, "limit": LIMIT, "vsix": str(work / "penstock.vsix"),
        "shots": str(Path(os.environ.get("PENSTOCK_SHOTS") or work).resolve()), "results": str(work / "results.json"),
        "scenes": SCENES, "isolated": bool(alone_on_the_net),
    }  # fmt: skip
    (work / "job.json").write_text(json.dumps(job))
    command = [*alone_on_the_net, sys.executable, "-m", "tests.surfaces.vscode.first_run", str(work / "job.json")]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        try:
            said, _ = process.communicate(timeout=LIMIT)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    found: dict[str, Any] = json.loads((work / "results.json").read_text())
    assert process.returncode == 0, f"{said}\n{json.dumps(found, indent=1)}"
    return {**found, "work": work}


def test_the_first_start_says_what_is_missing_and_leads_to_it(scenes: dict[str, Any]) -> None:
    assert "Add Provider" in scenes["start"]["shows"]
    assert "Incorrect API key" in scenes["added"]["box"] or scenes["added"]["box"]


def test_the_first_answer_comes_soon(scenes: dict[str, Any], record_property: Any) -> None:
    assert "The tide is in." in scenes["answer"]["said"]
    seconds = scenes["answer"]["clock"]
    record_property("table", f"from the installation to the first answer, typing included: {seconds:.0f} s")


def test_an_agent_runs_a_tool(scenes: dict[str, Any]) -> None:
    assert "The water is 3.2 m high." in scenes["agent"]["said"]


def test_the_key_is_there_after_a_restart_of_the_editor(scenes: dict[str, Any]) -> None:
    assert "The tide is in." in scenes["restarted"]["said"]


def test_a_key_that_is_refused_says_how_to_change_it_and_the_new_one_counts_at_once(scenes: dict[str, Any]) -> None:
    refused = scenes["refused"]["said"]
    assert "key" in refused
    assert "Manage Providers" in refused or "Add Provider" in refused
    assert "    at " not in refused
    assert "The tide is in." in scenes["changed"]["said"]


@pytest.mark.parametrize("scene", ["second window", "first window"])
def test_two_windows_share_gateway_and_keys(scenes: dict[str, Any], scene: str) -> None:
    assert "The tide is in." in scenes[scene]["said"]


def test_no_key_is_in_settings_or_logs(scenes: dict[str, Any]) -> None:
    work: Path = scenes["work"]
    names = ("*.json", "*.log", "*.toml")
    files = [file for name in names for file in work.rglob(name) if file.name not in {"job.json", "results.json"}]
    assert len(files) > 5
    assert [str(file) for file in files if b"planted-" in file.read_bytes()] == []
