"""Search in 100,000 kept turns: milliseconds of a warm search, the size of the file, and what a turn costs to write.

`python -m benchmarks.kept_search`. The turns are written straight to the store: sessions of 20 turns, each of
which has the messages of those before it. Wall time, the median of all searches; no phrase is searched twice.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.timing import Section, table
from penstock._store.kept_turns import FILE, KeptTurnRow, KeptTurnStore
from penstock._store.kept_turns_index import WORDS, TextPiece

TURNS, SESSION, BATCH = 100_000, 20, 100
SIZE = 256 * 2**20
LIMIT = 200  # ms, the median
SEARCHES = 60
VOCABULARY = [f"word{number}" for number in range(20_000)]


def make_turns(count: int, seed: int = 1) -> list[KeptTurnRow]:
    """Turns as agents make them: messages, an answer, and short settings. Some words are in few turns, some in many."""
    chosen, now = random.Random(seed), time.time()
    said: list[TextPiece] = []
    rows: list[KeptTurnRow] = []
    for number in range(count):
        if number % SESSION == 0:
            said = []
        words = " ".join(chosen.choices(VOCABULARY, k=25))
        said = [*said, TextPiece(json.dumps({"role": "user", "content": f"turn{number} {words}"}).encode())]
        settings = TextPiece(json.dumps({"metadata": {"session": f"session{number // SESSION}"}}).encode())
        answer = TextPiece(f"answer {number} {chosen.choice(VOCABULARY)} common words".encode(), WORDS)
        body = chosen.randbytes(200)
        rows.append(KeptTurnRow(f"{number:032x}", "", now + number / 1e6, body, [[*said, answer, settings]]))
    return rows


def report(count: int = TURNS) -> Section:
    """The figures as Markdown, and the limits that are broken."""
    with tempfile.TemporaryDirectory() as folder:
        store = KeptTurnStore(Path(folder, FILE), size=SIZE, age=86_400.0)
        rows, began, peak = make_turns(count), time.process_time(), 0
        for place in range(0, count, BATCH):
            store.write_turns(rows[place : place + BATCH])
            peak = max(peak, store.file_bytes)
        cost = (time.process_time() - began) / count * 1e6
        chosen = random.Random(2)
        numbers = [chosen.randrange(count - count // 2, count) for _ in range(SEARCHES)]
        phrases = [f"turn{number}" for number in numbers[::2]] + [chosen.choice(VOCABULARY) for _ in numbers[1::2]]
        store.find_turns("warm", None)
        taken: list[float] = []
        for phrase in phrases:
            start = time.perf_counter()
            store.find_turns(phrase, None)
            taken.append((time.perf_counter() - start) * 1000)
        start = time.perf_counter()
        everywhere = len(store.find_turns("common", None))
        worst, held = (time.perf_counter() - start) * 1000, store.count()
        store.close()
    middle = median(taken)
    broken = [f"{middle:.0f} ms for a search, at most {LIMIT}"] if middle > LIMIT else []
    broken += [f"the file had {peak} bytes, at most {SIZE}"] if peak > SIZE else []
    figures = [held, f"{peak / 2**20:.0f}", f"{cost:.0f}", f"{middle:.1f}", f"{max(taken):.0f}", f"{worst:.0f}"]
    head = [
        "turns",
        "MB of the file",
        "CPU µs to write a turn",
        "ms, median",
        "longest",
        f"a word of {everywhere:,} turns",
    ]
    text = f"""## Search in kept turns

{count:,} turns in sessions of {SESSION}, {SEARCHES} searches for words that some turns have.
`python -m benchmarks.kept_search`.

{table(head, [[str(figure) for figure in figures]])}"""
    return Section(text, broken)


def main() -> int:
    section = report()
    print(section.text)
    for limit in section.broken:
        print(f"\nLimit broken: {limit}.", file=sys.stderr)
    return 1 if section.broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
