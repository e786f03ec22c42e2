"""The frames of an encoded stream as one message: what a client gets that did not ask for a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock import pick
from penstock.jsontext import decode_own, plain_or_raw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.framing import Frame


_REQUIRED: dict[str, Any] = {"type": "message", "role": "assistant", "content": [], "stop_reason": None}


def body(frames: Sequence[Frame]) -> bytes:
    """Fold the encoder's own frames, so that stream and body cannot disagree."""
    message: dict[str, Any] = {}
    blocks: list[_Block] = []
    for _, data in frames:
        payload = pick.as_object(decode_own(data))  # a payload of an unknown type passes through in any shape
        kind = payload.get("type")
        if kind == "error":
            return data
        if kind == "message_start":
            message.update(pick.table(payload, "message"))
        elif kind == "content_block_start":
            blocks.append(_Block(pick.table(payload, "content_block")))
        elif kind == "content_block_delta" and blocks:
            blocks[-1].add(pick.table(payload, "delta"))
        elif kind == "message_delta":
            message.update(pick.table(payload, "delta"))
            message["usage"] = pick.table(payload, "usage")
    message = message | {name: value for name, value in _REQUIRED.items() if name not in message}
    cut = message["stop_reason"] == "max_tokens"
    whole = [block.whole(cut=cut and block is blocks[-1]) for block in blocks]
    message["content"] = [block for block in whole if block is not None]
    return msgspec.json.encode(message)


class _Block:
    """A content block and the pieces of its strings, which are joined once, at the end."""

    def __init__(self, start: dict[str, Any]) -> None:
        self._block = start
        self._pieces: dict[str, list[str]] = {}
        self._citations: list[Any] = []

    def add(self, delta: dict[str, Any]) -> None:
        for key, value in delta.items():
            if key == "citation":
                self._citations.append(value)
            elif key != "type" and isinstance(value, str):
                self._pieces.setdefault(key, []).append(value)
            elif key != "type":
                self._block[key] = value

    def whole(self, *, cut: bool) -> dict[str, Any] | None:
        """The block; None for a call that was cut off, which must not look callable."""
        block = self._block
        json = "".join(self._pieces.pop("partial_json", ()))
        for key, pieces in self._pieces.items():
            block[key] = pick.text(block, key) + "".join(pieces)
        if self._citations:
            block["citations"] = [*pick.listed(block, "citations"), *self._citations]
        if not json:
            return None if cut and block.get("type") == "tool_use" else block
        try:
            block["input"] = plain_or_raw(json)
        except msgspec.DecodeError:
            return None
        return block
