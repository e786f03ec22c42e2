"""Events as a person reads them in a terminal: text as it comes, thinking dimmed, calls and sources on own lines.

To a pipe goes the text alone; everything else goes to standard error, where somebody may be looking.
"""

from __future__ import annotations

import os
import sys
from typing import IO, TYPE_CHECKING, Any, ClassVar

from penstock import events as ev
from penstock.cli.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_CODES = {"dim": 2, "red": 31, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36}  # ANSI
_LONG = 400  # characters of a call's input that are shown


class Speech:
    """Writes the events of one answer after another. `text` is what the last one said."""

    def __init__(self, out: IO[str], *, json: bool = False) -> None:
        self._out = out
        self.json = json
        self._colour = _colours(out)
        self._open = ""  # the kind of part whose line is not ended
        self.text = ""
        self.broken = False

    def say(self, events: Sequence[ev.AnyEvent]) -> None:
        """Write a batch, and let it be seen."""
        for event in events:
            if self.json:
                self._line(event)
            else:
                write = self._table.get(type(event))
                if write is not None:  # framing, and fragments of what comes whole, are not shown
                    write(self, event)
        self._out.flush()

    def aside(self, text: str) -> None:
        """A line about the answer, not of it."""
        print(_styled(printable(text), "dim", on=_colours(sys.stderr)), file=sys.stderr)

    def leave(self) -> None:
        """End the line that is open."""
        if self._open:
            self._out.write("\n")
            self._open = ""
        self._out.flush()

    @staticmethod
    def cost(usage: ev.Usage | None) -> str:
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

    def _line(self, event: ev.AnyEvent) -> None:
        import msgspec

        self._out.write(msgspec.json.encode(event).decode() + "\n")
        self.broken = self.broken or isinstance(event, ev.Fault)

    def _start(self, _: Any) -> None:
        self.text, self.broken = "", False

    def _say(self, event: Any) -> None:
        self._turn_to("text")
        self.text += event.text
        self._out.write(_shown(event.text))

    def _think(self, event: ev.ReasoningDelta) -> None:
        if self._colour:
            self._turn_to("thinking")
            self._out.write(_styled(_shown(event.text), "dim", on=True))

    def _call(self, event: ev.CallEnd | ev.CallCut) -> None:
        self.leave()
        who = "" if event.by == "client" else f", run by the {event.by}"
        cut = " (cut off: not to be run)" if isinstance(event, ev.CallCut) else ""
        given = printable(event.json)[:_LONG]
        self._note(f"tool {printable(event.name)}({given}){who}{cut}", "cyan")

    def _source(self, event: ev.Source) -> None:
        self.leave()
        self._note(f"source {printable(event.title or '')} {printable(event.url)}".replace("  ", " "), "blue")

    def _file(self, event: ev.FileStart) -> None:
        self.leave()
        self._note(f"file of type {printable(event.media)} {printable(event.url)}".rstrip(), "magenta")

    def _finish(self, event: ev.Finish) -> None:
        if event.reason not in {"stop", "calls"}:
            self.leave()
            self._note(f"ended: {event.reason}", "yellow")

    def _fault(self, event: ev.Fault) -> None:
        self.leave()
        self.broken = True
        self._note(f"broken off: {event.kind}: {printable(event.message)}", "red")

    def _turn_to(self, kind: str) -> None:
        if self._open and self._open != kind:
            self.leave()
        self._open = kind

    def _note(self, text: str, style: str) -> None:
        """Beside the text where that is a terminal, else to standard error."""
        out = self._out if self._colour or self._out.isatty() else sys.stderr
        print(_styled(text, style, on=self._colour if out is self._out else _colours(sys.stderr)), file=out)

    _table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        ev.Start: _start,
        ev.TextDelta: _say,
        ev.RefusalDelta: _say,
        ev.ReasoningDelta: _think,
        ev.CallEnd: _call,
        ev.CallCut: _call,
        ev.Source: _source,
        ev.FileStart: _file,
        ev.Finish: _finish,
        ev.Fault: _fault,
    }


def _shown(text: str) -> str:
    """Text without anything that a terminal would obey, line breaks and tabs apart."""
    return "".join(char if char.isprintable() or char in "\n\t" else printable(char) for char in text)


def _styled(text: str, style: str, *, on: bool) -> str:
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if on and text else text


def _colours(out: IO[str]) -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (out.isatty() and os.environ.get("TERM") != "dumb")
