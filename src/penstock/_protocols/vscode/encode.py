"""Events → VS Code reply parts as NDJSON lines, which a thin client turns into the real classes.

A call is written once, when it is complete. Text is written at once, also while a call is open. Options decide about
reasoning, citations and the prefix of call ids. docs/vscode-parts.md describes the lines.
"""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import events as ev
from penstock._codec import Encoder, lost, nothing
from penstock._diagnostics import read_losses
from penstock._media import contradicts
from penstock._protocols.vscode import encode_parts, wire
from penstock._protocols.vscode.encode_parts import HOST, Calls, Citations, Reasoning, as_object, call_line
from penstock._protocols.vscode.thinking import Round
from penstock._protocols.vscode.wire import DataPart, ErrorPart, Part, TextPart, ThinkingPart, encoded
from penstock._text_runs import NO_TEMPLATE, FrameTemplate, TextRun, expand_runs, merge_runs
from penstock._transforms.citations import CitationLinks
from penstock._transforms.serialize import SerializeTexts
from penstock._transforms.tool_names import PREFIX, Namespace

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from penstock._framing.frame import Frame
    from penstock.events import AnyEvent, Reason

LOSSES = read_losses(__name__, "answers")
NAME = "vscode"
_encode = msgspec.json.Encoder().encode
_TEXT = (b'{"kind":"text","value":', b"}")


