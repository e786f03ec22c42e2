"""The fast path for text gives what the normal path gives: for every protocol, text, cutting and frame in between.

Streams are made of the golden cases: a frame that gives one delta is repeated with other texts in its place, with other
frames of the same protocol among them. Each is read with the fast path and without, and written for every client.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from penstock.events import CallDelta, ReasoningDelta, RefusalDelta, TextDelta
from tests.support import corpus
from tests.support import recorded_streams as recorded
from tests.support import run_streams as running
from tests.support.case_loop import over
from tests.support.each_case import each
from tests.support.relayed_streams import client_gets
from tests.support.stream_cases import Case, cases
from tests.support.text_paths import Answer, compare, job, written

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.framing import Frame
    from tests.support.corpus import Entry

STREAMED = [case for case in cases() if case.streamed]
SOURCES = sorted({case.protocol for case in STREAMED} - {"events"})
TARGETS = running.targets()
DELTAS = (TextDelta, RefusalDelta, ReasoningDelta, CallDelta)
# Texts as they stand between the quotes of JSON: well formed or not.
ODD = [
    '"', '\\"', "\\n", "\\u0041", "\\u00e9", "\\/", "\n", "\x00", "\x7f", "\u00a0", "é", "😀", "\\ud83d\\ude00", "\\ud83d",
    '","role":"x', '"}', "<think>", "</think>", "", " ", "data", "content", "a" * 5000, "{", '{\\"a\\":1}', "  {", "}", "null",
    '\\"obfuscation\\":\\"x\\"', '\\"sequence_number\\":7', '\\"}   }', "}   }", "\\", "\\x",
]  # fmt: skip
CLIENTS = ("openai-chat", "anthropic", "responses", "gemini", "uistream", "vscode")
ENOUGH = 550  # of 600 deltas
LEAST = {"openai-chat": 0.7, "anthropic": 0.7, "responses": 0.7, "cohere": 0.8}  # of the deltas of recorded streams
CHAT_END = [(b"", b'{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'), (b"", b"[DONE]")]
BROKEN = [b"\xff", b"\xc3", b"\xa9"]  # no UTF-8, and halves of a letter
SAMPLED = 12  # of so many recorded streams, one is compared in `make test`
WORDS = st.one_of(
    st.sampled_from([word.encode() for word in ODD] + BROKEN),
    st.text(max_size=8).map(lambda text: json.dumps(text)[1:-1].encode()),
    st.text(st.characters(codec="utf-8"), max_size=8).map(
        lambda text: json.dumps(text, ensure_ascii=False)[1:-1].encode()
    ),
    st.sampled_from([b" word", b" more", b"and", b" so on"]),
)


class Place:
    """A frame that gives one delta, the frames before it, and where its text stands."""

    def __init__(self, before: list[Frame], frame: Frame, at: int, to: int) -> None:
        self.before, self.name = before, frame[0]
        self._head, self._tail = frame[1][:at], frame[1][to:]

    def frame(self, word: bytes) -> Frame:
        return self.name, self._head + word + self._tail


@cache
def places(source: str) -> list[Place]:
    """All frames of the golden streams that give one delta whose text they hold once."""
    found: list[Place] = []
    for case in cases(source):
        decoder = penstock.decoder(source)
        for number, frame in enumerate(case.frames if case.streamed else ()):
            made = decoder.feed([frame])
            if len(made) != 1 or not isinstance(made[0], DELTAS):
                continue
            text = made[0].json if isinstance(made[0], CallDelta) else made[0].text
            for word in {json.dumps(text).encode(), json.dumps(text, ensure_ascii=False).encode()}:
                if frame[1].count(word) == 1:
                    at = frame[1].index(word) + 1
                    found.append(Place(case.frames[:number], frame, at, at + len(word) - 2))
                    break
    return found


@cache
def long_text(source: str) -> tuple[Place, int]:
    """A place whose repetition is read by the fast path, and how many of 600 deltas are; else the best that there is."""
    best: tuple[Place, int] | None = None
    for place in places(source):
        frames = [*place.before, *(place.frame(b" word%d \\u00e9\\n" % number) for number in range(600))]
        fast = min(compare(source, [written(source, frames, end)], ()).taken_fast for end in (b"\n", b"\r\n"))
        if best is None or fast > best[1]:
            best = place, fast
        if fast >= ENOUGH:
            break
    assert best is not None
    return best


def cut(body: bytes, at: Sequence[int]) -> list[bytes]:
    bounds = [0, *sorted({place % (len(body) + 1) for place in at}), len(body)]
    return [body[first:last] for first, last in pairwise(bounds) if first < last]


@over(STREAMED)
def test_golden_streams(case: Case) -> None:
    if case.framing in ("sse", "ndjson"):
        body = written(case.protocol, case.frames)
        compare(case.protocol, [body], TARGETS)
        compare(case.protocol, cut(body, range(0, len(body), 301)), TARGETS)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(SOURCES), st.data())
def test_any_texts_and_frames_among_them(source: str, data: st.DataObject) -> None:
    place = data.draw(st.sampled_from(places(source)))
    others = [frame for case in cases(source) if case.streamed for frame in case.frames]
    more = st.one_of(
        WORDS.map(place.frame), WORDS.map(place.frame), WORDS.map(place.frame), st.sampled_from(others),
        st.sampled_from([(b"", b"garbage"), (b"", b"[DONE]"), (b"error", b"no"), (b"", b'{"error":{"message":"no"}}')]),
    )  # fmt: skip
    steady = [place.frame(b" word"), place.frame(b" more"), place.frame(b" words")]
    frames = [*place.before, *steady, *data.draw(st.lists(more, max_size=12)), *steady]
    body = written(source, frames, data.draw(st.sampled_from([b"\n", b"\n", b"\r\n", b"\r"])))
    targets = data.draw(st.lists(st.sampled_from(TARGETS), min_size=2, max_size=2, unique=True))
    compare(source, cut(body, data.draw(st.lists(st.integers(0, 10**6), max_size=3))), targets)


def test_most_of_a_long_text_takes_the_fast_path() -> None:
    """Else the comparisons here would show nothing. The editor's own stream has no such path."""
    fast = {source: long_text(source)[1] for source in SOURCES if source != "vscode"}
    assert {source: count for source, count in fast.items() if count < ENOUGH} == {}


