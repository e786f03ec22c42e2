"""Searches of the inspector's list over a journal of 100,000 turns, through the gateway: warm, median of some tries.

`python -m benchmarks.turn_search`, exit 1 if the median of all searches is above its limit. Searches as a person types
them: names, words, numbers, a rare word, all turns; first pages with counts, and a page in the middle. CPU is that of
the whole process, which a busy machine changes little.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import httpx

from benchmarks.timing import Section, table
from penstock._gateway.config import JournalTable
from tests.inspector.conftest import inspected
from tests.inspector.journal_history import seed

TURNS = 100_000
TRIES = 7
LIMIT = 200  # ms, the median over all searches
SEARCHES = {
    "all turns": {},
    "needle, found nowhere": {"q": "needle"},
    "sonnet": {"q": "sonnet"},
    "model:opus": {"q": "model:opus"},
    "model:sonnet state:fault": {"q": "model:sonnet state:fault"},
    "cost>0.1": {"q": "cost>0.1"},
    "-client:vscode ttft>2 input>=1000": {"q": "-client:vscode ttft>2 input>=1000"},
    "since:1d": {"q": "since:1d"},
    "all, sorted by cost": {"sort": "cost"},
    "page in the middle": {"offset": str(TURNS // 2), "upto": str(2**40)},
    "page in the middle of sonnet": {"q": "sonnet", "offset": "20000", "upto": str(2**40)},
}


def report(turns: int = TURNS, tries: int = TRIES) -> Section:
    rows: list[list[str]] = []
    medians: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.sqlite"
        seed(path, turns)
        with inspected(journal=JournalTable(path=str(path))) as running, httpx.Client(trust_env=False) as client:
            for name, values in SEARCHES.items():
                took, work, total = list[float](), list[float](), 0
                for _ in range(tries + 1):
                    begun, worked = time.perf_counter(), time.process_time()
                    reply = client.get(f"{running.url}/inspector/turns", params={"limit": "100", **values}, timeout=60)
                    took.append(1000 * (time.perf_counter() - begun))
                    work.append(1000 * (time.process_time() - worked))
                    total = reply.raise_for_status().json().get("total", 0)
                medians.append(statistics.median(took[1:]))  # the first one is cold
                rows.append(
                    [name, f"{medians[-1]:.0f}", f"{statistics.median(work[1:]):.0f}", f"{total:,}" if total else ""]
                )
    whole = statistics.median(medians)
    text = f"""## Searches of the inspector's list

{turns:,} turns in the journal (SQLite), by HTTP, the first page with its counts, warm: median of {tries}. Median of all
searches: {whole:.0f} ms. `python -m benchmarks.turn_search`.

{table(["search", "ms", "CPU ms", "found"], rows)}"""
    return Section(text, [f"median of searches: {whole:.0f} ms, at most {LIMIT}"] if whole > LIMIT else [])


def main() -> int:
    section = report()
    print(section.text)
    for limit in section.broken:
        print(f"\nLimit broken: {limit}.", file=sys.stderr)
    return 1 if section.broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
