"""Searches of the inspector's list over a journal of 100,000 turns, through the gateway: warm, median of some tries.

`python -m benchmarks.turn_search`, exit 1 if the median of all searches is above its limit. Searches as a person types
them: names, words, numbers, a rare word, all turns; first pages with counts, and a page in the middle. CPU is that of
the whole process, which a busy machine changes little.

`python -m benchmarks.turn_search --kept`: a file of kept turns has the texts of the same 100,000 turns. Searches look
through both, and must find the turns that were written; exit 1 if the median of one of them is above the limit, warm
or right after a new turn. `--postgres`: the same with the journal in PostgreSQL, which is started for it.
"""

from __future__ import annotations

import argparse
import sqlite3
import statistics
import sys
import tempfile
import time
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx
from msgspec.structs import replace

from benchmarks.kept_search import BATCH, SESSION, make_turns
from benchmarks.timing import Section, table
from penstock._gateway.config import JournalTable, StoresTable
from penstock._gateway.config_tables import InspectorTable
from penstock._store.journal import JournalStore
from penstock._store.kept_turns import FILE, KeptTurnStore
from penstock._store.postgres import PostgresDatabase
from penstock._store.postgres_stores import PostgresJournal
from tests.support.inspector import inspected
from tests.support.journal_history import seed
from tests.support.servers import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator

TURNS = 100_000
TRIES = 7
KEPT_TRIES = 20
KEPT = InspectorTable(size=2**30, days=60.0)  # room for all turns
PAGE = 200  # rows
LIMIT = 200  # ms, the median over all searches; with kept texts, that of each
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


# ── with kept texts ───────────────────────────────────────────────────────────────────────────────


class KeptSearch(NamedTuple):
    """A search, and the ids of the turns that it must find, the newest first."""

    name: str
    query: str
    ids: list[str]
    page: int = 0


def open_kept(folder: Path) -> KeptTurnStore:
    return KeptTurnStore(folder / FILE, size=KEPT.size, age=KEPT.days * 86_400.0)


