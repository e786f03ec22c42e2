"""The extension in a real VS Code, against a real gateway that plays its packaged streams."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from penstock.testing import Reply, scripted
from tests.vscode.e2e import Control, Editor, Gateway, alone, need_editor, script
from tests.vscode.signed import reply
from tools.vscode_pack import bundle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.testing import Upstream

pytestmark = [pytest.mark.slow, pytest.mark.node]


@pytest.fixture(autouse=True)
def _built() -> Iterator[None]:
    need_editor()
    with alone():
        script("tools/build.mjs", "--tests")
        yield


def settings(gateway: Gateway) -> dict[str, Any]:
    return {"penstock.gateway.url": gateway.url, "telemetry.telemetryLevel": "off"}


@pytest.mark.row("G2", "S2", "L6")
def test_every_part_kind_reaches_the_host(tmp_path: Path) -> None:
    with Gateway(tmp_path) as gateway:

        def kill(_: Any) -> None:
            gateway.stop(signal.SIGKILL)

        def count(items: list[Any]) -> float:
            return float(sum(gateway.ask("/vscode/count", {"model": "replay/text", "items": items})["counts"]))

        commands = {"kill": kill, "start": lambda _: gateway.start(), "count": count}
        with Control(commands) as control:
            found = Editor(tmp_path, settings(gateway)).suite("parts", control)
    wrong = {name: error for name, error in found.items() if error}
    assert wrong == {}
    assert len(found) >= 14


CONFIG = """
[providers.anthropic]
base_url = "{url}"
models = ["claude-script", "claude-slow", "claude-bad"]
"""


def closed(upstream: Upstream) -> int:
    """How many requests were left by those who asked; some time is given for the first."""
    deadline = time.monotonic() + 10
    while not (gone := sum(seen.gone.is_set() for seen in upstream.seen)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return gone


@pytest.mark.row("G2", "S2", "P5")
def test_signed_thinking_survives_turns_windows_and_gateways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "made-up")
    with scripted(reply) as upstream, Gateway(tmp_path, config=CONFIG.format(url=upstream.url)) as gateway:
        commands = {"closed": lambda _: closed(upstream), "asked": lambda _: len(upstream.seen)}
        with Control(commands) as control:
            editor = Editor(tmp_path, settings(gateway))
            found = editor.suite("first", control)
            gateway.stop()
            gateway.start()
            found |= editor.suite("second", control)
    assert {name: error for name, error in found.items() if error} == {}
    assert len(found) == 4


@pytest.mark.row("G2", "S2", "P5")
def test_the_same_with_a_gateway_of_the_extensions_own(tmp_path: Path) -> None:
    """Its key is another one after every start; whose state it is stays the same."""
    bundle()
    with scripted(reply) as upstream:
        config = tmp_path / "own.toml"
        config.write_text(CONFIG.format(url=upstream.url))
        env = {"PENSTOCK_DATA": str(tmp_path / "penstock"), "ANTHROPIC_API_KEY": "made-up"}
        editor = Editor(tmp_path, {"penstock.python": sys.executable, "penstock.gateway.config": str(config)}, env)
        state = tmp_path / "data/User/globalStorage/penstock.penstock/gateway.json"
        commands = {"closed": lambda _: closed(upstream), "asked": lambda _: len(upstream.seen)}
        with Control(commands) as control:
            found = editor.suite("first", control)
            before = json.loads(state.read_text())
            ended(before["pid"])
            found |= editor.suite("second", control)
            after = json.loads(state.read_text())
    assert {name: error for name, error in found.items() if error} == {}
    assert len(found) == 4
    assert before["key"] != after["key"]
    ended(after["pid"])


@pytest.mark.row("G2", "G5")
def test_the_extension_starts_its_own_gateway(tmp_path: Path) -> None:
    """The wheel in the bundle says which version it may start; the interpreter that runs the tests has just that."""
    bundle()
    editor = Editor(
        tmp_path, {"penstock.python": sys.executable}, {"PENSTOCK_DATA": str(tmp_path / "penstock"), "PATH": "/usr/bin"}
    )
    pids: list[int] = []

    def machine(values: dict[str, Any]) -> None:
        file = tmp_path / "data/Machine/settings.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | values))

    state = tmp_path / "data/User/globalStorage/penstock.penstock"
    with Control({"state": lambda _: str(state), "pid": pids.append, "machine": machine}) as control:
        found = editor.suite("own", control)
    assert {name: error for name, error in found.items() if error} == {}
    assert len(found) >= 8
    assert len(set(pids)) == 3
    for pid in pids:
        ended(pid)


def ended(pid: int) -> None:
    """The windows are gone: so is their gateway, soon."""
    deadline = time.monotonic() + 60
    while lives(pid) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not lives(pid)


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


FILLING = """
[providers.mistral]
base_url = "{url}"
models = ["codestral-latest"]
"""
FILLED = {
    "id": "f1", "object": "chat.completion", "created": 1, "model": "codestral-latest",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "42 cm high"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13},
}  # fmt: skip


@pytest.mark.row("G2")
def test_further_gateways_and_what_is_off_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MISTRAL_API_KEY", "made-up")
    (tmp_path / "other").mkdir()
    with (
        scripted(Reply.body(FILLED)) as upstream,
        Gateway(tmp_path, config=FILLING.format(url=upstream.url)) as gateway,
        Gateway(tmp_path / "other") as other,
    ):
        editor = Editor(
            tmp_path,
            {
                **settings(gateway),
                "penstock.commitMessage.enabled": True,
                "penstock.commitMessage.model": "replay/text",
            },
        )
        groups = tmp_path / "data/User/chatLanguageModels.json"
        groups.parent.mkdir(parents=True)
        groups.write_text(json.dumps([{"name": "Other", "vendor": "penstock", "url": other.url}]))
        with Control({"other": lambda _: other.url.removeprefix("http://")}) as control:
            found = editor.suite("extras", control)
    assert {name: error for name, error in found.items() if error} == {}
    assert len(found) == 5


@pytest.mark.row("G2")
def test_where_nothing_can_start_it_says_so(tmp_path: Path) -> None:
    bundle()
    # As if it was started from a terminal: else the editor asks a login shell for a PATH, and finds more than it should.
    editor = Editor(tmp_path, {}, {"PATH": str(tmp_path / "nowhere"), "VSCODE_CLI": "1"})
    with Control({}) as control:
        found = editor.suite("nothing", control)
    assert {name: error for name, error in found.items() if error} == {}
    said = [notice for notice in editor.notices if "no Python was found" in notice]
    assert len(said) == 1, editor.notices
    assert "Show How" in said[0]
