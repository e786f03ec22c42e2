"""The short ways for one more word of a text say what the long ways say, whatever comes before, between and behind."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, cast

import hypothesis
import pytest
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock import protocols
from penstock.bridge import encoding, parser
from penstock.engines.express import Run, express, told
from penstock.engines.job import Job
from penstock.engines.reading import Reading
from penstock.errors import ProviderError
from penstock.framing import WRITERS
from penstock.gateway.doors.door import Asked
from penstock.gateway.writing import Translation
from penstock.grammar import Guard
from penstock.providers.registry import providers
from penstock.request import Request
from penstock.stage import Pipe
from tests.cases import Case, cases
from tests.looping import over
from tests.test_alike import LINES, frame

STREAMED = [case for case in cases() if case.streamed]
CHAT = [case for case in STREAMED if case.protocol == "openai-chat" and case.framing == "sse"]
ROWS = {name: protocols.protocol(name) for name in protocols.MODULES}
TARGETS = [name for name, row in ROWS.items() if row.encoder is not None and row.writes in {"sse", "sse+json"}]


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


OPENING = b"data: " + frame("Once") + b"\n\n"
ENDING = b"data: " + frame("x").replace(b"null", b'"stop"') + b"\n\n"

# ── many frames in one read ───────────────────────────────────────────────────────────────────────


class Said:
    """An answer that is there already: what a `Reading` asks of an incoming one."""

    status = 200
    headers: ClassVar = {"content-type": "text/event-stream"}

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = iter(chunks)

    async def read(self) -> bytes:
        return next(self._chunks, b"")


def chat_job() -> Job:
    row = providers()["openai"]
    endpoint = row.endpoint("chat", "m")
    assert endpoint is not None
    return Job(
        provider=row, endpoint=endpoint, operation="chat", model="m", protocol="openai-chat", url="", stream=True
    )


def batches(chunks: list[bytes], *, short: bool) -> list[list[Any]]:
    """What a reading makes of chunks; runs as they are where the short way is open."""

    async def read() -> list[list[Any]]:
        reading: Any = Reading(cast("Any", Said(chunks)), chat_job())
        if not short:
            reading._shortened = lambda: None
        made: list[list[Any]] = []
        while (pair := await reading.read()) is not None:
            made.append(pair[1])
        return made

    return asyncio.run(read())


def same_batches(chunks: list[bytes]) -> int:
    """Both ways say the same, read by read, and so do encoders; how many runs there were."""
    short, long = batches(chunks, short=True), batches(chunks, short=False)
    assert [told(batch) for batch in short] == long
    for target in TARGETS:
        one, other = (Translation(Asked(Request(model="m"), target)) for _ in range(2))
        for some, all_ in zip(short, long, strict=True):
            assert one.feed((b"", some)) == other.feed((b"", all_)), target
        assert one.finish() == other.finish()
    return sum(type(event) is Run for batch in short for event in batch)


@over(CHAT)
def test_a_recorded_stream_in_one_read(case: Case) -> None:
    same_batches([case.wire.read_bytes()])


@hypothesis.given(
    st.lists(st.tuples(LINES, st.sampled_from([b"\n\n", b"\n\n", b"\n\n", b"\n", b"", b"\r\n\r\n", b"\n\n: x\n\n"])),
             max_size=40),
    st.lists(st.integers(0, 9000), max_size=4),
)  # fmt: skip
@hypothesis.settings(deadline=None)
def test_odd_texts_in_few_reads(said: list[tuple[str, bytes]], cuts: list[int]) -> None:
    body = OPENING * 30 + b"".join(b"data: " + frame(text) + end for text, end in said)
    places = [0, *sorted(cuts), len(body)]
    same_batches([body[at:to] for at, to in pairwise(places) if body[at:to]])


def test_most_of_a_long_read_is_one_run() -> None:
    body = b"".join(b"data: " + frame(f" word {number} é\\n") + b"\n\n" for number in range(200))
    opened = OPENING * 5
    made = batches([opened + body], short=True)[0]
    (run,) = [event for event in made if type(event) is Run]
    assert len(run.words) >= 200
    assert same_batches([opened + body]) == 1


def test_a_frame_between_others_ends_a_run() -> None:
    call = b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f"}}]}}]}\n\n'
    assert same_batches([OPENING * 100 + call + OPENING * 100]) >= 1


def test_what_comes_before_broken_framing_is_told_first(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 50_000
    monkeypatch.setattr("penstock.engines.reading.parser", partial(parser, limit=limit))

    async def read() -> list[Any]:
        job = chat_job()
        job.endpoint = replace(job.endpoint, framing="sse")
        reading: Any = Reading(cast("Any", Said([OPENING * 100 + b"data: " + b"x" * limit])), job)
        reading._incoming.close = lambda: None
        made = [await reading.read()]
        with pytest.raises(ProviderError, match="limit"):
            await reading.read()
        return made

    pairs = asyncio.run(read())
    assert len(told(pairs[0][1])) > 90


@pytest.mark.parametrize("target", TARGETS)
@over(STREAMED)
def test_writing_one_event_at_a_time(case: Case, target: str) -> None:
    asked = Asked(Request(model="m"), target, framing=ROWS[target].writes)
    long = Pipe(*encoding(target, frames=True).stages, WRITERS[asked.framing]())
    short = Translation(asked)
    for event in case.expected():
        assert short.feed((b"", [event])) == b"".join(long.feed([event]))
    assert short.finish() == b"".join(long.finish())
