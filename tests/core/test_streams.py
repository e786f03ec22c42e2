"""The golden cases, one test each: the events they mean in every cutting, and what every target is sent for them."""

from __future__ import annotations

import pytest

from tests.support import run_streams as running
from tests.support import stream_laws as laws
from tests.support.case_loop import over
from tests.support.stream_cases import Case, cases, lines

pytestmark = pytest.mark.usefixtures("strict")
KEYS = {"what", "source", "options", "diagnostics", "targets"}
CASES = cases()
MANY = 30  # places at which a case is cut in two in `make test`; in `make nightly` it is cut at all


def test_every_protocol_that_is_read_has_cases() -> None:
    assert {case.protocol for case in CASES} >= set(running.sources())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_case(case: Case) -> None:
    assert case.about["what"]
    assert set(case.about) <= KEYS
    assert case.source.partition("@")[0] == case.protocol
    check_reading(case)
    check_goldens(case)
    events = case.expected()
    slow = [name for name in running.targets() if running.write_slowly(name, events) != running.write(name, events)]
    assert slow == [], "one event at a time is written otherwise"
    assert [f"{name}: {found}" for name in running.targets() for found in laws.problems(name, events)] == []


def check_reading(case: Case) -> None:
    expected = case.expected()
    if (found := case.decoded()) != expected:
        assert lines(found).decode() == case.book.read_text()
    if not case.streamed:
        return
    places = range(1, len(case.body), max(1, len(case.body) // MANY))
    assert running.steady(case.source, case.body, case.framing, case.options, places) == expected
    assert running.decode(case.source, case.body, "auto", case.options) == expected
    if "diagnostics" in case.about:
        read = running.run(case.source, running.batches([case.body], case.framing), case.options)
        assert read.codes == set(case.about["diagnostics"])


def check_goldens(case: Case) -> None:
    """What is written down for a target is what it is sent, all events at once or one at a time."""
    for target, path in case.outputs().items():
        written, slowly = case.written(target, case.expected()), case.written(target, case.expected(), slowly=True)
        wanted = path.read_bytes()
        assert written.decode(errors="backslashreplace") == wanted.decode(errors="backslashreplace"), target
        assert slowly == wanted, f"{target}, one event at a time"


@pytest.mark.nightly
@over([case for case in CASES if case.streamed])
def test_a_case_in_every_cutting(case: Case) -> None:
    assert running.steady(case.source, case.body, case.framing, case.options) == case.decoded()
