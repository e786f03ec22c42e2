"""Requests of a thin VS Code client: what no golden case shows."""

from __future__ import annotations

import base64
import json
from typing import Any

from penstock import events as ev
from penstock import request as rq
from tests.support import request_protocols as requesting
from tests.support.each_case import each
from tests.support.stream_adapter import event_parts

Json = dict[str, Any]
HOSTED = (
    "cache_control", "stateful_marker", "phase_data", "context_management", "thinking", "usage", "tool_call_stream",
)  # fmt: skip


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def data(mime: str, text: str = "x") -> Json:
    return {"mimeType": mime, "data": encoded(text)}


def read(*parts: Any, role: Any = 1) -> list[rq.Message]:
    return requesting.read("vscode", {"messages": [{"role": role, "content": list(parts)}]}).messages


def thoughts(message: rq.Message) -> list[tuple[str, Any]]:
    return [
        (part.text, {key: own for key, own in (part.extra or {}).items() if key != "vscode"})
        for part in message.parts
        if isinstance(part, rq.Reasoning)
    ]


# ── parts ─────────────────────────────────────────────────────────────────────────────────────────


@each("mime", HOSTED)
@each("target", requesting.WRITERS)
def test_what_is_the_host_s_is_never_content(mime: str, target: str) -> None:
    body = {
        "version": 1,
        "model": "m",
        "messages": [{"role": 1, "content": [data(mime, "first!"), {"value": "Hello"}, data(mime, "secret")]}],
    }
    request = requesting.read("vscode", body)
    assert [(type(part), part.text) for part in request.messages[0].parts if isinstance(part, rq.Text)] == [
        (rq.Text, "Hello")
    ]
    assert len(request.messages[0].parts) == 1
    draft = requesting.write(target, request)
    if target == "vscode":
        assert draft.body == body
    else:
        assert encoded("secret") not in json.dumps(draft.body)
        assert "secret" not in json.dumps(draft.body)


def test_a_cache_hint_belongs_to_the_part_before() -> None:
    (message,) = read(
        {"value": "a"}, data("cache_control", "ephemeral"), {"value": "b"}, data("cache_control", "1h"), role=3
    )
    assert [(part.text, part.cache) for part in message.parts if isinstance(part, rq.Text)] == [
        ("a", "5m"),
        ("b", "1h"),
    ]


def test_a_marker_of_state_can_be_found() -> None:
    (message,) = read(
        {"value": "a"}, data("stateful_marker", "tiny\\one"), data("stateful_marker", "tiny\\two"), role=2
    )
    assert message.extra is not None
    assert message.extra["vscode"]["_"]["marker"] == "tiny\\two"


def test_results_find_the_names_of_their_tools_wherever_the_call_stands() -> None:
    body = {"messages": [
        {"role": 1, "content": [{"callId": "c1", "content": []}]},
        {"role": 2, "content": [{"callId": "c1", "name": "log", "input": {}}]},
    ]}  # fmt: skip
    (first, _) = requesting.read("vscode", body).messages
    assert isinstance(first.parts[0], rq.Result)
    assert first.parts[0].name == "log"


@each("value", [
    {"0": 104, "1": 105}, [104, 105], {"type": "Buffer", "data": [104, 105]}, "aGk=",
])  # fmt: skip
def test_bytes_in_all_their_forms(value: Any) -> None:
    body = {"messages": [{"role": 1, "content": [{"mimeType": "application/pdf", "data": value}]}]}
    request = requesting.read("vscode", body)
    (file,) = request.messages[0].parts
    assert isinstance(file, rq.File)
    assert file.data == "aGk="
    assert requesting.write("vscode", request).body == body


