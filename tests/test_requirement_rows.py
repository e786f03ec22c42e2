"""Every row of the requirements and pitfalls that is done has a test marked with its id."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support import request_cases
from tests.support.stream_cases import cases

HERE = Path(__file__).parent
ROWS: dict[str, Any] = tomllib.loads((HERE / "data/rows.toml").read_text())
PROVEN = [f"{letter}{number}" for letter, numbers in ROWS["proven"].items() for number in numbers]
PARTS = [f"{row}:{part}" for row, parts in ROWS["parts"].items() for part in parts]
WAITING: dict[str, str] = ROWS["waiting"]
MARK = re.compile(r"\bmark\.(row|finding)\(([^()]*)\)")
COMMENT = re.compile(r"#.*")


class Marks(NamedTuple):
    """How often each id is marked in the files of a folder."""

    rows: Counter[str]
    findings: Counter[str]


@cache
def marks(folder: str = "") -> Marks:
    """The ids in `pytest.mark.row("…")` and `pytest.mark.finding("…")`, wherever they stand outside comments.

    The text is searched: to parse all the files takes seconds.
    """
    found = Marks(Counter(), Counter())
    for path in (HERE / folder).rglob("test_*.py"):
        if "node_modules" in path.parts or path == Path(__file__):
            continue
        for name, ids in MARK.findall(COMMENT.sub("", path.read_text())):
            (found.rows if name == "row" else found.findings).update(re.findall(r'"([^"]*)"', ids))
    return found


@cache
def marked() -> Counter[str]:
    """How often each row is proven, by marked tests and by the cases of streams and requests."""
    found = Counter(marks().rows)
    found.update(row for case in cases() for row in case.rows)
    found.update(row for case in request_cases.cases() for row in case.about.get("rows", ()))
    for mark, times in list(found.items()):
        row, colon, _ = mark.partition(":")
        if colon:  # a test of a part is a test of its row
            found[row] += times
    return found


TWICE = ("M1", "M2", "M3", "M4")
"""What is both a requirement of requests and a pitfall of streams."""


@pytest.mark.slow
@pytest.mark.parametrize("row", PROVEN)
def test_a_row_has_a_test(row: str) -> None:
    assert marked()[row] > 0


@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_a_row_has_a_test(part: str) -> None:
    assert marked()[part] > 0


def test_every_marked_part_is_known() -> None:
    assert [mark for mark in marked() if ":" in mark and mark not in PARTS] == []


@pytest.mark.parametrize("row", TWICE)
def test_a_row_of_two_lists_has_a_test_for_each(row: str) -> None:
    assert 0 < marks("pitfalls").rows[row] < marked()[row]


def test_a_fixed_finding_has_a_test() -> None:
    assert [finding for finding in ROWS["findings"]["fixed"] if not marks().findings[finding]] == []


def test_every_finding_mark_is_an_id() -> None:
    assert [mark for mark in marks().findings if not re.fullmatch(r"[A-Z]{3}-[0-9]+", mark)] == []


def test_what_waits_says_what_for() -> None:
    assert all(WAITING.values())
    assert set(WAITING) & set(PROVEN) == set()


def test_every_mark_is_a_row() -> None:
    """Rows of later issues may be marked before their time; a letter and a number they have."""
    assert [mark for mark in marked() if not (mark[:1].isupper() and mark[1:2].isdigit())] == []
