"""The rows that `penstock inspect` shows: one for each frame, with its events and the frames written for them.

Rows are collected as the stream is read. Long runs of similar rows are folded at once, and only the first and the last
rows stay, so that memory does not grow with the stream.
"""

from __future__ import annotations

import sys
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock._cli.inspect_summary import StreamSummary
from penstock._cli.one_line_summary import FrameShortener, event_line, event_style, event_tag, trim_frame
from penstock._cli.terminal import StyledLine, truncate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock._framing.base import Frame

MAX_RUN = 8
"""A run of more rows alike is folded to its first two and its last."""
MAX_ROWS = 500
"""The most rows at the beginning of the table; `MAX_LAST_ROWS` are shown of the end."""
MAX_LAST_ROWS = 100
MAX_EFFECTS = 200  # events of one frame that are shown
MAX_FOLDED_TEXT = 1_200  # characters of a run's text that are kept; fewer are shown
_LARGE = 4_096  # bytes of a frame, characters of an event: more is cut while the row waits
_MAX_SPAN = 2_000  # characters of one value in a cut row


@dataclass(slots=True)
class EventOutputs:
    """One event and the frames written for it. No event: frames that the encoder writes at the end of the input."""

    event: Any = None
    outputs: list[Frame] = field(default_factory=list["Frame"])
    line: StyledLine | None = None  # of an event that was too large to be kept
    style: str = ""

    @property
    def kind(self) -> tuple[str, int | None]:
        """The kind and part of the event: equal for events that differ only in their text."""
        return (event_tag(self.event), getattr(self.event, "index", None)) if self.event is not None else ("", None)

    def describe(self) -> tuple[StyledLine, str]:
        """Returns the line of the event, and the style of its outputs."""
        if self.line is not None:
            return self.line, self.style
        return ([], "") if self.event is None else (event_line(self.event), event_style(self.event))

    def shrink(self) -> None:
        """Replaces a large event by its line, and large outputs by shorter ones."""
        self.outputs = [trim_frame(frame, _LARGE) for frame in self.outputs]
        if self.event is not None:
            line, self.style = self.describe()
            self.line, self.event = [(truncate(text, _MAX_SPAN), style) for text, style in line], None


