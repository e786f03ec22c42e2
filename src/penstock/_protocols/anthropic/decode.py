"""Decodes Anthropic Messages. The ledger keeps the event grammar.

Blocks open and close by index. Usage is cumulative: the last value of each field counts, and the prompt is the sum of
cached, written and other tokens. A block of an unknown type is kept unchanged and becomes `Opaque`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import _lenient_fields as lenient
from penstock import events as ev
from penstock._codec import Decoder
from penstock._lenient_json import as_json, parse_lenient, replace_surrogates
from penstock._protocols.anthropic import wire
from penstock._protocols.anthropic.wire import NAME, read_usage
from penstock._vendor_errors import classify_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FINISH_REASONS: dict[str, ev.Reason] = {
    name: reason for reason, names in wire.ENUMS["finish_reasons"].items() for name in names
}
_INPUT_COUNTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
# Anthropic pads frames with spaces before the last brace. Text never contains a raw line end.
_PADDING = re.compile(rb'(?<=[^\\]"\}) +(?=\}(?:\n|\Z))')


def _remove_padding(data: bytes) -> bytes:
    return _PADDING.sub(b"", data) if b"} " in data else data


def _wrap_extra(**fields: Any) -> ev.Extra | None:
    """Returns extra data of this protocol without empty fields; None if nothing is left."""
    filled = {key: value for key, value in fields.items() if value is not None}
    return {NAME: filled} if filled else None


class AnthropicDecoder(Decoder):
    """State: the open blocks, the names of calls, the usage so far, and a stopped call without input."""

    protocol = NAME
    ignored = (_remove_padding,)
    shape = wire.Payload
    read = staticmethod(msgspec.json.Decoder(wire.Payload).decode)

    def __init__(self) -> None:
        super().__init__()
        self._blocks: dict[int, dict[str, Any]] = {}
        self._names: dict[str, str] = {}
        self._usage: dict[str, Any] = {}
        self._empty_call: int | None = None

    # ── the message ───────────────────────────────────────────────────────────────────────────────

    def _on_message_start(self, payload: wire.MessageStart) -> None:
        if self.ledger.finishing:
            self.ledger.end()
        self._read_message(payload.message)

    def _on_message(self, message: wire.CompleteMessage) -> None:
        """Reads the body of a non-stream answer."""
        self._read_message(message)
        self.ledger.end()

    def _read_message(self, message: wire.CompleteMessage) -> None:
        self._blocks.clear()
        if self.ledger.is_open:
            self.ledger.close_all()
        else:
            self._usage = {}
            self.ledger.start(message.id or "", message.model or "", extra=_wrap_extra(usage=message.usage))
        self._update_usage(message.usage)
        for index, block in enumerate(message.content or ()):
            self._on_block_start(wire.ContentBlockStart(index, block))
            self._on_block_stop(wire.ContentBlockStop(index))
        self._read_stop(message, message.context_management)

    def _on_message_delta(self, payload: wire.MessageDelta) -> None:
        self._update_usage(payload.usage)
        self._read_stop(payload.delta, payload.context_management)

    def _read_stop(self, stop: wire.StopFields, context_management: dict[str, Any] | None) -> None:
        if stop.stop_reason is None:
            return
        self._empty_call = None
        fields = {name: getattr(stop, name) for name in ("stop_sequence", "stop_details", "container")}
        extra = _wrap_extra(**fields, context_management=context_management)
        reason = FINISH_REASONS.get(stop.stop_reason)
        if reason is None:
            self.diagnostics.add("unknown-reason", f"stop reason {stop.stop_reason!r} is read as a normal stop")
        self.ledger.finish(reason or "stop", stop.stop_reason, extra=extra)

    def _on_message_stop(self, _: wire.MessageStop) -> None:
        self.ledger.end()

    def _update_usage(self, raw: dict[str, Any] | None) -> None:
        """Merges usage field by field before it is summed: a later object may split a count of an earlier one."""
        if not raw:
            return
        fields = {key: value for key, value in raw.items() if value is not None}
        if not any(fields.get(key) for key in _INPUT_COUNTS):
            fields = {key: value for key, value in fields.items() if key not in _INPUT_COUNTS or key not in self._usage}
        self._usage = {**self._usage, **fields}
        usage = read_usage(self._usage, self.diagnostics)
        if usage is not None:
            self.ledger.usage(usage)

    def _on_error(self, payload: wire.ErrorPayload) -> None:
        kind, message = payload.error.type or "", payload.error.message or "the provider reported an error"
        details = payload.error.details or {}
        error = {"type": kind or "api_error", "message": message, **({"details": details} if details else {})}
        fault = classify_fault((lenient.get_text(details, "error_code"), kind), message, None)
        request_id, extra = payload.request_id or "", {NAME: {"error": error}}
        self.ledger.fault(fault, message, code=kind, request_id=request_id, extra=extra)

    def _on_ping(self, _: wire.PingPayload) -> None:
        """Ignores a keep-alive."""

    def read_special_frame(self, name: str, data: bytes) -> bool:
        message = _get_bare_message(data)
        if data.strip().upper() == b"[DONE]":
            self.ledger.end()
        elif message or name == "error" or name.endswith("Exception"):
            message = message or data.decode("utf-8", "replace")
            code = "" if name == "error" else name
            self.ledger.fault(classify_fault((code,), message, None), message, code=code)
        else:
            return False
        return True

    # ── the start of a block ──────────────────────────────────────────────────────────────────────

    def _on_block_start(self, payload: wire.ContentBlockStart) -> None:
        index, block = payload.index, payload.content_block
        if self._blocks.get(index) == block:
            self.diagnostics.add("opened-twice", "a block start sent twice is ignored")
            return
        if index in self._blocks:
            self._on_block_stop(wire.ContentBlockStop(index))
        self._close_empty_call()
        self._blocks[index] = block
        kind = lenient.get_text(block, "type")
        kind = "*_tool_result" if kind.endswith("_tool_result") else kind
        self.block_readers.get(kind, self.block_readers["*"])(self, index, block)

    def _open_text(self, index: int, block: dict[str, Any]) -> None:
        self.ledger.open_text(index)
        self.ledger.append_text(index, lenient.get_text(block, "text"))
        for citation in lenient.get_objects(block, "citations"):
            self._append_citation(index, wire.BlockDelta(citation=citation))

    def _open_thinking(self, index: int, block: dict[str, Any]) -> None:
        self.ledger.open_reasoning(index)
        self.ledger.append_text(index, lenient.get_text(block, "thinking"))
        self._append_signature(index, wire.BlockDelta(signature=lenient.get_text(block, "signature")))

    def _open_redacted_thinking(self, index: int, block: dict[str, Any]) -> None:
        part = self.ledger.open_reasoning(index, form="redacted")
        if part:
            part.extra = _wrap_extra(redacted=lenient.get_text(block, "data"))

    def _open_call(self, index: int, block: dict[str, Any]) -> None:
        call, name = lenient.get_text(block, "id"), lenient.get_text(block, "name")
        self._names[call] = name
        extra = _wrap_extra(**{key: value for key, value in block.items() if key not in ("id", "name", "input")})
        given = as_json(block["input"]) if block.get("input") else ""
        by: ev.By = "client" if block.get("type") == "tool_use" else "provider"
        self.ledger.open_call(index, call, name, by=by, given=given, extra=extra)

    def _add_result(self, _: int, block: dict[str, Any]) -> None:
        call, content = lenient.get_text(block, "tool_use_id"), block.get("content")
        is_error = lenient.get_text(lenient.as_object(content), "type").endswith("_error")
        failed = bool(block.get("is_error")) or is_error
        extra = _wrap_extra(**{key: value for key, value in block.items() if key != "content"})
        name = self._names.get(call) or lenient.get_text(block, "type").removesuffix("_tool_result")
        self.ledger.add_whole_part(ev.Result, call, name, as_json(content), failed, False, extra)  # noqa: FBT003

    def _keep_block(self, index: int, block: dict[str, Any]) -> None:
        """Keeps a block of an unknown type until it ends."""
        self._blocks[index] = dict(block)

    # ── deltas and the end of a block ─────────────────────────────────────────────────────────────

    def _on_block_delta(self, payload: wire.ContentBlockDelta) -> None:
        delta = payload.delta
        self.delta_readers.get(delta.type, AnthropicDecoder._append_to_kept_block)(self, payload.index, delta)

    def _append_text(self, index: int, delta: wire.BlockDelta) -> None:
        if self.ledger.find(index) is None:
            self.ledger.open_text(index)
        self.ledger.append_text(index, delta.text or "")

    def _append_input(self, index: int, delta: wire.BlockDelta) -> None:
        self.ledger.append_call_input(index, delta.partial_json or "")

    def _append_thinking(self, index: int, delta: wire.BlockDelta) -> None:
        if self.ledger.find(index) is None:
            self.ledger.open_reasoning(index)
        self.ledger.append_text(index, delta.thinking or "")

    def _append_signature(self, index: int, delta: wire.BlockDelta) -> None:
        part = self.ledger.find(index)
        if part and delta.signature:
            before = (part.extra or {}).get(NAME, {}).get("signature", "")
            part.extra = _wrap_extra(signature=before + delta.signature)

    def _append_citation(self, index: int, delta: wire.BlockDelta) -> None:
        part, citation = self.ledger.find(index), delta.citation or {}
        title, source = lenient.get_text(citation, "title", "document_title"), lenient.get_text(citation, "source")
        url = lenient.get_text(citation, "url") or (source if "://" in source else "")  # any name is a valid source
        of, quote = part.index if part else None, lenient.get_text(citation, "cited_text")
        name = "" if url else source
        self.ledger.cite((of, citation), url, title, of, None, quote, name, "", "", {NAME: citation})

    def _append_to_kept_block(self, index: int, delta: wire.BlockDelta) -> None:
        """Appends the strings of a delta to a kept block."""
        block = self._blocks.get(index)
        if block is None or self.ledger.find(index) is not None:
            self.diagnostics.add("unknown-delta", f"a delta of type {delta.type!r} has no block to belong to")
            return
        for key in ("content", "encrypted_content", "text"):
            value = getattr(delta, key)
            if value is not None:
                block[key] = lenient.get_text(block, key) + value

    def _on_block_stop(self, payload: wire.ContentBlockStop) -> None:
        index = payload.index
        block = self._blocks.pop(index, None)
        part = self.ledger.find(index)
        if part is not None and part.is_call and not part.pieces and not part.given:
            self._empty_call = index
        elif part is not None:
            self.ledger.close(index)
        elif block is not None and not lenient.get_text(block, "type").endswith("_tool_result"):
            self.ledger.add_whole_part(ev.Opaque, NAME, lenient.get_text(block, "type"), block)

    def _close_empty_call(self) -> None:
        """Closes a stopped call without input when another block follows. At the output limit it counts as cut off."""
        if self._empty_call is not None:
            self.ledger.close(self._empty_call)
            self._empty_call = None

    delta_readers: ClassVar[Mapping[str, Callable[[Any, int, wire.BlockDelta], None]]] = {
        "text_delta": _append_text,
        "input_json_delta": _append_input,
        "thinking_delta": _append_thinking,
        "signature_delta": _append_signature,
        "citations_delta": _append_citation,
    }
    block_readers: ClassVar[Mapping[str, Callable[[Any, int, dict[str, Any]], None]]] = {
        "text": _open_text,
        "thinking": _open_thinking,
        "redacted_thinking": _open_redacted_thinking,
        **dict.fromkeys(("tool_use", "server_tool_use", "mcp_tool_use"), _open_call),
        "*_tool_result": _add_result,
        "*": _keep_block,
    }
    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        wire.MessageStart: _on_message_start,
        wire.ContentBlockStart: _on_block_start,
        wire.ContentBlockDelta: _on_block_delta,
        wire.ContentBlockStop: _on_block_stop,
        wire.MessageDelta: _on_message_delta,
        wire.MessageStop: _on_message_stop,
        wire.PingPayload: _on_ping,
        wire.ErrorPayload: _on_error,
        wire.CompleteMessage: _on_message,
    }


def _get_bare_message(data: bytes) -> str:
    """Returns the message of a body that has nothing else: Bedrock reports errors of Claude like this."""
    body = lenient.as_object(replace_surrogates(parse_lenient(data)))
    return "" if "type" in body else lenient.get_text(body, "message")
