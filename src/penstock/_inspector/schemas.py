"""What the inspector's page gets: frames, events, outputs, marks and rows of turns. docs/inspector-api.md describes it.

`TraceFormatter` makes them from the steps of a tracer. Only here are long texts cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from penstock import events as ev
from penstock._gateway.client_names import name_client
from penstock._gateway.turn_columns import refusal_columns
from penstock._inspector.turn_endings import FaultParty
from penstock._redaction import redact, redact_range
from penstock._store.journal import JournalEntry, TurnFacts
from penstock._store.turn_states import turn_warning

if TYPE_CHECKING:
    from penstock._diagnostics import Diagnostic
    from penstock._gateway.turn import ActiveTurn
    from penstock._stream_trace import Tracer, TraceStep

VERSION = 1
MAX_FRAME_CHARACTERS = 64 * 1024  # of one frame; a route of its own returns the whole frame
MAX_TRACE_CHARACTERS = 24 * 2**20  # of all frames and outputs; later ones are cut to MIN_FRAME_CHARACTERS
MIN_FRAME_CHARACTERS = 256
MAX_FILE_CHARACTERS = 8 * 2**20  # of a file's data
Level: TypeAlias = Literal["info", "warning", "error"]


class FrameRow(msgspec.Struct, omit_defaults=True, gc=False):
    """A frame of the provider. `t`: seconds since the turn began."""

    t: float | None
    name: str
    data: str
    size: int
    cut: bool = False


class EventRow(msgspec.Struct, gc=False):
    """A canonical event. `frame` is None if the end of the input caused it."""

    frame: int | None
    type: str
    body: Any


class OutputRow(msgspec.Struct, omit_defaults=True, gc=False):
    """A frame that the consumer got. `event`: the event it encodes. `frame`: the last frame received before it."""

    event: int | None
    frame: int | None
    name: str
    data: str
    size: int
    cut: bool = False


class MarkRow(msgspec.Struct, gc=False):
    """A diagnostic, a loss or a fault, and where it belongs."""

    level: Level
    code: str
    message: str
    frame: int | None = None
    event: int | None = None
    output: int | None = None


class TraceUpdate(msgspec.Struct):
    """What is new in a trace. `progress`: the share of the bytes that are traced so far, if more are waiting.

    `fault_by`: who made the error that ended the turn; empty if there is none, or that is not known.
    """

    frames: list[FrameRow]
    events: list[EventRow]
    outputs: list[OutputRow]
    marks: list[MarkRow]
    done: bool
    progress: float = 1.0
    fault_by: FaultParty = ""


class Trace(TraceUpdate, kw_only=True, omit_defaults=True):
    """A turn or a file as one consumer sees it.

    `lost`: what is missing, and why. `request_lost`: why the request is not there as a whole.
    """

    version: int = 0
    row: TurnRow | None
    title: str
    protocol: str
    consumer: str
    consumers: list[str]
    timed: bool
    request: str
    request_lost: str = ""
    lost: str = ""
    note: str = ""
    same: str = ""  # in an export: the consumer whose trace has the frames and events
    breakdown: PromptBreakdown | None = None  # in an export


class PromptLine(msgspec.Struct, omit_defaults=True):
    """One line: a message, or another part of the prompt. `about` is how a message begins."""

    what: str
    kind: str
    tokens: int
    share: float
    low: int
    high: int
    method: str
    message: int | None = None
    about: str = ""


class PromptBreakdown(msgspec.Struct):
    """A prompt line by line. `actual`: what the provider counted. `lost`: why there are no lines.

    `uncertain`: how often the request has something that can only be guessed, by kind.
    """

    model: str = ""
    provider: str = ""
    family: str = ""
    tokens: int = 0
    low: int = 0
    high: int = 0
    method: str = ""
    confidence: float = 0.0
    actual: int | None = None
    uncertain: dict[str, int] = {}
    lines: list[PromptLine] = []
    lost: str = ""


class TraceFormatter:
    """Formats the steps of a tracer for the page. `take_update` returns what is new since the last call.

    `secrets` are removed from texts that are cut. The sender of the result removes them from all others.
    """

    def __init__(self, tracer: Tracer, secrets: tuple[str, ...] = ()) -> None:
        self._tracer, self._secrets = tracer, secrets
        self._places: list[int] = []  # step → its index among the steps of its kind
        self._frames: list[int | None] = []  # step → the frame that caused it
        self._counts: dict[str, int] = {"frame": 0, "event": 0, "output": 0}
        self._finding_count = 0
        self._characters_left = MAX_TRACE_CHARACTERS

    def take_update(self, *, done: bool = False) -> TraceUpdate:
        """Returns what was traced since the last call. `done`: there will be no more."""
        update = TraceUpdate([], [], [], [], done)
        for step in self._tracer.steps[len(self._places) :]:
            self._add_step(update, step)
        findings = self._tracer.findings
        update.marks += [self._mark(finding.row, finding.step) for finding in findings[self._finding_count :]]
        self._finding_count = len(findings)
        repeated = [finding.row for finding in findings if finding.row.count > 1] if done else []
        update.marks += [MarkRow("info", row.code, f"{row.message} ({row.count:,} times in all)") for row in repeated]
        return update

    def _add_step(self, update: TraceUpdate, step: TraceStep) -> None:
        kind, cause = step.kind, step.cause
        place = self._counts[kind]
        self._counts[kind] += 1
        frame = place if kind == "frame" else None if cause is None else self._frames[cause]
        self._places.append(place)
        self._frames.append(frame)
        if kind == "event":
            event: ev.Event = step.item
            update.events.append(EventRow(frame, str(event.__struct_config__.tag), _limit_file_data(event)))
            if description := _describe_event(event):
                update.marks.append(MarkRow(*description, frame=frame, event=place))
            return
        name, data, size, cut = self._text(step.item)
        if kind == "frame":
            update.frames.append(FrameRow(step.at, name, data, size, cut))
        else:
            of = None if step.of is None else self._places[step.of]
            update.outputs.append(OutputRow(of, frame, name, data, size, cut))

    def _text(self, frame: tuple[bytes, bytes]) -> tuple[str, str, int, bool]:
        text = frame[1].decode("utf-8", "replace")
        limit = MAX_FRAME_CHARACTERS if self._characters_left > 0 else MIN_FRAME_CHARACTERS
        cut = len(text) > limit
        if cut:  # half of a secret would not be recognised
            text = redact_range(text, 0, limit, self._secrets)
        self._characters_left -= len(text)
        return frame[0].decode("utf-8", "replace")[:MIN_FRAME_CHARACTERS], text, len(frame[1]), cut

    def _mark(self, row: Diagnostic, number: int | None) -> MarkRow:
        mark = MarkRow("info" if row.code.startswith("loss-") else "warning", row.code, row.message)
        if number is not None:
            setattr(mark, self._tracer.steps[number].kind, self._places[number])
            mark.frame = self._frames[number]
        return mark


def _limit_file_data(event: ev.Event) -> ev.Event:
    """Returns the event; the data of a very large file is cut."""
    if type(event) is ev.FileDelta and len(event.data) > MAX_FILE_CHARACTERS:
        return ev.FileDelta(event.index, event.data[:MAX_FILE_CHARACTERS])
    return event


def _describe_event(event: ev.Event) -> tuple[Level, str, str] | None:
    """Returns the level, code and message of the mark that an event gets, if any."""
    match event:
        case ev.Fault():
            return "error", event.kind, event.message
        case ev.Unknown():
            return "info", "unknown", f"{event.name or 'a payload'} has no canonical word: it is kept as it is"
        case ev.CallCut():
            message = f"the call of {event.name or 'a tool'} never became whole: nobody may run it"
            return "warning", "call-cut", message
        case _:
            return None


TurnState: TypeAlias = Literal["open", "streaming", "finish", "fault", "cancelled", "refused"]


class TurnRow(TurnFacts, frozen=True, kw_only=True, omit_defaults=False):
    """A turn in the list. `held`: its frames can be shown."""

    id: str
    decisions: list[str]
    state: TurnState
    message: str = ""
    duration: float | None = None
    rate: float | None = None  # tokens per second
    warning: str = ""  # why a turn that ended by itself did not end well: length, filter, refusal or malformed
    tries: int = 0
    bytes: int | None = None  # of the answer
    last_byte: float | None = None  # of a running turn: when it came, in seconds since the epoch
    held: bool

    @property
    def searchable_text(self) -> str:
        """All texts that come from outside: they may hold secrets."""
        texts = (self.client, self.route, self.key, self.asked, self.model, self.provider, self.fault, self.message)
        return "\0".join((*texts, self.agent, self.tools, *self.decisions))


_COPIED = (*TurnFacts.__struct_fields__, "duration")
"""Columns of the journal that the list shows unchanged."""


def row_from_journal(turn: JournalEntry, *, held: bool) -> TurnRow:
    """Returns the row of a finished turn."""
    copied: dict[str, Any] = {name: getattr(turn, name) for name in _COPIED}
    return TurnRow(
        id=turn.request_id,
        decisions=turn.decisions.splitlines(),
        state=turn.status,
        message=redact(turn.fault_message) if turn.fault_message else "",
        rate=_tokens_per_second(turn),
        warning=turn_warning(turn) if turn.status == "finish" else "",
        tries=turn.tries,
        bytes=turn.bytes_out,
        held=held,
        **copied,
    )


def row_from_turn(turn: ActiveTurn, time: float, *, held: bool) -> TurnRow:
    """Returns the row of a running turn that began at this time."""
    incoming, requested, reply = turn.incoming, turn.turn_request, turn.reply
    client, agent = name_client(incoming)
    usage, record = (reply.usage, reply.record) if reply is not None else (None, turn.decisions)
    known: dict[str, Any] = {name: getattr(reply, name, "") for name in ("model", "provider", "engine")}
    if reply is None:  # the one that is asked, as in the row of a turn that nobody answered
        known |= {name: value for name, value in refusal_columns(record, ()).items() if name in known}
    known |= {name: getattr(usage, name, None) for name in ("input", "output", "cached", "reasoning")}
    return TurnRow(
        id=incoming.id,
        time=time,
        client=client,
        agent=agent,
        route=incoming.path,
        key=incoming.caller.key,
        asked=requested.request.model if requested else "",
        decisions=record.lines() if record is not None else [],
        protocol=requested.protocol if requested else turn.endpoint.protocol,
        upstream=reply.protocol if reply is not None else "",
        operation=requested.operation if requested else "",
        stream=bool(requested and requested.request.stream),
        tee=turn.passthrough,
        state="open" if reply is None else "streaming",
        http=turn.status,
        ttft=turn.first_content if reply is not None else None,
        held=held,
        malformed=turn.malformed,
        **known,
    )


MIN_RATE_SECONDS = 0.5  # after the first content: a shorter answer came in a burst, and has no rate
MIN_RATE_TOKENS = 10


def _tokens_per_second(turn: JournalEntry) -> float | None:
    """Returns the tokens per second after the first content; None if the answer is too short to tell."""
    seconds = turn.duration - (turn.ttft or 0.0)
    if turn.output is None or not turn.stream or turn.status == "refused":
        return None
    if seconds < MIN_RATE_SECONDS or turn.output < MIN_RATE_TOKENS:
        return None
    return round(turn.output / seconds, 1)
