"""What both versions of Cohere Chat say alike: citations, usage, why an answer ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock import events as ev
from penstock import lenient_fields as lenient
from penstock.jsontext import as_json, is_json
from penstock.protocols.cohere import wire

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.events import FaultKind, Reason
    from penstock.ledger import Ledger

NAME = "cohere"
REASONS: dict[str, Reason] = {
    "COMPLETE": "stop", "STOP_SEQUENCE": "stop", "MAX_TOKENS": "length", "TOOL_CALL": "calls",
    "ERROR_LIMIT": "length", "ERROR_TOXIC": "filter",
}  # fmt: skip
_NO_TOKENS = wire.Tokens()
FAILED: dict[str, FaultKind] = {"ERROR": "server", "TIMEOUT": "timeout", "USER_CANCEL": "cancelled"}


def cite(
    ledger: Ledger, citation: dict[str, Any], of: int | None, documents: Mapping[str, dict[str, Any]] | None = None
) -> None:
    """One citation as a source for each thing it cites. Version 1 names documents that were sent apart."""
    first, last = lenient.get_integer(citation, "start"), lenient.get_integer(citation, "end")
    span = (first, last) if first is not None and last is not None and last > first else None
    named = [
        {"type": "document", "id": name, "document": (documents or {}).get(name, {})}
        for name in lenient.get_list(citation, "document_ids")
        if isinstance(name, str)
    ]
    for source in lenient.get_objects(citation, "sources") or named or [{}]:
        document = lenient.get_object(source, "document")
        url, title = lenient.get_text(document, "url"), lenient.get_text(document, "title", "name")
        quote, name = lenient.get_text(document, "text", "snippet"), lenient.get_text(source, "id")
        kept = {**citation, "sources": [source]} if source else citation
        ledger.cite((of, kept), url, title, of, span, quote, name, "", "", {NAME: kept})


def read_usage(raw: dict[str, Any]) -> ev.Usage | None:
    """Tokens where they are told; else what is billed for, which leaves out the prompt's own frame."""
    try:
        said = msgspec.convert(raw, wire.Usage, strict=False)
    except msgspec.ValidationError:
        return None
    tokens = next((one for one in (said.tokens, said.billed_units) if one not in (None, _NO_TOKENS)), None)
    if tokens is None:
        return None
    whole = None if tokens.input_tokens is None else tokens.input_tokens + (tokens.image_tokens or 0)
    return ev.Usage(
        whole, tokens.output_tokens, said.cached_tokens, None, tokens.reasoning_tokens, said.tokens is not None,
        extra={NAME: raw},
    )  # fmt: skip


def end(ledger: Ledger, word: str, error: str | None = None) -> None:
    """The answer ended by itself, or for a reason that is a failure."""
    upper = word.upper()
    if upper in FAILED or error:
        message = error or f"Cohere ended the answer with {word!r}"
        extra = {NAME: {"error": {"message": message}}}
        ledger.fault(FAILED.get(upper, "server"), message, code=word, extra=extra)
        return
    if word and upper not in REASONS:
        ledger.diagnostics.add("unknown-reason", f"finish reason {word!r} is read as a normal stop")
    if word:
        ledger.finish(REASONS.get(upper, "stop"), word)
    ledger.end()


PLAN = {NAME: {"kind": "tool_plan"}}
SEARCH = "search"


