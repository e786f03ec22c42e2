"""The fast path for text gives what the normal path gives: for every protocol, text, cutting and frame in between.

Streams are made of the golden cases: a frame that gives one delta is repeated with other texts in its place, with other
frames of the same protocol among them. Each is read with the fast path and without, and written for every client.
"""

from __future__ import annotations

import asyncio
import json
from functools import cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock import _delta_templates as delta_templates
from penstock import _protocols as protocols
from penstock._bridge import encoding, parser
from penstock._engines.engine_interface import UpstreamRequest
from penstock._engines.reply_decoding import NativeSource
from penstock._gateway.client_stream import Passthrough, Translation
from penstock._gateway.endpoints import TurnRequest
from penstock._messages.carried_state import text_key
from penstock._providers.registry import providers
from penstock._text_runs import DELTAS, TextRun, expand_runs
from penstock.errors import ProviderError
from penstock.events import TextDelta
from penstock.framing import WRITERS
from penstock.request import Request, Text
from tests.support import corpus
from tests.support import recorded_streams as recorded
from tests.support import run_streams as running
from tests.support.case_loop import over
from tests.support.relayed_streams import client_gets
from tests.support.stream_cases import Case, cases

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.framing import Frame

STREAMED = [case for case in cases() if case.streamed]
SOURCES = sorted({case.protocol for case in STREAMED})
TARGETS = running.targets()
FRAMINGS = {name: "ndjson" if protocols.protocol(name).reads == "ndjson" else "sse" for name in SOURCES}
# Texts as they stand between the quotes of JSON: well formed or not.
ODD = [
    '"', '\\"', "\\n", "\\u0041", "\\u00e9", "\\/", "\n", "\x00", "\x7f", "\u00a0", "é", "😀", "\\ud83d\\ude00", "\\ud83d",
    '","role":"x', '"}', "<think>", "</think>", "", " ", "data", "content", "a" * 5000, "{", '{\\"a\\":1}', "  {", "}", "null",
    '\\"obfuscation\\":\\"x\\"', '\\"sequence_number\\":7', '\\"}   }', "}   }", "\\", "\\x",
]  # fmt: skip
CLIENTS = ("openai-chat", "anthropic", "responses", "gemini", "uistream", "vscode")
LEAST = {"openai-chat": 0.7, "anthropic": 0.7, "responses": 0.7, "cohere": 0.8}  # of the deltas of recorded streams
CHAT_END = [(b"", b'{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'), (b"", b"[DONE]")]
BROKEN = [b"\xff", b"\xc3", b"\xa9"]  # no UTF-8, and halves of a letter
WORDS = st.one_of(
    st.sampled_from([word.encode() for word in ODD] + BROKEN),
    st.text(max_size=8).map(lambda text: json.dumps(text)[1:-1].encode()),
    st.text(st.characters(codec="utf-8"), max_size=8).map(
        lambda text: json.dumps(text, ensure_ascii=False)[1:-1].encode()
    ),
    st.sampled_from([b" word", b" more", b"and", b" so on"]),
)
SAMPLED = 6  # of so many recorded streams, one is compared in `make test`,
FEW = 60  # unless a protocol has no more than these
quick = settings(max_examples=40, deadline=None)


class Place:
    """A frame that gives one delta, the frames before it, and where its text stands."""

    def __init__(self, before: list[Frame], frame: Frame, at: int, to: int) -> None:
        self.before, self.name = before, frame[0]
        self._head, self._tail = frame[1][:at], frame[1][to:]

    def frame(self, word: bytes) -> Frame:
        return self.name, self._head + word + self._tail


@cache
def frames_of(source: str) -> list[list[Frame]]:
    """The frames of a protocol's golden streams."""
    found = [running.batches([case.body], case.framing) for case in STREAMED if case.protocol == source]
    return [[frame for batch in batches for frame in batch] for batches in found]


