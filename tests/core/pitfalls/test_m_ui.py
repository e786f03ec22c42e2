"""Section M: the order and the shape of what a user interface is sent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support import run_streams as running
from tests.support import small_streams as small
from tests.support.case_loop import over
from tests.support.small_streams import chat, delta, fragment

if TYPE_CHECKING:
    from tests.support.stream_cases import Case

OPEN, CLOSE = ("text-start", "reasoning-start"), ("text-end", "reasoning-end")


def _whole(name: str, call: str, given: str, index: int = 0) -> dict[str, object]:
    return delta(fragment(index, given, id=call, type="function", name=name))


def test_a_text_ends_before_a_tool_begins_where_the_source_says_so() -> None:
    body = chat(delta({"content": "Let me see."}), _whole("put", "c1", "{}"), delta({}, "tool_calls"))
    kinds = [payload["type"] for payload in small.translated("openai-chat", "uistream", body)]
    assert kinds.index("text-end") < kinds.index("tool-input-start")


@pytest.mark.parametrize("target", ["uistream", "aisdk"])
@over(small.finished())
def test_what_opens_closes_before_the_end(case: Case, target: str) -> None:
    opened: list[str] = []
    for payload in small.sent(target, case.expected()):
        if payload.get("type") in OPEN:
            opened.append(payload["id"])
        elif payload.get("type") in CLOSE:
            opened.remove(payload["id"])
        elif payload.get("type") in {"finish-step", "finish"}:
            assert opened == []


def test_input_is_an_object_and_not_its_text() -> None:
    body = chat(_whole("put", "c1", '{"at": [1, 2]}'), delta({}, "tool_calls"))
    for target, kind in (("uistream", "tool-input-available"), ("aisdk", "tool-call")):
        (payload,) = small.of_type(small.translated("openai-chat", target, body), kind)
        assert payload["input"] == {"at": [1, 2]}


def test_a_whole_body_has_the_shape_of_the_stream() -> None:
    said = small.events("openai-chat", chat(_whole("put", "c1", '{"at":1}'), delta({}, "tool_calls")))
    make = running.row("uistream").body
    assert make is not None
    whole = json.loads(make(running.encode("uistream", said)))
    assert '"input": {"at": 1}' in json.dumps(whole)


@pytest.mark.parametrize("given", ['{"at":', '{"at":}', "x"])
def test_input_is_available_only_when_it_is_whole(given: str) -> None:
    body = chat(_whole("put", "c1", given), delta({}, "tool_calls"))
    kinds = [payload["type"] for payload in small.translated("openai-chat", "uistream", body)]
    assert "tool-input-available" not in kinds


@pytest.mark.parametrize("target", ["uistream", "aisdk"])
def test_parallel_calls_are_told_apart_by_their_ids(target: str) -> None:
    pieces = [_whole("put", "c1", '{"n":', 0), _whole("get", "c2", '{"n":', 1), delta(fragment(1, "2}")),
              delta(fragment(0, "1}"))]  # fmt: skip
    payloads = small.translated("openai-chat", target, chat(*pieces, delta({}, "tool_calls")))
    done = small.of_type(payloads, "tool-input-available", "tool-call")
    assert {payload["toolCallId"]: payload["input"]["n"] for payload in done} == {"c1": 1, "c2": 2}
    pieces_by_call: dict[str, str] = {}
    for payload in small.of_type(payloads, "tool-input-delta"):
        call = payload.get("toolCallId") or payload["id"]
        pieces_by_call[call] = pieces_by_call.get(call, "") + (payload.get("inputTextDelta") or payload["delta"])
    assert pieces_by_call == {"c1": '{"n":1}', "c2": '{"n":2}'}