class Version1:
    """State: the id that calls are named after, the text part's number, what was found, what was cited."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._id = ""
        self._said: set[str] = set()  # the kinds of part that were begun
        self._text: int | None = None
        self._documents: dict[str, dict[str, Any]] = {}
        self._cited = False

    def start(self, said: wire.OldAnswer) -> None:
        """Take the turn's name, unless it began without one: names made from it must not change midway."""
        name = said.generation_id or said.response_id or ""
        if self._ledger.start(name) and name:
            self._id = name

    @property
    def _stem(self) -> str:
        return self._id or self._ledger.seed or "turn"

    # ── text, plan, calls ─────────────────────────────────────────────────────────────────────────

    def text(self, payload: wire.Payload) -> None:
        self._say("text", payload.text or "")

    def _say(self, kind: str, text: str) -> None:
        if text and self._ledger.find(kind) is None:
            self._said.add(kind)
            self._open(kind)
        self._ledger.append_text(kind, text)

    def _open(self, kind: str) -> None:
        if kind == "plan":
            part = self._ledger.open_reasoning(kind, extra=PLAN, keep=True)
            if part is not None:
                part.extra = PLAN
        else:
            part = self._ledger.open_text(kind, keep=True)
            self._text = part.index if part else None

    def call_chunk(self, payload: wire.Payload) -> None:
        delta = payload.tool_call_delta or wire.OldCallDelta()
        self._say("plan", payload.text or delta.text or "")
        if delta.name or delta.parameters:
            number = delta.index or 0
            if delta.name:
                self._begin(number, delta.name)
            self._ledger.append_call_input(("call", number), delta.parameters or "")

    def calls(self, payload: wire.OldAnswer) -> None:
        self._settle("plan", payload.text or "")
        self._whole_calls(payload.tool_calls or ())

    def _whole_calls(self, calls: Sequence[wire.OldCall]) -> None:
        for number, call in enumerate(calls):
            self._begin(number, call.name or "")
            part = self._ledger.find(("call", number))
            streamed = part is not None and is_json(part.streamed_text)
            self._ledger.end_call(("call", number), None if streamed else as_json(call.parameters or {}))

    def _begin(self, number: int, name: str) -> None:
        minted = f"call_{self._stem}_{number}"
        if not self._ledger.has_call(minted):
            self._ledger.close("plan")
            self._ledger.close("text")
            self._ledger.open_call(("call", number), minted, name)

    def _settle(self, kind: str, whole: str) -> None:
        if self._ledger.find(kind) is not None:
            self._ledger.reconcile(kind, whole)
        elif kind not in self._said:
            self._say(kind, whole)

    # ── searches and citations ────────────────────────────────────────────────────────────────────

    def queries(self, payload: wire.OldAnswer) -> None:
        """What Cohere searches for: a call of its own."""
        if self._ledger.has_call(f"{SEARCH}_{self._stem}"):
            return
        asked = {"queries": [lenient.get_text(query, "text") for query in payload.search_queries or ()]}
        self._ledger.open_call(SEARCH, f"{SEARCH}_{self._stem}", SEARCH, by="provider")
        self._ledger.end_call(SEARCH, as_json(asked))

    def found(self, payload: wire.OldAnswer) -> None:
        self._remember(payload.documents or ())
        found = {"documents": payload.documents or [], "search_results": payload.search_results or []}
        json = as_json(found)
        self._ledger.add_whole_part(ev.Result, f"{SEARCH}_{self._stem}", SEARCH, json)

    def _remember(self, documents: Sequence[dict[str, Any]]) -> None:
        self._documents |= {lenient.get_text(document, "id"): document for document in documents}

    def cite(self, payload: wire.OldAnswer) -> None:
        for citation in payload.citations or ():
            self._cited = True
            cite(self._ledger, citation, self._text, self._documents)

    # ── the end ───────────────────────────────────────────────────────────────────────────────────

    def stop(self, payload: wire.Payload) -> None:
        answer = payload.response or wire.OldAnswer()
        answer.finish_reason = answer.finish_reason or payload.finish_reason
        self.answer(answer, payload.invocation)

    def answer(self, answer: wire.OldAnswer, metrics: wire.Invocation | None = None) -> None:
        """A whole answer: all of it, or what of it was not streamed."""
        if self._ledger.ended:
            self._ledger.diagnostics.add("after-end", "an answer after the end of the turn is ignored")
            return
        generated = (answer.generations or [wire.Generation()])[0]
        self.start(answer)
        self._remember(answer.documents or ())
        if answer.search_queries:
            self.queries(answer)
        kind = "plan" if answer.tool_calls and "text" not in self._said else "text"
        self._settle(kind, answer.text or generated.text or "")
        self._whole_calls(answer.tool_calls or ())
        if not self._cited:
            self.cite(answer)
        self._count(answer.meta or {}, metrics)
        end(self._ledger, answer.finish_reason or generated.finish_reason or "")

    def _count(self, meta: dict[str, Any], metrics: wire.Invocation | None) -> None:
        usage = read_usage(meta)
        if usage is None and metrics is not None:
            usage = ev.Usage(metrics.inputTokenCount, metrics.outputTokenCount, exact=False)
        if usage is not None:
            self._ledger.usage(usage)
