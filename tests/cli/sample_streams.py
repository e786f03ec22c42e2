"""Streams made for the tests of the command line: small, of our own invention, one story told in two protocols."""

from __future__ import annotations

import json
from typing import Any


def sse(*payloads: Any, named: bool = False, done: bool = False) -> bytes:
    frames = [
        (f"event: {payload['type']}\n" if named else "") + f"data: {json.dumps(payload, ensure_ascii=False)}\n\n"
        for payload in payloads
    ]
    return "".join([*frames, "data: [DONE]\n\n" if done else ""]).encode()


def chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {"id": "chat-7", "object": "chat.completion.chunk", "created": 1, "model": "tiny", "choices": [choice]}


def call(index: int, arguments: str, **more: Any) -> dict[str, Any]:
    return {"index": index, **more, "function": {"arguments": arguments, **({"name": "tide"} if more else {})}}


ANTHROPIC = sse(
    {"type": "message_start", "message": {"id": "msg_7", "model": "tiny", "usage": {"input_tokens": 9}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "High water "}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "is at noon."}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 6}},
    {"type": "message_stop"},
    named=True,
)
CHAT_CALLS = sse(
    chunk({"role": "assistant", "content": ""}),
    chunk({"content": "Let me look."}),
    chunk({"tool_calls": [call(0, "", id="call_a", type="function")]}),
    chunk({"tool_calls": [call(0, '{"port":')]}),
    chunk({"tool_calls": [call(1, '{"port":"Brest"}', id="call_b", type="function")]}),
    chunk({"tool_calls": [call(0, '"Dover"}')]}),
    chunk({}, "tool_calls"),
    done=True,
)
CHAT_LONG = sse(
    chunk({"role": "assistant", "content": ""}),
    *(chunk({"content": f"word{number} "}) for number in range(30)),
    chunk({}, "stop"),
    done=True,
)
