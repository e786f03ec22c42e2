"""The frames of an encoded stream as one message: what a client gets that did not ask for a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.framing import Frame


def body(frames: Sequence[Frame]) -> bytes:
    """Fold the encoder's own frames, so that stream and body cannot disagree."""
    message: dict[str, Any] = {}
    for _, data in frames:
        payload = msgspec.json.decode(data)
        kind = payload["type"]
        if kind == "error":
            return data
        if kind == "message_start":
            message = payload["message"]
        elif kind == "content_block_start":
            message["content"].append(payload["content_block"])
        elif kind == "content_block_delta":
            _grow(message["content"][-1], payload["delta"])
        elif kind == "content_block_stop":
            _settle(message["content"][-1])
        elif kind == "message_delta":
            message.update(payload["delta"])
            message["usage"] = payload["usage"]
    return msgspec.json.encode(message)


def _grow(block: dict[str, Any], delta: dict[str, Any]) -> None:
    for key, value in delta.items():
        if key == "citation":
            block["citations"] = [*(block.get("citations") or ()), value]
        elif key == "partial_json":
            block.setdefault("_json", []).append(value)
        elif key != "type":
            block[key] = (block.get(key) or "") + value


def _settle(block: dict[str, Any]) -> None:
    pieces = block.pop("_json", None)
    if pieces:
        try:
            block["input"] = msgspec.json.decode("".join(pieces))
        except msgspec.DecodeError:
            block[
                "input"
            ] = {}  # a cut call: the stop reason says so, and it must not look callable with half its input
