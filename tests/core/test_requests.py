"""Golden requests: what each body means, and what every other protocol is sent for it. A new case is a folder."""

from __future__ import annotations

import msgspec
import pytest

from penstock.messages import convert, profile_of
from tests.support import request_contents, request_facets, request_schemas
from tests.support import request_protocols as requesting
from tests.support.request_cases import Case, cases


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.id)
def test_a_request_is_read_and_written_as_the_case_says(case: Case) -> None:
    """What was written means the same, providers take it, and nothing that was given is changed."""
    assert case.about.get("what")
    assert case.source in case.targets
    body = case.body(case.source)
    canonical, kept = case.canonical(), msgspec.to_builtins(case.canonical())
    problems = [] if kept == msgspec.to_builtins(requesting.read(case.source, body)) else ["it is read otherwise"]
    for target in requesting.WRITERS:
        draft = requesting.write(target, canonical)
        if target not in case.targets:
            continue
        sent = msgspec.json.decode(draft.encode())
        if sent != case.wanted(target):
            problems.append(f"{target} is sent otherwise")
        if (found := {finding.code for finding in draft.diagnostics}) != set(case.findings(target)):
            problems.append(f"{target} reports {sorted(found)}")
        changed = request_facets.changed(canonical, requesting.read(target, sent))
        if lost := changed - request_facets.excused(target, draft.diagnostics):
            problems.append(f"{target} is not told of {sorted(lost)}")
    for target in request_contents.READ:
        if target != case.source:
            made = convert(body, case.source, target, profile=profile_of(target))
            problems += [f"{target}: {found}" for found in request_contents.broken(target, made.body)]
    assert problems == []
    assert msgspec.to_builtins(canonical) == kept
    assert body == case.body(case.source)


def test_bodies_fit_the_published_schemas() -> None:
    found = {
        (case.id, target): complaints
        for case in cases()
        for target in request_schemas.DESCRIBED
        if case.source != target and (complaints := request_schemas.complaints(case.canonical(), case.source, target))
    }
    assert found == {}
