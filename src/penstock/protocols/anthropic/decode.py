"""Anthropic Messages → events. Leans on the ledger for the grammar; knows nothing of other protocols.

Blocks open and close by index. Usage is cumulative: each field's last value counts, and the whole prompt is what was
read, written and neither. A block this file has no word for is kept whole and comes out as `Opaque`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import events as ev
from penstock import lenient_fields as lenient
from penstock.codec import Decoder
from penstock.faults import classify
from penstock.jsontext import as_json, clean, loose
from penstock.protocols.anthropic import wire
from penstock.protocols.anthropic.body import NAME, read_usage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.events import By, Extra, Reason

REASONS: dict[str, Reason] = {
    "end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "model_context_window_exceeded": "length",
    "tool_use": "calls", "pause_turn": "pause", "refusal": "refusal", "compaction": "pause",
}  # fmt: skip
_INPUT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def _own(**fields: Any) -> Extra | None:
    """Extra data of this protocol, without the fields that say nothing."""
    said = {key: value for key, value in fields.items() if value is not None}
    return {NAME: said} if said else None


# Anthropic pads frames with spaces before their last brace. No text holds a line end.
_PADDING = re.compile(rb'(?<=[^\\]"\}) +(?=\}(?:\n|\Z))')


def _without_padding(data: bytes) -> bytes:
    return _PADDING.sub(b"", data) if b"} " in data else data


_IGNORED = (_without_padding,)


class AnthropicDecoder(Decoder):
    """State: the blocks kept for their end, the names of calls, the usage so far, an ended call without input."""

    protocol = NAME
    ignored = _IGNORED
    shape = wire.Payload
    read = staticmethod(msgspec.json.Decoder(wire.Payload).decode)

    def __init__(self) -> None:
        super().__init__()
        self._blocks: dict[int, dict[str, Any]] = {}
        self._names: dict[str, str] = {}
        self._usage: dict[str, Any] = {}
        self._waiting: int | None = None

    # ── the message ───────────────────────────────────────────────────────────────────────────────

    def _message_start(self, payload: wire.MessageStart) -> None:
        if self.ledger.finishing:
            self.ledger.end()
        self._open(payload.message)

    def _message(self, message: wire.Message) -> None:
        """The body of a non-stream answer."""
        self._open(message)
        self.ledger.end()

    def _open(self, message: wire.Message) -> None:
        if not self.ledger.is_open:
            self._blocks.clear()
            self._usage = {}
            usage = message.usage
            self.ledger.start(message.id or "", message.model or "", extra=_own(usage=usage))
        else:
            self.ledger.close_all()
            self._blocks.clear()
        self._count(message.usage)
        for index, block in enumerate(message.content or ()):
            self._block_start(wire.ContentBlockStart(index, block))
            self._block_stop(wire.ContentBlockStop(index))
        self._stop(message, message.context_management)

    def _message_delta(self, payload: wire.MessageDelta) -> None:
        self._count(payload.usage)
        self._stop(payload.delta, payload.context_management)

    def _stop(self, said: wire.StopDelta | wire.Message, edits: dict[str, Any] | None) -> None:
        if said.stop_reason is None:
            return
        self._waiting = None
        extra = _own(stop_sequence=said.stop_sequence, stop_details=said.stop_details, container=said.container,
                     context_management=edits)  # fmt: skip
        reason = REASONS.get(said.stop_reason)
        if reason is None:
            self.diagnostics.add("unknown-reason", f"stop reason {said.stop_reason!r} is read as a normal stop")
        self.ledger.finish(reason or "stop", said.stop_reason, extra=extra)

    def _message_stop(self, _: wire.MessageStop) -> None:
        self.ledger.end()

    def _count(self, usage: dict[str, Any] | None) -> None:
        """Merge field by field, then add up: a later object may split what an earlier one held in one."""
        if not usage:
            return
        said = {key: value for key, value in usage.items() if value is not None}
        if not any(said.get(key) for key in _INPUT):
            said = {key: value for key, value in said.items() if key not in _INPUT or key not in self._usage}
        self._usage = {**self._usage, **said}
        counted = read_usage(self._usage, self.diagnostics)
        if counted is not None:
            self.ledger.usage(counted)

    def _error(self, payload: wire.Error) -> None:
        kind, said = payload.error.type or "", payload.error.message or "the provider reported an error"
        details = payload.error.details or {}
        error = {"type": kind or "api_error", "message": said, **({"details": details} if details else {})}
        self.ledger.fault(
            classify((lenient.get_text(details, "error_code"), kind), said, None), said, code=kind,
            request_id=payload.request_id or "", extra={NAME: {"error": error}},
        )  # fmt: skip

    def _ping(self, _: wire.Ping) -> None:
        """A sign of life: nothing to say."""

    def named(self, name: str, data: bytes) -> bool:
        said = _bare_message(data)
        if data.strip().upper() == b"[DONE]":
            self.ledger.end()
        elif said or name == "error" or name.endswith("Exception"):
            said = said or data.decode("utf-8", "replace")
            code = "" if name == "error" else name
            self.ledger.fault(classify((code,), said, None), said, code=code)
        else:
            return False
        return True

    # ── blocks ────────────────────────────────────────────────────────────────────────────────────

    def _block_start(self, payload: wire.ContentBlockStart) -> None:
        index, block = payload.index, payload.content_block
        if self._blocks.get(index) == block:
            self.diagnostics.add("opened-twice", "a block start sent twice is ignored")
            return
        if index in self._blocks:
            self._block_stop(wire.ContentBlockStop(index))
        self._release()
        self._blocks[index] = block
        kind = lenient.get_text(block, "type")
        self.openings.get("*_tool_result" if kind.endswith("_tool_result") else kind, self.openings["*"])(
            self, index, block
        )

    def _text(self, index: int, block: dict[str, Any]) -> None:
        self.ledger.open_text(index)
        self.ledger.append_text(index, lenient.get_text(block, "text"))
        for citation in lenient.get_objects(block, "citations"):
            self._cite(index, citation)

    def _thinking(self, index: int, block: dict[str, Any]) -> None:
        self.ledger.open_reasoning(index)
        self.ledger.append_text(index, lenient.get_text(block, "thinking"))
        self._sign(index, lenient.get_text(block, "signature"))

    def _redacted(self, index: int, block: dict[str, Any]) -> None:
        part = self.ledger.open_reasoning(index, form="redacted")
        if part:
            part.extra = _own(redacted=lenient.get_text(block, "data"))

    def _call(self, index: int, block: dict[str, Any]) -> None:
        call, name = lenient.get_text(block, "id"), lenient.get_text(block, "name")
        self._names[call] = name
        extra = _own(**{key: value for key, value in block.items() if key not in ("id", "name", "input")})
        given = block.get("input")
        by: By = "client" if block.get("type") == "tool_use" else "provider"
        self.ledger.open_call(index, call, name, by=by, given=as_json(given) if given else "", extra=extra)

    def _result(self, index: int, block: dict[str, Any]) -> None:
        call, content = lenient.get_text(block, "tool_use_id"), block.get("content")
        failed = bool(block.get("is_error")) or lenient.get_text(lenient.as_object(content), "type").endswith("_error")
        extra = _own(**{key: value for key, value in block.items() if key != "content"})
        name = self._names.get(call) or lenient.get_text(block, "type").removesuffix("_tool_result")
        self.ledger.add_whole_part(ev.Result, call, name, as_json(content), failed, False, extra)  # noqa: FBT003

    def _keep(self, index: int, block: dict[str, Any]) -> None:
        """A block without a canonical word: kept, and let out whole when it ends."""
        self._blocks[index] = dict(block)

    def _delta(self, payload: wire.ContentBlockDelta) -> None:
        delta = payload.delta
        self.deltas.get(delta.type, AnthropicDecoder._other_delta)(self, payload.index, delta)

    def _text_delta(self, index: int, delta: wire.Delta) -> None:
        if self.ledger.find(index) is None:
            self.ledger.open_text(index)
        self.ledger.append_text(index, delta.text or "")

    def _json_delta(self, index: int, delta: wire.Delta) -> None:
        self.ledger.append_call_input(index, delta.partial_json or "")

    def _thinking_delta(self, index: int, delta: wire.Delta) -> None:
        if self.ledger.find(index) is None:
            self.ledger.open_reasoning(index)
        self.ledger.append_text(index, delta.thinking or "")

    def _signature_delta(self, index: int, delta: wire.Delta) -> None:
        self._sign(index, delta.signature or "")

    def _sign(self, index: int, signature: str) -> None:
        part = self.ledger.find(index)
        if part and signature:
            before = (part.extra or {}).get(NAME, {}).get("signature", "")
            part.extra = _own(signature=before + signature)

    def _citations_delta(self, index: int, delta: wire.Delta) -> None:
        self._cite(index, delta.citation or {})

    def _cite(self, index: int, citation: dict[str, Any]) -> None:
        part = self.ledger.find(index)
        title, source = (
            lenient.get_text(citation, "title", "document_title"),
            lenient.get_text(citation, "source"),
        )
        url = lenient.get_text(citation, "url") or (
            source if "://" in source else ""
        )  # a search result may have any name
        of, quote = part.index if part else None, lenient.get_text(citation, "cited_text")
        name = "" if url else source
        self.ledger.cite((of, citation), url, title, of, None, quote, name, "", "", {NAME: citation})

    def _other_delta(self, index: int, delta: wire.Delta) -> None:
        """A delta of a kept block: strings grow, anything else is replaced."""
        block = self._blocks.get(index)
        if block is None or self.ledger.find(index) is not None:
            self.diagnostics.add("unknown-delta", f"a delta of type {delta.type!r} has no block to belong to")
            return
        for key in ("content", "encrypted_content", "text"):
            value = getattr(delta, key)
            if value is not None:
                block[key] = lenient.get_text(block, key) + value

    def _block_stop(self, payload: wire.ContentBlockStop) -> None:
        index = payload.index
        block = self._blocks.pop(index, None)
        part = self.ledger.find(index)
        if part is not None and part.is_call and not part.pieces and not part.given:
            self._waiting = index
        elif part is not None:
            self.ledger.close(index)
        elif block is not None and not lenient.get_text(block, "type").endswith("_tool_result"):
            self.ledger.add_whole_part(ev.Opaque, NAME, lenient.get_text(block, "type"), block)

    def _release(self) -> None:
        """A call that ended without input has none if more follows; if the output limit does, it was cut off."""
        if self._waiting is not None:
            self.ledger.close(self._waiting)
            self._waiting = None

    deltas: ClassVar[Mapping[str, Callable[[Any, int, wire.Delta], None]]] = {
        "text_delta": _text_delta,
        "input_json_delta": _json_delta,
        "thinking_delta": _thinking_delta,
        "signature_delta": _signature_delta,
        "citations_delta": _citations_delta,
    }
    openings: ClassVar[Mapping[str, Callable[[Any, int, dict[str, Any]], None]]] = {
        "text": _text,
        "thinking": _thinking,
        "redacted_thinking": _redacted,
        "tool_use": _call,
        "server_tool_use": _call,
        "mcp_tool_use": _call,
        "*_tool_result": _result,
        "*": _keep,
    }
    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        wire.MessageStart: _message_start,
        wire.ContentBlockStart: _block_start,
        wire.ContentBlockDelta: _delta,
        wire.ContentBlockStop: _block_stop,
        wire.MessageDelta: _message_delta,
        wire.MessageStop: _message_stop,
        wire.Ping: _ping,
        wire.Error: _error,
        wire.Message: _message,
    }


def _bare_message(data: bytes) -> str:
    """What a body says that is nothing but a message: how Bedrock reports errors of Claude."""
    body = lenient.as_object(clean(loose(data)))
    return "" if "type" in body else lenient.get_text(body, "message")