def seed_kept(folder: Path, turns: int) -> list[KeptSearch]:
    """Writes the journal and the file of kept turns. Returns searches of both."""
    path = folder / "journal.sqlite"
    seed(path, turns)
    with closing(sqlite3.connect(path)) as journal, journal:  # ids as long as those of a gateway
        twice = "request_id || request_id"
        journal.execute(f"UPDATE turns SET request_id = {twice}, names = replace(names, request_id, {twice})")  # noqa: S608
        rows = journal.execute("SELECT request_id, time, status, model FROM turns ORDER BY time, id").fetchall()
    kept = [replace(turn, id=row[0], time=row[1]) for turn, row in zip(make_turns(turns), rows, strict=True)]
    with closing(open_kept(folder)) as store:
        for place in range(0, turns, BATCH):
            store.write_turns(kept[place : place + BATCH])
        assert store.count() == turns, "the file has no room for all turns"
    rare = turns // 2 + 7
    session = rows[rare : (rare // SESSION + 1) * SESSION]  # later turns have the words of those before
    newest = [row[0] for row in reversed(rows)]
    faults = [row for row in reversed(rows) if row[2] == "fault"]
    sonnet = [row[0] for row in faults if "sonnet" in row[3]]
    return [
        KeptSearch("a word of few turns", f"turn{rare}", [row[0] for row in reversed(session)]),
        KeptSearch("a word of all turns", "common", newest),
        KeptSearch("a phrase of all turns, and a state", '"common words" state:fault', [row[0] for row in faults]),
        KeptSearch("fields", "model:sonnet state:fault", sonnet),
        KeptSearch("a word of all turns, second page", "common", newest, page=1),
    ]


@contextmanager
def postgres_with(journal: Path, turns: int) -> Iterator[str]:
    """The URL of a PostgreSQL server that has the turns of a journal file."""
    server = PostgresServer()
    try:
        server.start()
        with closing(PostgresDatabase(server.url)) as database:
            age = KEPT.days * 86_400.0
            copy = PostgresJournal(database, time.time, age=age, size=2**30)
            with closing(JournalStore(journal, time.time, age=age, size=2**30)) as source:
                rows = [row for _, row in reversed(source.turns(limit=turns))]
            for place in range(0, turns, BATCH):
                for row in rows[place : place + BATCH]:
                    copy.add(row)
                copy.flush()
            assert copy.total().turns == turns
        journal.unlink()  # a gateway cannot read it by mistake
        yield server.url
    finally:
        server.close()


def report_kept(turns: int = TURNS, tries: int = KEPT_TRIES, *, postgres: bool = False) -> Section:
    """The figures of searches that look through kept texts too, and the limits that are broken."""
    rows: list[list[str]] = []
    broken: list[str] = []
    new = make_turns(SESSION)[-1]  # a long turn, with the words of all turns
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        searches = seed_kept(folder, turns)
        file = folder / "journal.sqlite"
        with (
            postgres_with(file, turns) if postgres else nullcontext("") as url,
            inspected(
                journal=JournalTable(path="" if postgres else str(file)),  # a path means a file, in any case
                stores=StoresTable(postgres=url),
                inspector=KEPT,
                data=folder,
            ) as running,
            httpx.Client(base_url=running.url, trust_env=False, timeout=60) as client,
            closing(open_kept(folder)) as store,
        ):
            for search in searches:
                values = {"q": search.query, "limit": str(PAGE)}
                first = client.get("/inspector/turns", params=values).raise_for_status().json()
                assert first["total"] == len(search.ids), (search.name, first["total"], len(search.ids))
                if search.page:
                    values |= {"upto": str(first["upto"]), "offset": str(search.page * PAGE)}
                expected = search.ids[search.page * PAGE :][:PAGE]
                warm = [_time_page(client, values, expected) for _ in range(tries)]
                after: list[float] = []
                for number in range(tries):  # each new turn changes the result of the file
                    store.write_turns([replace(new, id=f"{search.name}{number}", time=time.time())])
                    after.append(_time_page(client, values, expected))
                figures = [statistics.median(warm), max(warm), statistics.median(after), max(after)]
                rows.append([search.name, *(f"{figure:.0f}" for figure in figures), f"{len(search.ids):,}"])
                if max(figures[0], figures[2]) > LIMIT:
                    broken.append(f"{search.name}: {figures[0]:.0f} and {figures[2]:.0f} ms, at most {LIMIT}")
    head = ["search", "ms, median", "longest", "after a new turn, median", "longest", "found"]
    where, option = ("in PostgreSQL", " --postgres") if postgres else ("(SQLite)", "")
    text = f"""## Searches of the inspector's list in kept texts

{turns:,} turns in the journal {where} and in the file of kept turns, by HTTP, pages of {PAGE} rows, warm, {tries} of
each. The limit of each median is {LIMIT} ms, also right after a new turn.
`python -m benchmarks.turn_search --kept{option}`.

{table(head, rows)}"""
    return Section(text, broken)


def _time_page(client: httpx.Client, values: dict[str, str], expected: list[str]) -> float:
    """Returns the milliseconds of a request, whose rows must be those that are expected."""
    begun = time.perf_counter()
    reply = client.get("/inspector/turns", params=values)
    took = 1000 * (time.perf_counter() - begun)
    found: list[dict[str, Any]] = reply.raise_for_status().json()["rows"]
    assert [row["id"] for row in found] == expected, values
    return took


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m benchmarks.turn_search", description=__doc__)
    options.add_argument("--kept", action="store_true", help="search in kept texts too")
    options.add_argument("--postgres", action="store_true", help="with --kept: the journal is in PostgreSQL")
    given = options.parse_args()
    if given.postgres and not given.kept:
        options.error("--postgres needs --kept")
    section = report_kept(postgres=given.postgres) if given.kept else report()
    print(section.text)
    for limit in section.broken:
        print(f"\nLimit broken: {limit}.", file=sys.stderr)
    return 1 if section.broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
