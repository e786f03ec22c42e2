"""Prints lines and streams of `penstock demo`, at the speed of a model or without pauses."""

from __future__ import annotations

import time
from typing import IO, TYPE_CHECKING

from penstock._cli.event_printer import style_text
from penstock._cli.terminal import truncate
from penstock._printable_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

WIDTH = 96  # columns; longer lines are wrapped or cut
LABEL = 12  # columns
WORD_PAUSE, THINKING_PAUSE, LINE_PAUSE, SCENE_PAUSE = 0.06, 0.03, 0.35, 1.2  # seconds
_TITLES = ("A stream as it arrives", "A stream that breaks off", "A tool call, exactly once", "The inspector")


class DemoScreen:
    """Prints lines and streams. `speed`: 1 pauses as a model does, 0 not at all."""

    def __init__(self, output: IO[str], *, color: bool, speed: float) -> None:
        self._output, self._color, self._speed = output, color, speed

    def print_title(self, number: int) -> None:
        """Prints the heading of a part."""
        self._pause(SCENE_PAUSE)
        self._write("\n")
        self.print_line(f"{number} {_TITLES[number - 1]}", "bold")

    def print_line(self, text: str, style: str = "", label: str = "") -> None:
        """Prints one line, cut at the width, with a label in front if there is one."""
        indent = f"  {label:<{LABEL}}" if label else ""
        self._write(style_text(indent, "dim", on=self._color))
        self._write(style_text(truncate(printable(text), WIDTH - len(indent)), style, on=self._color and bool(style)))
        self._write("\n")
        self._pause(LINE_PAUSE)

    def print_stream(self, label: str, pieces: Iterable[str], style: str = "", pause: float = WORD_PAUSE) -> None:
        """Prints pieces of text as they arrive, and wraps between them."""
        indent = LABEL + 2
        self._write(style_text(f"  {label:<{LABEL}}", "dim", on=self._color))
        column = indent
        for piece in map(printable, pieces):
            if column + len(piece) > WIDTH:
                self._write("\n" + " " * indent)
                column, piece = indent, piece.lstrip()  # noqa: PLW2901 — the space before a word stays on its line
            self._write(style_text(piece, style, on=self._color and bool(style)))
            column += len(piece)
            self._pause(pause)
        self._write("\n")
        self._pause(LINE_PAUSE)

    def _write(self, text: str) -> None:
        self._output.write(text)
        self._output.flush()

    def _pause(self, seconds: float) -> None:
        if self._speed:
            time.sleep(seconds * self._speed)