def test_a_tree_says_its_text_and_its_pictures_in_order() -> None:
    tree = {"node": {"type": 1, "children": [
        {"type": 2, "text": "one"}, {"type": 1, "children": [{"type": 2, "text": "two", "lineBreakBefore": True}]},
        {"type": 1, "ctor": 3, "props": {"src": "https://harbour.example/map.png"}}, {"type": 2, "text": "three"},
    ]}}  # fmt: skip
    (tool,) = read({"callId": "c1", "content": [{"value": tree}]})
    assert isinstance(tool.parts[0], rq.Result)
    said = [part.text if isinstance(part, rq.Text) else getattr(part, "url", "") for part in tool.parts[0].content]
    assert said == ["one\ntwo", "https://harbour.example/map.png", "three"]


def test_thinking_without_a_sign_of_its_own_needs_its_kind() -> None:
    request = rq.Request(messages=[rq.Message("assistant", [rq.Reasoning("Hm."), rq.Text("Yes.")])])
    for kinds in (True, False):
        body = requesting.write("vscode", request, requesting.quirks("vscode", kinds=kinds)).body
        assert [type(part) for part in requesting.read("vscode", body).messages[0].parts] == [rq.Reasoning, rq.Text]


# ── state of reasoning ────────────────────────────────────────────────────────────────────────────

ONE = ("First. ", {"anthropic": {"signature": "s1"}})
TWO = ("Second.", {"responses": {"encrypted_content": "e2"}})


def packed(*thoughts: tuple[str, Any]) -> Any:
    """What a host is given to keep with thoughts."""
    rounds = [
        (ev.ReasoningStart(place), ev.ReasoningDelta(place, text), ev.ReasoningEnd(place, state))
        for place, (text, state) in enumerate(thoughts)
    ]
    parts = event_parts(*(event for one in rounds for event in one))
    return next(part.metadata for part in reversed(parts) if part.metadata)


def test_what_we_packed_comes_back_part_by_part() -> None:
    (message,) = read({"value": "First. Second.", "metadata": packed(ONE, TWO)}, role=2)
    assert thoughts(message) == [ONE, TWO]


def test_a_host_that_keeps_all_pieces_repeats_none() -> None:
    """Each piece's metadata holds all thoughts up to there."""
    pieces: list[Json] = [
        {"kind": "thinking", "value": "First. "}, {"value": "", "metadata": packed(ONE)}, {"value": "Aloud."},
        {"value": "Second.", "metadata": packed(ONE, TWO)},
    ]  # fmt: skip
    (message,) = read(*pieces, role=2)
    assert [type(part) for part in message.parts] == [rq.Reasoning, rq.Text, rq.Reasoning]
    assert thoughts(message) == [ONE, TWO]


@each("change", [
    {"_completeThinking": "Another text"}, {"encrypted_content": "penstock:1:[{"}, {"encrypted_content": 'penstock:1:[{"extra":5}]'},
])  # fmt: skip
def test_state_that_was_changed_is_left_out_and_the_text_kept(change: Json) -> None:
    body = {"messages": [{"role": 2, "content": [{"value": "First. ", "metadata": {**packed(ONE), **change}}]}]}
    request = requesting.read("vscode", body)
    assert thoughts(request.messages[0]) == [("First. ", {})]
    assert [found.code for found in request.diagnostics] == ["thinking-state"]


def test_a_provider_s_state_of_a_call_comes_back() -> None:
    state = {"gemini": {"thoughtSignature": "ts", "_": {"trick": 1}}}
    (message,) = read({"callId": "c1", "name": "log", "input": {}, "extra": state}, role=2)
    assert isinstance(message.parts[0], rq.Call)
    assert (message.parts[0].extra or {})["gemini"] == {"thoughtSignature": "ts"}


# ── versions ────────────────────────────────────────────────────────────────────────


def test_a_newer_version_is_read_as_far_as_it_is_understood() -> None:
    body = {
        "version": 9,
        "model": "m",
        "messages": [{"role": 1, "content": [{"value": "x"}, {"hologram": 1}]}],
        "mood": "calm",
    }
    request = requesting.read("vscode", body)
    assert [found.code for found in request.diagnostics] == ["version"]
    assert requesting.write("vscode", request).body == body
