"""The frames of an encoded stream as one message: what a client gets that did not ask for a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from penstock import events as ev
from penstock import lenient_fields as lenient
from penstock.jsontext import decode_own, plain_or_raw
from penstock.protocols.anthropic import wire
from penstock.vendor_errors import VendorError, message_of, provider_object, vendor_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.diagnostics import Diagnostics
    from penstock.events import Fault
    from penstock.framing import Frame
    from penstock.vendor_errors import ErrorTable

_REQUIRED: dict[str, Any] = {"type": "message", "role": "assistant", "content": [], "stop_reason": None}


def body(frames: Sequence[Frame]) -> bytes:
    """Fold the encoder's own frames, so that stream and body cannot disagree."""
    message: dict[str, Any] = {}
    blocks: list[_Block] = []
    for _, data in frames:
        payload = lenient.as_object(decode_own(data))  # a payload of an unknown type passes through in any shape
        kind = payload.get("type")
        if kind == "error":
            return data
        if kind == "message_start":
            message.update(lenient.get_object(payload, "message"))
        elif kind == "content_block_start":
            blocks.append(_Block(lenient.get_object(payload, "content_block")))
        elif kind == "content_block_delta" and blocks:
            blocks[-1].add(lenient.get_object(payload, "delta"))
        elif kind == "message_delta":
            message.update(lenient.get_object(payload, "delta"))
            message["usage"] = lenient.get_object(payload, "usage")
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
            block[key] = lenient.get_text(block, key) + "".join(pieces)
        if self._citations:
            block["citations"] = [*lenient.get_list(block, "citations"), *self._citations]
        if not json:
            return None if cut and block.get("type") == "tool_use" else block
        try:
            block["input"] = plain_or_raw(json)
        except msgspec.DecodeError:
            return None
        return block


NAME = "anthropic"
_FAILED = VendorError(status=500, type="api_error")
ERRORS: ErrorTable = {
    "auth": VendorError(status=401, type="authentication_error", opening="invalid x-api-key"),
    "permission": VendorError(status=403, type="permission_error"),
    "quota": VendorError(status=402, type="billing_error", opening="Your credit balance is too low"),
    "not-found": VendorError(status=404, type="not_found_error"),
    "invalid": VendorError(status=400, type="invalid_request_error"),
    "too-large": VendorError(
        status=400, type="invalid_request_error", opening="prompt is too long",
        overflow="prompt is too long: {tokens} tokens > {limit} maximum",
    ),
    "body-size": VendorError(status=413, type="request_too_large", opening="Request exceeds the maximum size"),
    "rate-limit": VendorError(status=429, type="rate_limit_error"),
    "filter": VendorError(
        status=400, type="invalid_request_error", opening="Output blocked by content filtering policy"
    ),
    "overloaded": VendorError(status=529, type="overloaded_error"),
    "timeout": VendorError(status=504, type="timeout_error"),
    "server": _FAILED, "other": _FAILED, "cancelled": replace(_FAILED, status=499),
    "network": replace(_FAILED, status=502, opening="Connection error"),
    "truncated": replace(_FAILED, status=502, opening="Connection error (premature close)"),
    "malformed": replace(_FAILED, status=502), "grammar": replace(_FAILED, status=502),
}  # fmt: skip


def error_body(fault: Fault) -> dict[str, Any]:
    """The body of an HTTP error, which is also the payload of an error in a stream."""
    row = vendor_error(ERRORS, fault)
    error = provider_object(fault, NAME) or {"type": row.type, "message": message_of(fault, row)}
    payload: dict[str, Any] = {"type": "error", "error": error}
    if fault.request_id:
        payload["request_id"] = fault.request_id
    return payload


_COMPACTION = "compaction"
_ADVISOR = "advisor_message"


def read_usage(raw: dict[str, Any], diagnostics: Diagnostics) -> ev.Usage | None:
    """None where the object is of another shape.

    The counts at the top leave out the tokens of compactions, which are billed like the rest: "sum across all entries
    in the `usage.iterations` array" (https://platform.claude.com/docs/en/build-with-claude/compaction). An advisor is
    another model with other prices, so its tokens are not added; the whole object is in `extra`.
    """
    known = _shaped(raw) or _shaped({key: value for key, value in raw.items() if key != "iterations"})
    if known is None:
        diagnostics.add("wrong-shape", "usage is not of the shape it should have and is left out")
        return None
    runs = known.iterations or ()
    counted: list[wire.Usage | wire.Iteration] = [known, *(run for run in runs if run.type == _COMPACTION)]
    for model in {run.model for run in runs if run.type == _ADVISOR}:
        diagnostics.add("usage-advisor", f"the tokens of the advisor {model!r} are not part of this model's usage")
    read, written = _sum(counted, "cache_read_input_tokens"), _sum(counted, "cache_creation_input_tokens")
    rest = _sum(counted, "input_tokens")
    whole = None if rest is read is written is None else (rest or 0) + (read or 0) + (written or 0)
    details = known.output_tokens_details or wire.OutputDetails()
    output = _sum(counted, "output_tokens")
    return ev.Usage(whole, output, read, written, details.thinking_tokens, extra={NAME: raw})


def _shaped(raw: dict[str, Any]) -> wire.Usage | None:
    try:
        return msgspec.convert(raw, wire.Usage, strict=False)
    except msgspec.ValidationError:
        return None


def _sum(counted: list[wire.Usage | wire.Iteration], name: str) -> int | None:
    counts = [count for one in counted if (count := getattr(one, name)) is not None]
    return sum(counts) if counts else None
