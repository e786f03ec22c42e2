"""A bar chart in the terminal: columns of eighths of a character, the highest figure above, times below."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.cli.ink import Line

EIGHTHS = " ▁▂▃▄▅▆▇█"
HIGH = 6  # lines
APART = 8  # columns between two times at least


def bars(figures: Sequence[float], labels: Sequence[str], name: Callable[[float], str]) -> Iterator[Line]:
    """The lines of a chart, one column for each figure."""
    most = max(figures, default=0.0)
    side = max(len(name(most)), 1)
    each = 2 if len(figures) <= APART * 5 else 1
    for row in range(HIGH - 1, -1, -1):
        label = name(most) if row == HIGH - 1 else "0" if not row else ""
        cells = "".join(_cell(figure, most, row) * each for figure in figures)
        yield [(f"{label:>{side}} ", "dim"), (cells, "green")]
    yield [(" " * (side + 1) + _below(labels, each), "dim")]


def _cell(figure: float, most: float, row: int) -> str:
    if not figure or not most:
        return " "
    eighths = max(round(figure / most * HIGH * 8), 1)  # what is there is seen
    return EIGHTHS[min(max(eighths - row * 8, 0), 8)]


def _below(labels: Sequence[str], each: int) -> str:
    made = ""
    for place, label in enumerate(labels):
        if len(made) <= place * each and (not made or place * each - len(made.rstrip()) >= 2):  # noqa: PLR2004
            made = made.ljust(place * each) + label.ljust(APART)
    return made.rstrip()
