"""`penstock tokens`: a line for each message, JSON, plain texts, and what cannot be counted."""

from __future__ import annotations

import json
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from penstock.messages import read_request
from penstock.tokens import HybridTokenEstimator, TokenStore
from tests.cli.command_runner import inside, penstock
from tests.gateway.test_learned_counts import USED, replies
from tests.support.client_requests import post
from tests.support.each_case import each
from tests.support.gateway import gateway
from tests.support.paths import PROJECT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
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


def test_a_line_for_each_message_with_bounds_and_a_bar() -> None:
    lines = told(given=CHAT, run=penstock)
    assert lines[0] == "gpt-4o, counted as gpt"
    assert [line.split()[0] for line in lines[2:]] == [
        "system:",
        "tools",
        "user:",
        "framing",
        "added",
        "total",
        "estimated,",
    ]
    assert " to " in lines[4]
    assert lines[4].endswith("█")
    assert lines[3].count("█") < lines[4].count("█")
    assert "%" in lines[4]
    assert lines[-1].startswith("estimated, confidence 0.")


def test_without_rich_lines_are_plain_and_have_the_same_numbers(tmp_path: Path) -> None:
    (tmp_path / "rich.py").write_text("raise ImportError\n")
    rich, plain = (
        [line.replace("█", " ").split() for line in told(given=CHAT, run=partial(penstock, **more))]  # type: ignore[arg-type]
        for more in ({}, {"PYTHONPATH": f"{tmp_path}:{PROJECT / 'src'}"})
    )
    numbers = [[word for word in line if word[0].isdigit()] for line in plain]
    assert numbers == [[word for word in line if word[0].isdigit()] for line in rich]
    assert len(numbers[4]) == 4, "tokens, share, low, high"


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
    assert told("--limit", "100000", given=CHAT)[-1].startswith("estimated")
    assert told("--limit", "50", given=CHAT)[-1].startswith("over-limit: the prompt is probably too long")


