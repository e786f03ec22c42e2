"""Events → VS Code reply parts: as NDJSON lines, which a thin client turns into the real classes, or as objects.

A call is written once, when it is complete. Text is written at once, also while a call is open. Options decide about
reasoning, citations and the prefix of call ids. docs/vscode-parts.md describes the lines.
"""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import events as ev
from penstock._codec import ILL_SHAPED, MethodTableEncoder, lost, nothing
from penstock._diagnostics import read_losses
from penstock._lenient_json import decode_unless_too_deep
from penstock._markers import RAW_INPUT_KEY
from penstock._media import contradicts
from penstock._option_checks import check_options
from penstock._protocols.vscode import encode_parts, wire
from penstock._protocols.vscode.encode_parts import HOST, Citations, Reasoning, ReasoningRound
from penstock._protocols.vscode.wire import DataPart, HostPart, Part, TextPart, ThinkingPart, ToolCallPart, encode_json
from penstock._text_runs import NO_TEMPLATE, FrameTemplate, TextRun, expand_runs, merge_runs
from penstock._transforms.citation_links import CitationLinks
from penstock._transforms.serialize import SerializeTexts
from penstock._transforms.tool_names import PREFIX, CallIdPrefix

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from penstock._framing.base import Frame
    from penstock.events import AnyEvent

LOSSES = read_losses(__name__, "answers")
EMPTY_ANSWERS = read_losses(__name__, "empty_answers")  # finish reason → why there is no answer
INCOMPLETE_CALL = read_losses(__name__, "bad_calls")["incomplete"]


def explain_empty_answer(finish: ev.Finish, *, has_cut_call: bool) -> str:
    """Returns why there is no answer, and what to do.

    A call whose input never became JSON ends a turn as `length`, because nothing can be run. If the provider says that
    the turn ended with tools, its output limit was not the reason.
    """
    ended_with_tools = finish.reason != "length" or "tool" in finish.raw.lower() or "function" in finish.raw.lower()
    return INCOMPLETE_CALL if has_cut_call and ended_with_tools else EMPTY_ANSWERS[finish.reason]


_TEXT_FRAME = (b'{"kind":"text","value":', b"}")


