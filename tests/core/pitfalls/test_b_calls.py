"""Section B: the identity of calls, their duplication, their arguments."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from penstock import events as ev
from tests.support import run_streams as running
from tests.support import small_streams as small
from tests.support.case_loop import over
from tests.support.small_streams import chat, delta, fragment, tool_deltas

if TYPE_CHECKING:
    from tests.support.stream_cases import Case

LONG = "c2lnbmF0dXJl" * 80
CALLED = [case for case in small.finished() if small.called(case.expected())]
WEATHER = {"name": "weather", "id": "call_1", "type": "function"}


def of(index: int | None, arguments: Any = None, **more: Any) -> dict[str, Any]:
    """A fragment of a call, with just these keys."""
    function = {"arguments": arguments} | {key: more.pop(key) for key in ("name",) if key in more}
    return {"tool_calls": [{**({} if index is None else {"index": index}), **more, "function": function}]}


@pytest.mark.parametrize("target", ["uistream", "aisdk"])
def test_input_in_the_first_chunk_is_started_once_and_not_lost(target: str) -> None:
    body = chat(delta(fragment(0, '{"at":1}', **WEATHER)), delta({}, "tool_calls"))
    payloads = small.translated("openai-chat", target, body)
    assert len(small.of_type(payloads, "tool-input-start")) == 1
    (piece,) = small.of_type(payloads, "tool-input-delta")
    assert '{"at":1}' in piece.values()


@pytest.mark.parametrize("index", [0, None])
def test_calls_are_told_apart_by_id_where_the_index_does_not(index: int | None) -> None:
    first, second = of(index, '{"a":1}', id="c1", name="put"), of(index, '{"b":2}', id="c2", name="get")
    said = small.events("openai-chat", chat(delta(first), delta(second), delta({}, "tool_calls")))
    assert small.called(said) == [("c1", "put", {"a": 1}), ("c2", "get", {"b": 2})]


@pytest.mark.parametrize("index", [0, None])
def test_without_ids_a_name_after_complete_input_begins_another_call(index: int | None) -> None:
    first, second = of(index, '{"a":1}', name="put"), of(index, '{"b":2}', name="get")
    said = small.events("openai-chat", chat(delta(first), delta(second), delta({}, "tool_calls")))
    assert [call[1:] for call in small.called(said)] == [("put", {"a": 1}), ("get", {"b": 2})]
    assert len({call[0] for call in small.called(said)}) == 2


def test_the_number_of_a_block_is_not_that_of_a_call() -> None:
    blocks = [small.block(0, {"type": "text", "text": "Hi."})]
    blocks += [small.block(n, {"type": "tool_use", "id": f"t{n}", "name": "put", "input": {"n": n}}) for n in (1, 2)]
    found = tool_deltas(small.translated("anthropic", "openai-chat", small.message(*blocks, finish="tool_use")))
    assert [(call["index"], call["id"]) for call in found if "id" in call] == [(0, "t1"), (1, "t2")]


@over(CALLED)
def test_chat_calls_always_have_their_index(case: Case) -> None:
    heads: dict[tuple[str, int], list[int]] = {}
    for payload in small.sent("openai-chat", case.expected()):
        for choice in payload.get("choices", ()):
            for call in choice["delta"].get("tool_calls", ()):
                assert isinstance(call["index"], int)
                if "id" in call:
                    heads.setdefault((payload["id"], choice["index"]), []).append(call["index"])
    assert all(found == list(range(len(found))) for found in heads.values())


def test_call_0_is_not_text_0() -> None:
    call = fragment(0, "{}", **WEATHER)
    found = small.turn("openai-chat", chat(delta({"content": "Hi."}), delta(call), delta({}, "tool_calls")))
    assert found.text == "Hi."
    assert [call.id for call in found.calls] == ["call_1"]


@pytest.mark.parametrize("target", ["openai-chat", "anthropic", "responses", "gemini", "vscode"])
def test_calls_that_interleave_are_put_together(target: str) -> None:
    pieces = [fragment(0, "", **WEATHER), fragment(1, '{"b":', id="call_2", type="function", name="tide")]
    pieces += [fragment(0, '{"a":'), {"content": "Both."}, fragment(1, "2}"), fragment(0, "1}")]
    said = small.events("openai-chat", chat(*map(delta, pieces), delta({}, "tool_calls")))
    again = running.run(target, [running.encode(target, said)]).events
    assert sorted(call[1:] for call in small.called(again)) == [("tide", {"b": 2}), ("weather", {"a": 1})]


@pytest.mark.parametrize("empty", [None, ""])
def test_null_is_absent(empty: str | None) -> None:
    later = {"index": 0, "id": empty, "type": empty, "function": {"name": empty, "arguments": '{"a":1}'}}
    blank = {"index": 0, "id": empty, "type": empty, "function": {"name": empty, "arguments": empty}}
    pieces = [fragment(0, "", **WEATHER), {"tool_calls": [later]}, {"tool_calls": [blank]}, {"tool_calls": None}]
    said = small.events("openai-chat", chat(*map(delta, pieces), delta({}, "tool_calls")))
    assert small.called(said) == [("call_1", "weather", {"a": 1})]


@over(CALLED)
def test_no_null_identity_leaves(case: Case) -> None:
    for call in tool_deltas(small.sent("openai-chat", case.expected())):
        assert all(call[key] for key in ("id", "type") if key in call)
        assert "name" not in call.get("function", {}) or call["function"]["name"]


@pytest.mark.parametrize("where", ["done", "item", "completed"])
def test_arguments_that_come_only_at_the_end_are_delivered(where: str) -> None:
    whole = {"id": "f", "type": "function_call", "call_id": "c1", "name": "put", "arguments": '{"a":1}'}
    bare = {**whole, "arguments": ""}
    done = {"type": "response.function_call_arguments.done", "item_id": "f", "output_index": 0, "arguments": '{"a":1}'}
    body = small.response(
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_item.added", "output_index": 0, "item": bare},
        *([done] if where == "done" else []),
        {"type": "response.output_item.done", "output_index": 0, "item": whole if where == "item" else bare},
        {"type": "response.completed",
         "response": {"id": "r", "status": "completed", "output": [whole if where == "completed" else bare]}},
    )  # fmt: skip
    assert small.called(small.events("responses", body)) == [("c1", "put", {"a": 1})]


@pytest.mark.parametrize("blank", ["", " ", "\n"])
def test_blank_input_is_an_empty_object_at_the_end_and_not_before(blank: str) -> None:
    pieces = [delta(fragment(0, blank, **WEATHER))]
    assert small.called(small.events("openai-chat", chat(*pieces, delta({}, "tool_calls")))) == [
        ("call_1", "weather", {})
    ]
    assert small.called(small.events("openai-chat", chat(*pieces, end=b""))) == []
    assert small.called(small.events("openai-chat", chat(*pieces, delta({}, "length")))) == []


@pytest.mark.parametrize("target", [name for name in running.targets() if running.row(name).decoder])
@pytest.mark.parametrize("word", ["length", "tool_calls", None])
def test_a_cut_call_is_reported_and_never_callable(word: str | None, target: str) -> None:
    body = chat(delta(fragment(0, '{"at":', **WEATHER)), *([delta({}, word)] if word else []), end=b"")
    said = small.events("openai-chat", body)
    assert any(isinstance(event, ev.CallCut) for event in said)
    assert isinstance(said[-1], ev.Fault if word is None else ev.Finish)
    assert word is None or said[-1].reason == "length"  # type: ignore[union-attr]
    assert small.called(running.run(target, [running.encode(target, said)]).events) == []


@pytest.mark.parametrize("target", running.targets())
def test_opaque_state_stays_out_of_ids(target: str) -> None:
    call = {"functionCall": {"name": "put", "args": {}}, "thoughtSignature": LONG}
    body = small.gemini({"candidates": [{"content": {"parts": [call]}, "finishReason": "STOP"}], "responseId": "r"})
    for payload in small.translated("gemini", target, body):
        ids = [value for key, value in _pairs(payload) if key.lower().endswith("id") and isinstance(value, str)]
        assert all(LONG not in value and len(value) <= 64 for value in ids)


def _pairs(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [*value.items(), *(pair for inner in value.values() for pair in _pairs(inner))]
    return [pair for inner in value for pair in _pairs(inner)] if isinstance(value, list) else []


def test_calls_without_ids_get_the_same_ones_every_time() -> None:
    parts = [{"functionCall": {"name": "put", "args": {"n": n}}} for n in (1, 2)]
    named = {"functionCall": {"id": "own", "name": "put", "args": {"n": 3}}}
    body = small.gemini({"candidates": [{"content": {"parts": [*parts, named]}, "finishReason": "STOP"}]})
    first, second = (small.called(small.events("gemini", body)) for _ in range(2))
    assert first == second
    assert [call[2]["n"] for call in first] == [1, 2, 3]
    assert len({call[0] for call in first}) == 3
    assert first[2][0] == "own"


@over(small.finished())
def test_a_tool_starts_before_it_is_available_and_that_before_its_output(case: Case) -> None:
    steps = {"tool-input-start": 0, "tool-input-delta": 1, "tool-input-available": 2, "tool-input-error": 2,
             "tool-output-available": 3, "tool-output-error": 3}  # fmt: skip
    seen: dict[str, int] = {}
    for payload in small.sent("uistream", case.expected()):
        if payload["type"] == "start":
            seen = {}
        if payload["type"] not in steps:
            continue
        call, step = payload["toolCallId"], steps[payload["type"]]
        assert step >= seen.get(call, 0)
        assert step < 3 or seen.get(call, 0) >= 2
        seen[call] = step


def test_input_in_the_start_of_a_call_is_a_delta_as_well() -> None:
    start = {"type": "tool_use", "id": "t", "name": "put", "input": {"a": 1}}
    said = small.events("anthropic", small.message(small.block(0, start), finish="tool_use"))
    streamed = "".join(event.json for event in said if isinstance(event, ev.CallDelta))
    assert json.loads(streamed) == {"a": 1}
