"""The golden cases: the events they mean, in every cutting, and the bytes that other protocols are sent for them."""

from __future__ import annotations

import pytest

from tests.support import run_streams as running
from tests.support.case_loop import over
from tests.support.stream_cases import Case, cases, lines

pytestmark = pytest.mark.usefixtures("strict")
KEYS = {"what", "source", "options", "diagnostics", "targets"}


def proving(case: Case, *more: str) -> object:
    """The case as a parameter."""
    return pytest.param(case, *more, id=" to ".join([case.id, *more]))


CASES = cases()
STREAMED = [case for case in CASES if case.streamed]
MANY = 30  # places at which a case is cut in two in the fast suite; the slow one cuts at all
OUTPUTS = [proving(case, target) for case in CASES for target in case.outputs()]


def test_every_protocol_that_is_read_has_cases() -> None:
    lacking = [name for name in running.sources() if not any(case.protocol == name for case in CASES)]
    assert lacking == []


@over(CASES)
def test_a_case_says_what_it_shows(case: Case) -> None:
    assert case.about["what"]
    assert set(case.about) <= KEYS
    assert case.source.partition("@")[0] == case.protocol


@pytest.mark.parametrize("case", [proving(case) for case in CASES])
def test_events(case: Case) -> None:
    found = case.decoded()
    if found != case.expected():
        assert lines(found).decode() == case.book.read_text()


@pytest.mark.parametrize("case", [proving(case) for case in STREAMED])
def test_events_in_many_cuttings(case: Case) -> None:
    places = range(1, len(case.body), max(1, len(case.body) // MANY))
    assert running.steady(case.source, case.body, case.framing, case.options, places) == case.decoded()


@pytest.mark.nightly
@over(STREAMED)
def test_events_in_every_cutting(case: Case) -> None:
    assert running.steady(case.source, case.body, case.framing, case.options) == case.decoded()


@over(STREAMED)
def test_the_framing_is_recognised(case: Case) -> None:
    assert running.decode(case.source, case.body, "auto", case.options) == case.decoded()


@over([case for case in STREAMED if "diagnostics" in case.about])
def test_diagnostics(case: Case) -> None:
    run = running.run(case.source, running.batches([case.body], case.framing), case.options)
    assert run.codes == set(case.about["diagnostics"])


@pytest.mark.parametrize(("case", "target"), OUTPUTS)
def test_output(case: Case, target: str) -> None:
    written = case.written(target, case.expected())
    assert written.decode(errors="backslashreplace") == case.outputs()[target].read_bytes().decode(
        errors="backslashreplace"
    )


@over([case for case in CASES if case.outputs()])
def test_output_does_not_depend_on_batches(case: Case) -> None:
    """One event at a time gives the bytes that all at once do."""
    for target, path in case.outputs().items():
        options = case.about.get("targets", {}).get(target)
        assert running.write_slowly(target, case.expected(), options) == path.read_bytes()
