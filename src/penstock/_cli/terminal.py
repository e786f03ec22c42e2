"""Prints lines and tables to the terminal: with rich where it is installed, as plain lines where it is not.

Text that comes from a stream goes through `printable` first, since it may hold terminal escape sequences.
"""

from __future__ import annotations

import os
import sys
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import msgspec

from penstock._printable_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Span: TypeAlias = tuple[str, str]
"""Text and its style, in the words of rich."""
StyledLine: TypeAlias = "list[Span]"
_GAP = "  "
_BAR = 32  # columns
_UNLIMITED = 10_000  # columns of a pipe: nothing is cut there


class Bar(NamedTuple):
    """A cell that is drawn as a horizontal bar."""

    value: float
    maximum: float


Cell: TypeAlias = "str | StyledLine | Bar"


class Column(NamedTuple):
    """A column of a table. `justify`: left or right. `shrinks`: its cells are cut first where room is short."""

    title: str
    style: str = ""
    justify: str = "left"
    shrinks: bool = False


def truncate(text: str, length: int) -> str:
    """Cut the text to that many characters, with an ellipsis for the rest."""
    return text if len(text) <= length else text[: length - 1] + "…"


def line_text(cell: Cell) -> str:
    """Return a cell's text without its styles. A bar has none."""
    if isinstance(cell, Bar):
        return ""
    return cell if isinstance(cell, str) else "".join(text for text, _ in cell)


def replace_unencodable() -> None:
    """Print a question mark for characters that the terminal's encoding does not have."""
    stdout: Any = sys.stdout
    if hasattr(stdout, "reconfigure"):
        stdout.reconfigure(errors="replace")


def wants_color(output: IO[str] | None = None, *, refused: bool = False) -> bool:
    """Return whether to use colours: not if refused or NO_COLOR is set, else in terminals or if FORCE_COLOR is set."""
    if refused or os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or ((output or sys.stdout).isatty() and os.environ.get("TERM") != "dumb")


class Printer(Protocol):
    """Prints to standard output."""

    def print_line(self, line: StyledLine, *, cut: bool = False) -> None:
        """Print one line. `cut`: at the terminal's width."""
        ...

    def print_labelled(self, label: str, line: StyledLine, indent: int) -> None:
        """Print a label, and a text beside it that wraps."""
        ...

    def print_table(self, columns: Sequence[Column], rows: Iterable[Sequence[Cell]], *, ruled: bool = False) -> None:
        """Print rows below their titles. `ruled`: with lines between the columns."""
        ...


def create_printer(*, color: bool, width: int | None = None) -> Printer:
    """Return a printer that uses rich if it is installed. `width`: columns, if not those of the terminal."""
    try:
        return _RichPrinter(color=color, width=width)
    except ImportError:
        return _PlainPrinter()


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """Print a table whose cells come from outside. A pipe gets them uncut."""
    printer = create_printer(color=wants_color(), width=None if sys.stdout.isatty() else _UNLIMITED)
    printer.print_table(columns, [[printable(cell) for cell in row] for row in rows])


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


class _PlainPrinter:
    def print_line(self, line: StyledLine, *, cut: bool = False) -> None:
        print(line_text(line).rstrip())

    def print_labelled(self, label: str, line: StyledLine, indent: int) -> None:
        print(f"{label:<{indent}}{line_text(line)}".rstrip())

    def print_table(self, columns: Sequence[Column], rows: Iterable[Sequence[Cell]], *, ruled: bool = False) -> None:
        lines = [[column.title for column in columns], *([line_text(cell) for cell in row] for row in rows)]
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        for line in lines:
            print((" │ " if ruled else _GAP).join(map(str.ljust, line, widths)).rstrip())


class _RichPrinter:
    def __init__(self, *, color: bool, width: int | None) -> None:
        from rich.console import Console

        self._console = Console(
            file=sys.stdout,
            force_terminal=color,
            no_color=not color,
            color_system="standard" if color else None,
            highlight=False,
            markup=False,
            emoji=False,
            width=width,
        )

    def print_line(self, line: StyledLine, *, cut: bool = False) -> None:
        from rich.text import Text

        text = Text.assemble(*line)
        if cut:
            self._print_without_trailing_spaces(text, no_wrap=True, overflow="ellipsis")
        else:
            self._print_without_trailing_spaces(text, soft_wrap=True)

    def print_labelled(self, label: str, line: StyledLine, indent: int) -> None:
        from rich.table import Table

        grid = Table.grid()
        grid.add_column(width=indent, style="dim")
        grid.add_column(overflow="fold")
        grid.add_row(label, _rich_cell(line))
        self._print_without_trailing_spaces(grid)

    def print_table(self, columns: Sequence[Column], rows: Iterable[Sequence[Cell]], *, ruled: bool = False) -> None:
        from rich import box
        from rich.table import Table

        table = Table(box=box.MINIMAL if ruled else None, show_edge=False, pad_edge=False, header_style="bold")
        for title, style, justify, shrinks in columns:
            how: Any = {"justify": justify, "no_wrap": not shrinks}  # rich shrinks columns that may wrap first
            table.add_column(title, style=style, **how)
        for row in rows:
            table.add_row(*(_rich_cell(cell, cut=True) for cell in row))
        self._print_without_trailing_spaces(table)

    def _print_without_trailing_spaces(self, *items: Any, **how: Any) -> None:
        """Print without the spaces that rich puts at the end of lines."""
        with self._console.capture() as captured:
            self._console.print(*items, **how)
        for line in captured.get().splitlines():
            print(line.rstrip())


def _rich_cell(cell: Cell, *, cut: bool = False) -> Any:
    from rich.bar import Bar as RichBar
    from rich.text import Text

    if isinstance(cell, Bar):
        return RichBar(cell.maximum or 1.0, 0.0, cell.value, width=_BAR, color="green")
    overflow: Any = "ellipsis" if cut else "fold"
    spans = [cell] if isinstance(cell, str) else cell
    return Text.assemble(*spans, no_wrap=cut, overflow=overflow)