@each(
    "words, given, said",
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


def counted(*words: str, data: Path, given: Any = CHAT) -> dict[str, Any]:
    done = inside("tokens", "--json", *words, given=json.dumps(given).encode(), PENSTOCK_DATA=str(data))
    assert (done.returncode, done.stderr) == (0, b"")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@each("key", ["/gpt-4o", "openai/gpt-4o"])
def test_learned_factors_are_used_by_default(tmp_path: Path, key: str) -> None:
    """The library learns under the names that its caller gives, the gateway under those of the target."""
    with closing(TokenStore(tmp_path / "tokens.sqlite")) as store:
        store.factors.update("", key, lambda _: b'{"value": 1.5, "turns": 9}')
        store.factors.update("harbour", key, lambda _: b'{"value": 0.7, "turns": 9}')
    plain = counted("--no-learned", data=tmp_path)["total"]["tokens"]
    for words, factor in (((), 1.5), (("--learned",), 1.5), (("--tenant", "harbour"), 0.7), (("--tenant", "x"), 1)):
        found = counted(*words, data=tmp_path)
        assert found["total"]["tokens"] == pytest.approx(plain * factor, rel=0.03)
        assert found["factor"]["value"] == factor
    done = inside("tokens", given=json.dumps(CHAT).encode(), PENSTOCK_DATA=str(tmp_path))
    assert b"learned factor 1.50 from 9 turns" in done.stdout


def test_known_prompts_are_actual_and_hybrid_and_nothing_is_written(tmp_path: Path) -> None:
    request = read_request(CHAT, "openai-chat")
    with closing(TokenStore(tmp_path / "tokens.sqlite")) as store:
        HybridTokenEstimator(counts=store).calibrate(request, 777, "gpt-4o", "openai", learn=False)
        rows = len(store)
    longer = {**CHAT, "messages": [*CHAT["messages"], {"role": "user", "content": "And now?"}]}
    first, second = (counted(data=tmp_path, given=body) for body in (CHAT, longer))
    assert (first["total"]["method"], first["total"]["tokens"]) == ("actual", 777)
    assert (second["total"]["method"], 777 < second["total"]["tokens"] < 800) == ("hybrid", True)
    assert sum(line["estimate"]["tokens"] for line in second["lines"]) == second["total"]["tokens"]
    assert counted("--no-learned", data=tmp_path)["total"]["method"] == "estimated"
    done = inside("tokens", given=json.dumps(longer).encode(), PENSTOCK_DATA=str(tmp_path))
    assert b"hybrid: the provider counted the beginning of this prompt" in done.stdout
    with closing(TokenStore(tmp_path / "tokens.sqlite")) as store:
        assert len(store) == rows


def test_what_a_gateway_learned_is_known_to_the_command(tmp_path: Path) -> None:
    body = {"model": "openai-chat/text", "messages": [{"role": "user", "content": "How high is the tide? " * 40}]}
    with gateway(replies(), data=tmp_path) as (running, _):  # its end writes what it learned
        assert post(f"{running.url}/v1/chat/completions", json=body).status_code == 200
    found = counted("--model", "text", "--provider", "openai-chat", data=tmp_path, given=body)
    assert (found["total"]["method"], found["total"]["tokens"]) == ("actual", USED[0])
    assert found["factor"]["turns"] == 1


def test_no_file_is_made_where_nothing_was_learned(tmp_path: Path) -> None:
    counted(data=tmp_path)
    assert [*tmp_path.iterdir()] == []


# ── shortening ────────────────────────────────────────────────────────────────────────────────────────────────────────

LONG: dict[str, Any] = {
    "model": "gpt-4o",
    "messages": [
        {"role": ("user", "assistant")[number % 2], "content": f"{number} of the tides. " * 9} for number in range(61)
    ],
}


def test_fit_prints_what_would_go(tmp_path: Path) -> None:
    lines = told("--fit", "3000", "--reserve", "1000", given=LONG)
    start = next(number for number, line in enumerate(lines) if line.startswith("to fit 2,000 tokens, this goes, and "))
    assert lines[start + 1].split()[:3] == ["0", "user:", "0"]
    assert lines[start + 1].endswith("tokens removed")
    assert lines[-1].startswith("  and ")
    assert len(lines) - start == 22
    found = counted("--fit", "3000", "--reserve", "1000", data=tmp_path, given=LONG)["fit"]
    gone = len(found["removed"])
    assert (found["fits"], found["limit"]) == (True, 2000)
    assert found["estimate"]["high"] <= 2000
    assert found["request"] == {**LONG, "messages": LONG["messages"][gone:]}
    assert told("--fit", "100000", given=LONG)[-1].startswith("to fit 100,000 tokens: nothing needs to go")
    assert told("--fit", "1", given=b"A text.")[-1].startswith("to fit 1 tokens: nothing can go")
    assert "which is still too long" in "".join(told("--fit", "10", given=LONG))


def test_fit_shortens_results_if_it_is_told_to(tmp_path: Path) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "tide", "arguments": "{}"}}
    result = {"role": "tool", "tool_call_id": "a", "content": "Three metres. " * 200}
    last = [{"role": "assistant", "content": "High."}, {"role": "user", "content": "Why?"}]
    body = {
        "model": "gpt-4o",
        "messages": [{"role": "user", "content": "?"}, {"role": "assistant", "tool_calls": [call]}, result, *last],
    }
    found = counted("--fit", "700", "--shorten-results", data=tmp_path, given=body)["fit"]
    assert [(row["message"], row["shortened"]) for row in found["removed"]] == [(2, True)]
    assert "characters were removed to fit the context" in found["request"]["messages"][2]["content"]
    assert "tokens shortened" in told("--fit", "700", "--shorten-results", given=body)[-1]


def test_a_limit_below_the_reserve_is_refused() -> None:
    done = inside("tokens", "--fit", "10", "--reserve", "10", given=json.dumps(CHAT).encode())
    assert (done.returncode, done.stderr) == (
        2,
        b"penstock: limit: expected more than the reserve of 10 tokens, found 10\n",
    )
