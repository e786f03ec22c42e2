"""The page about the extension answers each of the 25 complaints with a test that exists, or says why it is not ours."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from tests.surfaces.vscode.e2e import ROOT

PAGE = ROOT / "docs/vscode.md"
_ROW = re.compile(r"^\| (\d+) \| ([^|]+) \| ([^|]+) \| ?([^|]*) ?\|$", re.MULTILINE)
_EVIDENCE = re.compile(r'`([^`]+)` "([^"]+)"')
NOT_OURS = "not ours: "


class Complaint(NamedTuple):
    number: int
    about: str
    answer: str
    evidence: list[tuple[str, str]]  # files, and names in them


def complaints() -> list[Complaint]:
    text = (
        PAGE.read_text("utf-8").partition("## What users of other extensions complain about")[2].partition("\n## ")[0]
    )
    rows = _ROW.findall(text)
    return [Complaint(int(row[0]), row[1], row[2], _EVIDENCE.findall(row[3])) for row in rows]


def test_all_are_answered() -> None:
    assert [row.number for row in complaints()] == list(range(1, 26))


@pytest.mark.parametrize("row", complaints(), ids=lambda row: str(row.number))
def test_an_answer_names_tests_that_exist_or_says_why_it_is_not_ours(row: Complaint) -> None:
    assert bool(row.evidence) != row.answer.startswith(NOT_OURS)
    for file, name in row.evidence:
        assert name in (ROOT / file).read_text("utf-8"), f"{file} has no {name}"
