"""What a display shows of an answer, a run or a stream: its steps, and in each one the parts, calls, tokens and cost.

Texts are cut to a bound while they are collected, so that the view of a huge answer stays small.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from penstock import events as ev
from penstock._aisdk import SDK
from penstock._printable_text import reveal_controls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

TEXT_CHARACTERS = 20_000  # of one text that are kept
REASONING_CHARACTERS = 10_000
CALL_CHARACTERS = 2_000  # of a call's input, and of its result
NAME_CHARACTERS = 120  # of a model, a tool, a title
URL_CHARACTERS = 300
PICTURE_CHARACTERS = 4 * 2**20  # base64 of all pictures
ROWS_SHOWN = 200  # of one step
STEPS_SHOWN = 100
PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})

RowKind: TypeAlias = Literal["text", "refusal", "reasoning", "call", "file", "source"]
_BOUNDS: dict[RowKind, int] = {"reasoning": REASONING_CHARACTERS, "call": CALL_CHARACTERS, "source": URL_CHARACTERS}
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def shorten(text: str, length: int) -> str:
    """Returns the text on one line, cut to a length. Controls are visible."""
    words = reveal_controls(" ".join(text[: 4 * length].split()))
    return words if len(words) <= length and len(text) <= 4 * length else words[: length - 1] + "…"


class Excerpt:
    """A text that grows. Keeps its first characters, and counts all of them."""

    __slots__ = ("_bound", "_pieces", "length")

    def __init__(self, bound: int, text: str = "") -> None:
        self._bound, self._pieces, self.length = bound, [text[:bound]], len(text)

    def append(self, text: str) -> None:
        if self.length < self._bound:
            self._pieces.append(text[: self._bound - self.length])
        self.length += len(text)

    @property
    def text(self) -> str:
        """The kept text, with controls made visible."""
        self._pieces = ["".join(self._pieces)]
        return reveal_controls(self._pieces[0])

    @property
    def omitted(self) -> int:
        """The number of characters that are not kept."""
        return max(0, self.length - self._bound)


@dataclass(slots=True)
class TimelineRow:
    """One part of an answer. A call has a result, how long it took, and notes such as `waits for approval`."""

    kind: RowKind
    body: Excerpt
    title: str = ""
    result: Excerpt | None = None
    failed: bool = False
    notes: list[str] = field(default_factory=list[str])
    seconds: float | None = None
    size: int = 0  # characters of a file's base64
    picture: str = ""  # a data URL


@dataclass(slots=True)
class TimelineStep:
    """One call of a model, with the results of its tools."""

    number: int
    rows: list[TimelineRow] = field(default_factory=list[TimelineRow])
    omitted: int = 0
    usage: ev.Usage | None = None
    cost: float | None = None
    seconds: float | None = None


class Timeline:
    """Collects events into steps and rows. With a clock it measures steps and calls, too."""

    def __init__(self, kind: str = "Answer", clock: Callable[[], float] | None = None) -> None:
        self.kind = kind
        self.model = self.provider = ""
        self.steps: list[TimelineStep] = [TimelineStep(1)]
        self.omitted_steps = 0
        self.usage: ev.Usage | None = None
        self.cost: float | None = None
        self.seconds: float | None = None
        self.finish = ""  # the reason
        self.fault: ev.Fault | None = None
        self.state = ""  # if neither finish nor fault is known
        self._clock = clock
        self._started = self._step_started = clock() if clock else 0.0
        self._open: dict[int, TimelineRow] = {}
        self._calls: dict[str, TimelineRow] = {}
        self._call_times: dict[str, float] = {}
        self._picture_room = PICTURE_CHARACTERS
        self._files: dict[int, tuple[TimelineRow, list[str]]] = {}

    def feed(self, events: Iterable[object]) -> None:
        for event in events:
            add = self._table.get(type(event))
            if add is not None:
                add(self, event)

    def begin_step(self, number: int) -> TimelineStep:
        """Begins another step, unless the current one is still empty. The parts of a step have their own numbers."""
        step = self.steps[-1]
        if step.rows or step.omitted:
            self._end_step()
            if len(self.steps) >= STEPS_SHOWN:
                self.omitted_steps += 1
                self.steps.pop()
            step = TimelineStep(number)
            self.steps.append(step)
        step.number = number
        self._open = {}
        return step

    def add_result(self, call: str, text: str, *, failed: bool = False, seconds: float | None = None) -> None:
        """Adds the result of a call, found by its id."""
        row = self._calls.get(call)
        if row is None:
            row = self._add_row(TimelineRow("call", Excerpt(CALL_CHARACTERS)))
            self._calls[call] = row
        row.result, row.failed = Excerpt(CALL_CHARACTERS, text), failed
        row.notes = [note for note in row.notes if note != APPROVAL]
        if seconds is None and self._clock and call in self._call_times:
            seconds = self._clock() - self._call_times[call]
        row.seconds = seconds

    def add_note(self, call: str, note: str) -> None:
        """Adds a note to a call, found by its id."""
        if call in self._calls:
            self._calls[call].notes.append(note)

    @property
    def call_count(self) -> int:
        return sum(row.kind == "call" for step in self.steps for row in step.rows)

    @property
    def last_text(self) -> str:
        """The last text of the answer, for short forms."""
        rows = (row for step in reversed(self.steps) for row in reversed(step.rows))
        return next((row.body.text for row in rows if row.kind in ("text", "refusal") and row.body.length), "")

    def _end_step(self) -> None:
        if self._clock:
            now = self._clock()
            self.steps[-1].seconds, self._step_started = now - self._step_started, now

    def _add_row(self, row: TimelineRow) -> TimelineRow:
        step = self.steps[-1]
        if len(step.rows) < ROWS_SHOWN:
            step.rows.append(row)
        else:
            step.omitted += 1
        return row

    # ── events ────────────────────────────────────────────────────────────────────────────────────

    def _start(self, event: ev.Start) -> None:
        self.model = self.model or event.model

    def _begin_event_step(self, event: ev.Step) -> None:
        # Parts are numbered over all steps of a turn, so that open ones stay open.
        parts = self._open
        self.begin_step(event.number)
        self._open = parts

    def _open_part(self, event: Any) -> None:
        kind = _KINDS[type(event)]
        title = f"choice {event.choice + 1}" if event.choice else ""
        row = TimelineRow(kind, Excerpt(_BOUNDS.get(kind, TEXT_CHARACTERS)), title)
        if kind == "reasoning" and event.form != "full":
            row.notes.append(event.form)
        self._open[event.index] = self._add_row(row)

    def _append_text(self, event: Any) -> None:
        if event.index in self._open:
            self._open[event.index].body.append(event.text)

    def _end_part(self, event: Any) -> None:
        row = self._open.pop(event.index, None)
        if row is not None and event.broken:
            row.notes.append("broken off")

    def _open_call(self, event: ev.CallStart) -> None:
        row = TimelineRow("call", Excerpt(CALL_CHARACTERS), event.name)
        if event.by == "provider" and not (event.extra or {}).get(SDK, {}).get("sdk"):
            row.notes.append("run by the provider")
        self._calls[event.id] = self._open[event.index] = self._add_row(row)

    def _append_input(self, event: ev.CallDelta) -> None:
        if event.index in self._open:
            self._open[event.index].body.append(event.json)

    def _end_call(self, event: ev.CallEnd | ev.CallCut) -> None:
        row = self._open.pop(event.index, None)
        if row is None:
            return
        row.body = Excerpt(CALL_CHARACTERS, event.json)
        if type(event) is ev.CallCut:
            row.failed = True
            row.notes.append("incomplete, not run")
        elif self._clock:
            self._call_times[event.id] = self._clock()

    def _result(self, event: ev.Result) -> None:
        self.add_result(event.call, event.json, failed=event.failed)

    def _ask(self, event: ev.Ask) -> None:
        self.add_note(event.call, APPROVAL)

    def _open_file(self, event: ev.FileStart) -> None:
        row = self._add_row(TimelineRow("file", Excerpt(URL_CHARACTERS, event.url), event.media))
        self._files[event.index] = row, []

    def _append_data(self, event: ev.FileDelta) -> None:
        if event.index in self._files:
            row, pieces = self._files[event.index]
            row.size += len(event.data)
            if row.title in PICTURES and self._picture_room >= len(event.data):
                self._picture_room -= len(event.data)
                pieces.append(event.data)

    def _end_file(self, event: ev.FileEnd) -> None:
        row, pieces = self._files.pop(event.index)
        data = "".join(pieces)
        if row.size:
            row.notes.append(f"{row.size * 3 // 4:,} bytes")
        if row.size == len(data) and _BASE64.fullmatch(data):
            row.picture = f"data:{row.title};base64,{data}"

    def _source(self, event: ev.Source) -> None:
        body = Excerpt(URL_CHARACTERS, event.url or event.filename)
        self._add_row(TimelineRow("source", body, event.title or event.id))

    def _usage(self, event: ev.Usage) -> None:
        if not event.step:
            self.usage = event
        for step in self.steps if event.step else ():
            if step.number == event.step:
                step.usage = event

    def _finish(self, event: ev.Finish) -> None:
        self.finish = event.reason
        self._end()

    def _fault(self, event: ev.Fault) -> None:
        self.fault = event
        self._end()

    def _end(self) -> None:
        self._end_step()
        if self._clock:
            self.seconds = self._clock() - self._started

    _table: ClassVar[Mapping[type[Any], Callable[[Any, Any], None]]] = {
        ev.Start: _start, ev.Step: _begin_event_step, ev.Usage: _usage, ev.Finish: _finish, ev.Fault: _fault,
        **dict.fromkeys((ev.TextStart, ev.RefusalStart, ev.ReasoningStart), _open_part),
        **dict.fromkeys((ev.TextDelta, ev.RefusalDelta, ev.ReasoningDelta), _append_text),
        **dict.fromkeys((ev.TextEnd, ev.RefusalEnd, ev.ReasoningEnd), _end_part),
        ev.CallStart: _open_call, ev.CallDelta: _append_input, ev.CallEnd: _end_call, ev.CallCut: _end_call,
        ev.Result: _result, ev.Ask: _ask, ev.Source: _source,
        ev.FileStart: _open_file, ev.FileDelta: _append_data, ev.FileEnd: _end_file,
    }  # fmt: skip


APPROVAL = "waits for approval"
_KINDS: dict[type[Any], RowKind] = {ev.TextStart: "text", ev.RefusalStart: "refusal", ev.ReasoningStart: "reasoning"}


# ── short texts ───────────────────────────────────────────────────────────────────────────────────


def format_usage(usage: Any) -> str:
    """`1,204 in (800 cached) · 312 out (120 reasoning)`; an empty text if nothing is known."""
    if usage is None:
        return ""
    shown: list[str] = []
    for name, label, parts in (("input", "in", ("cached", "written")), ("output", "out", ("reasoning",))):
        count = getattr(usage, name, None)
        if count is not None:
            inner = [f"{value:,} {part}" for part in parts if (value := getattr(usage, part, None))]
            shown.append(f"{count:,} {label}" + (f" ({', '.join(inner)})" if inner else ""))
    return " · ".join(shown)


def format_cost(cost: float | None) -> str:
    """`$0.0123`; an empty text if the cost is not known."""
    if cost is None:
        return ""
    return f"${cost:.4f}" if cost >= 0.0001 or not cost else f"${cost:.2g}"  # noqa: PLR2004 — four digits show it


def format_seconds(seconds: float | None) -> str:
    """`310 ms`, `4.2 s`, `2 min 5 s`; an empty text if the time is not known."""
    if seconds is None:
        return ""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    minutes, rest = divmod(seconds, 60)
    return f"{minutes:.0f} min {rest:.0f} s" if minutes else f"{seconds:.1f} s"


def count_of(number: int, noun: str) -> str:
    """`1 step`, `2 steps`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def join_facts(*facts: str) -> str:
    """Returns the facts that are known, with dots between them."""
    return " · ".join(filter(None, facts))


def timeline_facts(timeline: Timeline) -> str:
    """`2 steps · 1 call · 1,204 in · 312 out · $0.0123 · 4.2 s`."""
    steps, calls = len(timeline.steps) + timeline.omitted_steps, timeline.call_count
    return join_facts(
        count_of(steps, "step") if steps > 1 else "",
        count_of(calls, "call") if calls else "",
        format_usage(timeline.usage),
        format_cost(timeline.cost),
        format_seconds(timeline.seconds),
    )


def describe_state(timeline: Timeline) -> str:
    """How the answer ended, or what it does now."""
    if timeline.fault is not None:
        return f"failed: {timeline.fault.kind}"
    return f"finished: {timeline.finish}" if timeline.finish else timeline.state


def describe_fault(fault: ev.Fault) -> str:
    """`rate-limit (429): too many requests`, with what a support desk asks for."""
    status = f" ({fault.status})" if fault.status else ""
    details = join_facts(fault.code, f"request {fault.request_id}" if fault.request_id else "")
    message = reveal_controls(fault.message[:CALL_CHARACTERS])
    return f"{fault.kind}{status}: {message}" + (f" [{shorten(details, NAME_CHARACTERS)}]" if details else "")
