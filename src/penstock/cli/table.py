"""Rows in three columns: wire frames, canonical events, what leaves for the target. A cause stands left of its effects.

Leans on `digest` for the words and on `ink` for widths. Long runs of the same are folded, unless all rows are wanted.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from penstock.cli.digest import Digest, event_line, label, quoted, style_of, tag
from penstock.cli.ink import fit, joined, long, share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.cli.ink import Line
    from penstock.cli.rows import Effect, Row

FOLD = 8
"""A run of more rows alike is folded to its first two and its last."""

_BETWEEN = (" │ ", "dim")
_LEAST, _MOST = 12, 200  # columns that a cell is taken to need


@dataclass
class Cells:
    """One line of the table."""

    number: str = ""
    frame: Line | None = None
    event: Line | None = None
    output: Line | None = None

    @property
    def columns(self) -> list[Line]:
        return [self.frame or [], self.event or [], self.output or []]


class Table:
    """The rows of one stream, ready to be drawn."""

    def __init__(self, rows: list[Row], *, everything: bool = False) -> None:
        self._frames = Digest([row.frame for row in rows if row.frame is not None])
        self._outputs = Digest([frame for row in rows for effect in row.effects for frame in effect.outputs])
        self._cells = [cells for run in _runs(rows) for cells in self._run(run, everything=everything)]

    @property
    def constant(self) -> Line:
        """What every frame repeats, in place of repeating it."""
        return self._frames.constant_line

    def draw(self, source: str, target: str, width: int) -> Iterator[Line]:
        """The table line by line, in that many columns of the terminal."""
        titles = [_title(f"{source} frames", self._frames), "events", _title(f"to {target}", self._outputs)]
        side = max((len(cells.number) for cells in self._cells), default=1)
        needs = [min(max(_LEAST, *map(long, column)), _MOST) for column in self._columns(titles)]
        room = share(max(width - side - len(needs) * len(_BETWEEN[0]), len(needs) * _LEAST), needs)
        yield _line("", side, [[(title, "bold")] for title in titles], room)
        yield [("─" * side + "".join("─┼─" + "─" * part for part in room), "dim")]
        for cells in self._cells:
            yield _line(cells.number, side, cells.columns, room)

    def _columns(self, titles: list[str]) -> Iterator[list[Line]]:
        for place, title in enumerate(titles):
            yield [[(title, "")], *(cells.columns[place] for cells in self._cells)]

    def _run(self, run: list[Row], *, everything: bool) -> Iterator[Cells]:
        folded = [] if everything or len(run) <= FOLD else run[2:-1]
        for row in run[:2] if folded else run:
            yield from self._row(row)
        if folded:
            yield from _fold(folded)
            yield from self._row(run[-1])

    def _row(self, row: Row) -> Iterator[Cells]:
        number = str(row.number) if row.frame is not None else "end"
        style = style_of(row.effects[0].event) if row.effects else "dim"
        frame: Line = self._frames.line(row.frame, style) if row.frame is not None else [("(end of input)", "dim")]
        if not row.effects:
            yield Cells(number, frame, [("·", "dim")])
        for effect in row.effects:
            event: Line = [] if effect.event is None else event_line(effect.event)
            for output in self._leaving(effect):
                yield Cells(number, frame, event, output)
                number, frame, event = "", [], []

    def _leaving(self, effect: Effect) -> list[Line]:
        style = style_of(effect.event)
        return [[("→ ", style), *self._outputs.line(frame, style)] for frame in effect.outputs] or [[]]


def _title(words: str, frames: Digest) -> str:
    return f"{words}, each {frames.prefix}…" if frames.prefix else words


def _line(number: str, side: int, columns: list[Line], room: list[int]) -> Line:
    cells = [fit(line, part) for line, part in zip(columns, room, strict=True)]
    return joined([[(number.rjust(side), "dim")], *cells], _BETWEEN)


def _runs(rows: list[Row]) -> Iterator[list[Row]]:
    for _, run in groupby(rows, _alike):
        yield list(run)


def _alike(row: Row) -> tuple[Any, ...]:
    """Rows with the same of this look the same but for their text."""
    effects = [(_kind(effect), len(effect.outputs)) for effect in row.effects]
    return row.frame and label(row.frame), tuple(effects)


def _kind(effect: Effect) -> tuple[str, int | None]:
    return (tag(effect.event), getattr(effect.event, "index", None)) if effect.event is not None else ("", None)


def _fold(run: list[Row]) -> Iterator[Cells]:
    """A line for each kind of event in the run, with all of its text."""
    first: Cells = Cells("⋮", [(f"{len(run):,} more like these", "dim")])
    for place, effect in enumerate(run[0].effects):
        if effect.event is not None:
            same = [row.effects[place].event for row in run]
            first.event = _folded(same)
            first.output = [("⋮", "dim")] if effect.outputs else []
            yield first
            first = Cells()
    if first.number:
        yield first


def _folded(events: list[Any]) -> Line:
    kind, index = tag(events[0]), getattr(events[0], "index", None)
    text = "".join(str(getattr(event, name, "")) for event in events for name in ("text", "json", "data"))
    line: Line = [(kind, style_of(events[0]))]
    if index is not None:
        line.append((f" #{index}", "dim"))
    return [*line, (f" {len(events):,} times ", "dim"), (quoted(text, 300) if text else "", "")]
