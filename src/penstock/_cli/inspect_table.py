"""The table that `penstock inspect` prints: each frame, the events it caused, and the frames written for the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock._cli.inspect_rows import FoldedRows, FrameEvents, TableEntry
from penstock._cli.one_line_summary import FrameShortener, quote_text
from penstock._cli.terminal import Bar, Cell, Column, Printer, StyledLine, truncate
from penstock._printable_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock._framing.base import Frame
    from penstock._inspector.schemas import PromptBreakdown


@dataclass
class TableRow:
    """One line of the table."""

    number: str = ""
    frame: StyledLine | None = None
    event: StyledLine | None = None
    output: StyledLine | None = None

    @property
    def columns(self) -> list[StyledLine]:
        return [self.frame or [], self.event or [], self.output or []]


class InspectTable:
    """The rows of one stream, ready to be printed. The shorteners have read all frames."""

    def __init__(self, frames: FrameShortener, outputs: FrameShortener) -> None:
        self._frames = frames
        self._outputs = outputs

    @property
    def constant(self) -> StyledLine:
        """What every frame repeats."""
        return self._frames.constant_line

    def print(self, printer: Printer, source: str, target: str, entries: Iterable[TableEntry | str]) -> None:
        """Print the table with a column for frames, events and outputs. A text among the entries is a note."""
        titles = (_title(f"{source} frames", self._frames), "events", _title(f"to {target}", self._outputs))
        columns = [Column("", "dim", "right"), *(Column(title, shrinks=True) for title in titles)]
        cells = [row for entry in entries for row in self._rows(entry)]
        printer.print_table(columns, [[row.number, *row.columns] for row in cells], ruled=True)

    def _rows(self, entry: TableEntry | str) -> Iterator[TableRow]:
        if isinstance(entry, str):
            return iter((TableRow("⋮", [(entry, "dim")]),))
        return self._row(entry) if isinstance(entry, FrameEvents) else _folded_rows(entry)

    def _row(self, row: FrameEvents) -> Iterator[TableRow]:
        number = str(row.number) if row.frame is not None else "end"
        described = [effect.describe() for effect in row.effects]
        style = described[0][1] if described else "dim"
        frame: StyledLine = (
            self._frames.shorten(row.frame, style) if row.frame is not None else [("(end of input)", "dim")]
        )
        if not row.effects:
            yield TableRow(number, frame, [("·", "dim")])
        for effect, (line, style) in zip(row.effects, described, strict=True):
            event = line
            for output in self._leaving(effect.outputs, style):
                yield TableRow(number, frame, event, output)
                number, frame, event = "", [], []
        if row.more:
            yield TableRow("", [], [(f"{row.more:,} more events; --all shows them", "dim")])

    def _leaving(self, outputs: list[Frame], style: str) -> list[StyledLine]:
        return [[("→ ", style), *self._outputs.shorten(frame, style)] for frame in outputs] or [[]]


def _title(words: str, frames: FrameShortener) -> str:
    return f"{words}, each {frames.prefix}…" if frames.prefix else words


def _folded_rows(rows: FoldedRows) -> Iterator[TableRow]:
    """Yields a line for each kind of event in the run, with all of its text."""
    first = TableRow("⋮", [(f"{rows.count:,} more like these", "dim")])
    for folded in filter(None, rows.events):
        times = (f" {rows.count:,} times ", "dim")
        first.event = [*folded.line, times, (quote_text(folded.text, 300) if folded.text else "", "")]
        first.output = [("⋮", "dim")] if folded.has_output else []
        yield first
        first = TableRow()
    if first.number:
        yield first


# ── the tokens of the request ───────────────────────────────────────────────────────────────────────────────────────

MAX_PART = 44  # columns of a message's beginning
_PART_COLUMNS = [
    *(Column("part", shrinks=True), Column("tokens", justify="right"), Column("share", justify="right")),
    *(Column("bounds", "dim", "right"), Column("method", "dim"), Column("")),
]


def print_breakdown(printer: Printer, found: PromptBreakdown) -> None:
    """Print the tokens of a request, part by part."""
    if found.lost:
        printer.print_line([("prompt  ", "bold"), (printable(found.lost), "dim")])
        return
    total = f"{found.tokens:,} input tokens, {found.low:,} to {found.high:,}, {found.method}"
    model = f"  {printable(found.model) or 'any model'}, counted as {found.family}"
    printer.print_line([("prompt  ", "bold"), (total, ""), (model, "dim")], cut=True)
    highest = max((line.tokens for line in found.lines), default=0)
    rows: list[list[Cell]] = []
    for line in found.lines:
        part = truncate(printable(f"{line.what}: {line.about}" if line.about else line.what), MAX_PART)
        bounds = f"{line.low:,} to {line.high:,}"
        bar = Bar(line.tokens, highest)
        rows.append([part, f"{line.tokens:,}", f"{line.share:.0%}", bounds, line.method, bar])
    printer.print_table(_PART_COLUMNS, rows)
