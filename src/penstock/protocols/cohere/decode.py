"""Cohere Chat → events: version 2 here, version 1 in a file of its own. Leans on the ledger for the grammar.

Content, calls and citations are each counted from 0, so a part's key names its kind as well. The plan that stands
before calls is reasoning; it has no marks and ends when something else begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import events as ev
from penstock.codec import Decoder
from penstock.faults import classify
from penstock.protocols.cohere import wire
from penstock.protocols.cohere.decode_v1 import NAME, PLAN, Version1, cite, end, read_usage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_NO_CONTENT = wire.Content()


class CohereDecoder(Decoder):
    """State: the turn's id, an ended call without input, the numbers of parts that may be cited, version 1's own."""

    protocol = NAME
    shape = wire.Payload
    read = staticmethod(msgspec.json.Decoder(wire.Payload).decode)

    def __init__(self) -> None:
        super().__init__()
        self._reset("")

    def _reset(self, id: str) -> None:
        self._id = id
        self._waiting: tuple[str, int] | None = None
        self._numbers: dict[object, int] = {}  # content index, or kind of the last such part → part number
        self._old = Version1(self.ledger)

    # ── the message ───────────────────────────────────────────────────────────────────────────────

    def _payload(self, payload: wire.Payload) -> None:
        kind = payload.type or payload.event_type
        if kind:
            self.kinds.get(kind, CohereDecoder._other)(self, payload)
        else:
            self._bare(payload)

    def _bare(self, payload: wire.Payload) -> None:
        """A payload that names no event: a whole answer, an error, or `generate`."""
        if isinstance(payload.message, str):
            self.ledger.fault(
                classify((payload.message,), payload.message, None), payload.message, request_id=payload.id or "",
                extra={NAME: {"error": {"message": payload.message}}},
            )  # fmt: skip
        elif payload.message is not None:
            self._answer(payload, payload.message)
        elif payload.is_finished:
            self._old.stop(payload)
        elif payload.is_finished is False:
            self._old.text(payload)
        elif payload.text is not None or payload.generations:
            self._old.answer(payload)
        else:
            self.keep()

    def _other(self, payload: wire.Payload) -> None:
        self.keep()

    def _message_start(self, payload: wire.Payload) -> None:
        if self.ledger.is_open:
            self.ledger.close_all()
        self._reset(payload.id or "")
        self.ledger.start(self._id)

    def _stream_start(self, payload: wire.Payload) -> None:
        """Version 1 begins."""
        if not self.ledger.is_open:
            self._reset("")
        self._old.start(payload)

    def _message_end(self, payload: wire.Payload) -> None:
        delta = payload.delta or wire.Delta()
        self._waiting = None
        self._count(delta.usage)
        end(self.ledger, delta.finish_reason or "", delta.error)

    def _count(self, raw: dict[str, Any] | None) -> None:
        usage = read_usage(raw) if raw else None
        if usage is not None:
            self.ledger.usage(usage)

    def _answer(self, payload: wire.Payload, message: wire.Message) -> None:
        """An answer that was not streamed."""
        self._message_start(payload)
        self._think(message.tool_plan or "")
        for index, content in enumerate(_listed(message.content)):
            self._begin(index, content)
            self.ledger.close(("content", index))
        for index, call in enumerate(_listed(message.tool_calls)):
            self._call(index, call)
            self._end_call(index)
        for citation in _listed(message.citations):
            self._cite(citation)
        self._message_end(wire.Payload(delta=wire.Delta(None, payload.finish_reason, payload.usage)))

    def named(self, name: str, data: bytes) -> bool:
        """`[DONE]` comes after the end, bare or as a string."""
        if data.strip().strip(b'"').upper() != b"[DONE]":
            return False
        self.ledger.end()
        return True

    # ── content and plan ──────────────────────────────────────────────────────────────────────────

    def _content_start(self, payload: wire.Payload) -> None:
        self._begin(payload.index or 0, _content(payload))

    def _begin(self, index: int, content: wire.Content) -> None:
        key = ("content", index)
        thinking = content.type == "thinking" or (content.type is None and content.thinking is not None)
        kind = ev.ReasoningDelta if thinking else ev.TextDelta
        part = self.ledger.find(key)
        if part is not None and part.delta is not kind:
            self.ledger.close(key)
        self._turn_to(None)
        part = self.ledger.open_reasoning(key) if thinking else self.ledger.open_text(key)
        if part is not None:
            self._numbers[index] = self._numbers["thinking" if thinking else "text"] = part.index
        self.ledger.append_text(key, content.thinking or content.text or "")

    def _content_delta(self, payload: wire.Payload) -> None:
        content, key = _content(payload), ("content", payload.index or 0)
        if self.ledger.find(key) is None:
            self._begin(payload.index or 0, content)
        else:
            self.ledger.append_text(key, content.text or content.thinking or "")
        if payload.logprobs is not None:
            self.diagnostics.add("logprobs", "log probabilities by token id have no canonical form and are left out")

    def _content_end(self, payload: wire.Payload) -> None:
        self.ledger.close(("content", payload.index or 0))

    def _plan(self, payload: wire.Payload) -> None:
        self._think(_message(payload).tool_plan or "")

    def _think(self, plan: str) -> None:
        if plan and self.ledger.find("plan") is None:
            part = self.ledger.open_reasoning("plan", extra=PLAN)
            if part is not None:
                part.extra, self._numbers["plan"] = PLAN, part.index
        self.ledger.append_text("plan", plan)

    def _turn_to(self, waiting: tuple[str, int] | None) -> None:
        """Something else begins: the plan has ended, and so has a call that waits."""
        self.ledger.close("plan")
        if self._waiting is not None:
            self.ledger.close(self._waiting)
        self._waiting = waiting

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def _call_start(self, payload: wire.Payload) -> None:
        for call in _listed(_message(payload).tool_calls):
            self._call(payload.index or 0, call)

    def _call(self, index: int, call: wire.ToolCall) -> None:
        self._turn_to(None)
        key, said = ("call", index), call.function or wire.Function()
        part = self.ledger.find(key)
        if part is not None and part.id != call.id:
            self.ledger.close(key)
        self.ledger.open_call(key, call.id or f"call_{self.ledger.id_prefix}_{index}", said.name or "")
        self._input(key, said.arguments or "")

    def _call_delta(self, payload: wire.Payload) -> None:
        key = ("call", payload.index or 0)
        if self.ledger.find(key) is None:
            self.diagnostics.add("no-call", "input of a call that never began is ignored")
        for call in _listed(_message(payload).tool_calls):
            self._input(key, (call.function and call.function.arguments) or "")

    def _input(self, key: tuple[str, int], text: str) -> None:
        """A tool without parameters is called with nothing, or with `null`."""
        part = self.ledger.find(key)
        if part is not None and (part.pieces or text.strip() != "null"):
            self.ledger.append_call_input(key, text)

    def _call_end(self, payload: wire.Payload) -> None:
        self._end_call(payload.index or 0)

    def _end_call(self, index: int) -> None:
        """Without input it waits: an answer that is cut off next has cut it off."""
        part = self.ledger.find(("call", index))
        if part is not None and not part.pieces and not part.muted:
            self._turn_to(("call", index))
        else:
            self.ledger.close(("call", index))

    # ── citations ─────────────────────────────────────────────────────────────────────────────────

    def _citation(self, payload: wire.Payload) -> None:
        for citation in _listed(_message(payload).citations):
            self._cite(citation)

    def _cite(self, citation: dict[str, Any]) -> None:
        """Of the content it names, or of the last part of the kind it names."""
        kind = {"PLAN": "plan", "THINKING_CONTENT": "thinking"}.get(str(citation.get("type")), "text")
        place = citation.get("content_index")
        of = self._numbers.get(place) if isinstance(place, int) and kind != "plan" else None
        cite(self.ledger, citation, self._numbers.get(kind) if of is None else of)

    def _nothing(self, _: wire.Payload) -> None:
        """The end of a citation, which was whole when it began."""

    kinds: ClassVar[Mapping[str, Callable[[Any, wire.Payload], None]]] = {
        "content-delta": _content_delta,
        "message-start": _message_start,
        "content-start": _content_start,
        "content-end": _content_end,
        "tool-plan-delta": _plan,
        "tool-call-start": _call_start,
        "tool-call-delta": _call_delta,
        "tool-call-end": _call_end,
        "citation-start": _citation,
        "citation-end": _nothing,
        "message-end": _message_end,
        "stream-start": _stream_start,
        "text-generation": lambda self, payload: self._old.text(payload),
        "tool-calls-chunk": lambda self, payload: self._old.call_chunk(payload),
        "tool-calls-generation": lambda self, payload: self._old.calls(payload),
        "search-queries-generation": lambda self, payload: self._old.queries(payload),
        "search-results": lambda self, payload: self._old.found(payload),
        "citation-generation": lambda self, payload: self._old.cite(payload),
        "stream-end": lambda self, payload: self._old.stop(payload),
    }
    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {wire.Payload: _payload}


def _message(payload: wire.Payload) -> wire.Message:
    return (payload.delta and payload.delta.message) or wire.Message()


def _content(payload: wire.Payload) -> wire.Content:
    content = _message(payload).content
    return content if isinstance(content, wire.Content) else _NO_CONTENT


def _listed(value: Any) -> list[Any]:
    """One thing, several or none, as a list."""
    return value if isinstance(value, list) else [] if value is None else [value]  # pyright: ignore[reportUnknownVariableType]