@cache
def places(source: str) -> list[Place]:
    """All frames of the golden streams that give one delta whose text they hold once."""
    found: list[Place] = []
    for frames in frames_of(source):
        decoder = protocols.decoder(source)
        for number, frame in enumerate(frames):
            made = decoder.feed([frame])
            if len(made) != 1 or type(made[0]) not in DELTAS:
                continue
            event: Any = made[0]
            text = event.json if hasattr(event, "json") else event.text
            for word in {json.dumps(text).encode(), json.dumps(text, ensure_ascii=False).encode()}:
                if frame[1].count(word) == 1:
                    at = frame[1].index(word) + 1
                    found.append(Place(frames[:number], frame, at, at + len(word) - 2))
                    break
    return found


def steady_place(source: str) -> Place:
    """A place where frames become a template."""
    for place in places(source):
        decoder = protocols.decoder(source)
        decoder.templates.wanted = True
        decoder.feed([*place.before, place.frame(b" one"), place.frame(b" two")])
        if decoder.templates.known is not None:
            return place
    raise LookupError(source)


# ── reading in both ways ──────────────────────────────────────────────────────────────────────────────────────────────


class Incoming:
    """An answer that is there already: what a `Reading` asks of one that comes."""

    status = 200

    def __init__(self, chunks: Sequence[bytes], kind: str) -> None:
        self.headers = {"content-type": kind}
        self._chunks = iter(chunks)

    async def read(self) -> bytes:
        return next(self._chunks, b"")

    def close(self) -> None: ...


KINDS: dict[str, str] = {"sse": "text/event-stream", "ndjson": "application/x-ndjson"}


def job(source: str) -> UpstreamRequest:
    row = providers()["openai"]
    endpoint = row.endpoint("chat", "m")
    assert endpoint is not None
    endpoint = replace(endpoint, framing=FRAMINGS[source])
    return UpstreamRequest(
        provider=row, endpoint=endpoint, operation="chat", model="m", protocol=source, url="", stream=True
    )


class Answer:
    """What one reading gave: a pair for each read, what the decoder noted, and the decoder."""

    def __init__(self, source: str, chunks: Sequence[bytes], *, fast: bool, few: bool = False) -> None:
        self.pairs: list[tuple[bytes, list[Any]]] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(delta_templates, "enabled", fast)
            if few:  # a few frames are compared with a template, too
                patch.setattr(delta_templates, "FEWEST_FRAMES", 1)
                patch.setattr(delta_templates, "FEWEST_BYTES", 0)
            asyncio.run(self._read(source, chunks))

    async def _read(self, source: str, chunks: Sequence[bytes]) -> None:
        reading: Any = NativeSource(cast("Any", Incoming(chunks, KINDS[FRAMINGS[source]])), job(source))
        reading.decoder.ledger.seed = "seed"
        try:
            while (pair := await reading.read()) is not None:
                self.pairs.append(pair)
        except ProviderError as error:
            self.pairs.append((b"", [str(error)]))
        self.notes = [(row.code, row.count) for row in reading.diagnostics]
        self.irregular, self.malformed = reading.decoder.irregular, reading.decoder.malformed
        self.hits = reading.decoder.templates.hits

    @property
    def events(self) -> list[list[Any]]:
        return [expand_runs(batch) for _, batch in self.pairs]

    @property
    def runs(self) -> list[TextRun]:
        return [event for _, batch in self.pairs for event in batch if type(event) is TextRun]


def write_all(answer: Answer, target: str) -> list[bytes]:
    """What a client of that protocol gets for each read."""
    row = protocols.protocol(target)
    translation: Any = Translation(TurnRequest(Request(model="m"), target, framing=row.writes))
    return [
        *(translation.feed(pair) for pair in answer.pairs if not isinstance(pair[1][:1], str)),
        translation.finish(),
    ]


def pass_all(answer: Answer, source: str) -> list[bytes]:
    passing = Passthrough(TurnRequest(Request(model="m"), source))
    return [*(passing.feed(pair) for pair in answer.pairs), passing.finish()]


