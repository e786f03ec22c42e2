"""The Chat view as a person would use it: the packed extension installed, a model picked, questions asked.

With PENSTOCK_SHOTS set the pictures are kept there: `PENSTOCK_SHOTS=vscode/docs make test ARGS=tests/vscode`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.vscode.e2e import Editor, Gateway, alone, need_editor

pytestmark = [pytest.mark.slow, pytest.mark.node]

SCENES: list[dict[str, Any]] = [
    {
        "name": "thinking", "model": "Replay: reasoning", "picker": "models", "open": ["Completed", "Finished"],
        "prompt": "How long does a tank of 540 litres take to fill?",
    },
    {"name": "agent", "model": "Replay: agent", "prompt": "Please look whether the shell works."},
    {"name": "error", "model": "Replay: error", "prompt": "How fast is the turbine?"},
]  # fmt: skip
SETTINGS = {
    "workbench.startupEditor": "none",
    "workbench.secondarySideBar.defaultVisibility": "maximized",
    "chat.viewSessions.enabled": False,
    "chat.utilityModel": "penstock/utility",
    "chat.utilitySmallModel": "penstock/utility",
    "telemetry.telemetryLevel": "off",
}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each scene showed."""
    need_editor()
    from tools.vscode_pack import pack

    work = tmp_path_factory.mktemp("chat")
    with alone():
        pack(work / "penstock.vsix")
        return play(work)


def play(work: Path) -> dict[str, Any]:
    shots = Path(os.environ.get("PENSTOCK_SHOTS") or work).resolve()
    results = work / "results.json"
    with Gateway(work) as gateway:
        editor = Editor(work, {**SETTINGS, "penstock.gateway.url": gateway.url})
        job = {"vsix": str(work / "penstock.vsix"), "shots": str(shots), "results": str(results), "scenes": SCENES}
        done = editor.drive("chat.mjs", job, limit=300.0)
    assert done.returncode == 0, done.stdout
    found: dict[str, Any] = json.loads(results.read_text())
    return found


@pytest.mark.row("G2", "L6")
def test_thinking_and_answer_are_shown(shown: dict[str, Any]) -> None:
    assert "Three minutes: 540 litres" in shown["thinking"]["said"]
    assert "no response was returned" not in shown["thinking"]["said"]
    assert "540 / 3 = 180 seconds" in shown["thinking"]["unfolded"]
    # How full the window is.
    assert " of 200k (" in shown["thinking"]["status"]


@pytest.mark.row("G2")
def test_a_tool_is_run_and_its_result_answered(shown: dict[str, Any]) -> None:
    """The command is the packaged agent's own; the words are what a shell made of it."""
    assert "hello from penstock" in shown["agent"]["said"].partition("gave:")[2]


@pytest.mark.row("G2")
def test_an_error_is_one_sentence_without_a_stack(shown: dict[str, Any]) -> None:
    said = shown["error"]["said"]
    assert "Replay is overloaded (529: The model is overloaded" in said
    assert "pick another model (request " in said
    assert "    at " not in said
    assert "extension.cjs" not in said
