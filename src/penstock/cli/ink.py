"""Coloured text in columns: spans of text and style, measured and cut by what a terminal shows, not by code points.

Printed through rich where it is installed, by plain ANSI codes where it is not, and bare where colours are not wanted.
Leans on the standard library; what comes from a stream is never printed without `plain`, since it may hold escapes.
"""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Span: TypeAlias = tuple[str, str]
"""Text and its style: words that both rich and the table below know."""
Line: TypeAlias = "list[Span]"
Ink: TypeAlias = "Callable[[Line], None]"

CODES = {
    "bold": "1", "dim": "2", "italic": "3", "red": "31", "green": "32", "yellow": "33", "blue": "34", "magenta": "35",
    "cyan": "36",
}  # fmt: skip
ELLIPSIS = "…"
_WORD = re.compile(r"\s*\S+|\s+")
_SHOWN = {"\n": "⏎", "\t": "⇥", "\r": "␍"}


def plain(text: str) -> str:
    """The text on one line and without anything that a terminal would obey."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _SHOWN.get(char, "\N{REPLACEMENT CHARACTER}") for char in text)


def width(text: str) -> int:
    """How many columns a terminal needs for the text."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def _columns(char: str) -> int:
    if unicodedata.combining(char) or char in "\u200d\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def cut(text: str, room: int) -> str:
    """The text in at most that many columns, with an ellipsis for what is missing."""
    return text if width(text) <= room else _begin(text, room - 1) + ELLIPSIS


def _begin(text: str, room: int) -> str:
    """As much of the beginning of the text as there is room for."""
    kept = 0
    for char in text:
        room -= _columns(char)
        if room < 0:
            break
        kept += 1
    return text[:kept]


def fit(line: Line, room: int) -> Line:
    """The line in exactly that many columns."""
    spare = room - long(line)
    if spare >= 0:
        return [*line, (" " * spare, "")]
    out: Line = []
    left = room - 1
    for text, style in line:
        kept = _begin(text, left)
        out.append((kept, style))
        left -= width(kept)
        if kept != text:
            break
    return [*out, (ELLIPSIS, "dim"), (" " * left, "")]


def wrap(line: Line, room: int) -> list[Line]:
    """The line broken at spaces, or anywhere in a word that is wider than the room."""
    lines: list[Line] = [[]]
    left = room
    for text, style in line:
        for word in _WORD.findall(text):
            rest = word
            if width(rest.rstrip()) > left and left < room:
                lines.append([])
                rest, left = rest.lstrip(), room
            while width(rest) > left and (piece := _begin(rest, left)) and rest.strip():
                lines[-1].append((piece, style))
                lines.append([])
                rest, left = rest[len(piece) :].lstrip(), room
            lines[-1].append((rest, style))
            left -= width(rest)
    return [line for line in lines if line] or [[]]


def long(line: Line) -> int:
    """The width of a line."""
    return sum(width(text) for text, _ in line)


def forgive() -> None:
    """Let the terminal put a question mark for what it cannot write: it may know fewer characters than a model."""
    forgiving: Any = sys.stdout
    if hasattr(forgiving, "reconfigure"):
        forgiving.reconfigure(errors="replace")


def wanted(*, refused: bool) -> bool:
    """Whether to use colours: not if refused here or by NO_COLOR, else in terminals or by FORCE_COLOR."""
    if refused or os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def ink(*, colour: bool) -> Ink:
    """A function that prints lines to standard output."""
    if not colour:
        return lambda line: print("".join(text for text, _ in line).rstrip())
    try:
        return _rich()
    except ImportError:
        return lambda line: print("".join([_ansi(*span) for span in line]))


def _ansi(text: str, style: str) -> str:
    codes = ";".join(CODES[word] for word in style.split())
    return f"\x1b[{codes}m{text}\x1b[0m" if codes and text.strip() else text


def _rich() -> Ink:
    from rich.console import Console
    from rich.text import Text

    console = Console(
        file=sys.stdout, force_terminal=True, color_system="standard", highlight=False, markup=False, emoji=False
    )

    def show(line: Line) -> None:
        console.print(Text.assemble(*line), no_wrap=True, overflow="ignore", crop=False, soft_wrap=True)

    return show


def share(room: int, needs: Sequence[int]) -> list[int]:
    """Divide the room among columns by need: a column never gets more than it needs while another goes short."""
    given = [0] * len(needs)
    open_ = [place for place in range(len(needs)) if needs[place]]
    while open_ and room > 0:
        each = max(room // len(open_), 1)
        for place in list(open_):
            part = min(each, needs[place] - given[place], room)
            given[place] += part
            room -= part
            if given[place] == needs[place]:
                open_.remove(place)
    return given


def joined(lines: Iterable[Line], between: Span) -> Line:
    """Lines side by side."""
    out: Line = []
    for line in lines:
        if out:
            out.append(between)
        out += line
    return out
