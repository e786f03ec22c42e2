"""Cohere Chat → events: version 2, version 1 and the older `generate`.

Version 2 counts content, calls and citations from 0 each, so a part's key has its kind, too. The plan before calls is
reasoning; it has no marks and ends when another part begins. Version 1 has no marks between parts and no call ids, and
its last event repeats everything; what was streamed already is not reported again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import _lenient_fields as lenient
from penstock import events as ev
from penstock._codec import Decoder
from penstock._lenient_json import as_json, is_json
from penstock._protocols.cohere import wire
from penstock._protocols.cohere.wire import NAME
from penstock._vendor_errors import classify_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock._ledger import Ledger, LedgerPart
    from penstock.events import FaultKind, Reason

_SEARCH = "search"
_REASONS: dict[str, Reason] = {
    **dict.fromkeys(("COMPLETE", "STOP_SEQUENCE"), "stop"),
    **dict.fromkeys(("MAX_TOKENS", "ERROR_LIMIT"), "length"),
    "TOOL_CALL": "calls",
    "ERROR_TOXIC": "filter",
}
_FAULTS: dict[str, FaultKind] = {"ERROR": "server", "TIMEOUT": "timeout", "USER_CANCEL": "cancelled"}


# ── both versions ─────────────────────────────────────────────────────────────────────────────────


def report_citation(
    ledger: Ledger, citation: dict[str, Any], of: int | None, documents: Mapping[str, dict[str, Any]] | None = None
) -> None:
    """Reports each source of a citation. Version 1 refers to `documents`, which are sent separately."""
    first, last = lenient.get_integer(citation, "start"), lenient.get_integer(citation, "end")
    span = (first, last) if first is not None and last is not None and last > first else None
    referred = [
        {"type": "document", "id": id, "document": (documents or {}).get(id, {})}
        for id in lenient.get_list(citation, "document_ids")  # noqa: A001 — as the payload calls it
        if isinstance(id, str)
    ]
    for source in lenient.get_objects(citation, "sources") or referred or [{}]:
        document = lenient.get_object(source, "document")
        url, title = lenient.get_text(document, "url"), lenient.get_text(document, "title", "name")
        quote, name = lenient.get_text(document, "text", "snippet"), lenient.get_text(source, "id")
        original = {**citation, "sources": [source]} if source else citation
        ledger.cite((of, original), url, title, of, span, quote, name, "", "", {NAME: original})


def open_plan(ledger: Ledger, *, keep: bool = False) -> LedgerPart | None:
    """Opens the plan before calls: reasoning that is sent back as a plan."""
    part = ledger.open_reasoning("plan", extra=wire.PLAN_EXTRA, keep=keep)
    if part is not None:
        part.extra = wire.PLAN_EXTRA
    return part


def end_turn(ledger: Ledger, name: str, error: str | None = None) -> None:
    """Ends the turn normally, or with a fault if the finish reason is a failure."""
    reason = name.upper()
    if reason in _FAULTS or error:
        message = error or f"Cohere ended the answer with {name!r}"
        extra = {NAME: {"error": {"message": message}}}
        ledger.fault(_FAULTS.get(reason, "server"), message, code=name, extra=extra)
        return
    if name and reason not in _REASONS:
        ledger.diagnostics.add("unknown-reason", f"finish reason {name!r} is read as a normal stop")
    if name:
        ledger.finish(_REASONS.get(reason, "stop"), name)
    ledger.end()


# ── version 1 ─────────────────────────────────────────────────────────────────────────────────────


class V1Decoder:
    """State: the id for call ids, the index of the text part, the documents, and whether something was cited."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._id = ""
        self._opened: set[str] = set()  # kinds of parts
        self._text_index: int | None = None
        self._documents: dict[str, dict[str, Any]] = {}
        self._cited = False

    def start(self, payload: wire.V1Answer) -> None:
        """Opens the turn and takes its id. An id that comes later is ignored, because call ids must not change."""
        turn_id = payload.generation_id or payload.response_id or ""
        if self._ledger.start(turn_id):
            self._id = turn_id or self._id

    @property
    def _id_prefix(self) -> str:
        return self._id or self._ledger.seed or "turn"

    def text(self, payload: wire.Payload) -> None:
        self._append_text("text", payload.text or "")

    def _append_text(self, kind: str, text: str) -> None:
        if text and self._ledger.find(kind) is None:
            self._opened.add(kind)
            if kind == "plan":
                open_plan(self._ledger, keep=True)
            else:
                part = self._ledger.open_text(kind, keep=True)
                self._text_index = part.index if part else None
        self._ledger.append_text(kind, text)

    def call_chunk(self, payload: wire.Payload) -> None:
        delta = payload.tool_call_delta or wire.V1CallDelta()
        self._append_text("plan", payload.text or delta.text or "")
        if delta.name:
            self._open_call(delta.index or 0, delta.name)
        self._ledger.append_call_input(("call", delta.index or 0), delta.parameters or "")

    def calls(self, payload: wire.V1Answer) -> None:
        self._reconcile_text("plan", payload.text or "")
        self._end_calls(payload.tool_calls or ())

    def _end_calls(self, calls: Sequence[wire.V1Call]) -> None:
        for number, call in enumerate(calls):
            self._open_call(number, call.name or "")
            part = self._ledger.find(("call", number))
            streamed = part is not None and is_json(part.streamed_text)
            self._ledger.end_call(("call", number), None if streamed else as_json(call.parameters or {}))

    def _open_call(self, number: int, name: str) -> None:
        id = f"call_{self._id_prefix}_{number}"  # noqa: A001 — as the call calls it
        if not self._ledger.has_call(id):
            self._ledger.close("plan")
            self._ledger.close("text")
            self._ledger.open_call(("call", number), id, name)

    def _reconcile_text(self, kind: str, text: str) -> None:
        if self._ledger.find(kind) is not None:
            self._ledger.reconcile(kind, text)
        elif kind not in self._opened:
            self._append_text(kind, text)

    def search_queries(self, payload: wire.V1Answer) -> None:
        """Reports Cohere's search as a provider call."""
        id = f"{_SEARCH}_{self._id_prefix}"  # noqa: A001 — as the call calls it
        if not self._ledger.has_call(id):
            queries = [lenient.get_text(query, "text") for query in payload.search_queries or ()]
            self._ledger.open_call(_SEARCH, id, _SEARCH, by="provider")
            self._ledger.end_call(_SEARCH, as_json({"queries": queries}))

    def search_results(self, payload: wire.V1Answer) -> None:
        self._add_documents(payload.documents or ())
        found = as_json({"documents": payload.documents or [], "search_results": payload.search_results or []})
        self._ledger.add_whole_part(ev.Result, f"{_SEARCH}_{self._id_prefix}", _SEARCH, found)

    def _add_documents(self, documents: Sequence[dict[str, Any]]) -> None:
        self._documents |= {lenient.get_text(document, "id"): document for document in documents}

    def citations(self, payload: wire.V1Answer) -> None:
        for citation in payload.citations or ():
            self._cited = True
            report_citation(self._ledger, citation, self._text_index, self._documents)

    def end(self, payload: wire.Payload) -> None:
        answer = payload.response or wire.V1Answer()
        answer.finish_reason = answer.finish_reason or payload.finish_reason
        self.answer(answer, payload.invocation)

    def answer(self, answer: wire.V1Answer, metrics: wire.Invocation | None = None) -> None:
        """Decodes a complete answer, and reports what was not streamed."""
        if self._ledger.ended:
            self._ledger.diagnostics.add("after-end", "an answer after the end of the turn is ignored")
            return
        generation = (answer.generations or [wire.Generation()])[0]
        self.start(answer)
        self._add_documents(answer.documents or ())
        if answer.search_queries:
            self.search_queries(answer)
        kind = "plan" if answer.tool_calls and "text" not in self._opened else "text"
        self._reconcile_text(kind, answer.text or generation.text or "")
        self._end_calls(answer.tool_calls or ())
        if not self._cited:
            self.citations(answer)
        usage = wire.read_usage(answer.meta or {})
        if usage is None and metrics is not None:
            usage = ev.Usage(metrics.inputTokenCount, metrics.outputTokenCount, exact=False)
        if usage is not None:
            self._ledger.usage(usage)
        end_turn(self._ledger, answer.finish_reason or generation.finish_reason or "")

    kinds: ClassVar[Mapping[str, Callable[[Any, Any], None]]] = {
        "text-generation": text,
        "tool-calls-chunk": call_chunk,
        "tool-calls-generation": calls,
        "search-queries-generation": search_queries,
        "search-results": search_results,
        "citation-generation": citations,
        "stream-end": end,
    }


