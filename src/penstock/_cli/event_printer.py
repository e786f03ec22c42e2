"""Prints the events of an answer to the terminal as they come.

A terminal shows thinking dimmed, tool calls on lines of their own, and sources after the text. A pipe gets only the
text; the rest goes to standard error.
"""

from __future__ import annotations

import sys
from typing import IO, TYPE_CHECKING

import msgspec

from penstock import events as ev
from penstock._cli.terminal import truncate, wants_color
from penstock._printable_text import printable, printable_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

_CODES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36}  # ANSI
_MAX_INPUT = 400  # characters of a call's input that are shown
_MAX_SOURCES = 100


class EventPrinter:
    """Prints the events of one answer after another. `text`: the text of the last answer."""

    def __init__(self, output: IO[str], *, json: bool = False) -> None:
        self._output = output
        self.json = json
        self._color = wants_color(output)
        self._open_kind = ""  # the kind of part whose line is not ended
        self._sources: dict[str, str] = {}  # by address
        self.text = ""
        self.failed = False
        self.own_tools: frozenset[str] = frozenset()  # that this program runs
        self.hides_calls = False  # calls of these tools are shown when the user is asked

    def print_events(self, events: Sequence[ev.AnyEvent]) -> None:
        """Prints a batch and flushes the output."""
        for event in events:
            if self.json:
                self._output.write(msgspec.json.encode(event).decode() + "\n")
                self.failed = self.failed or isinstance(event, ev.Fault)
            else:
                self._print_event(event)
        self._output.flush()

    def end_line(self) -> None:
        """Ends the line that is open."""
        if self._open_kind:
            self._output.write("\n")
            self._open_kind = ""
        self._output.flush()

    def end_answer(self) -> None:
        """Ends the line that is open, and prints the sources of the answer."""
        self.end_line()
        for number, (address, title) in enumerate(self._sources.items(), 1):
            shown = f"{printable(title)} {printable(address)}" if title and title != address else printable(address)
            self._print_aside(f"source [{number}] {shown}", "blue")
        self._sources = {}

    def _print_event(self, event: ev.AnyEvent) -> None:
        """Prints one event. Framing events and deltas of parts that end with their whole content are not shown."""
        match event:
            case ev.Start():
                self.text, self.failed = "", False
            case ev.TextDelta() | ev.RefusalDelta():
                self._switch_kind("text")
                self.text += event.text
                self._output.write(printable_lines(event.text))
            case ev.ReasoningDelta() if self._color or self._output.isatty():
                label = "" if self._color or self._open_kind == "thinking" else "(thinking) "
                self._switch_kind("thinking")
                self._output.write(style_text(label + printable_lines(event.text), "dim", on=self._color))
            case ev.CallEnd() | ev.CallCut():
                self._print_call(event)
            case ev.Result():
                self._print_result(event)
            case ev.Source() if len(self._sources) < _MAX_SOURCES:
                self._sources.setdefault(event.url or event.title or event.filename or event.quote, event.title)
            case ev.FileStart():
                self._print_aside(f"file of type {printable(event.media)} {printable(event.url)}".rstrip(), "magenta")
            case ev.Finish() if event.reason not in {"stop", "calls"}:
                self._print_aside(f"ended: {event.reason}", "yellow")
            case ev.Fault():
                self.failed = True
                self._print_aside(f"broken off: {event.kind}: {printable(event.message)}", "red")
            case _:
                pass

    def _print_call(self, event: ev.CallEnd | ev.CallCut) -> None:
        is_cut, is_own = isinstance(event, ev.CallCut), event.name in self.own_tools
        if self.hides_calls and is_own and not is_cut:
            return
        runner = "" if is_own or event.by == "client" else f", run by the {event.by}"
        cut = " (cut off: not to be run)" if is_cut else ""
        self._print_aside(f"tool {format_call(event.name, event.json)}{runner}{cut}", "cyan")

    def _print_result(self, event: ev.Result) -> None:
        outcome = "failed" if event.failed else "gave"
        text = truncate(printable(event.json[: 4 * _MAX_INPUT]), _MAX_INPUT)
        self._print_aside(f"{printable(event.name) or 'the tool'} {outcome} {text}", "dim")

    def _switch_kind(self, kind: str) -> None:
        if self._open_kind and self._open_kind != kind:
            self.end_line()
        self._open_kind = kind

    def _print_aside(self, text: str, style: str) -> None:
        """Prints a line that is not part of the text: to the terminal if there is one, else to standard error."""
        self.end_line()
        output = self._output if self._color or self._output.isatty() else sys.stderr
        color = self._color if output is self._output else wants_color(sys.stderr)
        print(style_text(text, style, on=color), file=output)


def format_call(name: str, json: str) -> str:
    """Returns a call as one line: its name and the beginning of its input."""
    return f"{printable(name)}({truncate(printable(json[: 4 * _MAX_INPUT]), _MAX_INPUT)})"


def style_text(text: str, style: str, *, on: bool) -> str:
    """Returns the text with ANSI codes for a style, if they are wanted."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if on and text else text
