"""`penstock tokens`: lists of messages, limits that are none, texts with a limit, and JSON that was cut off."""

from __future__ import annotations

import json
from typing import Any

from penstock.tokens import HybridTokenEstimator
from tests.cli.command_runner import inside
from tests.support.each_case import each

TALK = "How high is the tide?" * 9
LISTS: dict[str, tuple[list[dict[str, Any]], tuple[str, ...]]] = {
    "chat": ([{"role": "system", "content": "Be kind."}, {"role": "user", "content": TALK}], ()),
    "anthropic": ([{"role": "user", "content": [{"type": "text", "text": TALK}]}], ("--from", "anthropic")),
    "gemini": ([{"role": "user", "parts": [{"text": TALK}]}], ()),
    "responses": ([{"type": "message", "role": "user", "content": [{"type": "input_text", "text": TALK}]}], ()),
}


@each("kind", LISTS)
def test_a_list_of_messages_is_counted_as_messages(kind: str) -> None:
    messages, words = LISTS[kind]
    done = inside("tokens", "--json", "--model", "gpt-4o", "--no-learned", *words, given=json.dumps(messages).encode())
    assert (done.returncode, done.stderr) == (0, b"")
    found = json.loads(done.stdout)
    protocol = words[-1] if words else ""
    expected = HybridTokenEstimator().estimate_conversation(messages, "gpt-4o", protocol=protocol)
    assert found["total"]["tokens"] == expected.tokens
    assert len([line for line in found["lines"] if line["message"] is not None]) == len(messages)


def test_a_list_of_messages_is_shortened_as_one() -> None:
    messages = [{"role": role, "content": f"{number} {TALK}"} for number in range(6) for role in ("user", "assistant")]
    done = inside("tokens", "--json", "--model", "gpt-4o", "--fit", "400", given=json.dumps(messages).encode())
    fit = json.loads(done.stdout)["fit"]
    assert fit["fits"]
    assert fit["request"] == messages[len(fit["removed"]) :]


@each(
    "words, said",
    [
        (("--limit", "-5"), "--limit: expected 1 to 9,007,199,254,740,991 tokens, found -5"),
        (("--limit", "0"), "--limit: expected 1 to 9,007,199,254,740,991 tokens, found 0"),
        (("--fit", "0"), "--fit: expected 1 to 9,007,199,254,740,991 tokens, found 0"),
        (("--fit", "-1"), "--fit: expected 1 to 9,007,199,254,740,991 tokens, found -1"),
        (("--fit", "1" + "0" * 400), "--fit: expected 1 to 9,007,199,254,740,991 tokens, found a larger number"),
    ],
)
def test_a_limit_that_is_none_is_refused(words: tuple[str, ...], said: str) -> None:
    done = inside("tokens", *words, given=b"hello")
    assert (done.returncode, done.stdout, done.stderr.decode()) == (2, b"", f"penstock: {said}\n")


@each("limit, state", [(1, "nothing can go"), (3, "nothing needs to go"), (100, "nothing needs to go")])
def test_a_text_fits_by_the_count_that_is_shown(limit: int, state: str) -> None:
    shown = json.loads(inside("tokens", "--json", "--fit", str(limit), given=b"hello").stdout)
    assert shown["fit"]["estimate"] == shown["total"]
    assert shown["fit"]["fits"] == (shown["total"]["high"] <= limit)
    last = inside("tokens", "--fit", str(limit), given=b"hello").stdout.decode().splitlines()[-1]
    assert f"to fit {limit} tokens: {state}; {shown['total']['tokens']} tokens" in last


@each(
    "given, hint",
    [
        (b'{"messages": [{"role": "user", "con', True),
        (b'[{"role": "user"}', True),
        (b"[note] The tide is high.", False),
        (b"{x} The tide is high.", False),
        (b"hello", False),
    ],
)
def test_json_that_was_cut_off_is_a_text_with_a_hint(given: bytes, hint: bool) -> None:
    done = inside("tokens", "--json", given=given)
    assert done.returncode == 0
    assert json.loads(done.stdout)["lines"][0]["what"] == "text"
    notes = [json.loads(line) for line in done.stderr.splitlines()]
    expected = {"note": "the input begins like JSON but is none: it is counted as a text"}
    assert notes == ([expected] if hint else [])
