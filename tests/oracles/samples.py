"""Payloads of small streams, as `tests.support.small_streams` puts them together."""

from __future__ import annotations

from typing import Any

from tests.oracles import wire

Payload = dict[str, Any]


def events(*payloads: Any, named: bool = False, end: bytes = b"") -> bytes:
    return wire.rewrap(list(payloads), named=named) + end


def chat(delta: Payload, finish: str | None = None, **top: Any) -> Payload:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], **top}


def fragment(index: int, arguments: str, **more: Any) -> Payload:
    name = {"name": more.pop("name")} if "name" in more else {}
    return {"tool_calls": [{"index": index, **more, "function": {**name, "arguments": arguments}}]}


def block(index: int, start: Payload, *deltas: Payload) -> list[Payload]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def message(*blocks: list[Payload], finish: str = "tool_use") -> bytes:
    start: Payload = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "content": []}
    start |= {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 5, "output_tokens": 1}}
    delta = {"stop_reason": finish, "stop_sequence": None}
    return events(
        {"type": "message_start", "message": start},
        *(payload for each in blocks for payload in each),
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
        named=True,
    )
