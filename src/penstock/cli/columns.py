"""A plain table: columns as wide as they need, the last one cut where the terminal ends. Leans on `ink`."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

from penstock.cli.ink import cut, ink, plain, wanted, width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.cli.ink import Line

GAP = "  "


def show(titles: Sequence[str], rows: Sequence[Sequence[str]], styles: Sequence[str]) -> None:
    """Print the rows under their titles. A pipe gets them uncut."""
    clean = [[plain(cell) for cell in row] for row in rows]
    widths = [max(width(row[place]) for row in [list(titles), *clean]) for place in range(len(titles))]
    if sys.stdout.isatty():
        used = sum(widths[:-1]) + len(GAP) * (len(widths) - 1)
        widths[-1] = max(shutil.get_terminal_size().columns - used, 10)
    put = ink(colour=wanted(refused=False))
    put(_line(titles, widths, ["bold"] * len(titles)))
    for row in clean:
        put(_line(row, widths, styles))


def _line(cells: Sequence[str], widths: list[int], styles: Sequence[str]) -> Line:
    line: Line = []
    for cell, room, style in zip(cells, widths, styles, strict=True):
        shown = cut(cell, room)
        line += [(shown, style), (" " * (room - width(shown)) + GAP, "")]
    return line
