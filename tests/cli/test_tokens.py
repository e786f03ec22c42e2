"""`penstock tokens`: a line for each message, JSON, plain texts, and what cannot be counted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.command_runner import inside, penstock

if TYPE_CHECKING:
    from collections.abc import Callable
    from subprocess import CompletedProcess

CHAT: dict[str, Any] = {
    "model": "gpt-4o",
    "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "How high is the tide?" * 9}],
    "tools": [{"type": "function", "function": {"name": "tide", "parameters": {"type": "object"}}}],
}
GEMINI = {"contents": [{"role": "user", "parts": [{"text": "How high is the tide?"}]}]}


def told(*words: str, given: Any, run: Callable[..., CompletedProcess[bytes]] = inside) -> list[str]:
    done = run("tokens", *words, given=given if isinstance(given, bytes) else json.dumps(given).encode(), COLUMNS="100")
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode().splitlines()


@pytest.mark.row("G4")
def test_a_line_for_each_message_with_bounds_and_a_bar() -> None:
    lines = told(given=CHAT, run=penstock)
    assert lines[0] == "gpt-4o, counted as gpt"
    assert [line.split()[0] for line in lines[2:]] == ["system:", "tools", "user:", "framing", "added", "total"]
    assert " to " in lines[4]
    assert lines[4].endswith("█")
    assert lines[3].count("█") < lines[4].count("█")


def test_json() -> None:
    (line,) = told("--json", "--limit", "60", "--model", "claude-sonnet-4-5", given=CHAT)
    found = json.loads(line)
    kinds = ["system", "tools", "message", "framing", "hidden"]
    assert (found["family"], [row["kind"] for row in found["lines"]]) == ("claude", kinds)
    total = found["total"]
    assert total["low"] <= total["tokens"] <= total["high"]
    assert found["warning"].startswith("the prompt is probably too long")


def test_the_protocol_is_found_out_and_can_be_said() -> None:
    assert json.loads(told("--json", "--model", "gemini-2.5-pro", given=GEMINI)[0])["family"] == "gemini-declared"
    both = [told("--json", "--from", "openai-chat", given=CHAT), told("--json", given=CHAT)]
    assert both[0] == both[1]


def test_what_is_no_json_is_a_text() -> None:
    plain = json.loads(told("--json", "--model", "gpt-4o", given="Grüß Gott, wie hoch ist die Flut?".encode())[0])
    assert [row["what"] for row in plain["lines"]] == ["text"]
    assert 7 <= plain["total"]["tokens"] <= 14
    as_text = json.loads(told("--json", "--from", "text", given=GEMINI)[0])
    assert [row["what"] for row in as_text["lines"]] == ["text"]


def test_a_warning_near_the_limit_and_exit_code_0() -> None:
    assert told("--limit", "100000", given=CHAT)[-1].startswith("total")
    assert told("--limit", "50", given=CHAT)[-1].startswith("over-limit: the prompt is probably too long")


@pytest.mark.parametrize(
    ("words", "given", "said"),
    [
        (
            (),
            b'{"a": 1}',
            "cannot tell whose request this is: it has no messages, contents, input or prompt; name its protocol",
        ),
        (("--from", "anthropic"), b"[1]", "the body: expected a JSON object, found a list"),
        (("--from", "nobody"), b"{}", "unknown protocol of requests 'nobody'"),
        (("--from", "openai-chat"), b'{"messages": 3}', "messages: expected"),
    ],
)
def test_what_cannot_be_counted_is_one_line(words: tuple[str, ...], given: bytes, said: str) -> None:
    done = inside("tokens", *words, given=given)
    assert (done.returncode, done.stdout) == (2, b"")
    assert said in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1


def test_what_was_learned_here_can_be_used(tmp_path: Any) -> None:
    from penstock._store.tokens import TokenStore

    store = TokenStore(tmp_path / "tokens.sqlite")
    store.factors.update("", "/gpt-4o", lambda _: b'{"value": 1.5, "turns": 9}')
    store.close()
    given = json.dumps(CHAT).encode()
    plain, more = (
        json.loads(inside("tokens", "--json", *words, given=given, PENSTOCK_DATA=str(tmp_path)).stdout)["total"][
            "tokens"
        ]
        for words in ((), ("--learned",))
    )
    assert more == pytest.approx(plain * 1.5, rel=0.03)
