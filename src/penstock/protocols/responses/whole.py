"""The frames of an encoded stream as one response: what a client gets that did not ask for a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock.jsontext import decode_own

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.framing import Frame

_ENDS = (b"response.completed", b"response.incomplete")


def body(frames: Sequence[Frame]) -> bytes:
    """The final snapshot, less calls that were cut: a body has no other way to say that they must not be run."""
    for name, data in reversed(frames):
        if name in _ENDS:
            response: dict[str, Any] = decode_own(data)["response"]
            response["output"] = [item for item in response["output"] if not _is_cut(item)]
            return msgspec.json.encode(response)
        if name == b"error":
            return msgspec.json.encode({"error": decode_own(data)["error"]})
    return b"{}"


def _is_cut(item: dict[str, Any]) -> bool:
    return item.get("type") == "function_call" and item.get("status") == "incomplete"