class VSCodeEncoder(Encoder):
    """State of the turn: reasoning, open files, muted parts, usage by step, whether anything is visible yet."""

    protocol = NAME
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
        encode_parts.check(
            "the encoder of vscode", host=host, reasoning=reasoning, citations=citations, call_id_prefix=call_id_prefix
        )
        self._default = (id, model, created)
        self._renames = renames
        self._host = frozenset(host)
        self._reasoning = encode_parts.reasoning_mode(reasoning, host)
        self.names = Namespace(call_id_prefix or "", reserved=encode_parts.RESERVED)
        keep = citations == "both" and "data" in host
        self._links = None if citations == "data" else CitationLinks(keep=keep, diagnostics=self.diagnostics)
        self._voices = SerializeTexts()
        self._calls = Calls(self.diagnostics)
        self._muted: set[int] = set()
        self._begin()

    def _begin(self) -> None:
        self.shown = False  # a reply must have text or a call
        self.usages: dict[int, ev.Usage] = {}
        self._texts = 0
        self.template = NO_TEMPLATE
        self._aloud = -1  # the reasoning part that was last written as text
        self._round = Round()
        self._tails: dict[int, bytes] = {}
        self._files = encode_parts.Files()
        self._calls.begin()
        self._muted.clear()

    def feed(self, events: Sequence[Any], /) -> list[Any]:
        """Skips the transforms for a batch that only continues one text; the citation links still see it."""
        if not self._voices.idle or (self._links is not None and not self._links.idle):
            return super().feed(self.shaped(expand_runs(events)))
        template = self.template
        for event in events:
            kind: Any = event.kind if type(event) is TextRun else type(event)  # pyright: ignore[reportUnknownVariableType]
            if kind is not template.kind or event.index != template.index:
                return super().feed(self.shaped(expand_runs(events)))
        if self._links is not None and template.kind is ev.TextDelta:
            self._links.hear(merge_runs(events))
        return super().feed(events)

    def finish(self) -> list[Frame]:
        return super().feed(self._links.finish()) if self._links else []

    def shaped(self, events: Sequence[AnyEvent]) -> Sequence[Any]:
        """Returns the events with one text at a time, and with citation links if wanted."""
        spoken = self._voices.feed(events)
        return spoken if self._links is None else self._links.feed(spoken)

    def put(self, part: Part) -> None:
        self.out.append((b"", encoded(part)))

    def _mute(self, event: Any, loss: str = "choice") -> None:
        """Leaves out the part that starts here."""
        self.report_loss(loss)
        self._muted.add(event.index)

    # ── the turn ──────────────────────────────────────────────────────────────────────────────────

    def _start(self, event: ev.Start) -> None:
        self._begin()
        default, model, created = self._default
        when = created if event.created is None else event.created
        name = default if self._renames and default else event.id or default
        self.put(wire.Start(wire.VERSION, name, event.model or model, when, self.names.prefix))

    def _usage(self, event: ev.Usage) -> None:
        self.usages[event.step] = event

    def _settle(self) -> None:
        """Writes usage and reports losses, before a finish or a fault."""
        if self._links is not None and self._links.linked:
            self.report_loss("links")
        if len(self.usages.keys() - {0}) > 1:
            self.report_loss("steps")
        said = wire.usage_line(self.usages)
        if said is not None:
            self.put(said)

    def _finish(self, event: ev.Finish) -> None:
        self._settle()
        if event.others:
            self.report_loss("choice")
        self.put(wire.End(event.reason, event.raw, "" if self.shown else EMPTY[event.reason]))

    def _fault(self, event: ev.Fault) -> None:
        self._settle()
        self.put(ErrorPart(event.kind, event.message, event.status, event.code, event.request_id, event.retry_after))

    # ── text ──────────────────────────────────────────────────────────────────────────────────────

    def _text_start(self, event: ev.TextStart | ev.RefusalStart) -> None:
        if event.choice:
            self._mute(event)
        elif self._texts:
            self.report_loss("bounds")
        self._texts += not event.choice
        if event.extra:
            self.report_loss("text-state")

    def _text(self, event: ev.TextDelta) -> None:
        if event.index in self._muted:
            return
        if event.logprobs is not None:
            self.report_loss("logprobs")
        self._say(event.text)
        if self._reasoning != "text":  # else reasoning may come between two deltas
            self.template = FrameTemplate(ev.TextDelta, event.index, b"", *_TEXT)

    def _refusal(self, event: ev.RefusalDelta) -> None:
        if event.index not in self._muted:
            self._say(event.text, refusal=True)

    def _say(self, text: str, *, refusal: bool = False, thought: int = -1) -> None:
        """Writes text. Reasoning that is written as text is a separate paragraph."""
        if self.shown and thought != self._aloud:
            self.put(TextPart("\n\n"))
        self._aloud = thought
        self.shown = True
        self.put(TextPart(text, refusal))

    def _text_end(self, event: ev.TextEnd | ev.RefusalEnd) -> None:
        if event.extra:
            self.report_loss("text-state")

    # ── reasoning ─────────────────────────────────────────────────────────────────────────────────

    def _reasoning_start(self, event: ev.ReasoningStart) -> None:
        if event.choice:
            self._mute(event)
            return
        if self._reasoning == "drop":
            self.report_loss("reasoning")
        self._round.open(event)
        self._tails[event.index] = b',"id":%b}' % encoded(event.item) if event.item else b"}"

    def _reasoning_delta(self, event: ev.ReasoningDelta) -> None:
        if event.index in self._muted or self._reasoning == "drop":
            return
        if self._reasoning == "text":
            text = event.text if self._round.said(event.index) else "[Thinking] " + event.text
            self._say(text, thought=event.index)
        else:
            self._think(event)
        self._round.say(event.index, event.text)

    def _think(self, event: ev.ReasoningDelta) -> None:
        self.out.append((b"", b'{"kind":"thinking","value":%b%b' % (encoded(event.text), self._tails[event.index])))

    def _reasoning_end(self, event: ev.ReasoningEnd) -> None:
        if event.index in self._muted or event.broken:
            return
        self._round.close(event.index, event.extra)
        if self._round.stateful and self._reasoning == "thinking":
            self.put(ThinkingPart("", self._round.thoughts[event.index].id, self._round.metadata()))
        elif self._round.stateful:
            self.report_loss("reasoning-state")

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def _call_start(self, event: ev.CallStart) -> None:
        if event.choice or event.by == "provider":
            self._mute(event, "choice" if event.choice else "provider-call")

    def _call_end(self, event: ev.CallEnd) -> None:
        if event.index in self._muted:
            return
        if "tool-call" not in self._host:
            self.report_loss("call")
        elif self._calls.first(event):
            self.shown = True
            given, wrapped = as_object(event)
            for loss in ("order" if self._calls.late(event) else "", wrapped):
                if loss:
                    self.report_loss(loss)
            self._deliver(self.names.name(event.id), event.name, given, event.extra)

    def _deliver(self, id: str, name: str, given: str, extra: Any) -> None:
        self.out.append((b"", call_line(id, name, given, extra)))

    def _call_cut(self, event: ev.CallCut) -> None:
        if event.index not in self._muted:
            self.diagnostics.add("call-cut", f"call {event.id!r} of {event.name!r} was cut short and is not delivered")
            self.put(wire.Cut(self.names.name(event.id), event.name, event.json))

    # ── files, sources, data ──────────────────────────────────────────────────────────────────────

    def _file_start(self, event: ev.FileStart) -> None:
        if event.choice:
            self._mute(event)
        else:
            self._files.open(event)

    def _file_end(self, event: ev.FileEnd) -> None:
        if event.index in self._muted:
            return
        part, link = self._files.close(event.index)
        if part is not None and contradicts(part.mime_type, b64encode(part.data[:48]).decode()):
            self.diagnostics.add("media-bytes", f"a file labelled {part.mime_type!r} does not begin like one")
        if event.broken:
            self.report_loss("cut-file")
        elif part is not None and "data" in self._host:
            self.put(part)
        elif link:
            self.report_loss("file-link")
            self._say(f"\n\n{link}\n\n" if self.shown else f"{link}\n\n")
        else:
            self.report_loss("file" if part is None else "data")

    def _source(self, event: ev.Source) -> None:
        if event.of is not None:
            self.report_loss("span")
        self._json("source", encode_parts.citation(event), encode_parts.CITATION)

    def _data(self, event: ev.Data) -> None:
        if event.id or event.transient:
            self.report_loss("data-id")
        mime = f"application/vnd.vercel.{encode_parts.mime_word(event.name.removeprefix('data-'))}+json"
        self._json("data", msgspec.Raw(event.json.encode("utf-8", "replace")), mime)

    def _json(self, loss: str, value: Any, mime: str) -> None:
        if "data" in self._host:
            self.put(DataPart.json(value, mime))
        else:
            self.report_loss(loss)

    def _unknown(self, event: ev.Unknown) -> None:
        if event.protocol == NAME:
            self.out.append((b"", event.data.encode("utf-8", "replace")))
        else:
            self.report_loss("unknown")

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        ev.Start: _start,
        ev.Step: nothing,
        ev.TextStart: _text_start,
        ev.TextDelta: _text,
        ev.TextEnd: _text_end,
        ev.RefusalStart: _text_start,
        ev.RefusalDelta: _refusal,
        ev.RefusalEnd: _text_end,
        ev.ReasoningStart: _reasoning_start,
        ev.ReasoningDelta: _reasoning_delta,
        ev.ReasoningEnd: _reasoning_end,
        ev.CallStart: _call_start,
        ev.CallDelta: nothing,
        ev.CallEnd: _call_end,
        ev.CallCut: _call_cut,
        ev.FileStart: _file_start,
        ev.FileDelta: lambda self, event: self._files.add(event),
        ev.FileEnd: _file_end,
        ev.Result: lost("provider-call"),
        ev.Ask: lost("approval"),
        ev.Source: _source,
        ev.Opaque: lost("opaque"),
        ev.Data: _data,
        ev.Usage: _usage,
        ev.Finish: _finish,
        ev.Fault: _fault,
        ev.Unknown: _unknown,
    }


EMPTY: dict[Reason, str] = {
    "stop": "The model ended its turn without an answer.",
    "length": "The model reached its output limit before it had written an answer.",
    "calls": "The model called tools, and none of the calls can be run here.",
    "filter": "A content filter withheld the answer.",
    "refusal": "The model declined to answer.",
    "pause": "The model paused before it had written an answer; ask it to go on.",
    "other": "The model gave no answer, and no known reason for it.",
}
