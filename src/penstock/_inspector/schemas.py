"""What the page is sent, as Structs: frames, events, outputs, marks. docs/inspector.md has the form.

Made from a tracer's steps, as many as are new each time. Long texts are cut here, and only here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from penstock import events as ev
from penstock._redaction import redact
from penstock._store.journal import JournalEntry, TurnFacts

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._diagnostics import Diagnostic
    from penstock._gateway.turn import ActiveTurn as Going
    from penstock._tracing import Step, Tracer

VERSION = 1
MAX_FRAME_CHARACTERS = 64 * 1024  # letters of one frame that are sent; all of it is an address of its own
MAX_TRACE_CHARACTERS = 24 * 2**20  # letters of all frames and outputs together; those beyond it are cut to
MIN_FRAME_CHARACTERS = 256  # letters
MAX_FILE_CHARACTERS = 8 * 2**20  # letters of a file's data
Level: TypeAlias = Literal["info", "warning", "error"]


class FrameRow(msgspec.Struct, omit_defaults=True, gc=False):
    """A frame of the upstream. `t`: seconds since the turn began."""

    t: float | None
    name: str
    data: str
    size: int
    cut: bool = False


class EventRow(msgspec.Struct, gc=False):
    """A canonical event; `frame` None: the end of input brought it about."""

    frame: int | None
    type: str
    body: Any


class OutputRow(msgspec.Struct, omit_defaults=True, gc=False):
    """What the consumer got. `event`: what it says. `frame`: what had come when it left."""

    event: int | None
    frame: int | None
    name: str
    data: str
    size: int
    cut: bool = False


class MarkRow(msgspec.Struct, gc=False):
    """A finding, a loss or a fault, and where."""

    level: Level
    code: str
    message: str
    frame: int | None = None
    event: int | None = None
    output: int | None = None


class TraceUpdate(msgspec.Struct):
    """What is new."""

    frames: list[FrameRow]
    events: list[EventRow]
    outputs: list[OutputRow]
    marks: list[MarkRow]
    done: bool


class Trace(TraceUpdate, kw_only=True, omit_defaults=True):
    """A turn, or a file, as one consumer sees it. `lost`: what is missing, and why."""

    version: int = 0
    row: TurnRow | None
    title: str
    protocol: str
    consumer: str
    consumers: list[str]
    timed: bool
    request: str
    lost: str = ""
    note: str = ""
    same: str = ""  # in an export: the consumer whose trace has the frames and events


class TraceFormatter:
    """A tracer's steps as the page wants them. `more` gives what is new since the last time."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._places: list[int] = []  # a step's number → where it stands among its kind,
        self._frames: list[int | None] = []  # and the frame that it goes back to
        self._counts: dict[str, int] = {"frame": 0, "event": 0, "output": 0}
        self._found = 0
        self._room = MAX_TRACE_CHARACTERS

    def take_update(self, *, done: bool = False) -> TraceUpdate:
        """What was traced since the last time. `done`: there will be no more."""
        made = TraceUpdate([], [], [], [], done)
        for step in self._tracer.steps[len(self._places) :]:
            self._add_step(made, step)
        found = self._tracer.findings
        made.marks += [self._mark(finding.row, finding.step) for finding in found[self._found :]]
        self._found = len(found)
        if done:
            made.marks += [_repeat_mark(finding.row) for finding in found if finding.row.count > 1]
        return made

    def _add_step(self, made: TraceUpdate, step: Step) -> None:
        kind, cause = step.kind, step.cause
        place = self._counts[kind]
        self._counts[kind] += 1
        frame = place if kind == "frame" else None if cause is None else self._frames[cause]
        self._places.append(place)
        self._frames.append(frame)
        if kind == "event":
            event: ev.Event = step.item
            made.events.append(EventRow(frame, str(event.__struct_config__.tag), _limit_file_data(event)))
            said = _DESCRIBE.get(type(event))
            if said is not None:
                made.marks.append(MarkRow(*said(event), frame=frame, event=place))
            return
        name, data, size, cut = self._text(step.item)
        if kind == "frame":
            made.frames.append(FrameRow(step.at, name, data, size, cut))
        else:
            of = None if step.of is None else self._places[step.of]
            made.outputs.append(OutputRow(of, frame, name, data, size, cut))

    def _text(self, frame: tuple[bytes, bytes]) -> tuple[str, str, int, bool]:
        text = frame[1].decode("utf-8", "replace")
        most = MAX_FRAME_CHARACTERS if self._room > 0 else MIN_FRAME_CHARACTERS
        cut = len(text) > most
        if cut:
            text = text[:most]
        self._room -= len(text)
        return frame[0].decode("utf-8", "replace")[:MIN_FRAME_CHARACTERS], text, len(frame[1]), cut

    def _mark(self, row: Diagnostic, number: int | None) -> MarkRow:
        mark = MarkRow("info" if row.code.startswith("loss-") else "warning", row.code, row.message)
        if number is not None:
            setattr(mark, self._tracer.steps[number].kind, self._places[number])
            mark.frame = self._frames[number]
        return mark