class VSCodeEncoder(MethodTableEncoder):
    """State of the turn: reasoning, open files, omitted parts, usage by step, whether anything is visible yet."""

    protocol = wire.NAME
    losses = LOSSES

    def __init__(
        self,
        *,
        id: str = "",
        model: str = "",
        created: int | None = None,
        host: Collection[str] = HOST,
        reasoning: Reasoning | None = None,
        citations: Citations = "both",
        call_id_prefix: str | None = PREFIX,
        renames: bool = False,
    ) -> None:
        super().__init__()
        options = {"host": host, "reasoning": reasoning, "citations": citations, "call_id_prefix": call_id_prefix}
        check_options("the encoder of vscode", options, encode_parts.OPTIONS)
        self._default = (id, model, created)
        self._renames = renames
        self._host = frozenset(host)
        usual: Reasoning = "thinking" if "thinking" in host else "drop"
        self._reasoning = reasoning if reasoning in ("text", "drop") else usual
        self.names = CallIdPrefix(call_id_prefix or "", reserved=encode_parts.RESERVED)
        keep = citations == "both" and "data" in host
        self._links = None if citations == "data" else CitationLinks(keep=keep, diagnostics=self.diagnostics)
        self._serializer = SerializeTexts()
        self._written_calls: set[str] = set()
        self._reset_turn()

    def _reset_turn(self) -> None:
        self.has_output = False  # a reply must have text or a call
        self._has_cut_call = False
        self.usages: dict[int, ev.Usage] = {}
        self._text_count = 0
        self.template = NO_TEMPLATE
        self._text_reasoning = -1  # the reasoning part that was last written as text
        self._round = ReasoningRound()
        self._reasoning_tails: dict[int, bytes] = {}
        self._files: dict[int, tuple[ev.FileStart, list[str]]] = {}
        self._last_call = -1  # the highest index of a complete call
        self._omitted: set[int] = set()

    def feed(self, events: Sequence[Any], /) -> list[Any]:
        """Skips the transforms for a batch that only continues one text; the citation links still see it."""
        if not self._serializer.idle or (self._links is not None and not self._links.idle):
            return super().feed(self._transform(expand_runs(events)))
        template = self.template
        for event in events:
            kind: Any = event.kind if type(event) is TextRun else type(event)  # pyright: ignore[reportUnknownVariableType]
            if kind is not template.kind or event.index != template.index:
                return super().feed(self._transform(expand_runs(events)))
        if self._links is not None and template.kind is ev.TextDelta:
            self._links.hear(merge_runs(events))
        return super().feed(events)

    def finish(self) -> list[Frame]:
        return super().feed(self._links.finish()) if self._links else []

    def _transform(self, events: Sequence[AnyEvent]) -> Sequence[Any]:
        """Returns the events with one text at a time, and with citation links if wanted."""
        serialized = self._serializer.feed(events)
        return serialized if self._links is None else self._links.feed(serialized)

    def _write_part(self, part: Part) -> None:
        self.out.append((b"", encode_json(part)))

    def _omit(self, event: Any, loss: str = "choice") -> None:
        """Leaves out the part that starts here."""
        self.report_loss(loss)
        self._omitted.add(event.index)

    # ── the turn ──────────────────────────────────────────────────────────────────────────────────

    _write_step = _write_call_delta = nothing
    _write_result, _write_ask, _write_opaque = lost("provider-call"), lost("approval"), lost("opaque")

    def _write_start(self, event: ev.Start) -> None:
        self._reset_turn()
        default, model, created = self._default
        when = created if event.created is None else event.created
        id = default if self._renames and default else event.id or default  # noqa: A001
        self._write_part(wire.Start(wire.VERSION, id, event.model or model, when, self.names.prefix))

    def _write_usage(self, event: ev.Usage) -> None:
        self.usages[event.step] = event

    def _end_turn(self) -> None:
        """Writes usage and reports losses, before a finish or a fault."""
        if self._links is not None and self._links.linked:
            self.report_loss("links")
        if len(self.usages.keys() - {0}) > 1:
            self.report_loss("steps")
        usage = wire.usage_line(self.usages)
        if usage is not None:
            self._write_part(usage)

    def _write_finish(self, event: ev.Finish) -> None:
        self._end_turn()
        if event.others:
            self.report_loss("choice")
        why = "" if self.has_output else explain_empty_answer(event, has_cut_call=self._has_cut_call)
        self._write_part(wire.End(event.reason, event.raw, why))

    def _write_fault(self, event: ev.Fault) -> None:
        self._end_turn()
        fields = (event.kind, event.message, event.status, event.code, event.request_id, event.retry_after)
        self._write_part(wire.ErrorPart(*fields))

    # ── text ──────────────────────────────────────────────────────────────────────────────────────

    def _write_text_start(self, event: ev.TextStart | ev.RefusalStart) -> None:
        if event.choice:
            self._omit(event)
        elif self._text_count:
            self.report_loss("bounds")
        self._text_count += not event.choice
        self._report_text_state(event)

    _write_refusal_start = _write_text_start

    def _write_text_delta(self, event: ev.TextDelta) -> None:
        if event.index in self._omitted:
            return
        if event.logprobs is not None:
            self.report_loss("logprobs")
        self._write_text(event.text)
        if self._reasoning != "text":  # else reasoning may come between two deltas
            self.template = FrameTemplate(ev.TextDelta, event.index, b"", *_TEXT_FRAME)

    def _write_refusal_delta(self, event: ev.RefusalDelta) -> None:
        if event.index not in self._omitted:
            self._write_text(event.text, refusal=True)

    def _write_text(self, text: str, *, refusal: bool = False, reasoning: int = -1) -> None:
        """Writes text. Reasoning that is written as text is a separate paragraph."""
        if self.has_output and reasoning != self._text_reasoning:
            self._write_part(TextPart("\n\n"))
        self._text_reasoning = reasoning
        self.has_output = True
        self._write_part(TextPart(text, refusal))

    def _report_text_state(self, event: ev.TextStart | ev.TextEnd | ev.RefusalStart | ev.RefusalEnd) -> None:
        if event.extra:
            self.report_loss("text-state")

    _write_text_end = _write_refusal_end = _report_text_state

    # ── reasoning ─────────────────────────────────────────────────────────────────────────────────

    def _write_reasoning_start(self, event: ev.ReasoningStart) -> None:
        if event.choice:
            self._omit(event)
            return
        if self._reasoning == "drop":
            self.report_loss("reasoning")
        self._round.open(event)
        self._reasoning_tails[event.index] = b',"id":%b}' % encode_json(event.item) if event.item else b"}"

    def _write_reasoning_delta(self, event: ev.ReasoningDelta) -> None:
        if event.index in self._omitted or self._reasoning == "drop":
            return
        if self._reasoning == "text":
            text = event.text if self._round.has_text(event.index) else "[Thinking] " + event.text
            self._write_text(text, reasoning=event.index)
        else:
            self._write_thinking(event)
        self._round.append_text(event.index, event.text)

    def _write_thinking(self, event: ev.ReasoningDelta) -> None:
        fields = (encode_json(event.text), self._reasoning_tails[event.index])
        self.out.append((b"", b'{"kind":"thinking","value":%b%b' % fields))

    def _write_reasoning_end(self, event: ev.ReasoningEnd) -> None:
        if event.index in self._omitted or event.broken:
            return
        self._round.close(event.index, event.extra)
        if self._round.has_state and self._reasoning == "thinking":
            self._write_part(ThinkingPart("", self._round.states[event.index].id, self._round.metadata()))
        elif self._round.has_state:
            self.report_loss("reasoning-state")

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def _write_call_start(self, event: ev.CallStart) -> None:
        if event.choice or event.by == "provider":
            self._omit(event, "choice" if event.choice else "provider-call")

    def _write_call_end(self, event: ev.CallEnd) -> None:
        if event.index in self._omitted:
            return
        if "tool-call" not in self._host:
            self.report_loss("call")
            return
        if event.id in self._written_calls:
            self.diagnostics.add("call-twice", f"call {event.id!r} was delivered before and is left out")
            return
        self._written_calls.add(event.id)
        self.has_output = True
        self._last_call = max(self._last_call, event.index)
        if event.index < self._last_call:
            self.report_loss("order")
        arguments, loss = encode_parts.arguments_object(event)
        if loss:
            self.report_loss(loss)
        self._write_call(self.names.name(event.id), event.name, arguments, event.extra)

    def _write_call(self, id: str, name: str, arguments: str, extra: Any) -> None:
        self.out.append((b"", encode_parts.call_line(id, name, arguments, extra)))

    def _write_call_cut(self, event: ev.CallCut) -> None:
        if event.index not in self._omitted:
            self.diagnostics.add("call-cut", f"call {event.id!r} of {event.name!r} was cut short and is not delivered")
            self._has_cut_call = True
            self._write_part(wire.Cut(self.names.name(event.id), event.name, event.json))

    # ── files, sources, data ──────────────────────────────────────────────────────────────────────

    def _write_file_start(self, event: ev.FileStart) -> None:
        if event.choice:
            self._omit(event)
        else:
            self._files[event.index] = (event, [])

    def _write_file_delta(self, event: ev.FileDelta) -> None:
        if event.index in self._files:
            self._files[event.index][1].append(event.data)

    def _write_file_end(self, event: ev.FileEnd) -> None:
        if event.index in self._omitted:
            return
        part, link = encode_parts.file_part(*self._files.pop(event.index))
        if part is not None and contradicts(part.mime_type, b64encode(part.data[:48]).decode()):
            self.diagnostics.add("media-bytes", f"a file labelled {part.mime_type!r} does not begin like one")
        if event.broken:
            self.report_loss("cut-file")
        elif part is not None and "data" in self._host:
            self._write_part(part)
        elif link:
            self.report_loss("file-link")
            self._write_text(f"\n\n{link}\n\n" if self.has_output else f"{link}\n\n")
        else:
            self.report_loss("file" if part is None else "data")

    def _write_source(self, event: ev.Source) -> None:
        if event.of is not None:
            self.report_loss("span")
        self._write_json("source", encode_parts.citation_fields(event), encode_parts.CITATION)

    def _write_data(self, event: ev.Data) -> None:
        if event.id or event.transient:
            self.report_loss("data-id")
        mime = encode_parts.data_mime_type(event.name)
        self._write_json("data", msgspec.Raw(event.json.encode("utf-8", "replace")), mime)

    def _write_json(self, loss: str, value: Any, mime: str) -> None:
        if "data" in self._host:
            self._write_part(DataPart.json(value, mime))
        else:
            self.report_loss(loss)

    def _write_unknown(self, event: ev.Unknown) -> None:
        if event.protocol == wire.NAME:
            self.out.append((b"", event.data.encode("utf-8", "replace")))
        else:
            self.report_loss("unknown")


