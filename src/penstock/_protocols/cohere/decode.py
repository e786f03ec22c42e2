"""Cohere Chat → events. Version 1 is decoded in `decode_v1`.

Content, calls and citations are each counted from 0, so a part's key has its kind, too. The plan before calls is
reasoning. It has no marks and ends when another part begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import events as ev
from penstock._codec import Decoder
from penstock._protocols.cohere import wire
from penstock._protocols.cohere.decode_v1 import PLAN_EXTRA, V1Decoder, end_turn, read_usage, report_citation
from penstock._protocols.cohere.wire import NAME
from penstock._vendor_errors import classify_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_NO_CONTENT = wire.Content()


class CohereDecoder(Decoder):
    """State: an ended call without input, the parts that may be cited, and the decoder of version 1."""

    protocol = NAME
    shape = wire.Payload
    read = staticmethod(msgspec.json.Decoder(wire.Payload).decode)

    def __init__(self) -> None:
        super().__init__()
        self._reset()

    def _reset(self) -> None:
        self._ended_call: tuple[str, int] | None = None
        self._part_indexes: dict[object, int] = {}  # content index, or kind of the last such part → part index
        self._v1 = V1Decoder(self.ledger)

    # ── the message ───────────────────────────────────────────────────────────────────────────────

    def _payload(self, payload: wire.Payload) -> None:
        kind = payload.type or payload.event_type
        if not kind:
            self._untyped(payload)
        elif kind in self.kinds:
            self.kinds[kind](self, payload)
        else:
            self.keep()

    def _untyped(self, payload: wire.Payload) -> None:
        """Decodes a payload without an event type: an answer, an error, or `generate`."""
        message = payload.message
        if isinstance(message, str):
            extra = {NAME: {"error": {"message": message}}}
            kind = classify_fault((message,), message, None)
            self.ledger.fault(kind, message, request_id=payload.id or "", extra=extra)
        elif message is not None:
            self._answer(payload, message)
        elif payload.is_finished:
            self._v1.end(payload)
        elif payload.is_finished is False:
            self._v1.text(payload)
        elif payload.text is not None or payload.generations:
            self._v1.answer(payload)
        else:
            self.keep()

    def _message_start(self, payload: wire.Payload) -> None:
        if self.ledger.is_open:
            self.ledger.close_all()
        self._reset()
        self.ledger.start(payload.id or "")

    def _stream_start(self, payload: wire.Payload) -> None:
        """Starts a turn of version 1."""
        if not self.ledger.is_open:
            self._reset()
        self._v1.start(payload)

    def _message_end(self, payload: wire.Payload) -> None:
        delta = payload.delta or wire.Delta()
        self._ended_call = None
        usage = read_usage(delta.usage) if delta.usage else None
        if usage is not None:
            self.ledger.usage(usage)
        end_turn(self.ledger, delta.finish_reason or "", delta.error)

    def _answer(self, payload: wire.Payload, message: wire.Message) -> None:
        """Decodes a non-stream answer."""
        self._message_start(payload)
        self._append_plan(message.tool_plan or "")
        for index, content in enumerate(_as_list(message.content)):
            self._open_content(index, content)
            self.ledger.close(("content", index))
        for index, call in enumerate(_as_list(message.tool_calls)):
            self._open_call(index, call)
            self._end_call(index)
        for citation in _as_list(message.citations):
            self._report_citation(citation)
        self._message_end(wire.Payload(delta=wire.Delta(None, payload.finish_reason, payload.usage)))

    def named(self, name: str, data: bytes) -> bool:
        """Handles `[DONE]`, which comes after the end, with or without quotes."""
        if data.strip().strip(b'"').upper() != b"[DONE]":
            return False
        self.ledger.end()
        return True

    # ── content and plan ──────────────────────────────────────────────────────────────────────────

    def _open_content(self, index: int, content: wire.Content) -> None:
        key = ("content", index)
        is_thinking = content.type == "thinking" or (content.type is None and content.thinking is not None)
        part = self.ledger.find(key)
        if part is not None and part.delta is not (ev.ReasoningDelta if is_thinking else ev.TextDelta):
            self.ledger.close(key)
        self._close_plan_and_call()
        part = self.ledger.open_reasoning(key) if is_thinking else self.ledger.open_text(key)
        if part is not None:
            self._part_indexes[index] = self._part_indexes["thinking" if is_thinking else "text"] = part.index
        self.ledger.append_text(key, content.thinking or content.text or "")

    def _content_delta(self, payload: wire.Payload) -> None:
        content, key = _content(payload), ("content", payload.index or 0)
        if self.ledger.find(key) is None:
            self._open_content(payload.index or 0, content)
        else:
            self.ledger.append_text(key, content.text or content.thinking or "")
        if payload.logprobs is not None:
            self.diagnostics.add("logprobs", "log probabilities by token id have no canonical form and are left out")

    def _append_plan(self, plan: str) -> None:
        if plan and self.ledger.find("plan") is None:
            part = self.ledger.open_reasoning("plan", extra=PLAN_EXTRA)
            if part is not None:
                part.extra, self._part_indexes["plan"] = PLAN_EXTRA, part.index
        self.ledger.append_text("plan", plan)

    def _close_plan_and_call(self, ended_call: tuple[str, int] | None = None) -> None:
        """Ends the plan and the call without input, because another part begins."""
        self.ledger.close("plan")
        if self._ended_call is not None:
            self.ledger.close(self._ended_call)
        self._ended_call = ended_call

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def _call_start(self, payload: wire.Payload) -> None:
        for call in _as_list(_message(payload).tool_calls):
            self._open_call(payload.index or 0, call)

    def _open_call(self, index: int, call: wire.ToolCall) -> None:
        self._close_plan_and_call()
        key, function = ("call", index), call.function or wire.Function()
        part = self.ledger.find(key)
        if part is not None and part.id != call.id:
            self.ledger.close(key)
        self.ledger.open_call(key, call.id or f"call_{self.ledger.id_prefix}_{index}", function.name or "")
        self._append_input(key, function.arguments or "")

    def _call_delta(self, payload: wire.Payload) -> None:
        key = ("call", payload.index or 0)
        if self.ledger.find(key) is None:
            self.diagnostics.add("no-call", "input of a call that never began is ignored")
        for call in _as_list(_message(payload).tool_calls):
            self._append_input(key, (call.function and call.function.arguments) or "")

    def _append_input(self, key: tuple[str, int], text: str) -> None:
        """Appends input. A tool without parameters gets no input, or `null`, which is ignored."""
        part = self.ledger.find(key)
        if part is not None and (part.pieces or text.strip() != "null"):
            self.ledger.append_call_input(key, text)

    def _end_call(self, index: int) -> None:
        """Ends a call. Without input it stays open until the next part: a cut answer has then cut the call."""
        part = self.ledger.find(("call", index))
        if part is not None and not part.pieces and not part.muted:
            self._close_plan_and_call(("call", index))
        else:
            self.ledger.close(("call", index))

    # ── citations ─────────────────────────────────────────────────────────────────────────────────

    def _citation_start(self, payload: wire.Payload) -> None:
        for citation in _as_list(_message(payload).citations):
            self._report_citation(citation)

    def _report_citation(self, citation: dict[str, Any]) -> None:
        """Reports a citation of the content that it names, or of the last part of its kind."""
        kind = {"PLAN": "plan", "THINKING_CONTENT": "thinking"}.get(str(citation.get("type")), "text")
        index = citation.get("content_index")
        of = self._part_indexes.get(index) if isinstance(index, int) and kind != "plan" else None
        report_citation(self.ledger, citation, self._part_indexes.get(kind) if of is None else of)

    kinds: ClassVar[Mapping[str, Callable[[Any, wire.Payload], None]]] = {
        "content-delta": _content_delta,
        "message-start": _message_start,
        "content-start": lambda self, payload: self._open_content(payload.index or 0, _content(payload)),
        "content-end": lambda self, payload: self.ledger.close(("content", payload.index or 0)),
        "tool-plan-delta": lambda self, payload: self._append_plan(_message(payload).tool_plan or ""),
        "tool-call-start": _call_start,
        "tool-call-delta": _call_delta,
        "tool-call-end": lambda self, payload: self._end_call(payload.index or 0),
        "citation-start": _citation_start,
        "citation-end": lambda _, __: None,  # the start was complete
        "message-end": _message_end,
        "stream-start": _stream_start,
        "text-generation": lambda self, payload: self._v1.text(payload),
        "tool-calls-chunk": lambda self, payload: self._v1.call_chunk(payload),
        "tool-calls-generation": lambda self, payload: self._v1.calls(payload),
        "search-queries-generation": lambda self, payload: self._v1.search_queries(payload),
        "search-results": lambda self, payload: self._v1.search_results(payload),
        "citation-generation": lambda self, payload: self._v1.citations(payload),
        "stream-end": lambda self, payload: self._v1.end(payload),
    }
    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {wire.Payload: _payload}


def _message(payload: wire.Payload) -> wire.Message:
    return (payload.delta and payload.delta.message) or wire.Message()


def _content(payload: wire.Payload) -> wire.Content:
    content = _message(payload).content
    return content if isinstance(content, wire.Content) else _NO_CONTENT


def _as_list(value: Any) -> list[Any]:
    """Returns one item, several or none as a list."""
    return value if isinstance(value, list) else [] if value is None else [value]  # pyright: ignore[reportUnknownVariableType]
