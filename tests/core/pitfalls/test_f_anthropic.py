"""Section F: what an Anthropic client is sent."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import events as ev
from tests.support import small_streams as small
from tests.support.case_loop import over
from tests.support.small_streams import chat, delta, fragment
from tests.support.stream_cases import Case, cases

ALL = [case for case in cases() if case.protocol != "anthropic"]


def blocks(payloads: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [payload["content_block"] for payload in small.of_type(payloads, "content_block_start")]


@over(ALL)
def test_blocks_come_one_after_the_other_and_are_numbered_through(case: Case) -> None:
    open_block, number = None, 0
    for payload in small.sent("anthropic", case.expected()):
        kind = payload["type"]
        if kind == "message_start":
            open_block, number = None, 0
        elif kind == "content_block_start":
            assert open_block is None
            assert payload["index"] == number
            open_block, number = number, number + 1
        elif kind.startswith("content_block"):
            assert payload["index"] == open_block
            open_block = None if kind == "content_block_stop" else open_block
        elif kind != "error" and payload.get("delta", {}).get("stop_reason"):
            assert open_block is None


def test_an_empty_list_of_calls_is_no_call() -> None:
    body = chat(delta({"content": "Hi.", "tool_calls": []}), delta({"tool_calls": []}, "stop"))
    payloads = small.translated("openai-chat", "anthropic", body)
    assert [block["type"] for block in blocks(payloads)] == ["text"]
    assert "input_json_delta" not in str(payloads)


def test_all_parallel_calls_are_written() -> None:
    pieces = [fragment(n, "", id=f"c{n}", type="function", name="put") for n in range(3)]
    pieces += [fragment(n, f'{{"n":{n}}}') for n in (2, 0, 1)]
    payloads = small.translated("openai-chat", "anthropic", chat(*map(delta, pieces), delta({}, "tool_calls")))
    assert [block["id"] for block in blocks(payloads)] == ["c0", "c1", "c2"]


@pytest.mark.parametrize(
    "case", [case for case in ALL if isinstance(case.expected()[-1], ev.Fault)], ids=lambda case: case.id
)
def test_a_block_that_is_open_at_an_error_stays_open(case: Case) -> None:
    """The row asks for a close and then the error. Claude Code acts on the close: it takes half a call for a call.

    See docs/decisions/2026-11-16-faults-leave-parts-open.md.
    """
    payloads = small.sent("anthropic", case.expected())
    kinds = [payload["type"] for payload in payloads]
    assert kinds[-1] == "error"
    broken = [event for event in case.expected() if getattr(event, "broken", False)]
    assert 0 <= kinds.count("content_block_start") - kinds.count("content_block_stop") <= min(1, len(broken))
    assert "message_stop" not in kinds[len(kinds) - 1 - kinds[::-1].index("message_start") :]