def compare(source: str, chunks: Sequence[bytes], targets: Sequence[str] = TARGETS) -> Answer:
    """Both ways give the same: events, notes, and bytes for every client."""
    fast, normal = Answer(source, chunks, fast=True, few=True), Answer(source, chunks, fast=False)
    assert not normal.runs
    assert Answer(source, chunks, fast=True).events == normal.events
    assert fast.events == normal.events
    assert (fast.notes, fast.irregular, fast.malformed) == (normal.notes, normal.irregular, normal.malformed)
    if not any(isinstance(event, str) for _, batch in fast.pairs for event in batch):
        for target in targets:
            assert write_all(fast, target) == write_all(normal, target), target
        if FRAMINGS[source] == "sse" and protocols.protocol(source).encoder is not None:
            assert pass_all(fast, source) == pass_all(normal, source)
    return fast


def written(source: str, frames: Sequence[Frame], end: bytes = b"\n") -> bytes:
    """Frames as bytes, without a look at their data."""
    if FRAMINGS[source] == "ndjson":
        return b"".join(data + b"\n" for _, data in frames)
    return b"".join(
        (b"event: %b%b" % (name, end) if name else b"") + b"data: " + data + 2 * end for name, data in frames
    )


def cut(body: bytes, at: Sequence[int]) -> list[bytes]:
    bounds = [0, *sorted({place % (len(body) + 1) for place in at}), len(body)]
    return [body[first:last] for first, last in pairwise(bounds) if first < last]


@over(STREAMED)
def test_golden_streams(case: Case) -> None:
    if case.framing in ("sse", "ndjson", "auto") and FRAMINGS[case.protocol] in KINDS:
        frames = [frame for batch in running.batches([case.body], case.framing) for frame in batch]
        body = written(case.protocol, frames)
        compare(case.protocol, [body])
        compare(case.protocol, cut(body, range(0, len(body), 301)))


@pytest.mark.parametrize("source", [source for source in SOURCES if source != "events"])
@quick
@given(st.data())
def test_any_texts_and_frames_among_them(source: str, data: st.DataObject) -> None:
    place = data.draw(st.sampled_from(places(source)))
    others = [frame for frames in frames_of(source) for frame in frames]
    more = st.one_of(
        WORDS.map(place.frame), WORDS.map(place.frame), WORDS.map(place.frame), st.sampled_from(others),
        st.sampled_from([(b"", b"garbage"), (b"", b"[DONE]"), (b"error", b"no"), (b"", b'{"error":{"message":"no"}}')]),
    )  # fmt: skip
    steady = [place.frame(b" word"), place.frame(b" more"), place.frame(b" words")]
    frames = [*place.before, *steady, *data.draw(st.lists(more, max_size=12)), *steady]
    body = written(source, frames, data.draw(st.sampled_from([b"\n", b"\n", b"\r\n", b"\r"])))
    targets = data.draw(st.lists(st.sampled_from(TARGETS), min_size=2, max_size=2, unique=True))
    compare(source, cut(body, data.draw(st.lists(st.integers(0, 10**6), max_size=3))), targets)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("source", [source for source in SOURCES if source not in ("events", "vscode")])
def test_most_of_a_long_text_is_a_run(source: str, end: bytes) -> None:
    best = 0
    for place in places(source):
        frames = [*place.before, *(place.frame(b" word%d \\u00e9\\n" % number) for number in range(600))]
        runs = compare(source, [written(source, frames, end)], ()).runs
        best = max(best, sum(len(run.words) for run in runs))
    assert best >= 550


@pytest.mark.parametrize("source", [source for source in SOURCES if source != "events"])
def test_each_odd_text_after_a_template(source: str) -> None:
    compare_odd_texts(source, 3)


@pytest.mark.nightly
@pytest.mark.parametrize("source", [source for source in SOURCES if source != "events"])
def test_each_odd_text_after_every_template(source: str) -> None:
    compare_odd_texts(source, 12)


def compare_odd_texts(source: str, most: int) -> None:
    for place in places(source)[:most]:
        for word in [*(word.encode() for word in ODD), *BROKEN]:
            frames = [*place.before, *(place.frame(b" word") for _ in range(3)), place.frame(word), place.frame(b" on")]
            compare(source, [written(source, frames)], ("openai-chat", "responses"))


