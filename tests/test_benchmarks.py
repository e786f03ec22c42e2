"""The benchmarks measure what they say: every contender does the whole work, and figures are made rightly."""

from __future__ import annotations

import pytest

from benchmarks import against, floor, peers, provider_streams, sse, translate
from benchmarks.timing import Times, table
from penstock._bridge import bridge, parser
from penstock._protocols import decoder
from penstock.events import Finish, TextDelta

PAIRS = pytest.mark.parametrize("pair", floor.PAIRS, ids=lambda pair: f"{pair.source} to {pair.target}")


@PAIRS
@pytest.mark.parametrize("size", [7, 4096])
def test_the_floor_and_the_real_thing_say_every_word(pair: floor.Pair, size: int) -> None:
    chunks = floor.stream(pair, 50, size)
    assert floor.run(pair, chunks) > 50 * len(" drop")
    assert b"".join(bridge(pair.source, pair.target).feed(chunks)).count(b" drop") == 50
    assert translate.ours(pair, chunks, times=2) == 2 * translate.ours(pair, chunks)


@pytest.mark.parametrize("shape", sse.SHAPES)
def test_the_sse_parsers_find_the_same_events(shape: str) -> None:
    frame = sse.SHAPES[shape]
    for chunks in (sse.pieces(frame, 20), sse.cut(sse.stream(frame, 20), 64)):
        assert sse.ours(chunks) == sse.httpx_sse(chunks) == 20


@pytest.mark.slow  # imports the SDKs
@pytest.mark.parametrize("name", peers.SDKS)
def test_the_sdks_read_the_same_deltas(name: str) -> None:
    pair, make = peers.SDKS[name]
    chunks = floor.stream(pair, 20)
    read = make(chunks)
    assert [read(), read(), peers.ours(pair.source, chunks)] == [20, 20, 20]


def test_a_ratio_is_that_of_the_calm_rounds() -> None:
    times = Times({"ours": [3.0, 90.0, 30.0, 30.0], "floor": [2.0, 1.0, 10.0, 10.0]})
    assert times.ratio("ours", "floor") == 1.5
    assert times.micros("floor", 10) == pytest.approx(1e5)


def test_a_table_is_markdown() -> None:
    assert table(["what", "µs"], [["a", "1"]]) == "| what | µs |\n|---|---:|\n| a | 1 |"


@pytest.mark.parametrize("shape", provider_streams.SHAPES)
@pytest.mark.parametrize("dialect", ["chat", "anthropic", "responses", "gemini"])
def test_the_streams_of_the_comparison_are_whole(dialect: str, shape: str) -> None:
    protocol = {"chat": "openai-chat"}.get(dialect, dialect)
    frames = parser("sse")
    made = decoder(protocol)
    events = [*made.feed([*frames.feed(provider_streams.frames(dialect, shape)), *frames.finish()]), *made.finish()]
    assert isinstance(events[-1], Finish)
    assert events[-1].reason == ("calls" if shape == "recorded" else "stop")
    assert sum(isinstance(event, TextDelta) for event in events) >= 28


COMPARED = ["chat-chat:synthetic", "anthropic-chat:recorded"]


@pytest.mark.slow
@pytest.mark.parametrize("pairs", [COMPARED[:1], pytest.param(COMPARED, marks=pytest.mark.exhaustive)])
def test_a_revision_is_compared_with_this_tree(pairs: list[str]) -> None:
    found = against.report("HEAD", rounds=2, streams=16, pairs=pairs, limit=9)
    assert found.broken == []
    ratios = [float(line.split("|")[4]) for line in found.text.splitlines() if " → " in line]
    assert len(ratios) == len(pairs)
    assert all(ratio > 0 for ratio in ratios)  # how large they are depends on the machine's other work


def test_an_unknown_revision_or_pair_is_said() -> None:
    with pytest.raises(SystemExit, match="no-such-revision"), against.checked_out("no-such-revision"):
        pass
    with pytest.raises(SystemExit, match="chat-chat-usage"):
        against.chosen_pairs(["chat-nobody"])
