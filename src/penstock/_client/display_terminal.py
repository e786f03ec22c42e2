"""A timeline as lines for a terminal, and a view that prints an answer while it streams.

Text is never read as markup, and control characters are visible. Colours need `rich`; without it the lines are plain.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock import events as ev
from penstock._client.timeline import (
    NAME_CHARACTERS,
    Timeline,
    TimelineRow,
    count_of,
    describe_fault,
    describe_state,
    format_cost,
    format_seconds,
    format_usage,
    join_facts,
    shorten,
    timeline_facts,
)
from penstock._printable_text import reveal_controls

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SHOWN_TEXT = 4_000  # characters of a text
SHOWN_REASONING = 300
SHOWN_INPUT = 300  # of a call's input, and of its result

StyledSpans: TypeAlias = "list[tuple[str, str]]"
"""Texts with their styles, in the words of rich."""


def render_lines(timeline: Timeline) -> Iterator[tuple[int, StyledSpans]]:
    """Yields the lines of a timeline, each with its indent. A text may have line breaks."""
    name = shorten(timeline.model, NAME_CHARACTERS) or timeline.kind
    head = [(name, "bold")]
    if timeline.provider:
        head.append((f" · {shorten(timeline.provider, NAME_CHARACTERS)}", "dim"))
    if state := describe_state(timeline):
        head.append((f"  {reveal_controls(state)}", _state_style(timeline)))
    yield 0, head
    if facts := timeline_facts(timeline):
        yield 0, [(facts, "dim")]
    indent = 2 if len(timeline.steps) > 1 else 0
    for step in timeline.steps:
        if indent:
            facts = join_facts(format_usage(step.usage), format_cost(step.cost), format_seconds(step.seconds))
            yield 0, [(f"Step {step.number}", "bold"), (f"  {facts}" if facts else "", "dim")]
        for row in step.rows:
            yield indent, _render_row(row)
        if step.omitted:
            yield indent, [(f"… {count_of(step.omitted, 'part')} not shown", "dim")]
    if timeline.omitted_steps:
        yield 0, [(f"… {count_of(timeline.omitted_steps, 'step')} not shown", "dim")]
    if timeline.fault is not None:
        yield 0, [(f"✗ {describe_fault(timeline.fault)}", "red")]


def _state_style(timeline: Timeline) -> str:
    if timeline.fault is not None:
        return "red"
    return {"": "dim", "stop": "green", "calls": "green"}.get(timeline.finish, "yellow")


def _render_row(row: TimelineRow) -> StyledSpans:
    notes = join_facts(*map(reveal_controls, row.notes), format_seconds(row.seconds))
    note = (f"  {notes}" if notes else "", "dim")
    if row.kind == "call":
        return [*_call_spans(row), note]
    if row.kind == "reasoning":
        return [("▸ reasoning ", "dim"), (shorten(row.body.text, SHOWN_REASONING), "dim italic"), note]
    if row.kind in ("text", "refusal"):
        label = join_facts(row.title, "refusal" if row.kind == "refusal" else "")
        return [(f"{label}: " if label else "", "yellow"), *_cut_text(row.body.text, row.body.length), note]
    name = {"file": "▣", "source": "↗"}[row.kind]
    return [(f"{name} {shorten(row.title, NAME_CHARACTERS)} ", "cyan"), (row.body.text, "dim"), note]


def _cut_text(text: str, length: int) -> StyledSpans:
    left = length - SHOWN_TEXT
    return [(text[:SHOWN_TEXT], ""), (f" … {left:,} more characters", "dim")] if left > 0 else [(text, "")]


def _call_spans(row: TimelineRow) -> StyledSpans:
    name, text = shorten(row.title, NAME_CHARACTERS), shorten(row.body.text, SHOWN_INPUT)
    spans = [(f"⚙ {name}", "red" if row.failed else "cyan"), (f"({text})", "")]
    if row.result is not None:
        spans += [(" ✗ " if row.failed else " → ", "dim"), (shorten(row.result.text, SHOWN_INPUT), "")]
    return spans


def render_rich(timeline: Timeline) -> Iterator[Any]:
    """Yields the lines as texts of rich."""
    text: Any = import_module("rich.text").Text
    padding: Any = import_module("rich.padding").Padding
    for indent, spans in render_lines(timeline):
        yield padding(text.assemble(*spans, overflow="fold"), (0, 0, 0, indent), expand=False)


class TerminalView:
    """Prints an answer while it streams: texts as they come, calls and results when they are complete."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._console: Any = None
        self._at_line_start = True
        self._last_index = -1
        try:
            console: Any = import_module("rich.console").Console
            self._console = console(markup=False, highlight=False, emoji=False, soft_wrap=True)
        except ImportError:  # plain text, then
            return

    def update(self, events: Iterable[Any]) -> None:
        for event in events:
            if isinstance(event, ev.TextDelta | ev.RefusalDelta):
                self._write_delta(event.index, event.text, "")
            elif isinstance(event, ev.ReasoningDelta):
                self._write_delta(event.index, event.text, "dim")
            elif isinstance(event, ev.CallEnd | ev.CallCut | ev.Result):
                self._write_call(event)

    def close(self) -> None:
        """Ends with a line of facts, and the error if there is one."""
        timeline = self._timeline
        self._end_line()
        self._write(join_facts(timeline.model, describe_state(timeline), timeline_facts(timeline)) + "\n", "dim")
        if timeline.fault is not None:
            self._write(f"✗ {describe_fault(timeline.fault)}\n", "red")

    def _write_delta(self, index: int, text: str, style: str) -> None:
        if index != self._last_index:
            self._end_line()
            self._last_index = index
        self._write(text, style)

    def _write_call(self, event: ev.CallEnd | ev.CallCut | ev.Result) -> None:
        self._end_line()
        if isinstance(event, ev.Result):
            sign = "✗" if event.failed else "→"
            self._write(f"  {sign} {shorten(event.json, SHOWN_INPUT)}\n", "red" if event.failed else "")
        else:
            cut = "  incomplete, not run" if isinstance(event, ev.CallCut) else ""
            name = shorten(event.name, NAME_CHARACTERS)
            self._write(f"⚙ {name}({shorten(event.json, SHOWN_INPUT)}){cut}\n", "cyan")

    def _end_line(self) -> None:
        if not self._at_line_start:
            self._write("\n", "")

    def _write(self, text: str, style: str) -> None:
        shown = reveal_controls(text)
        if not shown:
            return
        self._at_line_start = shown.endswith("\n")
        if self._console is None:
            sys.stdout.write(shown)
            sys.stdout.flush()
        else:
            self._console.print(shown, style=style, end="")
