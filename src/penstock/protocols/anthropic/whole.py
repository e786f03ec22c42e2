"""The frames of an encoded stream as one message: what a client gets that did not ask for a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock.jsontext import decode_own, plain_or_raw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.framing import Frame


def body(frames: Sequence[Frame]) -> bytes:
    """Fold the encoder's own frames, so that stream and body cannot disagree."""
    message: dict[str, Any] = {}
    for _, data in frames:
        payload = decode_own(data)
        kind = payload["type"]
        if kind == "error":
            return data
        if kind == "message_start":
            message = payload["message"]
        elif kind == "content_block_start":
            message["content"].append(payload["content_block"])
        elif kind == "content_block_delta":
            _grow(message["content"][-1], payload["delta"])
        elif kind == "message_delta":
            message.update(payload["delta"])
            message["usage"] = payload["usage"]
    last = len(message["content"]) - 1
    kept = [
        _settle(block, cut=place == last and message["stop_reason"] == "max_tokens")
        for place, block in enumerate(message["content"])
    ]
    message["content"] = [block for block in kept if block is not None]
    return msgspec.json.encode(message)


def _grow(block: dict[str, Any], delta: dict[str, Any]) -> None:
    for key, value in delta.items():
        if key == "citation":
            block["citations"] = [*(block.get("citations") or ()), value]
        elif key == "partial_json":
            block.setdefault("_json", []).append(value)
        elif key != "type":
            block[key] = (block.get(key) or "") + value


def _settle(block: dict[str, Any], *, cut: bool) -> dict[str, Any] | None:
    """The block with its input put together; None for a call that was cut off, which must not look callable."""
    pieces = "".join(block.pop("_json", ()))
    if not pieces:
        return None if cut and block["type"] == "tool_use" else block
    try:
        block["input"] = plain_or_raw(pieces)
    except msgspec.DecodeError:
        return None
    return block