# ── version 2 ─────────────────────────────────────────────────────────────────────────────────────


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

    def _payload(self, payload: wire.Payload) -> None:
        kind = payload.type or payload.event_type
        if not kind:
            self._untyped(payload)
        elif kind in self.kinds:
            self.kinds[kind](self, payload)
        elif kind in self._v1.kinds:
            self._v1.kinds[kind](self._v1, payload)
        else:
            self.report_unknown()

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
            self.report_unknown()

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
        if delta.usage and (usage := wire.read_usage(delta.usage)) is not None:
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
        self._report_citations(message.citations)
        self._message_end(wire.Payload(delta=wire.Delta(None, payload.finish_reason, payload.usage)))

    def read_special_frame(self, name: str, data: bytes) -> bool:
        """Handles `[DONE]`, which comes after the end, with or without quotes."""
        if data.strip().strip(b'"').upper() != b"[DONE]":
            return False
        self.ledger.end()
        return True

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
        if plan and self.ledger.find("plan") is None and (part := open_plan(self.ledger)) is not None:
            self._part_indexes["plan"] = part.index
        self.ledger.append_text("plan", plan)

    def _close_plan_and_call(self, ended_call: tuple[str, int] | None = None) -> None:
        """Ends the plan and the call without input, because another part begins."""
        self.ledger.close("plan")
        if self._ended_call is not None:
            self.ledger.close(self._ended_call)
        self._ended_call = ended_call

    def _start_call(self, payload: wire.Payload) -> None:
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

    def _report_citations(self, citations: Any) -> None:
        """Reports citations of the content that each names, or of the last part of its kind."""
        for citation in _as_list(citations):
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
        "tool-call-start": _start_call,
        "tool-call-delta": _call_delta,
        "tool-call-end": lambda self, payload: self._end_call(payload.index or 0),
        "citation-start": lambda self, payload: self._report_citations(_message(payload).citations),
        "citation-end": lambda _, __: None,  # the start was complete
        "message-end": _message_end,
        "stream-start": _stream_start,
    }
    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {wire.Payload: _payload}


def _message(payload: wire.Payload) -> wire.Message:
    return (payload.delta and payload.delta.message) or wire.Message()


def _content(payload: wire.Payload) -> wire.Content:
    content = _message(payload).content
    return content if isinstance(content, wire.Content) else wire.Content()


def _as_list(value: Any) -> list[Any]:
    """Returns one item, several or none as a list."""
    return value if isinstance(value, list) else [] if value is None else [value]  # pyright: ignore[reportUnknownVariableType]
