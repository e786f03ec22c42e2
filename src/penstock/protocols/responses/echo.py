"""What a response repeats of its request, and what it says beside its output: kept as it was, for the same protocol.

Read out of the frame itself, and only as deep as is needed: instructions and tools may be long, and come three times.
"""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.protocols.responses.speech import own

SAID = frozenset({  # what events say themselves
    "id", "object", "model", "created_at", "completed_at", "status", "output", "usage", "error", "incomplete_details",
})  # fmt: skip
_shallow = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Echo:
    """The fields beside the output, as they were last seen."""

    def __init__(self) -> None:
        self._seen: dict[str, bytes] = {}

    def first(self, frame: bytes) -> dict[str, dict[str, Any]] | None:
        """All of them, where a response begins."""
        self._seen = {}
        return own(**self.more(frame))

    def more(self, frame: bytes) -> dict[str, Any]:
        """Those that have changed since."""
        fields = {key: bytes(value) for key, value in _response(frame).items() if key not in SAID}
        fresh = {key: _value(value) for key, value in fields.items() if value != self._seen.get(key)}
        self._seen.update(fields)
        return fresh


def _response(frame: bytes) -> dict[str, msgspec.Raw]:
    try:
        payload = _shallow(frame)
        whole = bytes(payload.get("object", b"")) == b'"response"'
        return payload if whole else _shallow(payload["response"])
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, RecursionError):
        return {}


def _value(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
