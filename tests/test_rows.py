"""Every row of the requirements and pitfalls that is done has a test marked with its id."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import request_cases
from tests.cases import cases

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
ROWS: dict[str, Any] = tomllib.loads((HERE / "data/rows.toml").read_text())
PROVEN = [f"{letter}{number}" for letter, numbers in ROWS["proven"].items() for number in numbers]
WAITING: dict[str, str] = ROWS["waiting"]


def _files() -> Iterator[Path]:
    return (path for path in HERE.rglob("test_*.py") if "node_modules" not in path.parts)


def _marks(path: Path, name: str = "row") -> Iterator[str]:
    """The ids in `pytest.mark.row("…")`, or another mark, wherever it stands."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(f"mark.{name}"):
            yield from (str(arg.value) for arg in node.args if isinstance(arg, ast.Constant))


MARKED = Counter(mark for path in _files() for mark in _marks(path))
MARKED.update(row for case in cases() for row in case.rows)
MARKED.update(row for case in request_cases.cases() for row in case.about.get("rows", ()))
FINDINGS = Counter(mark for path in _files() for mark in _marks(path, "finding"))
PITFALLS = Counter(mark for path in _files() if path.parent.name == "pitfalls" for mark in _marks(path))
TWICE = ("M1", "M2", "M3", "M4")
"""What is both a requirement of requests and a pitfall of streams."""


@pytest.mark.parametrize("row", PROVEN)
def test_a_row_has_a_test(row: str) -> None:
    assert MARKED[row] > 0


@pytest.mark.parametrize("row", TWICE)
def test_a_row_of_two_lists_has_a_test_for_each(row: str) -> None:
    assert 0 < PITFALLS[row] < MARKED[row]


def test_a_fixed_finding_has_a_test() -> None:
    assert [finding for finding in ROWS["findings"]["fixed"] if not FINDINGS[finding]] == []


def test_every_finding_mark_is_an_id() -> None:
    assert [mark for mark in FINDINGS if not re.fullmatch(r"[A-Z]{3}-[0-9]+", mark)] == []


def test_what_waits_says_what_for() -> None:
    assert all(WAITING.values())
    assert set(WAITING) & set(PROVEN) == set()


def test_every_mark_is_a_row() -> None:
    """Rows of later issues may be marked before their time; a letter and a number they have."""
    assert [mark for mark in MARKED if not (mark[:1].isupper() and mark[1:2].isdigit())] == []
