"""The daily budget in a real VS Code, with a gateway that the extension starts and a provider that counts."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from penstock import events as ev
from penstock.testing import Reply, scripted
from tests.surfaces.vscode.e2e import Control, Editor, alone, need_editor, script
from tests.surfaces.vscode.test_editor import ended, right
from tools.vscode_pack import bundle

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(900)

CONFIG = """
[providers.anthropic]
base_url = "{url}"
key = "made-up"
models = ["claude-sonnet-4-5"]
[providers.mine]
like = "openai-compatible"
base_url = "{url}/v1"
key = "made-up"
[providers.mine.models.tide]
context = 60_000
max_output = 8_000
prices = {{ input = 1, output = 2 }}
"""


def answer(seen: Any) -> Reply:
    """2,000 tokens in and 1,000 out: 0.4 cents of the model `tide`."""
    if not seen.body:
        return Reply.body({"data": []})
    protocol = "anthropic" if seen.path.endswith("/messages") else "openai-chat"
    said: list[ev.AnyEvent] = [
        ev.Start("m", "tide"),
        ev.TextStart(0),
        ev.TextDelta(0, "The tide is in."),
        ev.TextEnd(0),
    ]
    return Reply.of(protocol, [*said, ev.Usage(input=2_000, output=1_000), ev.Finish("stop")])


def test_a_budget_is_told_stops_and_is_lifted(tmp_path: Path) -> None:
    need_editor()
    with alone(), scripted(answer) as upstream:
        bundle()
        script("tools/build.mjs", "--tests")
        config = tmp_path / "own.toml"
        config.write_text(CONFIG.format(url=upstream.url))
        settings = {
            "penstock.python": sys.executable, "penstock.gateway.config": str(config),
            "penstock.gateway.dailyBudget": 0.01, "telemetry.telemetryLevel": "off",
        }  # fmt: skip
        env = {"PENSTOCK_DATA": str(tmp_path / "penstock"), "PATH": "/usr/bin", "ANTHROPIC_API_KEY": ""}
        asked = {
            "asked": lambda _: sum(bool(seen.body) for seen in upstream.requests),
            "last": lambda _: upstream.requests[-1].body.decode(),
        }
        with Control(asked) as control:
            right(Editor(tmp_path, settings, env).suites(["budget"], control), least=5)
        running = tmp_path / "data/User/globalStorage/penstock.penstock/gateway.json"
        ended(json.loads(running.read_text())["pid"])
