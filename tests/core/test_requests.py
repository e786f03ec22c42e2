"""Golden requests: what each body means, and what every other protocol is sent for it. A new case is a folder."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support import request_facets
from tests.support import request_protocols as requesting
from tests.support.request_cases import Case, cases

CASES = cases()
SENT = [pytest.param(case, target, id=f"{case.id}-{target}") for case in CASES for target in case.targets]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_request_is_read_as_the_case_says(case: Case) -> None:
    assert msgspec.to_builtins(case.read()) == msgspec.to_builtins(case.canonical())


@pytest.mark.parametrize(("case", "target"), SENT)
def test_a_request_is_written_as_the_case_says(case: Case, target: str) -> None:
    draft = case.written(target)
    assert msgspec.json.decode(draft.encode()) == case.wanted(target)
    assert sorted({finding.code for finding in draft.diagnostics}) == sorted(case.findings(target))


@pytest.mark.parametrize(("case", "target"), SENT)
def test_what_was_written_means_the_same(case: Case, target: str) -> None:
    before, draft = case.canonical(), case.written(target)
    after = requesting.read(target, msgspec.json.decode(draft.encode()))
    assert request_facets.changed(before, after) - request_facets.excused(target, draft.diagnostics) == set()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_reading_and_writing_change_nothing_they_were_given(case: Case) -> None:
    body, kept = case.body(case.source), case.body(case.source)
    request = requesting.read(case.source, body)
    before: Any = msgspec.json.encode(request)
    for target in requesting.WRITERS:
        requesting.write(target, request)
    assert body == kept
    assert msgspec.json.encode(request) == before


def test_every_case_says_what_it_shows() -> None:
    assert [case.id for case in CASES if not case.about.get("what")] == []
    assert [case.id for case in CASES if case.source not in case.targets] == []
