"""Content that nobody can use (a call without a name, an item without a type, bytes that are not UTF-8) is no success."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from penstock import events as ev
from tests.support import run_streams as running
from tests.support.each_case import each
from tests.wire.faults.answers import ANSWERS

BAD = b"\xff\xfe<<<"


def decoded(source: str, body: bytes) -> tuple[list[Any], set[str]]:
    decoder = penstock.decoder(source)
    return decoder.body(body), {row.code for row in decoder.diagnostics}


def calls(events: list[Any]) -> list[tuple[str, str]]:
    return [(event.id, event.name) for event in events if isinstance(event, ev.CallEnd)]


# ── calls without a name or an id ─────────────────────────────────────────────────────────────────

CALLS: dict[str, Any] = {
    "openai-chat": lambda call: {"id": "1", "object": "chat.completion", "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
        "role": "assistant", "tool_calls": [{"type": "function", "id": call.get("id"), "function": {"name": call.get("name"), "arguments": "{}"}}]}}]},
    "anthropic": lambda call: {"id": "1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use", "usage": {},
        "content": [{"type": "tool_use", **call, "input": {"a": 1}}]},
    "responses": lambda call: {"id": "1", "object": "response", "status": "completed", "model": "m",
        "output": [{"type": "function_call", "call_id": call.get("id"), "name": call.get("name"), "arguments": "{}", "status": "completed"}]},
    "gemini": lambda call: {"candidates": [{"content": {"parts": [{"functionCall": {**call, "args": {"a": 1}}}]}, "finishReason": "STOP"}]},
    "bedrock": lambda call: {"output": {"message": {"role": "assistant", "content": [
        {"toolUse": {"toolUseId": call.get("id"), "name": call.get("name"), "input": {"a": 1}}}]}}, "stopReason": "tool_use"},
    "ollama": lambda call: {"model": "m", "done": True, "done_reason": "stop", "message": {"role": "assistant", "content": "",
        "tool_calls": [{"id": call.get("id"), "function": {"name": call.get("name"), "arguments": {"a": 1}}}]}},
    "cohere": lambda call: {"id": "1", "finish_reason": "TOOL_CALL", "message": {"role": "assistant", "tool_calls": [
        {"type": "function", "id": call.get("id"), "function": {"name": call.get("name"), "arguments": "{}"}}]}},
}  # fmt: skip


@each("name", ["", None, 5])
@each("source", CALLS)
def test_an_answer_of_nothing_but_a_call_without_a_name_is_a_fault(source: str, name: Any) -> None:
    events, codes = decoded(source, msgspec.json.encode(CALLS[source]({"id": "c1", "name": name})))
    assert calls(events) == []
    assert not [event for event in events if isinstance(event, ev.CallStart | ev.CallDelta | ev.CallCut)]
    assert isinstance(events[-1], ev.Fault)
    assert events[-1].kind in ("malformed", "truncated")
    assert codes & {"call-unnamed", "wrong-shape", "unknown"}


@each("source", CALLS)
def test_a_call_is_delivered_and_given_an_id_if_it_has_none(source: str) -> None:
    events, _ = decoded(source, msgspec.json.encode(CALLS[source]({"id": "c1", "name": "look"})))
    assert [name for _, name in calls(events)] == ["look"]
    assert isinstance(events[-1], ev.Finish)
    events, _ = decoded(source, msgspec.json.encode(CALLS[source]({"name": "look"})))
    ((given_id, name),) = calls(events)
    assert (bool(given_id), name) == (True, "look")


def test_a_nameless_call_beside_text_is_left_out() -> None:
    body = CALLS["openai-chat"]({"id": "c1"})
    body["choices"][0]["message"]["content"] = "Let me look."
    events, codes = decoded("openai-chat", msgspec.json.encode(body))
    assert [event.text for event in events if isinstance(event, ev.TextDelta)] == ["Let me look."]
    assert "call-unnamed" in codes
    assert calls(events) == []
    assert events[-1].reason == "length", "the client must not take it for a whole answer"
    for target in running.targets():
        assert b"c1" not in b"".join(data for _, data in running.encode(target, events)), target


# ── Responses items without a type ────────────────────────────────────────────────────────────────

MESSAGE = {"id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "I will read it."}]}


def response(*items: Any) -> bytes:
    return msgspec.json.encode({"id": "r", "object": "response", "status": "completed", "model": "m", "output": items})


@each("kind", [{}, {"type": None}, {"type": 5}, {"type": ""}])
def test_an_item_without_a_type_is_unknown_and_no_call(kind: dict[str, Any]) -> None:
    whole = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    events, codes = decoded("responses", response({**MESSAGE, **kind}, whole))
    assert calls(events) == [("c1", "look")]
    assert len([event for event in events if isinstance(event, ev.CallStart)]) == 1
    (unknown,) = [event for event in events if isinstance(event, ev.Unknown)]
    assert "I will read it." in unknown.data
    assert "item-untyped" in codes


def test_nothing_but_an_item_without_a_type_is_a_fault() -> None:
    events, _ = decoded("responses", response(MESSAGE))
    assert isinstance(events[-1], ev.Fault)
    assert events[-1].kind == "malformed"


def test_a_streamed_item_without_a_type_is_unknown_and_no_call() -> None:
    rows: list[Any] = [
        {"type": "response.created", "response": {"id": "r", "model": "m"}},
        {"type": "response.output_item.added", "output_index": 0, "item": {"id": "x", "name": "look"}},
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {"id": "x", "name": "look", "arguments": "{}"},
        },
        {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}},
    ]
    run = running.run("responses", [[(row["type"].encode(), msgspec.json.encode(row)) for row in rows]])
    assert not [event for event in run.events if isinstance(event, ev.CallStart)]
    assert [type(event) for event in run.events][-2:] == [ev.Unknown, ev.Fault]


# ── bytes that are not UTF-8 ──────────────────────────────────────────────────────────────────────


def test_a_bad_byte_in_a_text_is_replaced_and_reported() -> None:
    body = ANSWERS["responses"].body.replace(b"I will read", b"I w\xffll read")
    events, codes = decoded("responses", body)
    assert "I w\ufffdll read it." in [event.text for event in events if isinstance(event, ev.TextDelta)]
    assert "invalid-utf-8" in codes
    assert isinstance(events[-1], ev.Finish)


def test_a_bad_byte_in_the_name_of_a_field_is_a_fault() -> None:
    body = ANSWERS["responses"].body
    events, _ = decoded("responses", body[:205] + BAD + body[205:])
    assert isinstance(events[-1], ev.Fault)
    assert (events[-1].kind, calls(events)) == ("malformed", [])
    assert "not valid UTF-8" in events[-1].message


@settings(max_examples=150)
@given(st.sampled_from(sorted(ANSWERS)), st.data())
def test_bad_bytes_anywhere_are_no_success_with_lost_content(source: str, data: Any) -> None:
    """The text arrives, but for the bad bytes, or the turn ends with a fault; no other call is delivered."""
    body = ANSWERS[source].body
    place = data.draw(st.integers(1, len(body) - 1))
    clean, _ = decoded(source, body)
    events, codes = decoded(source, body[:place] + BAD + body[place:])
    if isinstance(events[-1], ev.Fault):
        return
    assert "invalid-utf-8" in codes
    assert len([event for event in events if isinstance(event, ev.CallStart)]) <= len(calls(clean))
    spoken = "".join(event.text for event in events if isinstance(event, ev.TextDelta))
    wanted = "".join(event.text for event in clean if isinstance(event, ev.TextDelta))
    assert len(spoken) >= len(wanted)
