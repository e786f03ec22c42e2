"""One body for a client that did not ask for a stream: any lawful events give a body or a typed error."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import events as ev
from penstock._bridge import write_body
from penstock._grammar import Guard
from penstock.errors import BadAnswer
from tests.support import run_streams as running
from tests.support.each_case import each
from tests.support.stream_laws import BODIES

ODD: list[Any] = [{"type": "text", "text": 5}, {"text": 5}, 1.5, "x", [], ["a"], {}, {"type": 1}, None, True, {"a": {"b": []}}, "", 0]  # fmt: skip
FIELDS = (
    "usage", "signature", "redacted", "type", "item", "id", "citations", "thoughtSignature", "stop_sequence",
    "encrypted_content", "annotation", "reasoning_details", "extra_content", "part", "providerMetadata", "status",
)  # fmt: skip
odd_extras = st.dictionaries(
    st.sampled_from(["anthropic", "openai-chat", "responses", "gemini", "aisdk", "uistream", "vscode", "completions"]),
    st.dictionaries(st.sampled_from(FIELDS), st.sampled_from(ODD), max_size=3),
    max_size=3,
)


def body_of(target: str, events: list[Any]) -> bytes:
    body = running.row(target).body
    assert body is not None
    return write_body(body, running.encode(target, events))


def turn(extra: Any, data: Any = None, unknown: str = "[]") -> list[Any]:
    """A turn with a part of every kind, each with the same extra."""
    return [
        ev.Start("1", "m", extra=extra),
        ev.TextStart(0, extra=extra), ev.TextDelta(0, "said"), ev.Source(1, url="http://a", of=0, extra=extra),
        ev.TextEnd(0, extra=extra),
        ev.ReasoningStart(2, extra=extra), ev.ReasoningDelta(2, "thought"), ev.ReasoningEnd(2, extra=extra),
        ev.CallStart(3, "c1", "look", extra=extra), ev.CallDelta(3, '{"a":1}'),
        ev.CallEnd(3, "c1", "look", '{"a":1}', extra=extra),
        ev.CallStart(4, "c2", "search", "provider", extra=extra), ev.CallEnd(4, "c2", "search", "{}", "provider", extra=extra),
        ev.Result(5, "c2", "search", '{"b":2}', extra=extra),
        *(ev.Opaque(6 + place, name, "compaction", data) for place, name in enumerate(BODIES)),
        *(ev.Unknown(name, unknown) for name in BODIES),
        ev.Usage(1, 2, extra=extra), ev.Finish("calls", "tool_use", extra=extra),
    ]  # fmt: skip


@given(
    extra=odd_extras, data=st.sampled_from(ODD), unknown=st.sampled_from(["[]", "1", '{"type":5}', "not JSON", "null"])
)
def test_extras_of_any_shape_cost_nothing_else(extra: Any, data: Any, unknown: str) -> None:
    guard = Guard()
    events = [*guard.feed(turn(extra, data, unknown)), *guard.finish()]
    for target in BODIES:
        body = body_of(target, events)
        assert isinstance(msgspec.json.decode(body), dict), target
        assert b"said" in body, f"the text is lost for {target}"


@each("events",
    [
        [ev.Start(extra={"anthropic": {"usage": 1.5}}), ev.TextStart(0), ev.TextDelta(0, "hi"), ev.TextEnd(0)],
        [ev.Start(), ev.ReasoningStart(0), ev.ReasoningEnd(0, extra={"anthropic": {"signature": ["a"]}}),
         ev.TextStart(1), ev.TextDelta(1, "hi"), ev.TextEnd(1)],
        [ev.Start(), ev.Opaque(0, "anthropic", "compaction", ["no object"]), ev.TextStart(1), ev.TextDelta(1, "hi"),
         ev.TextEnd(1)],
    ],
)  # fmt: skip
def test_what_anthropic_extras_may_be(events: list[Any]) -> None:
    body = msgspec.json.decode(body_of("anthropic", [*events, ev.Finish("stop")]))
    assert body["content"][-1] == {"type": "text", "text": "hi"}
    assert isinstance(body["usage"], dict)
    assert body["stop_reason"] == "end_turn"


@each(
    "details",
    [
        1.5,
        "a",
        ["a"],
        [None],
        {"type": "reasoning.text"},
        [{}],
        [{"text": 5}],
        [{"text": 5}, {"text": "a"}],
        [{"text": None}],
    ],
)
@each("place", ["start", "end", "both"])
def test_what_reasoning_details_may_be(details: Any, place: str) -> None:
    """Extras may hold anything. Details that are no objects are left out, in the stream as in the body."""
    extra = {"openai-chat": {"reasoning_details": details}}
    events = [
        ev.Start(), ev.ReasoningStart(0, extra=extra if place != "end" else None), ev.ReasoningDelta(0, "thought"),
        ev.ReasoningDelta(0, " twice"), ev.ReasoningEnd(0, extra=extra if place != "start" else None),
        ev.TextStart(1), ev.TextDelta(1, "hi"), ev.TextEnd(1), ev.Finish("stop"),
    ]  # fmt: skip
    message = msgspec.json.decode(body_of("openai-chat", events))["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"]) == ("hi", "thought twice")
    assert all(isinstance(detail, dict) for detail in message.get("reasoning_details", []))


def test_an_error_of_a_body_function_is_typed() -> None:
    def failing(_: Any) -> bytes:
        raise KeyError("content")

    with pytest.raises(BadAnswer, match="cannot be written as one body: data in it has an unexpected shape") as caught:
        write_body(failing, [])
    assert caught.value.fault.kind == "malformed"
