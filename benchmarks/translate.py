"""bytes → bytes per delta, with the grammar guard on: beside the floor, and as streams grow.

`python -m benchmarks.translate` prints both tables alone.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks import floor
from benchmarks.timing import Section, interleaved, table
from penstock._bridge import bridge

if TYPE_CHECKING:
    from benchmarks.floor import Pair

EVENTS, ROUNDS = 2000, 200
LIMIT, GOAL = 2.0, 1.6  # times the floor
SIZES = (100, 1_000, 10_000, 100_000)
GROWTH, GROWTH_ROUNDS = 1.5, 12  # a delta of the longest stream beside one of the stream of 1,000; generous, for noise


def ours(pair: Pair, chunks: list[bytes], times: int = 1) -> int:
    """The real thing, one feed per chunk, as a server would; `times` streams, each through a pipe of its own."""
    made = 0
    for _ in range(times):
        pipe = bridge(pair.source, pair.target)
        for chunk in chunks:
            for out in pipe.feed([chunk]):
                made += len(out)
        made += sum(map(len, pipe.finish()))
    return made


def against_the_floor(*, live: bool = False) -> Section:
    """A row per pair. Live: every frame is a chunk of its own, as a model at work sends them."""
    rows: list[list[str]] = []
    broken: list[str] = []
    for pair in floor.PAIRS:
        chunks = floor.frames(pair, EVENTS) if live else floor.stream(pair, EVENTS)
        assert b"".join(bridge(pair.source, pair.target).feed(chunks)).count(b" drop") == EVENTS
        times = interleaved({"floor": partial(floor.run, pair, chunks), "ours": partial(ours, pair, chunks)}, ROUNDS)
        ratio = times.ratio("ours", "floor")
        if ratio > LIMIT:
            broken.append(f"{pair.name} takes {ratio:.2f} times the floor; the limit is {LIMIT}")
        micros = [f"{times.micros(name, EVENTS):.2f}" for name in ("floor", "ours")]
        rows.append([pair.name, *micros, f"**{ratio:.2f}**"])
    return Section(table(["pair", "floor", "penstock", "ratio"], rows), broken)


def flatness() -> Section:
    """µs per delta as the stream grows; every size gets the same number of deltas in all, in as many streams."""
    rows: list[list[str]] = []
    broken: list[str] = []
    for pair in floor.PAIRS:
        most = SIZES[-1]
        runs = {str(size): partial(ours, pair, floor.stream(pair, size), most // size) for size in SIZES}
        times = interleaved({"one": partial(ours, pair, floor.stream(pair, 1), most // 100), **runs}, GROWTH_ROUNDS)
        growth = times.ratio(str(most), "1000")
        if growth > GROWTH:
            broken.append(f"{pair.name}: a delta of {most:,} costs {growth:.2f} times one of 1,000")
        micros = [f"{times.micros(str(size), most):.2f}" for size in SIZES]
        rows.append([pair.name, f"{times.micros('one', most // 100):.0f}", *micros, f"{growth:.2f}"])
    head = ["pair", "a stream of one", *(f"{size:,}" for size in SIZES), "growth"]
    return Section(table(head, rows), broken)


def report() -> Section:
    """The section for the results."""
    floors, live, growth = against_the_floor(), against_the_floor(live=True), flatness()
    return Section(
        f"""## Translation, bytes to bytes

µs of CPU per text delta, {EVENTS:,} deltas in chunks of 4 KiB, grammar guard on, {ROUNDS} rounds in turn with the floor
(`benchmarks/floor.py`: cut, typed decode, encode, nothing else). At most {LIMIT} times the floor; the goal is {GOAL}.

{floors.text}

The same with one frame a chunk, as live streams mostly come; here most of the time goes from stage to stage:

{live.text}

µs per delta as streams grow, the making of the pipe and the end of the stream included; the first column is what a
stream of a single delta costs. Growth is that from 1,000 deltas to {SIZES[-1]:,}.

{growth.text}""",
        floors.broken + growth.broken,
    )


if __name__ == "__main__":
    print(report().text)
