"""What each stage of a translation costs: pipes that end after the first stage, after the second, and so on.

`python -m benchmarks.stages` prints the table alone. A stage's cost is the difference between two pipes, so small ones
are the least certain.
"""

from __future__ import annotations

from functools import partial

from benchmarks import floor
from benchmarks.timing import Section, interleaved, table
from penstock._bridge import bridge
from penstock._pipeline import Pipe

EVENTS, ROUNDS = 2000, 60


def upto(pair: floor.Pair, count: int, chunks: list[bytes]) -> int:
    """Run the first so many stages."""
    pipe, made = Pipe(*bridge(pair.source, pair.target).stages[:count]), 0
    for chunk in chunks:
        made += len(pipe.feed([chunk]))
    return made


def costs(pair: floor.Pair) -> list[str]:
    """A row: what every stage adds, by its name."""
    chunks = floor.stream(pair, EVENTS)
    names = [type(stage).__name__ for stage in bridge(pair.source, pair.target).stages]
    counts = range(1, len(names) + 1)
    times = interleaved({str(count): partial(upto, pair, count, chunks) for count in counts}, ROUNDS)
    spent = [0.0, *(times.micros(str(count), EVENTS) for count in counts)]
    added = [f"{name} {after - before:.2f}" for name, before, after in zip(names, spent, spent[1:], strict=False)]
    return [pair.name, " · ".join(added), f"{spent[-1]:.2f}"]


def report() -> Section:
    """The section for the results."""
    text = f"""## What each stage adds

µs of CPU per text delta in chunks of 4 KiB, best of {ROUNDS} rounds; differences between pipes of growing length.

{table(["pair", "stages", "all"], [costs(pair) for pair in floor.PAIRS])}"""
    return Section(text, [])


if __name__ == "__main__":
    print(report().text)