@each("source", SOURCES)
def test_odd_texts(source: str) -> None:
    compare_odd_texts(source, 1)


@pytest.mark.nightly
@pytest.mark.parametrize("source", SOURCES)
def test_odd_texts_at_many_places(source: str) -> None:
    compare_odd_texts(source, 12)


def compare_odd_texts(source: str, most: int) -> None:
    for place in places(source)[:most]:
        for word in [*(word.encode() for word in ODD), *BROKEN]:
            frames = [*place.before, *(place.frame(b" word") for _ in range(3)), place.frame(word), place.frame(b" on")]
            compare(source, [written(source, frames)], ("openai-chat", "responses"))


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["anthropic", "openai-chat", "responses", "gemini"]),
    st.lists(WORDS, max_size=20),
    st.lists(st.booleans(), max_size=12),
)
def test_a_client_gets_the_same_over_a_connection(target: str, words: list[bytes], taken: list[bool]) -> None:
    """Reads of one frame each, written from within the connection's callback or not, as the client can take them."""
    place, _ = long_text("openai-chat")
    frames = [*place.before, *(place.frame(word) for word in [b" a", b" b", b" c", *words, b" d"]), *CHAT_END]
    chunks = [written("openai-chat", [frame]) for frame in frames]
    made, _ = asyncio.run(client_gets(chunks, target, taken, job("openai-chat")))
    assert made == b"".join(Answer("openai-chat", chunks, fast=False).write(target))


def test_what_comes_before_broken_framing_is_told_first() -> None:
    limit = 50_000
    place, _ = long_text("openai-chat")
    frames = [*place.before, *(place.frame(b" word") for _ in range(100))]
    broken = written("openai-chat", frames) + b"data: " + b"x" * limit
    answer = compare("openai-chat", [broken], TARGETS, limit=limit)
    assert len(answer.events[0]) > 90
    assert "limit" in answer.error


@corpus.SHARES
def test_recorded_streams(share: int, record_property: Callable[[str, object], None]) -> None:
    """Whole, and in reads of a network's size; and most deltas take the fast path."""
    corpus.corpus_or_skip()
    deltas, fast = Counter[str](), Counter[str]()

    @each("entry", corpus.take_share(corpus.streams(), share if share == 1 else SAMPLED), lambda entry: entry.name)
    def check(entry: Entry) -> None:
        source = recorded.SOURCES[entry.protocol]
        body = written(source, running.frames_of(entry.body))
        answer = compare(source, [body], CLIENTS)
        compare(source, cut(body, range(0, len(body), 1400)), CLIENTS)
        deltas[source] += answer.deltas
        fast[source] += answer.taken_fast

    check()
    record_property("table", f"{fast.total():8,} of {deltas.total():8,} deltas take the fast path")
    assert {source: fast[source] for source, least in LEAST.items() if fast[source] < least * deltas[source]} == {}
