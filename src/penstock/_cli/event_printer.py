"""Events as a person reads them in a terminal: text as it comes, thinking dimmed, calls and sources on own lines.

To a pipe goes the text alone; everything else goes to standard error, where somebody may be looking.
"""

from __future__ import annotations

import os
import sys
from typing import IO, TYPE_CHECKING, Any, ClassVar

from penstock import events as ev
from penstock._cli.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_CODES = {"dim": 2, "red": 31, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36}  # ANSI
_MAX_INPUT = 400  # characters of a call's input that are shown


class EventPrinter:
    """Writes the events of one answer after another. `text` is what the last one said."""

    def __init__(self, out: IO[str], *, json: bool = False) -> None:
        self._out = out
        self.json = json
        self._colour = _has_color(out)
        self._open_kind = ""  # the kind of part whose line is not ended
        self.text = ""
        self.broken = False

    def print_events(self, events: Sequence[ev.AnyEvent]) -> None:
        """Write a batch, and let it be seen."""
        for event in events:
            if self.json:
                self._print_json(event)
            else:
                write = self._table.get(type(event))
                if write is not None:  # framing, and fragments of what comes whole, are not shown
                    write(self, event)
        self._out.flush()

    def print_note(self, text: str) -> None:
        """A line about the answer, not of it."""
        print(_style_text(printable(text), "dim", on=_has_color(sys.stderr)), file=sys.stderr)

    def end_line(self) -> None:
        """End the line that is open."""
        if self._open_kind:
            self._out.write("\n")
            self._open_kind = ""
        self._out.flush()

    @staticmethod
    def format_usage(usage: ev.Usage | None) -> str:
        """Tokens in a few words."""
        if usage is None:
            return "usage unknown"
        told = {
            "in": usage.input,
            "out": usage.output,
            "cached": usage.cached,
            "written": usage.written,
            "reasoning": usage.reasoning,
        }
        return ", ".join(f"{count} {name}" for name, count in told.items() if count is not None) or "usage unknown"

    # ── what each event looks like ────────────────────────────────────────────────────────────────

    def _print_json(self, event: ev.AnyEvent) -> None:
        import msgspec

        self._out.write(msgspec.json.encode(event).decode() + "\n")
        self.broken = self.broken or isinstance(event, ev.Fault)

    def _start(self, _: Any) -> None:
        self.text, self.broken = "", False

    def _print_text(self, event: Any) -> None:
        self._switch_kind("text")
        self.text += event.text
        self._out.write(_printable_text(event.text))

    def _print_reasoning(self, event: ev.ReasoningDelta) -> None:
        if self._colour:
            self._switch_kind("thinking")
            self._out.write(_style_text(_printable_text(event.text), "dim", on=True))

    def _print_call(self, event: ev.CallEnd | ev.CallCut) -> None:
        self.end_line()
        who = "" if event.by == "client" else f", run by the {event.by}"
        cut = " (cut off: not to be run)" if isinstance(event, ev.CallCut) else ""
        given = printable(event.json)[:_MAX_INPUT]
        self._print_aside(f"tool {printable(event.name)}({given}){who}{cut}", "cyan")

    def _print_source(self, event: ev.Source) -> None:
        self.end_line()
        self._print_aside(f"source {printable(event.title or '')} {printable(event.url)}".replace("  ", " "), "blue")

    def _print_file(self, event: ev.FileStart) -> None:
        self.end_line()
        self._print_aside(f"file of type {printable(event.media)} {printable(event.url)}".rstrip(), "magenta")

    def _print_finish(self, event: ev.Finish) -> None:
        if event.reason not in {"stop", "calls"}:
            self.end_line()
            self._print_aside(f"ended: {event.reason}", "yellow")

    def _print_fault(self, event: ev.Fault) -> None:
        self.end_line()
        self.broken = True
        self._print_aside(f"broken off: {event.kind}: {printable(event.message)}", "red")

    def _switch_kind(self, kind: str) -> None:
        if self._open_kind and self._open_kind != kind:
            self.end_line()
        self._open_kind = kind

    def _print_aside(self, text: str, style: str) -> None:
        """Beside the text where that is a terminal, else to standard error."""
        out = self._out if self._colour or self._out.isatty() else sys.stderr
        print(_style_text(text, style, on=self._colour if out is self._out else _has_color(sys.stderr)), file=out)

    _table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        ev.Start: _start,
        ev.TextDelta: _print_text,
        ev.RefusalDelta: _print_text,
        ev.ReasoningDelta: _print_reasoning,
        ev.CallEnd: _print_call,
        ev.CallCut: _print_call,
        ev.Source: _print_source,
        ev.FileStart: _print_file,
        ev.Finish: _print_finish,
        ev.Fault: _print_fault,
    }


def _printable_text(text: str) -> str:
    """Text without anything that a terminal would obey, line breaks and tabs apart."""
    return "".join(char if char.isprintable() or char in "\n\t" else printable(char) for char in text)


def _style_text(text: str, style: str, *, on: bool) -> str:
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if on and text else text


def _has_color(out: IO[str]) -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (out.isatty() and os.environ.get("TERM") != "dumb")