class PartObjectEncoder(VSCodeEncoder):
    """Events → part objects, for a caller in the same process. Finish, fault, usage and cut calls are attributes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._parts: list[HostPart] = []
        self.last_finish: ev.Finish | None = None
        self.last_fault: ev.Fault | None = None
        self.turn_usages: list[ev.Usage] = []  # of each turn that ended
        self.cut_calls: list[ev.CallCut] = []

    def encode_parts(self, events: Sequence[AnyEvent]) -> list[HostPart]:
        """Returns the parts of these events."""
        self._parts = []
        for event in self._transform(events):
            try:
                self.table[type(event)](self, event)
            except ILL_SHAPED as error:
                self._report_wrong_shape(event, error)
        return self._parts

    def finish_parts(self) -> list[HostPart]:
        """Returns the parts after the last event."""
        self._parts = []
        self.finish()
        return self._parts

    def _write_part(self, part: Part) -> None:
        if type(part) is TextPart:
            text = part.value
            self._parts.append(part if text.isascii() else TextPart(_replace_surrogates(text), part.refusal))
        elif isinstance(part, ThinkingPart | ToolCallPart | DataPart):
            self._parts.append(part)

    def _write_thinking(self, event: ev.ReasoningDelta) -> None:
        self._parts.append(ThinkingPart(_replace_surrogates(event.text), self._round.states[event.index].id))

    def _write_call(self, id: str, name: str, arguments: str, extra: Any) -> None:
        value: Any = decode_unless_too_deep(arguments)
        if not isinstance(value, dict):
            self.diagnostics.add("too-deep", f"the input of {name!r} nests too deeply for an object; it is one string")
            value = {RAW_INPUT_KEY: arguments}
        self._parts.append(ToolCallPart(id, name, value, extra))  # pyright: ignore[reportUnknownArgumentType]

    def _write_finish(self, event: ev.Finish) -> None:
        self.last_finish = event
        super()._write_finish(event)

    def _write_fault(self, event: ev.Fault) -> None:
        self.last_fault = event
        super()._write_fault(event)

    def _write_call_cut(self, event: ev.CallCut) -> None:
        self.cut_calls.append(event)
        super()._write_call_cut(event)

    def _end_turn(self) -> None:
        super()._end_turn()
        usage = wire.total_usage(self.usages)
        if usage is not None:
            self.turn_usages.append(usage)

    def _write_unknown(self, event: ev.Unknown) -> None:
        self.report_loss("unknown")


def _replace_surrogates(text: str) -> str:
    """Returns the text without lone surrogates, which UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
