"""What the page is sent, as Structs: frames, events, outputs, marks. docs/inspector.md has the form.

Made from a tracer's steps, as many as are new each time. Long texts are cut here, and only here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from penstock import events as ev
from penstock.inspector.rows import Row

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.diagnostics import Diagnostic
    from penstock.tracing import Step, Tracer

VERSION = 1
LONG = 64 * 1024  # letters of one frame that are sent; all of it is an address of its own
ROOM = 24 * 2**20  # letters of all frames and outputs together; those beyond it are cut to
SHORT = 256  # letters
FILE = 8 * 2**20  # letters of a file's data
Level: TypeAlias = Literal["info", "warning", "error"]


class Frame(msgspec.Struct, omit_defaults=True, gc=False):
    """A frame of the upstream. `t`: seconds since the turn began."""

    t: float | None
    name: str
    data: str
    size: int
    cut: bool = False


class Event(msgspec.Struct, gc=False):
    """A canonical event; `frame` None: the end of input brought it about."""

    frame: int | None
    type: str
    body: Any


class Output(msgspec.Struct, omit_defaults=True, gc=False):
    """What the consumer got. `event`: what it says. `frame`: what had come when it left."""

    event: int | None
    frame: int | None
    name: str
    data: str
    size: int
    cut: bool = False


class Mark(msgspec.Struct, gc=False):
    """A finding, a loss or a fault, and where."""

    level: Level
    code: str
    message: str
    frame: int | None = None
    event: int | None = None
    output: int | None = None


class Additions(msgspec.Struct):
    """What is new."""

    frames: list[Frame]
    events: list[Event]
    outputs: list[Output]
    marks: list[Mark]
    done: bool


class Trace(Additions, kw_only=True, omit_defaults=True):
    """A turn, or a file, as one consumer sees it. `lost`: what is missing, and why."""

    version: int = 0
    row: Row | None
    title: str
    protocol: str
    consumer: str
    consumers: list[str]
    timed: bool
    request: str
    lost: str = ""
    note: str = ""
    same: str = ""  # in an export: the consumer whose trace has the frames and events


class Shown:
    """A tracer's steps as the page wants them. `more` gives what is new since the last time."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._places: list[int] = []  # a step's number → where it stands among its kind,
        self._frames: list[int | None] = []  # and the frame that it goes back to
        self._counts: dict[str, int] = {"frame": 0, "event": 0, "output": 0}
        self._found = 0
        self._room = ROOM

    def more(self, *, done: bool = False) -> Additions:
        """What was traced since the last time. `done`: there will be no more."""
        made = Additions([], [], [], [], done)
        for step in self._tracer.steps[len(self._places) :]:
            self._add(made, step)
        found = self._tracer.findings
        made.marks += [self._mark(finding.row, finding.step) for finding in found[self._found :]]
        self._found = len(found)
        if done:
            made.marks += [_total(finding.row) for finding in found if finding.row.count > 1]
        return made

    def _add(self, made: Additions, step: Step) -> None:
        kind, cause = step.kind, step.cause
        place = self._counts[kind]
        self._counts[kind] += 1
        frame = place if kind == "frame" else None if cause is None else self._frames[cause]
        self._places.append(place)
        self._frames.append(frame)
        if kind == "event":
            event: ev.Event = step.item
            made.events.append(Event(frame, str(event.__struct_config__.tag), _bounded(event)))
            said = _SAYING.get(type(event))
            if said is not None:
                made.marks.append(Mark(*said(event), frame=frame, event=place))
            return
        name, data, size, cut = self._text(step.item)
        if kind == "frame":
            made.frames.append(Frame(step.at, name, data, size, cut))
        else:
            of = None if step.of is None else self._places[step.of]
            made.outputs.append(Output(of, frame, name, data, size, cut))

    def _text(self, frame: tuple[bytes, bytes]) -> tuple[str, str, int, bool]:
        text = frame[1].decode("utf-8", "replace")
        most = LONG if self._room > 0 else SHORT
        cut = len(text) > most
        if cut:
            text = text[:most]
        self._room -= len(text)
        return frame[0].decode("utf-8", "replace")[:SHORT], text, len(frame[1]), cut

    def _mark(self, row: Diagnostic, number: int | None) -> Mark:
        mark = Mark("info" if row.code.startswith("loss-") else "warning", row.code, row.message)
        if number is not None:
            setattr(mark, self._tracer.steps[number].kind, self._places[number])
            mark.frame = self._frames[number]
        return mark


def _bounded(event: ev.Event) -> ev.Event:
    """An event as it is, but for more of a file than anybody would look at."""
    if type(event) is ev.FileDelta and len(event.data) > FILE:
        return ev.FileDelta(event.index, event.data[:FILE])
    return event


def _total(row: Diagnostic) -> Mark:
    return Mark("info", row.code, f"{row.message} ({row.count:,} times in all)")


def _fault(event: ev.Fault) -> tuple[Level, str, str]:
    return "error", event.kind, event.message


def _unknown(event: ev.Unknown) -> tuple[Level, str, str]:
    return "info", "unknown", f"{event.name or 'a payload'} has no canonical word: it is kept as it is"


def _cut(event: ev.CallCut) -> tuple[Level, str, str]:
    return "warning", "call-cut", f"the call of {event.name or 'a tool'} never became whole: nobody may run it"


# What an event says about itself.
_SAYING: dict[type, Callable[[Any], tuple[Level, str, str]]] = {
    ev.Fault: _fault, ev.Unknown: _unknown, ev.CallCut: _cut,
}  # fmt: skip
