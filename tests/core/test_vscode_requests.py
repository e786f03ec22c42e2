"""Requests of a thin VS Code client: what no golden case shows. And for all three forms that are no provider's: whatever
is sent, it is read or refused with a path, and what was read can be written to anybody.
"""

from __future__ import annotations

import base64
import copy
import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from penstock import request as rq
from penstock._protocols.vscode.encode_parts import ReasoningState, pack_reasoning
from penstock._protocols.vscode.request_write import Quirks
from penstock.errors import BadRequest
from tests.support import request_protocols as requesting
from tests.support.request_cases import cases

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]
HOSTED = (
    "cache_control",
    "stateful_marker",
    "phase_data",
    "context_management",
    "thinking",
    "usage",
    "tool_call_stream",
)


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


@pytest.mark.parametrize("mime", HOSTED)
@pytest.mark.parametrize("target", requesting.WRITERS)
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


@pytest.mark.parametrize("value", [
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
        body = requesting.write("vscode", request, Quirks(kinds=kinds)).body
        assert [type(part) for part in requesting.read("vscode", body).messages[0].parts] == [rq.Reasoning, rq.Text]


# ── state of reasoning ────────────────────────────────────────────────────────────────────────────

ONE = ReasoningState("First. ", "", "full", {"anthropic": {"signature": "s1"}})
TWO = ReasoningState("Second.", "rs_2", "summary", {"responses": {"encrypted_content": "e2"}})


def test_what_we_packed_comes_back_part_by_part() -> None:
    (message,) = read({"value": "First. Second.", "metadata": pack_reasoning([ONE, TWO])}, role=2)
    assert thoughts(message) == [(ONE.text, ONE.extra), (TWO.text, TWO.extra)]


def test_a_host_that_keeps_all_pieces_repeats_none() -> None:
    """Each piece's metadata holds all thoughts up to there."""
    pieces: list[Json] = [
        {"kind": "thinking", "value": "First. "}, {"value": "", "metadata": pack_reasoning([ONE])}, {"value": "Aloud."},
        {"value": "Second.", "metadata": pack_reasoning([ONE, TWO])},
    ]  # fmt: skip
    (message,) = read(*pieces, role=2)
    assert [type(part) for part in message.parts] == [rq.Reasoning, rq.Text, rq.Reasoning]
    assert thoughts(message) == [(ONE.text, ONE.extra), (TWO.text, TWO.extra)]


@pytest.mark.parametrize("change", [
    {"_completeThinking": "Another text"}, {"encrypted_content": "penstock:1:[{"}, {"encrypted_content": 'penstock:1:[{"extra":5}]'},
])  # fmt: skip
def test_state_that_was_changed_is_left_out_and_the_text_kept(change: Json) -> None:
    body = {
        "messages": [{"role": 2, "content": [{"value": "First. ", "metadata": {**pack_reasoning([ONE]), **change}}]}]
    }
    request = requesting.read("vscode", body)
    assert thoughts(request.messages[0]) == [("First. ", {})]
    assert [found.code for found in request.diagnostics] == ["thinking-state"]


def test_a_provider_s_state_of_a_call_comes_back() -> None:
    state = {"gemini": {"thoughtSignature": "ts", "_": {"trick": 1}}}
    (message,) = read({"callId": "c1", "name": "log", "input": {}, "extra": state}, role=2)
    assert isinstance(message.parts[0], rq.Call)
    assert (message.parts[0].extra or {})["gemini"] == {"thoughtSignature": "ts"}


# ── versions and bad input ────────────────────────────────────────────────────────────────────────


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


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "messages"),
        ({"messages": [{"role": 4, "content": []}]}, "messages[0].role"),
        ({"messages": [{"role": 1}]}, "messages[0].content"),
        ({"messages": [{"role": 1, "content": [{"value": "x"}, 5]}]}, "messages[0].content[1]"),
        ({"messages": [{"role": 1, "content": [{"mimeType": "image/png", "data": 5}]}]}, "messages[0].content[0].data"),
        ({"messages": [{"role": 1, "content": [{"callId": "x", "content": [{"value": "a"}, 5]}]}]}, "messages[0].content[0].content[1]"),
        ({"messages": [{"role": 2, "content": [{"value": [1]}]}]}, "messages[0].content[0].value[0]"),
        ({"messages": [], "toolMode": 3}, "toolMode"),
        ({"messages": [], "modelOptions": {"temperature": "hot"}}, "modelOptions.temperature"),
        ({"messages": [], "modelConfiguration": {"reasoningEffort": 3}}, "modelConfiguration.reasoningEffort"),
        ({"messages": [], "tools": [{"name": "a", "inputSchema": []}]}, "tools[0].inputSchema"),
    ],
)  # fmt: skip
def test_a_bad_request_names_the_place(body: Json, path: str) -> None:
    with pytest.raises(BadRequest) as caught:
        requesting.read("vscode", body)
    assert caught.value.path == path


JUNK: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 10**25, float("nan"), "", "x", "data:,", "é", "\ud83d", [], {}, [None], [1], [[]], {"type": "text"},
    {"type": "content"}, {"0": 300}, {"_": 1}, {"penstock": {"extra": {"anthropic": 5, "openai-chat": {"_": 3}}}},
)  # fmt: skip


def spots(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a body: what holds it, and its key there."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from spots(value[key])


@pytest.mark.parametrize("source", ["vscode", "aisdk", "uistream"])
def test_whatever_is_sent_is_read_or_refused_and_can_then_be_written(source: str) -> None:
    dice = random.Random(source)
    read, refused = 0, 0
    for case in [case for case in cases() if case.source == source]:
        for _ in range(60):
            body = copy.deepcopy(case.body(source))
            for _ in range(dice.choice((1, 1, 2, 4))):
                holder, key = dice.choice(list(spots(body)))
                holder[key] = copy.deepcopy(dice.choice(JUNK))
            try:
                request = requesting.read(source, body)
            except BadRequest:
                refused += 1
                continue
            read += 1
            for target in ("vscode", "aisdk", "uistream"):
                requesting.write(target, request)
    assert min(read, refused) > 20
