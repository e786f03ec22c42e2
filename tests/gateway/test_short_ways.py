"""The short ways for one more word of a text say what the long ways say, whatever comes before, between and behind."""

from __future__ import annotations

from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from penstock import protocols
from penstock.bridge import encoding, parser
from penstock.engines.express import express
from penstock.framing import WRITERS
from penstock.gateway.doors.door import Asked
from penstock.gateway.writing import Translation
from penstock.grammar import Guard
from penstock.request import Request
from penstock.stage import Pipe
from tests.cases import Case, cases
from tests.looping import over
from tests.test_alike import LINES, frame

STREAMED = [case for case in cases() if case.streamed]
CHAT = [case for case in STREAMED if case.protocol == "openai-chat" and case.framing == "sse"]
ROWS = {name: protocols.protocol(name) for name in protocols.MODULES}
TARGETS = [name for name, row in ROWS.items() if row.encoder is not None and row.writes == "sse"]


class Ways:
    """One answer read by both ways; `short` counts how often the short one was taken."""

    def __init__(self) -> None:
        self.short = 0
        self._long = _stages()
        self._cut, self._decoder, self._guard = stages = _stages()
        self._express: Any = None
        assert all(type(one) is type(other) for one, other in zip(stages, self._long, strict=True))

    def same(self, chunk: bytes) -> None:
        cut, decoder, guard = self._long
        long = guard.feed(decoder.feed(cut.feed([chunk])))
        settled = self._cut.settled
        if settled is not None and self._express is None:
            self._express = express(settled, self._decoder, self._guard)
        told = self._express.read(chunk) if self._express is not None else None
        self.short += told is not None
        assert (told if told is not None else self._guard.feed(self._decoder.feed(self._cut.feed([chunk])))) == long


def _stages() -> tuple[Any, Any, Any]:
    return parser("auto"), protocols.decoder("openai-chat"), Guard()


@over(CHAT)
def test_reading_recorded_streams(case: Case) -> None:
    ways = Ways()
    for line in case.wire.read_bytes().split(b"\n\n"):
        ways.same(line + b"\n\n")


@hypothesis.given(
    st.lists(st.tuples(LINES, st.sampled_from([b"\n\n", b"\n\n", b"\n\n", b"\n", b"", b"\r\n\r\n"])), max_size=20)
)
@hypothesis.settings(deadline=None)
def test_reading_odd_texts_and_cuts(said: list[tuple[str, bytes]]) -> None:
    ways = Ways()
    for text, end in [("Once", b"\n\n"), (" upon", b"\n\n"), *said]:
        ways.same(b"data: " + frame(text) + end)


def test_most_of_a_stream_takes_the_short_way() -> None:
    ways = Ways()
    for number in range(50):
        ways.same(b"data: " + frame(f" word{number}") + b"\n\n")
    assert ways.short >= 45


@pytest.mark.parametrize("target", TARGETS)
@over(STREAMED)
def test_writing_one_event_at_a_time(case: Case, target: str) -> None:
    asked = Asked(Request(model="m"), target)
    long = Pipe(*encoding(target, frames=True).stages, WRITERS[asked.framing]())
    short = Translation(asked)
    for event in case.expected():
        assert short.feed((b"", [event])) == b"".join(long.feed([event]))
    assert short.finish() == b"".join(long.finish())