@dataclass(slots=True)
class FrameEvents:
    """One frame and its effects. No frame: the end of the input."""

    number: int
    frame: Frame | None = None
    label: str = ""
    effects: list[EventOutputs] = field(default_factory=list[EventOutputs])
    more: int = 0  # events that are counted only

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for rows that differ only in their text."""
        effects = self.effects
        if len(effects) == 1:  # nearly always
            return self.frame is None, self.label, effects[0].kind, len(effects[0].outputs)
        return self.frame is None, self.label, tuple([(effect.kind, len(effect.outputs)) for effect in effects])

    def shrink(self) -> None:
        """Cuts what is large, so that rows can wait for the table in little memory."""
        if self.frame is not None:
            self.frame = trim_frame(self.frame, _LARGE)
        for effect in self.effects:
            large = len(getattr(effect.event, "json", "")) > _LARGE or len(getattr(effect.event, "text", "")) > _LARGE
            if large or any(len(data) > _LARGE for _, data in effect.outputs):
                effect.shrink()


@dataclass(slots=True)
class FoldedEvent:
    """The events at one position of the rows of a run."""

    line: StyledLine
    has_output: bool
    text: str = ""


class FoldedRows:
    """The middle of a run: its length, and the beginning of its text."""

    def __init__(self, first: FrameEvents) -> None:
        self.count = 0
        self.events: list[FoldedEvent | None] = []
        for effect in first.effects:
            (tag, index), style = effect.kind, effect.describe()[1]
            line: StyledLine = [(tag, style), *([(f" #{index}", "dim")] if index is not None else [])]
            self.events.append(FoldedEvent(line, bool(effect.outputs)) if tag else None)
        self.add(first)

    def add(self, row: FrameEvents) -> None:
        self.count += 1
        for folded, effect in zip(self.events, row.effects, strict=True):
            if folded is not None and len(folded.text) < MAX_FOLDED_TEXT:
                found = (str(getattr(effect.event, name, ""))[:MAX_FOLDED_TEXT] for name in ("text", "json", "data"))
                folded.text += "".join(found)


TableEntry: TypeAlias = FrameEvents | FoldedRows


class RowFolder:
    """Folds rows as they come, and hands them on. `everything`: it folds nothing."""

    def __init__(self, hand_on: Callable[[TableEntry], None], *, everything: bool) -> None:
        self._hand_on = hand_on
        self._everything = everything
        self._key: Any = None
        self._first: list[FrameEvents] = []  # the rows of the present run, as long as it is short
        self._folded: FoldedRows | None = None
        self._last: FrameEvents | None = None

    def add(self, row: FrameEvents) -> None:
        """Takes a complete row."""
        if self._everything:
            self._hand_on(row)
            return
        key = row.key
        if key != self._key:
            self.close()
            self._key = key
        if self._folded is not None and self._last is not None:
            self._folded.add(self._last)
            self._last = row
        else:
            self._first.append(row)
            if len(self._first) > MAX_RUN:
                self._fold()

    def close(self) -> None:
        """Ends the run."""
        for row in self._first:
            self._hand_on(row)
        if self._folded is not None and self._last is not None:
            self._hand_on(self._folded)
            self._hand_on(self._last)
        self._first, self._folded, self._last = [], None, None

    def _fold(self) -> None:
        *middle, self._last = self._first[2:]
        self._folded = FoldedRows(middle[0])
        for row in middle[1:]:
            self._folded.add(row)
        del self._first[2:]


class KeptRows:
    """The first and the last rows of a table. `left_out`: how many are between them."""

    def __init__(self) -> None:
        self.first: list[TableEntry] = []
        self._last: deque[TableEntry] = deque(maxlen=MAX_LAST_ROWS)
        self._count = 0

    def add(self, entry: TableEntry) -> None:
        self._count += 1
        if isinstance(entry, FrameEvents):
            entry.shrink()
        (self.first if len(self.first) < MAX_ROWS else self._last).append(entry)

    def skip(self, count: int) -> None:
        """Counts rows that are not shown."""
        self._count += count
        self._last.clear()

    @property
    def is_full(self) -> bool:
        """True if only the last rows of the stream are still needed."""
        return len(self.first) >= MAX_ROWS

    @property
    def last(self) -> list[TableEntry]:
        return list(self._last)

    @property
    def left_out(self) -> int:
        return self._count - len(self.first) - len(self._last)


class RowBuilder:
    """Builds rows from the steps of a trace, and learns what their frames repeat.

    `kept`: the rows that are shown, if not all are. Once they are full, most steps are not needed.
    """

    def __init__(
        self, hand_on: Callable[[TableEntry], None], *, everything: bool, kept: KeptRows | None = None
    ) -> None:
        self.summary = StreamSummary()
        self.frames = FrameShortener()
        self.outputs = FrameShortener()
        self._folder = RowFolder(hand_on, everything=everything)
        self._kept = kept
        self._max_effects = sys.maxsize if everything else MAX_EFFECTS
        self._count = 0
        self._row: FrameEvents | None = None
        self._end = self._active = FrameEvents(0)  # the row of the event that came last

    @property
    def wants_steps(self) -> bool:
        return self._kept is None or not self._kept.is_full

    def on_skipped(self, frames: Sequence[Frame], events: Sequence[Any]) -> None:
        self._close_row()
        self._folder.close()
        self._count += len(frames)
        if self._kept is not None:
            self._kept.skip(len(frames))
        self.frames.check(frames)
        for event in events:
            self.summary.feed(event)

    def on_frame(self, _: int, frame: Frame) -> None:
        self._close_row()
        self._count += 1
        self._row = FrameEvents(self._count, frame, self.frames.learn(frame))

    def on_event(self, _: int, cause: int | None, event: Any) -> None:
        self.summary.feed(event)
        self._active = self._row if cause is not None and self._row is not None else self._end
        if len(self._active.effects) < self._max_effects:
            self._active.effects.append(EventOutputs(event))
        else:
            self._active.more += 1

    def on_output(self, _: int, cause: int | None, frame: Frame) -> None:
        if self.outputs.is_searching:  # nothing is said about all outputs
            self.outputs.learn(frame)
        if cause is None:  # not caused by an event
            self._end.effects.append(EventOutputs(outputs=[frame]))
        elif not self._active.more:
            self._active.effects[-1].outputs.append(frame)

    def finish(self) -> None:
        """Hands the last rows on."""
        self._close_row()
        if self._end.effects:
            self._folder.add(self._end)
        self._folder.close()

    def _close_row(self) -> None:
        if self._row is not None:
            self._folder.add(self._row)
            self._row = None
