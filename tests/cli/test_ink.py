"""Text in columns: measured as a terminal shows it, never wider than asked, never with a control character."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli import ink

LINES = st.lists(st.tuples(st.text(max_size=30).map(ink.plain), st.sampled_from(["", "dim", "bold red"])), max_size=5)


def text_of(line: ink.Line) -> str:
    return "".join(text for text, _ in line)


@pytest.mark.parametrize(
    ("text", "columns"), [("tide", 4), ("潮汐", 4), ("e\u0301te\u0301", 3), ("🌊", 2), ("", 0), ("→│", 2)]
)
def test_width(text: str, columns: int) -> None:
    assert ink.width(text) == columns


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a\nb\tc\r", "a⏎b⇥c␍"), ("\x1b[2J\x07\x9b", "\ufffd[2J\ufffd\ufffd"), ("\u202eabc", "\ufffdabc")],
)
def test_nothing_that_a_terminal_obeys_is_printed(text: str, shown: str) -> None:
    assert ink.plain(text) == shown


def test_cut() -> None:
    assert ink.cut("harbour", 7) == "harbour"
    assert ink.cut("harbour", 5) == "harb…"
    assert ink.cut("潮汐表", 4) == "潮…"


@given(LINES, st.integers(1, 60))
def test_a_fitted_line_is_exactly_that_wide(line: ink.Line, room: int) -> None:
    assert ink.long(ink.fit(line, room)) == room


@given(LINES, st.integers(3, 60))
def test_wrapped_lines_are_no_wider_and_lose_nothing(line: ink.Line, room: int) -> None:
    lines = ink.wrap(line, room)
    assert all(ink.width(text_of(part).rstrip()) <= room for part in lines)
    assert "".join("".join(map(text_of, lines)).split()) == "".join(text_of(line).split())


@given(st.integers(0, 300), st.lists(st.integers(0, 200), min_size=1, max_size=4))
def test_columns_share_the_room(room: int, needs: list[int]) -> None:
    given_ = ink.share(room, needs)
    assert all(part <= need for part, need in zip(given_, needs, strict=True))
    assert sum(given_) == min(room, sum(needs))
    short = [part for part, need in zip(given_, needs, strict=True) if part < need]
    assert all(part <= min(short) + 1 for part, need in zip(given_, needs, strict=True) if part < need)
