"""Text in a terminal: no control characters, cut where room is short, and plain lines where rich is not installed."""

from __future__ import annotations

import sys

import pytest

from penstock._cli import terminal
from penstock._cli.terminal import Bar, Cell, Column
from penstock._printable_text import printable
from tests.support.each_case import each


@each(
    "text, shown",
    [("a\nb\tc\r", "a⏎b⇥c␍"), ("\x1b[2J\x07\x9b", "\ufffd[2J\ufffd\ufffd"), ("\u202eabc", "\ufffdabc")],
)
def test_nothing_that_a_terminal_obeys_is_printed(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_truncate() -> None:
    assert terminal.truncate("harbour", 7) == "harbour"
    assert terminal.truncate("harbour", 5) == "harb…"


COLUMNS = (Column("port", "bold"), Column("tide", justify="right"), Column("note", "dim", shrinks=True), Column(""))
ROWS: list[list[Cell]] = [["Dover", "7", "high water at noon", Bar(7, 7)], ["Hull", "3", "潮汐表 " * 3, Bar(3, 7)]]


def printed(capsys: pytest.CaptureFixture[str], *, width: int, ruled: bool = False) -> list[str]:
    terminal.create_printer(color=False, width=width).print_table(COLUMNS, ROWS, ruled=ruled)
    return capsys.readouterr().out.splitlines()


def test_a_table_is_aligned_and_has_bars(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, width=120)
    assert lines[0].split() == ["port", "tide", "note"]
    assert lines[1].startswith("Dover     7  high water at noon")
    assert lines[1].count("█") > lines[2].count("█") > 0


@pytest.mark.parametrize("width", [58, 64])
def test_only_the_column_that_may_shrink_is_cut(capsys: pytest.CaptureFixture[str], width: int) -> None:
    from rich.cells import cell_len

    lines = printed(capsys, width=width, ruled=True)
    assert max(map(cell_len, lines)) <= width
    assert all(word in "".join(lines) for word in ("Dover", "Hull", "tide"))
    assert len(lines) == 4  # nothing wraps: titles, a rule, two rows


def test_without_rich_the_same_cells_are_plain_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert printed(capsys, width=20) == [
        "port   tide  note",
        "Dover  7     high water at noon",
        "Hull   3     潮汐表 潮汐表 潮汐表",
    ]
    printer = terminal.create_printer(color=True)
    printer.print_line([("one ", "bold"), ("two", "red")])
    printer.print_labelled("text", [("long " * 40, "green")], 10)
    assert capsys.readouterr().out.splitlines()[0] == "one two"
