"""A stream leaves no reference cycles: its memory is free at once, without the garbage collector."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import pytest

from penstock import _protocols as protocols
from penstock._bridge import encoding, parser
from tests.support.case_loop import over
from tests.support.stream_cases import cases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.stream_cases import Case

pytestmark = pytest.mark.slow  # hundreds of tests, of memory rather than of behaviour

STREAMED = [case for case in cases() if case.streamed]
TARGETS = [name for name in protocols.MODULES if protocols.protocol(name).encoder is not None]


@pytest.fixture(autouse=True)
def by_hand() -> Iterator[None]:
    """The collector runs when it is told to, and looks at what is new alone."""
    gc.disable()
    yield  # what `left` froze stays so: to look at all that modules hold would slow down every later test
    gc.enable()


def left(run: Callable[[], Any]) -> int:
    """How many objects only the collector finds after a second run: the first may load and keep things."""
    run()
    gc.freeze()
    run()
    return gc.collect()


@over(STREAMED)
def test_reading_leaves_nothing(case: Case) -> None:
    wire = case.wire.read_bytes()

    def read() -> None:
        cut: Any = parser(case.framing)
        decoder = protocols.decoder(case.protocol)
        decoder.feed(cut.feed([wire]))
        decoder.feed(cut.finish())
        decoder.finish()

    assert left(read) == 0


@pytest.mark.parametrize("target", TARGETS)
@over(STREAMED[::5])
def test_writing_leaves_nothing(case: Case, target: str) -> None:
    events = case.expected()

    def write() -> None:
        pipe = encoding(target, frames=True)
        pipe.feed(events)
        pipe.finish()

    assert left(write) == 0


@over(STREAMED)
def test_reading_that_stops_halfway_leaves_nothing(case: Case) -> None:
    """As when a client leaves: nobody finishes the decoder."""
    wire = case.wire.read_bytes()

    def read() -> None:
        cut: Any = parser(case.framing)
        decoder = protocols.decoder(case.protocol)
        decoder.feed(cut.feed([wire[: len(wire) // 2]]))

    assert left(read) == 0


@pytest.mark.parametrize("target", TARGETS)
@over(STREAMED[::5])
def test_writing_that_stops_halfway_leaves_nothing(case: Case, target: str) -> None:
    events = case.expected()

    def write() -> None:
        for count in (len(events) // 3, len(events) // 2, len(events) - 1):
            encoding(target, frames=True).feed(events[:count])

    assert left(write) == 0
