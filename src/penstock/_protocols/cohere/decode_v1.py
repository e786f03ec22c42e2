"""Decodes Cohere Chat version 1 and the older `generate`; has the citations, usage and finish of both versions.

Version 1 has no marks between parts and no call ids, and the last event repeats everything. What it repeats is reported
only if it was not streamed. The text before a call is its plan, which becomes reasoning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock import _lenient_fields as lenient
from penstock import events as ev
from penstock._jsontext import as_json, is_json
from penstock._protocols.cohere import wire
from penstock._protocols.cohere.wire import NAME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock._ledger import Ledger
    from penstock.events import FaultKind, Reason

PLAN_EXTRA = {NAME: {"kind": "tool_plan"}}
_SEARCH = "search"
_REASONS: dict[str, Reason] = {
    **dict.fromkeys(("COMPLETE", "STOP_SEQUENCE"), "stop"),
    **dict.fromkeys(("MAX_TOKENS", "ERROR_LIMIT"), "length"),
    "TOOL_CALL": "calls",
    "ERROR_TOXIC": "filter",
}
_FAULTS: dict[str, FaultKind] = {"ERROR": "server", "TIMEOUT": "timeout", "USER_CANCEL": "cancelled"}
_NO_TOKENS = wire.Tokens()


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


def read_usage(raw: dict[str, Any]) -> ev.Usage | None:
    """Reads the token counts; without them the billed units, which exclude the prompt's framing."""
    try:
        usage = msgspec.convert(raw, wire.Usage, strict=False)
    except msgspec.ValidationError:
        return None
    tokens = next((one for one in (usage.tokens, usage.billed_units) if one not in (None, _NO_TOKENS)), None)
    if tokens is None:
        return None
    read = None if tokens.input_tokens is None else tokens.input_tokens + (tokens.image_tokens or 0)
    exact, extra = usage.tokens is not None, {NAME: raw}
    counts = (read, tokens.output_tokens, usage.cached_tokens, None, tokens.reasoning_tokens)
    return ev.Usage(*counts, exact, extra=extra)


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
    """State: the id from which call ids are built, the index of the text part, and documents and citations so far."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._id = ""
        self._opened: set[str] = set()  # kinds of parts
        self._text_index: int | None = None
        self._documents: dict[str, dict[str, Any]] = {}
        self._cited = False

    def start(self, payload: wire.V1Answer) -> None:
        """Opens the turn and takes its id. An id that comes later is ignored, because call ids must not change."""
        id = payload.generation_id or payload.response_id or ""  # noqa: A001 — as the turn calls it
        if self._ledger.start(id) and id:
            self._id = id

    @property
    def _id_prefix(self) -> str:
        return self._id or self._ledger.seed or "turn"

    def text(self, payload: wire.Payload) -> None:
        self._append_text("text", payload.text or "")

    def _append_text(self, kind: str, text: str) -> None:
        if text and self._ledger.find(kind) is None:
            self._opened.add(kind)
            if kind == "plan":
                part = self._ledger.open_reasoning(kind, extra=PLAN_EXTRA, keep=True)
                if part is not None:
                    part.extra = PLAN_EXTRA
            else:
                part = self._ledger.open_text(kind, keep=True)
                self._text_index = part.index if part else None
        self._ledger.append_text(kind, text)

    def call_chunk(self, payload: wire.Payload) -> None:
        delta = payload.tool_call_delta or wire.V1CallDelta()
        self._append_text("plan", payload.text or delta.text or "")
        if delta.name or delta.parameters:
            number = delta.index or 0
            if delta.name:
                self._open_call(number, delta.name)
            self._ledger.append_call_input(("call", number), delta.parameters or "")

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
        usage = read_usage(answer.meta or {})
        if usage is None and metrics is not None:
            usage = ev.Usage(metrics.inputTokenCount, metrics.outputTokenCount, exact=False)
        if usage is not None:
            self._ledger.usage(usage)
        end_turn(self._ledger, answer.finish_reason or generation.finish_reason or "")
