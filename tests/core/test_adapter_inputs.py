"""What the adapter and the converter are given at their edges: single objects, bytes of all kinds, labels that lie."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from openai.types.chat import ChatCompletion

from penstock import convert, convert_messages
from penstock.vscode import DataPart, TextPart, ToolCallPart, VSCodeStreamAdapter
from tests.support.each_case import each
from tests.support.stream_adapter import PNG, outcome, parts_of

BODY: dict[str, Any] = {
    "id": "x", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Ahoy"}}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
}  # fmt: skip


# ── single objects and bytes ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Body:
    id: str
    object: str
    created: int
    model: str
    choices: list[Any]
    usage: dict[str, int]


@each(
    "single",
    [ChatCompletion.model_validate(BODY), BODY, msgspec.json.encode(BODY), Body(**BODY), memoryview(msgspec.json.encode(BODY)),
     msgspec.defstruct("Body", list(BODY))(**BODY)],
)  # fmt: skip
def test_one_whole_answer(single: Any) -> None:
    parts, last = outcome(single, source="openai-chat")
    assert parts == [TextPart("Ahoy")]
    assert (last.usage.input, last.fault) == (3, None)


def test_chunks_of_any_bytes() -> None:
    data = b'data: {"choices":[{"delta":{"content":"Ahoy"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    for kind in (bytes, bytearray, memoryview):
        assert outcome([kind(data[:20]), kind(data[20:])], source="openai-chat")[0] == [TextPart("Ahoy")]


@each("junk", [None, 7, object()])
def test_what_is_no_stream_is_a_fault_and_no_exception(junk: Any) -> None:
    assert outcome(junk)[1].fault is not None


# ── labels ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_bytes_that_are_no_picture_are_told_of_in_requests() -> None:
    def codes(data: bytes, label: str) -> list[str]:
        url = f"data:{label};base64,{base64.b64encode(data).decode()}"
        body = {
            "model": "m",
            "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}],
        }
        return [found.code for found in convert(body, "openai-chat", "gemini").diagnostics]

    assert codes(b"no picture at all", "image/png") == ["media-bytes"]
    assert codes(PNG, "image/png") == []
    assert codes(b"<svg/>", "image/svg+xml") == []


def test_bytes_that_are_no_picture_are_told_of_in_streams() -> None:
    for data, codes in ((b"no picture at all", ["media-bytes"]), (PNG, [])):
        chunk = {"type": "file", "mediaType": "image/png", "data": base64.b64encode(data).decode()}
        parts, last = outcome([chunk, {"type": "finish", "finishReason": "stop"}])
        assert parts == [DataPart(data, "image/png")]
        assert [found.code for found in last.diagnostics] == codes


def test_images_of_other_messages_for_the_default_target() -> None:
    picture = {"mimeType": "image/png", "data": base64.b64encode(PNG).decode()}
    messages = [{"role": 1, "content": [{"value": "Hi"}]}, {"role": 2, "content": [{"value": "See"}, picture]},
                {"role": 1, "content": [{"value": "More"}, picture]}]  # fmt: skip

    def kinds(**options: Any) -> list[list[str]]:
        made: list[Any] = convert_messages(messages, **options)
        contents: list[Any] = [message["content"] for message in made]
        return [["string"] if isinstance(content, str) else [part["type"] for part in content] for content in contents]

    assert "file" not in kinds(images="skip")[1]
    assert "file" not in kinds()[1]
    assert "file" in kinds(images="keep")[1]
    assert any(kind in ("file", "image") for kind in kinds(images="skip")[2])
    with pytest.raises(ValueError, match="messages"):
        convert_messages(messages, images="error")


# ── calls of Responses ────────────────────────────────────────────────────────────────────────────────────────────────


def events(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    start: dict[str, Any] = {
        "type": "response.created",
        "response": {"id": "r", "model": "m", "status": "in_progress", "output": []},
    }
    end: dict[str, Any] = {
        "type": "response.completed",
        "response": {"id": "r", "model": "m", "status": "completed", "output": []},
    }
    return [start, *rows, end]


@each("call_id", ["call_1", ""])
def test_arguments_of_an_item_that_was_never_announced(call_id: str) -> None:
    done = {"type": "response.function_call_arguments.done", "item_id": "fc_1", "output_index": 0, "name": "tide",
            "arguments": '{"port":"Oban"}', **({"call_id": call_id} if call_id else {})}  # fmt: skip
    parts, last = outcome(events(done), source="responses")
    assert [(part.call_id, part.name, part.input) for part in parts] == [
        (f"gw-{call_id or 'fc_1'}", "tide", {"port": "Oban"})
    ]
    assert last.finish is not None
    assert last.finish.reason == "calls"


def test_input_of_a_custom_tool_that_was_never_announced() -> None:
    done = {"type": "response.custom_tool_call_input.done", "item_id": "ct_1", "output_index": 0, "name": "shell",
            "call_id": "call_1", "input": "ls"}  # fmt: skip
    parts, _ = outcome(events(done), source="responses")
    assert [(part.call_id, part.name) for part in parts] == [("gw-call_1", "shell")]


def test_an_item_that_is_announced_late_is_the_same_call() -> None:
    item = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "tide", "arguments": "{}"}
    done = {"type": "response.function_call_arguments.done", "item_id": "fc_1", "output_index": 0, "name": "tide",
            "call_id": "call_1", "arguments": "{}"}  # fmt: skip
    later = {"type": "response.output_item.done", "output_index": 0, "item": item}
    parts, last = outcome(events(done, later), source="responses")
    assert [(part.call_id, part.name, part.input) for part in parts] == [("gw-call_1", "tide", {})]
    assert last.diagnostics == []


@each("later, codes", [('{"port": "Oban"}', []), ('{"port":"Mull"}', ["conflict"])])
def test_later_arguments_that_contradict_a_call_are_told_of(later: str, codes: list[str]) -> None:
    item = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "tide"}
    rows = events(
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "arguments": ""}},
        {"type": "response.function_call_arguments.done", "item_id": "fc_1", "output_index": 0, "arguments": '{"port":"Oban"}'},
        {"type": "response.output_item.done", "output_index": 0, "item": {**item, "arguments": later}},
    )  # fmt: skip
    parts, last = outcome(rows, source="responses")
    assert [(part.call_id, part.input) for part in parts] == [("gw-call_1", {"port": "Oban"})]
    assert [found.code for found in last.diagnostics] == codes


def test_later_arguments_in_other_protocols() -> None:
    call: dict[str, Any] = {
        "type": "tool-call",
        "toolCallId": "c1",
        "toolName": "tide",
        "input": {},
        "providerExecuted": True,
    }
    _, last = outcome([call, {**call, "input": {"port": "Mull"}}, {"type": "finish", "finishReason": "stop"}])
    assert "conflict" in [found.code for found in last.diagnostics]


# ── order ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_text_after_a_call_comes_before_it_in_streams_of_the_ai_sdk() -> None:
    """As docs/adapter.md says: whose call it is, is known at the end of its step."""
    call: dict[str, Any] = {"type": "tool-call", "toolCallId": "c1", "toolName": "tide", "input": {}}
    parts = parts_of(call, {"type": "text-delta", "text": "Ahoy"})
    assert parts == [TextPart("Ahoy"), ToolCallPart("gw-c1", "tide", {})]


def test_an_adapter_without_io_takes_the_same_items() -> None:
    run = VSCodeStreamAdapter(source="openai-chat").stream()
    assert [*run.feed(memoryview(msgspec.json.encode(BODY) + b"\n")), *run.finish()] == [TextPart("Ahoy")]
