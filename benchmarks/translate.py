"""bytes → bytes per event, with the grammar guard on, beside the floor; and whether the cost per event stays flat.

`python -m benchmarks.translate` prints both tables; `--check` exits with 1 over twice the floor.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import floor
from benchmarks.timing import interleaved, table
from penstock.bridge import bridge

if TYPE_CHECKING:
    from benchmarks.floor import Pair

EVENTS, ROUNDS = 2000, 40
LIMIT = 2.0
SIZES = (100, 1_000, 10_000, 100_000)


def ours(pair: Pair, chunks: list[bytes]) -> int:
    """The real thing, one feed per chunk, as a server would."""
    pipe, made = bridge(pair.source, pair.target), 0
    for chunk in chunks:
        for out in pipe.feed([chunk]):
            made += len(out)
    return made


def against_the_floor() -> tuple[list[list[str]], float]:
    """A row per pair, and the worst ratio."""
    rows: list[list[str]] = []
    worst = 0.0
    for pair in floor.PAIRS:
        chunks = floor.stream(pair, EVENTS)
        best = interleaved(
            {"floor": partial(floor.run, pair, chunks), "ours": partial(ours, pair, chunks)},
            ROUNDS,
        )
        ratio = best["ours"] / best["floor"]
        worst = max(worst, ratio)
        micros = [f"{best[name] / EVENTS * 1e6:.2f}" for name in ("floor", "ours")]
        rows.append([f"{pair.source} → {pair.target}", *micros, f"{ratio:.2f}x"])
    return rows, worst


def flatness() -> list[list[str]]:
    """µs per event as the stream grows."""
    rows: list[list[str]] = []
    for pair in floor.PAIRS:
        bodies = {str(size): floor.stream(pair, size) for size in SIZES}
        best = interleaved({size: partial(ours, pair, body) for size, body in bodies.items()}, 5)
        rows.append([f"{pair.source} → {pair.target}", *(f"{best[str(n)] / n * 1e6:.2f}" for n in SIZES)])
    return rows


def report() -> tuple[str, bool]:
    """The section for the results, and whether the limit holds."""
    rows, worst = against_the_floor()
    text = (
        "## Translation, bytes to bytes\n\n"
        f"µs of CPU per text delta, {EVENTS} deltas in 4 KiB chunks, grammar guard on, best of {ROUNDS} rounds in turn "
        "with the floor (`benchmarks/floor.py`: cut, typed decode, encode, nothing else).\n\n"
        + table(["pair", "floor", "penstock", "ratio"], rows)
        + "\n\nµs per delta as a stream grows:\n\n"
        + table(["pair", *(f"{size:,}" for size in SIZES)], flatness())
    )
    return text, worst <= LIMIT


if __name__ == "__main__":
    words, fine = report()
    print(words)
    sys.exit(0 if fine or "--check" not in sys.argv else 1)
