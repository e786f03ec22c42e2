"""Rows written in one batch: each is stored once, a bad row does not affect others, and failures are retried."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING, Any

import pytest

from penstock._store.journal import BATCH_SIZES, JournalEntry, JournalRows, JournalStore
from penstock._store.postgres import PostgresDatabase
from penstock._store.postgres_stores import PostgresJournal
from penstock._store.sqlite import IN_MEMORY
from penstock._store.sqlite_writer import GATHER_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


MANY = BATCH_SIZES[0]


@pytest.fixture
def rows(tmp_path: Path) -> JournalStore:
    return JournalStore(tmp_path / "journal.sqlite", time.time, age=1e12, size=10**9)


@pytest.fixture(params=["file", "memory", "postgres"])
def any_rows(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[JournalRows]:
    if request.param == "postgres":
        database = PostgresDatabase(request.getfixturevalue("postgres_url"))
        yield PostgresJournal(database, time.time, age=1e12, size=10**9)
        database.close()
        return
    path = tmp_path / "journal.sqlite" if request.param == "file" else IN_MEMORY
    yield JournalStore(path, time.time, age=1e12, size=10**9)


@pytest.mark.parametrize("count", [0, 1, 5, MANY, MANY + 1, 3 * MANY + 7, 1200])
def test_every_row_is_written_once(any_rows: JournalRows, count: int) -> None:
    rows = any_rows
    for number in range(count):
        assert rows.add(JournalEntry(time=float(number), route=f"/{number}"))
    rows.flush()
    assert sorted(turn.time for _, turn in rows.turns(limit=2000)) == [float(number) for number in range(count)]
    assert rows.waiting == 0
    rows.close()


def test_rows_that_come_while_others_are_written_are_collected(postgres_url: str) -> None:
    """A commit for every few rows costs more than the rows."""
    database = PostgresDatabase(postgres_url)
    rows = PostgresJournal(database, time.time, age=1e12, size=10**9)
    began = time.monotonic()
    while time.monotonic() - began < 5 * GATHER_SECONDS:
        rows.add(JournalEntry(time=time.time(), route="/collected"))
        time.sleep(0.001)
    seconds = time.monotonic() - began
    rows.flush()
    ((transactions, count),) = database.read(
        "SELECT count(DISTINCT xmin::text), count(*) FROM turns WHERE route = '/collected'"
    )
    assert count > transactions
    assert transactions <= seconds / GATHER_SECONDS + 2
    database.close()


def test_a_writer_that_is_done_before_the_caller_goes_on(rows: JournalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the caller's thread may stand still inside `submit` until its row is written."""
    submit = rows._writer.submit

    def submit_and_stand_still(job: Any) -> bool:
        accepted = submit(job)
        rows._writer.flush()
        return accepted

    monkeypatch.setattr(rows._writer, "submit", submit_and_stand_still)
    for number in range(3):
        assert rows.add(JournalEntry(time=float(number)))
    assert rows.waiting == 0
    assert [turn.time for _, turn in rows.turns()] == [2.0, 1.0, 0.0]
    rows.close()


def test_a_value_that_no_column_takes_costs_its_own_row(any_rows: JournalRows) -> None:
    rows = any_rows
    for number in range(MANY):
        bad: dict[int, dict[str, Any]] = {7: {"input": 2**80}, 11: {"route": "\ud800"}, 12: {"route": "a\0b"}}
        rows.add(JournalEntry(time=float(number), **bad.get(number, {})))
    rows.flush()
    assert {turn.time for _, turn in rows.turns(limit=1000)} == {float(n) for n in range(MANY)} - {7.0, 11.0}
    assert rows.lost == 2
    rows.close()


def test_rows_that_somebody_kept_from_being_written_are_tried_again(
    rows: JournalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock._store.sqlite_writer.SHORT_LOCK", 0.05)
    rows._writer.connection.execute("PRAGMA busy_timeout=1")
    other = sqlite3.connect(rows.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    rows.add(JournalEntry(time=1.0))
    rows.flush()
    assert rows.turns() == []
    other.execute("ROLLBACK")
    other.close()
    monkeypatch.undo()  # a writer that has begun to wait may need longer than the short lock
    rows.add(JournalEntry(time=2.0))
    deadline = time.monotonic() + 30
    while not rows._writer.flush() and time.monotonic() < deadline:
        pass
    assert [turn.time for _, turn in rows.turns()] == [2.0, 1.0]
    rows.close()


def test_a_closing_writes_what_waits(rows: JournalStore) -> None:
    for number in range(MANY + 3):
        rows.add(JournalEntry(time=float(number)))
    rows.close()
    again = JournalStore(rows.path, time.time, read_only=True)
    assert again.total().turns == MANY + 3
    again.close()