@pytest.mark.parametrize("target", ["anthropic", "openai-chat", "responses", "gemini"])
@quick
@given(st.lists(WORDS, max_size=20), st.lists(st.booleans(), max_size=12))
def test_a_client_gets_the_same_over_a_connection(target: str, words: list[bytes], taken: list[bool]) -> None:
    """Reads of one frame each, written from within the connection's callback or not, as the client can take them."""
    place = steady_place("openai-chat")
    frames = [*place.before, *(place.frame(word) for word in [b" a", b" b", b" c", *words, b" d"]), *CHAT_END]
    chunks = [written("openai-chat", [frame]) for frame in frames]
    made, kept = asyncio.run(client_gets(chunks, target, taken, job("openai-chat")))
    normal = Answer("openai-chat", chunks, fast=False)
    assert made == b"".join(pass_all(normal, target) if target == "openai-chat" else write_all(normal, target))
    texts = [event.text for batch in normal.events for event in batch if type(event) is TextDelta]
    kept.events()
    assert kept.text_key.key == text_key([Text(text="".join(texts))])


def test_frames_that_are_never_alike_are_soon_only_read() -> None:
    place = steady_place("openai-chat")
    decoder = protocols.decoder("openai-chat")
    decoder.templates.wanted = True
    decoder.feed(place.before)
    for number in range(5 * delta_templates.ATTEMPTS):
        name, data = place.frame(b"word")
        decoder.feed([(name, data[:-1] + b',"n":%d}' % number)])
    assert decoder.templates.known is None
    assert decoder.templates.attempts > delta_templates.ATTEMPTS


def test_what_comes_before_broken_framing_is_told_first(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 50_000
    monkeypatch.setattr("penstock._engines.reply_decoding.parser", partial(parser, limit=limit))
    place = steady_place("openai-chat")
    frames = [*place.before, *(place.frame(b" word") for _ in range(100))]
    answer = compare("openai-chat", [written("openai-chat", frames) + b"data: " + b"x" * limit])
    assert len(answer.events[0]) > 90
    assert "limit" in answer.pairs[-1][1][0]


@pytest.mark.parametrize("name", sorted(recorded.SOURCES))
def test_recorded_streams(name: str, record_property: Callable[[str, object], None]) -> None:
    """Whole, and in reads of a network's size; and most deltas are read by a template."""
    compare_recorded(name, record_property, SAMPLED)


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(recorded.SOURCES))
def test_all_recorded_streams(name: str, record_property: Callable[[str, object], None]) -> None:
    compare_recorded(name, record_property, 1)


def compare_recorded(name: str, record_property: Callable[[str, object], None], step: int) -> None:
    corpus.corpus_or_skip()
    source, deltas, hits = recorded.SOURCES[name], 0, 0
    entries = corpus.streams(name)
    for entry in entries[:: step if len(entries) > FEW else 1]:
        frames = [frame for batch in running.batches([entry.body]) for frame in batch]
        body = written(source, frames)
        answer = compare(source, [body], CLIENTS)
        compare(source, cut(body, range(0, len(body), 1400)), CLIENTS)
        deltas += sum(type(event) in DELTAS for batch in answer.events for event in batch)
        hits += answer.hits
    record_property("table", f"{name:20}{hits:8,} of {deltas:8,} deltas are read by a template")
    assert hits >= LEAST.get(source, 0.0) * deltas


@pytest.mark.parametrize("target", TARGETS)
@over(STREAMED)
def test_writing_one_event_at_a_time(case: Case, target: str) -> None:
    """A template is set by a part's first delta: a batch and single events give the same bytes."""
    writes = WRITERS[protocols.protocol(target).writes]
    whole, single = encoding(target, frames=True), encoding(target, frames=True)
    events = case.expected()
    together = [*whole.feed(events), *whole.finish()]
    apart = [frame for event in events for frame in single.feed([event])] + single.finish()
    assert b"".join(writes().feed(together)) == b"".join(writes().feed(apart))
