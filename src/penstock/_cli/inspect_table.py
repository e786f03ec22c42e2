"""The table and the summary that `penstock inspect` prints.

The table has a row for each frame, the events it caused and the frames written for the target. Long runs of similar
rows are folded. The summary is an object first (`--json` prints that); its lines are made from the object.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._cli.one_line_summary import FrameShortener, event_line, event_style, event_tag, frame_label, quote_text
from penstock._cli.terminal import Bar, Cell, Column, Printer, StyledLine, printable, truncate
from penstock._fold import fold
from penstock.request import AnyPart, Call, Text, Turn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock._diagnostics import Diagnostic
    from penstock._framing.base import Frame
    from penstock._inspector.schemas import PromptBreakdown
    from penstock._stream_trace import TraceStep


@dataclass
class EventOutputs:
    """One event and the frames written for it. No event: frames that the encoder writes at the end of the input."""

    event: Any = None
    outputs: list[Frame] = field(default_factory=list["Frame"])


@dataclass
class FrameEvents:
    """One frame and its effects. No frame: the end of the input."""

    number: int
    frame: Frame | None = None
    effects: list[EventOutputs] = field(default_factory=list[EventOutputs])


def group_steps(steps: list[TraceStep]) -> list[FrameEvents]:
    """Groups the steps: a row for each frame."""
    table: list[FrameEvents] = []
    end = FrameEvents(0)
    row_of: dict[int, FrameEvents] = {}
    effect_of: dict[int, EventOutputs] = {}
    for number, step in enumerate(steps):
        if step.kind == "frame":
            row_of[number] = FrameEvents(len(table) + 1, step.item)
            table.append(row_of[number])
        elif step.kind == "event":
            effect_of[number] = EventOutputs(step.item)
            (row_of[step.cause] if step.cause is not None else end).effects.append(effect_of[number])
        else:
            _find_event_row(step, row_of, effect_of, end).outputs.append(step.item)
    return [*table, end] if end.effects else table


def _find_event_row(
    step: TraceStep, row_of: dict[int, FrameEvents], effect_of: dict[int, EventOutputs], end: FrameEvents
) -> EventOutputs:
    if step.cause in effect_of:
        return effect_of[step.cause]
    row = row_of.get(step.cause, end) if step.cause is not None else end
    row.effects.append(EventOutputs())
    return row.effects[-1]


MAX_RUN = 8
"""A run of more rows alike is folded to its first two and its last."""


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
    """The rows of one stream, ready to be printed."""

    def __init__(self, rows: list[FrameEvents], *, everything: bool = False) -> None:
        self._frames = FrameShortener([row.frame for row in rows if row.frame is not None])
        self._outputs = FrameShortener([frame for row in rows for effect in row.effects for frame in effect.outputs])
        self._cells = [cells for run in _group_similar(rows) for cells in self._run(run, everything=everything)]

    @property
    def constant(self) -> StyledLine:
        """What every frame repeats."""
        return self._frames.constant_line

    def print(self, printer: Printer, source: str, target: str) -> None:
        """Print the table with a column for frames, events and outputs."""
        titles = (_title(f"{source} frames", self._frames), "events", _title(f"to {target}", self._outputs))
        columns = [Column("", "dim", "right"), *(Column(title, shrinks=True) for title in titles)]
        printer.print_table(columns, [[cells.number, *cells.columns] for cells in self._cells], ruled=True)

    def _run(self, run: list[FrameEvents], *, everything: bool) -> Iterator[TableRow]:
        folded = [] if everything or len(run) <= MAX_RUN else run[2:-1]
        for row in run[:2] if folded else run:
            yield from self._row(row)
        if folded:
            yield from _fold_rows(folded)
            yield from self._row(run[-1])

    def _row(self, row: FrameEvents) -> Iterator[TableRow]:
        number = str(row.number) if row.frame is not None else "end"
        style = event_style(row.effects[0].event) if row.effects else "dim"
        frame: StyledLine = (
            self._frames.shorten(row.frame, style) if row.frame is not None else [("(end of input)", "dim")]
        )
        if not row.effects:
            yield TableRow(number, frame, [("·", "dim")])
        for effect in row.effects:
            event: StyledLine = [] if effect.event is None else event_line(effect.event)
            for output in self._leaving(effect):
                yield TableRow(number, frame, event, output)
                number, frame, event = "", [], []

    def _leaving(self, effect: EventOutputs) -> list[StyledLine]:
        style = event_style(effect.event)
        return [[("→ ", style), *self._outputs.shorten(frame, style)] for frame in effect.outputs] or [[]]


def _title(words: str, frames: FrameShortener) -> str:
    return f"{words}, each {frames.prefix}…" if frames.prefix else words


def _group_similar(rows: list[FrameEvents]) -> Iterator[list[FrameEvents]]:
    for _, run in groupby(rows, _similarity_key):
        yield list(run)


def _similarity_key(row: FrameEvents) -> tuple[Any, ...]:
    """Returns a key that is equal for rows that differ only in their text."""
    effects = [(_event_kind(effect), len(effect.outputs)) for effect in row.effects]
    return row.frame and frame_label(row.frame), tuple(effects)


def _event_kind(effect: EventOutputs) -> tuple[str, int | None]:
    return (event_tag(effect.event), getattr(effect.event, "index", None)) if effect.event is not None else ("", None)


def _fold_rows(run: list[FrameEvents]) -> Iterator[TableRow]:
    """Yields a line for each kind of event in the run, with all of its text."""
    first: TableRow = TableRow("⋮", [(f"{len(run):,} more like these", "dim")])
    for position, effect in enumerate(run[0].effects):
        if effect.event is not None:
            same = [row.effects[position].event for row in run]
            first.event = _folded_line(same)
            first.output = [("⋮", "dim")] if effect.outputs else []
            yield first
            first = TableRow()
    if first.number:
        yield first


def _folded_line(events: list[Any]) -> StyledLine:
    kind, index = event_tag(events[0]), getattr(events[0], "index", None)
    text = "".join(str(getattr(event, name, "")) for event in events for name in ("text", "json", "data"))
    line: StyledLine = [(kind, event_style(events[0]))]
    if index is not None:
        line.append((f" #{index}", "dim"))
    return [*line, (f" {len(events):,} times ", "dim"), (quote_text(text, 300) if text else "", "")]


Object = dict[str, Any]
FEW, LONG = 6, 300  # sources listed, columns for one text


def summarize_stream(events: Iterable[Any], diagnostics: Iterable[Diagnostic]) -> Object:
    """Returns the summary of a stream as one object."""
    turns = fold(events)
    return {
        "turns": [_summarize_turn(turn) for turn in turns],
        "unknown": sum(len(turn.unknown) for turn in turns),
        "diagnostics": [msgspec.to_builtins(row) for row in diagnostics],
    }


def _summarize_turn(turn: Turn) -> Object:
    calls = [part for part in turn.parts if isinstance(part, Call)]
    known: Object = {
        "id": turn.id,
        "model": turn.model,
        "parts": dict(Counter(map(_part_kind, turn.parts))),
        "text": turn.text,
        "reasoning": turn.reasoning,
        "refusal": turn.refusal,
        "calls": [_summarize_call(call) for call in calls],
        "sources": list(filter(None, [row.url or row.title or row.filename or row.quote for row in turn.sources])),
    }
    for name in ("usage", "finish", "fault"):
        value = getattr(turn, name)
        known[name] = value and {
            key: item for key, item in msgspec.to_builtins(value).items() if key not in {"type", "extra"}
        }
    return {key: value for key, value in known.items() if value}


def _part_kind(part: AnyPart) -> str:
    if isinstance(part, Text) and part.refusal:
        return "refusal"
    return str(part.__struct_config__.tag)


def _summarize_call(call: Call) -> Object:
    return {"id": call.id, "name": call.name, "json": call.json, "by": call.by, "cut": call.cut}


def summary_lines(found: Object) -> Iterator[tuple[str, StyledLine]]:
    """Yields the summary as labelled lines."""
    turns: list[Object] = found["turns"]
    for number, turn in enumerate(turns, 1):
        label = f"turn {number}" if len(turns) > 1 else "turn"
        yield label, [(printable(" · ".join(filter(None, (turn.get("id"), turn.get("model"))))) or "(no id)", "bold")]
        yield from _turn_lines(turn)
    yield "unknown", [(str(found["unknown"]) if found["unknown"] else "none", "red" if found["unknown"] else "dim")]
    for position, row in enumerate(found["diagnostics"]):
        times = f" ({row['count']} times)" if row["count"] > 1 else ""
        yield (
            "findings" if not position else "",
            [(row["code"], "yellow"), (f" {printable(row['message'])}{times}", "")],
        )
    if not found["diagnostics"]:
        yield "findings", [("none", "dim")]


def _turn_lines(turn: Object) -> Iterator[tuple[str, StyledLine]]:
    if turn.get("parts"):
        yield "parts", [(", ".join(f"{count} {kind}" for kind, count in turn["parts"].items()), "")]
    for name, style in (("reasoning", "magenta"), ("text", "green"), ("refusal", "red")):
        if turn.get(name):
            yield name, [(quote_text(turn[name], LONG), style), (f" {len(turn[name]):,} characters", "dim")]
    for position, call in enumerate(turn.get("calls", ())):
        yield "calls" if not position else "", _call_line(call)
    if turn.get("sources"):
        shown = turn["sources"][:FEW]
        more = f" and {len(turn['sources']) - FEW} more" if len(turn["sources"]) > FEW else ""
        yield "sources", [(printable(", ".join(shown)), "blue"), (more, "dim")]
    if turn.get("usage"):
        yield "usage", _usage_line(turn["usage"])
    yield _end_line(turn)


def _call_line(call: Object) -> StyledLine:
    shown = truncate(printable(call["json"]), LONG)
    line: StyledLine = [(printable(call["name"]), "yellow"), (f" {shown}  ", ""), (printable(call["id"]), "dim")]
    if call["cut"]:
        line.append((" cut off, not callable", "red"))
    if call["by"] == "provider":
        line.append((" run by the provider", "dim"))
    return line


def _usage_line(usage: Object) -> StyledLine:
    line: StyledLine = []
    labels = {"input": "in", "cached": "cached", "written": "written", "output": "out", "reasoning": "reasoning"}
    for name, shown in labels.items():
        if usage.get(name) or (usage.get(name) == 0 and name in {"input", "output"}):
            line += [(f"{usage[name]:,} ", ""), (f"{shown}  ", "dim")]
    return line


def _end_line(turn: Object) -> tuple[str, StyledLine]:
    if turn.get("fault"):
        fault = turn["fault"]
        return "fault", [(fault["kind"], "bold red"), (f" {printable(fault['message'])}", "")]
    finish = turn.get("finish", {"reason": "none"})
    raw = finish.get("raw", "")
    return "finish", [
        (finish["reason"], "bold"),
        (f" ({printable(raw)})" if raw not in {"", finish["reason"]} else "", "dim"),
    ]


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
