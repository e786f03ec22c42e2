"""Streams as providers send them, for benchmarks: frames of four dialects, in three shapes.

`synthetic`: text deltas that differ in one word. `recorded`: as recordings look: reasoning, text of varied length with
escapes and other scripts, a tool call, counters and padding that change with every frame. `golden`: a case of
tests/streams.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHAPES = ("synthetic", "recorded")
GOLDEN = "golden"
_CASES = {
    "chat": "openai-chat/reasoning-content",
    "anthropic": "anthropic/thinking-and-call",
    "responses": "responses/reasoning-summary",
    "gemini": "gemini/thoughts",
}
DELTAS = 200
_WORDS = (
    " the",
    " gauge",
    " reads",
    "\n\n",
    " über",
    ' "3.2"',
    " m",
    ",",
    " 水位",
    " and",
    " penstock",
    ".",
    " {",
    "\\n",
)
_PADDING = "abcdefghijklmnopqrstuvwxyz0123456789"


class Content:
    """What a stream says: pieces of reasoning, of text, and of one call's arguments."""

    def __init__(self, shape: str, deltas: int) -> None:
        dice = random.Random(f"{shape} {deltas}")
        if shape == "synthetic":
            self.reasoning, self.arguments = list[str](), list[str]()
            self.text = [f" word{number}" for number in range(deltas)]
        else:
            words = ["".join(dice.choices(_WORDS, k=dice.choice((1, 1, 1, 2, 5)))) for _ in range(deltas)]
            self.reasoning, self.text = words[: deltas // 5], words[deltas // 5 : deltas * 9 // 10]
            self.arguments = ['{"path":"', *(f"part{number}/" for number in range(deltas // 10)), '"}']
        self.counted = shape != "synthetic"
        self._dice = dice

    def padding(self) -> dict[str, str]:
        """A field of random length, as OpenAI adds to each delta."""
        if not self.counted:
            return {}
        return {"obfuscation": "".join(self._dice.choices(_PADDING, k=self._dice.randint(4, 16)))}


def chat(content: Content) -> Iterator[bytes]:
    """Chat Completions."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "m"}

    def chunk(delta: Any, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _sse({**head, "system_fingerprint": None, "choices": [choice], **content.padding()})

    def call(made: Any) -> bytes:
        return chunk({"tool_calls": [{"index": 0, **made}]})

    yield chunk({"role": "assistant", "content": ""})
    yield from (chunk({"reasoning_content": piece}) for piece in content.reasoning)
    yield from (chunk({"content": piece}) for piece in content.text)
    if content.arguments:
        yield call({"id": "call_1", "type": "function", "function": {"name": "read", "arguments": ""}})
        yield from (call({"function": {"arguments": piece}}) for piece in content.arguments)
    yield chunk({}, "tool_calls" if content.arguments else "stop")
    usage = {"prompt_tokens": 9, "completion_tokens": 200, "total_tokens": 209}
    yield _sse({**head, "choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


def anthropic(content: Content) -> Iterator[bytes]:
    """Messages."""

    def say(type: str, **more: Any) -> bytes:
        return _sse({"type": type, **more}, type)

    def block(index: int, opened: Any, kind: str, key: str, pieces: list[str]) -> Iterator[bytes]:
        yield say("content_block_start", index=index, content_block=opened)
        for piece in pieces:
            yield say("content_block_delta", index=index, delta={"type": kind, key: piece})
        yield say("content_block_stop", index=index)

    usage = {"input_tokens": 9, "output_tokens": 1}
    message: dict[str, Any] = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
        "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    yield say("message_start", message=message)
    index = 0
    if content.reasoning:
        thinking = {"type": "thinking", "thinking": "", "signature": ""}
        yield from block(0, thinking, "thinking_delta", "thinking", content.reasoning)
        index = 1
    yield say("ping")
    yield from block(index, {"type": "text", "text": ""}, "text_delta", "text", content.text)
    if content.arguments:
        tool = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}
        yield from block(index + 1, tool, "input_json_delta", "partial_json", content.arguments)
    reason = "tool_use" if content.arguments else "end_turn"
    yield say(
        "message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage={**usage, "output_tokens": 200}
    )
    yield say("message_stop")


def responses(content: Content) -> Iterator[bytes]:
    """Responses."""
    number = iter(range(10**6))

    def say(type: str, **more: Any) -> bytes:
        return _sse({"type": type, "sequence_number": next(number), **more}, type)

    base: dict[str, Any] = {"id": "resp_1", "object": "response", "created_at": 7, "model": "m", "output": []}
    yield say("response.created", response={**base, "status": "in_progress"})
    output: list[Any] = []
    if content.reasoning:
        at: dict[str, Any] = {"item_id": "rs_1", "output_index": 0, "summary_index": 0}
        reasoning: dict[str, Any] = {"id": "rs_1", "type": "reasoning", "summary": []}
        part = {"type": "summary_text", "text": "".join(content.reasoning)}
        yield say("response.output_item.added", output_index=0, item=reasoning)
        yield say("response.reasoning_summary_part.added", **at, part={**part, "text": ""})
        for piece in content.reasoning:
            yield say("response.reasoning_summary_text.delta", **at, delta=piece, **content.padding())
        yield say("response.reasoning_summary_text.done", **at, text=part["text"])
        yield say("response.reasoning_summary_part.done", **at, part=part)
        output.append({**reasoning, "summary": [part]})
        yield say("response.output_item.done", output_index=0, item=output[-1])
    place = len(output)
    at = {"item_id": "msg_1", "output_index": place, "content_index": 0}
    said = {"type": "output_text", "text": "".join(content.text), "annotations": [], "logprobs": []}
    message: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    yield say("response.output_item.added", output_index=place, item={**message, "status": "in_progress"})
    yield say("response.content_part.added", **at, part={**said, "text": ""})
    for piece in content.text:
        yield say("response.output_text.delta", **at, delta=piece, logprobs=[], **content.padding())
    yield say("response.output_text.done", **at, text=said["text"], logprobs=[])
    yield say("response.content_part.done", **at, part=said)
    output.append({**message, "status": "completed", "content": [said]})
    yield say("response.output_item.done", output_index=place, item=output[-1])
    if content.arguments:
        yield from _called(say, content, output)
    usage = {
        "input_tokens": 9, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 200,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 209,
    }  # fmt: skip
    yield say("response.completed", response={**base, "status": "completed", "output": output, "usage": usage})


def _called(say: Callable[..., bytes], content: Content, output: list[Any]) -> Iterator[bytes]:
    at = {"item_id": "fc_1", "output_index": len(output)}
    call = {
        "id": "fc_1", "type": "function_call", "status": "in_progress", "call_id": "call_1", "name": "read",
        "arguments": "",
    }  # fmt: skip
    yield say("response.output_item.added", output_index=len(output), item=call)
    for piece in content.arguments:
        yield say("response.function_call_arguments.delta", **at, delta=piece, **content.padding())
    whole = "".join(content.arguments)
    yield say("response.function_call_arguments.done", **at, arguments=whole)
    yield say(
        "response.output_item.done",
        output_index=len(output),
        item={**call, "status": "completed", "arguments": whole},
    )
    output.append({**call, "status": "completed", "arguments": whole})


def gemini(content: Content) -> Iterator[bytes]:
    """generateContent, whose chunks are larger and fewer: five deltas to one."""

    def chunk(part: Any, count: int, **more: Any) -> bytes:
        candidate = {"content": {"role": "model", "parts": [part]}, "index": 0, **more}
        usage = {"promptTokenCount": 9, "candidatesTokenCount": count, "totalTokenCount": 9 + count}
        value = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m", "responseId": "r1"}
        return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\r\n\r\n"

    size = 5 if content.counted else 1
    for thought, pieces in ((True, content.reasoning), (False, content.text)):
        for place in range(0, len(pieces), size):
            part = {"text": "".join(pieces[place : place + size])}
            yield chunk({**part, "thought": True} if thought else part, place)
    if content.arguments:
        call = {"id": "call_1", "name": "read", "args": json.loads("".join(content.arguments))}
        yield chunk({"functionCall": call}, DELTAS)
    yield chunk({"text": ""}, DELTAS, finishReason="STOP")


def _sse(value: Any, name: str = "") -> bytes:
    event = f"event: {name}\n".encode() if name else b""
    return event + b"data: " + json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() + b"\n\n"


_DIALECTS = {"chat": chat, "anthropic": anthropic, "responses": responses, "gemini": gemini}


def frames(dialect: str, shape: str, deltas: int = DELTAS) -> list[bytes]:
    """The frames of a stream, the same ones every time. `golden`: those of a case of tests/streams."""
    if shape == GOLDEN:
        wire = Path(__file__).parents[1] / "tests" / "streams" / _CASES[dialect] / "wire.sse"
        return [frame + b"\n\n" for frame in wire.read_bytes().replace(b"\r\n", b"\n").split(b"\n\n") if frame.strip()]
    return list(_DIALECTS[dialect](Content(shape, deltas)))