def _limit_file_data(event: ev.Event) -> ev.Event:
    """An event as it is, but for more of a file than anybody would look at."""
    if type(event) is ev.FileDelta and len(event.data) > MAX_FILE_CHARACTERS:
        return ev.FileDelta(event.index, event.data[:MAX_FILE_CHARACTERS])
    return event


def _repeat_mark(row: Diagnostic) -> MarkRow:
    return MarkRow("info", row.code, f"{row.message} ({row.count:,} times in all)")


def _describe_fault(event: ev.Fault) -> tuple[Level, str, str]:
    return "error", event.kind, event.message


def _describe_unknown(event: ev.Unknown) -> tuple[Level, str, str]:
    return "info", "unknown", f"{event.name or 'a payload'} has no canonical word: it is kept as it is"


def _describe_cut_call(event: ev.CallCut) -> tuple[Level, str, str]:
    return "warning", "call-cut", f"the call of {event.name or 'a tool'} never became whole: nobody may run it"


# What an event says about itself.
_DESCRIBE: dict[type, Callable[[Any], tuple[Level, str, str]]] = {
    ev.Fault: _describe_fault,
    ev.Unknown: _describe_unknown,
    ev.CallCut: _describe_cut_call,
}


TurnState: TypeAlias = Literal["open", "streaming", "finish", "fault", "cancelled", "refused"]


class TurnRow(TurnFacts, frozen=True, kw_only=True, omit_defaults=False):
    """A turn in the list. `held`: its frames can be shown."""

    id: str
    decisions: list[str]
    state: TurnState
    message: str = ""
    duration: float | None = None
    rate: float | None = None  # tokens per second
    held: bool

    @property
    def searchable_text(self) -> str:
        """All in it that others have written."""
        texts = (self.client, self.route, self.key, self.asked, self.model, self.provider, self.fault, self.message)
        return "\0".join((*texts, *self.decisions))


_COPIED = (*TurnFacts.__struct_fields__, "duration")
"""Columns of the journal that the list shows unchanged."""


def row_from_journal(turn: JournalEntry, *, held: bool) -> TurnRow:
    """Return the row of a finished turn."""
    copied: dict[str, Any] = {name: getattr(turn, name) for name in _COPIED}
    return TurnRow(
        id=turn.request_id,
        decisions=turn.decisions.splitlines(),
        state=turn.status,
        message=redact(turn.fault_message) if turn.fault_message else "",
        rate=_tokens_per_second(turn),
        held=held,
        **copied,
    )


def row_from_turn(turn: Going, time: float, *, held: bool) -> TurnRow:
    """Return the row of a running turn that began at this time."""
    visit, asked, reply = turn.incoming, turn.turn_request, turn.reply
    usage = reply.usage if reply is not None else None
    known: dict[str, Any] = {name: getattr(reply, name, "") for name in ("model", "provider", "engine")}
    known |= {name: getattr(usage, name, None) for name in ("input", "output", "cached", "reasoning")}
    return TurnRow(
        id=visit.id,
        time=time,
        client=visit.client.name,
        route=visit.path,
        key=visit.caller.key,
        asked=asked.request.model if asked else "",
        decisions=reply.record.lines() if reply is not None else [],
        protocol=asked.protocol if asked else turn.endpoint.protocol,
        upstream=reply.protocol if reply is not None else "",
        operation=asked.operation if asked else "",
        stream=bool(asked and asked.request.stream),
        tee=turn.passthrough,
        state="open" if reply is None else "streaming",
        http=turn.status,
        ttft=turn.first_content if reply is not None else None,
        held=held,
        malformed=turn.malformed,
        **known,
    )


def _tokens_per_second(turn: JournalEntry) -> float | None:
    """Tokens a second, once they began to come."""
    spent = turn.duration - (turn.ttft or 0.0)
    if turn.output is None or not turn.stream or turn.status == "refused" or spent <= 0:
        return None
    return round(turn.output / spent, 1)
