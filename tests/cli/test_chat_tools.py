"""Tools in `penstock chat`: functions of a module, shown with their arguments, run after a yes."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from penstock import events as ev
from penstock.testing import Reply, Upstream, play, scripted
from tests.cli.command_runner import environment, inside
from tests.cli.terminal_session import CTRL_D, Terminal
from tests.support.each_case import each

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODULE = '''
"""Tools for the test."""
import penstock
from pathlib import Path

NUMBER = 3

def tide(port: str, hour: int = 12) -> str:
    """Says how high the water is.

    Args:
        port: where
    """
    with open("called", "a") as file:  # calls of one answer run at once
        file.write(port + ",")
    return f"{port} at {hour}: 7 m"

@penstock.tool(name="break_it")
def fails(port: str) -> str:
    """Breaks."""
    raise ValueError("the gauge is broken")
'''


def calls(*rows: tuple[str, str, str]) -> Reply:
    events: list[Any] = [ev.Start("a", "m")]
    for index, (key, name, arguments) in enumerate(rows):
        events += [
            ev.CallStart(index, key, name),
            ev.CallDelta(index, arguments),
            ev.CallEnd(index, key, name, arguments),
        ]
    return Reply.of("openai-chat", [*events, ev.Usage(10, 5), ev.Finish("calls")])


def answer() -> Reply:
    return Reply.of("openai-chat", play("text"))


@pytest.fixture
def up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Upstream]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "harbour.py").write_text(MODULE)
    with scripted(calls(("c1", "tide", '{"port":"Brest"}')), answer()) as server:
        (tmp_path / "made.toml").write_text(
            f'[providers.mine]\nbase_url = "{server.url}/v1"\nkey = "k"\nmodels = ["m"]\n'
        )
        yield server


def words(*more: str) -> list[str]:
    return ["chat", "mine/m", "--config", "made.toml", "--tool", "harbour:tide", *more]


def terminal(tmp_path: Path, *more: str) -> Terminal:
    env = environment(TERM="xterm", NO_COLOR="1", PENSTOCK_DATA=str(tmp_path / "data"), INPUTRC="/dev/null")
    return Terminal([sys.executable, "-m", "penstock", *words(*more)], env, tmp_path)


def results(up: Upstream) -> list[Any]:
    return [message["content"] for message in up.requests[-1].json["messages"] if message["role"] == "tool"]


def test_without_asking(up: Upstream, tmp_path: Path) -> None:
    done = inside(*words("--yes", "How high?"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"A penstock")
    shown = done.stderr.decode()
    assert 'tool tide({"port":"Brest"})' in shown
    assert "tide gave" in shown
    assert "2 steps: " in shown
    assert results(up) == ["Brest at 12: 7 m"]
    (tool,) = up.requests[0].json["tools"]
    assert tool["function"]["description"] == "Says how high the water is."
    assert tool["function"]["parameters"]["properties"]["port"]["description"] == "where"
    assert (tmp_path / "called").read_text() == "Brest,"


@pytest.mark.usefixtures("up")
def test_json_has_the_events_of_all_steps() -> None:
    done = inside(*words("--yes", "--json", "How high?"))
    kinds = [json.loads(line)["type"] for line in done.stdout.splitlines()]
    assert (kinds[0], kinds[-1], kinds.count("start")) == ("start", "finish", 1)
    assert {"call-end", "result", "step"} <= set(kinds)
    assert done.stderr == b""


def test_the_user_is_asked(up: Upstream, tmp_path: Path) -> None:
    """Before each call; Ctrl-C at the question stays in the chat; after "always" there is no further one."""
    called = tmp_path / "called"
    with terminal(tmp_path) as screen:
        screen.wait_for("> ")
        screen.type("/tools\r")
        screen.wait_for("tide: Says how high the water is.")
        screen.wait_for("> ")
        for keys, ran in (("n\r", False), ("\r", False), ("y\r", True)):
            up.script(calls(("c1", "tide", '{"port":"Brest"}')), answer())
            screen.type("How high?\r")
            screen.wait_for('tool tide({"port":"Brest"})')
            screen.wait_for("Run it? [y]es, [n]o, [a]lways this tool: ")
            assert not called.exists()
            screen.type(keys)
            screen.wait_for("A penstock")
            screen.wait_for("2 steps: ")
            screen.wait_for("> ")
            assert results(up)[-1].endswith("Brest at 12: 7 m" if ran else "The user denied this call.")
        assert called.read_text() == "Brest,"
        called.unlink()

        up.script(calls(("c1", "tide", '{"port":"Brest"}')))
        screen.type("How low?\r")
        screen.wait_for("lways this tool: ")
        screen.interrupt()
        screen.wait_for("stopped; Ctrl-C again, or Ctrl-D, leaves")
        screen.wait_for("> ")
        up.script(answer())
        screen.type("Never mind.\r")
        screen.wait_for("A penstock")
        screen.wait_for("> ")
        assert "How low?" not in str(up.requests[-1].json["messages"])
        assert not called.exists()

        up.script(
            calls(("c1", "tide", '{"port":"Brest"}'), ("c2", "tide", '{"port":"Dover"}')),
            calls(("c3", "tide", '{"port":"Hull"}')),
            answer(),
        )
        screen.type("And now?\r")
        screen.wait_for("lways this tool: ")
        screen.type("a\r")
        assert "Run it?" not in screen.wait_for("3 steps: ")
        screen.wait_for("> ")
        screen.type(CTRL_D)
        assert screen.wait() == 0
    assert sorted(called.read_text().split(",")) == ["", "Brest", "Dover", "Hull"]


def test_a_tool_that_fails_is_told_to_the_model(up: Upstream) -> None:
    up.script(calls(("c1", "break_it", '{"port":"Brest"}')), answer())
    done = inside(*words("--tool", "harbour:fails", "--yes", "How high?"))
    assert done.returncode == 0, done.stderr
    assert b"break_it failed" in done.stderr
    assert "the gauge is broken" in results(up)[0]
    assert b"Traceback" not in done.stderr


WRONG = {
    "harbour": "expected module:function",
    "nowhere:tide": "No module named 'nowhere'",
    "harbour:tied": "harbour has no 'tied'; did you mean tide?",
    "harbour:NUMBER": "expected a function, found int",
}


@pytest.mark.usefixtures("up")
@each("name", WRONG)
def test_a_tool_that_is_not_there(name: str) -> None:
    done = inside("chat", "replay/text", "?", "--yes", "--tool", name)
    assert (done.returncode, done.stdout) == (2, b"")
    assert WRONG[name] in done.stderr.decode()


@pytest.mark.usefixtures("up")
def test_without_a_terminal_there_is_nobody_to_ask() -> None:
    done = inside(*words("How high?"))
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"--yes runs tools without asking" in done.stderr
