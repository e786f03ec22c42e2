"""The writing thread: order, transactions, bad rows, closing, and a process that ends without a word."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from penstock._store import sqlite_writer as writing
from penstock._store.data_folder import data_folder
from penstock._store.sqlite import IN_MEMORY, connect
from penstock._store.sqlite_writer import SqliteWriter
from tests.cli.command_runner import environment
from tests.wire.store.processes import run_python

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(params=["file", "memory"])
def writer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqliteWriter]:
    made = SqliteWriter(tmp_path / "made" / "here.sqlite" if request.param == "file" else IN_MEMORY)
    made.create("CREATE TABLE t (x INTEGER UNIQUE)")
    yield made
    made.close()


def add(writer: SqliteWriter, number: int) -> bool:
    return writer.submit(lambda database: _add(database, number))


def _add(database: sqlite3.Connection, number: int) -> None:
    database.execute("INSERT INTO t VALUES (?)", (number,))


def rows(writer: SqliteWriter) -> list[object]:
    return [row[0] for row in writer.read("SELECT x FROM t ORDER BY rowid")]


def test_jobs_are_done_in_order(writer: SqliteWriter) -> None:
    for number in range(1200):
        add(writer, number)
    assert writer.flush()
    assert rows(writer) == list(range(1200))
    assert not writer._jobs  # pyright: ignore[reportPrivateUsage]


def test_a_bad_row_takes_no_other_with_it(writer: SqliteWriter, caplog: pytest.LogCaptureFixture) -> None:
    for number in (1, 2, 2, 3):
        add(writer, number)
    writer.flush()
    assert rows(writer) == [1, 2, 3]
    assert writer.failed == 1
    assert "a row was not written" in caplog.text


def test_what_a_job_gives_back_is_called_once_committed(writer: SqliteWriter) -> None:
    seen: list[list[object]] = []

    def job(database: sqlite3.Connection) -> object:
        _add(database, 7)
        return lambda: seen.append(rows(writer))

    writer.submit(job)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    writer.flush()
    assert seen == [[7]]


def test_a_writer_that_is_closed_refuses_and_counts(tmp_path: Path) -> None:
    made = SqliteWriter(tmp_path / "x.sqlite")
    made.create("CREATE TABLE t (x INTEGER UNIQUE)")
    assert add(made, 1)
    made.close()
    made.close()
    assert not add(made, 2)
    assert made.refused == 1
    kept = connect(tmp_path / "x.sqlite")
    assert kept.execute("SELECT x FROM t").fetchall() == [(1,)]
    kept.close()


def test_what_waits_is_bounded(writer: SqliteWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "MAX_WAITING_JOBS", 3)
    stuck, go = threading.Event(), threading.Event()

    def job(_: sqlite3.Connection) -> None:
        stuck.set()
        go.wait(10)

    writer.submit(job)
    assert stuck.wait(10)
    assert [add(writer, number) for number in range(5)] == [True, True, True, False, False]
    go.set()
    writer.flush()
    assert rows(writer) == [0, 1, 2]
    assert writer.refused == 2


def test_readers_do_not_wait_for_a_batch(tmp_path: Path) -> None:
    made = SqliteWriter(tmp_path / "x.sqlite")
    made.create("CREATE TABLE t (x INTEGER UNIQUE)")
    inside, go = threading.Event(), threading.Event()

    def job(database: sqlite3.Connection) -> None:
        _add(database, 1)
        inside.set()
        go.wait(10)

    made.submit(job)
    assert inside.wait(10)
    assert rows(made) == []  # it is not committed, and nobody waits for it
    go.set()
    made.flush()
    assert rows(made) == [1]
    made.close()


def test_a_process_that_ends_without_a_word_still_writes(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from penstock._store.sqlite_writer import SqliteWriter
made = SqliteWriter(Path(sys.argv[1]))
made.create("CREATE TABLE t (x)")
for number in range(50):
    made.submit(lambda database, number=number: database.execute("INSERT INTO t VALUES (?)", (number,)) and None)
"""
    path = tmp_path / "x.sqlite"
    subprocess.run([sys.executable, "-c", code, str(path)], env=environment(), timeout=60, check=True)
    kept = connect(path)
    assert kept.execute("SELECT count(*) FROM t").fetchone() == (50,)
    kept.close()


# ── files ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_folder_is_said_or_the_systems_own(tmp_path: Path) -> None:
    assert data_folder({"PENSTOCK_DATA": str(tmp_path)}) == tmp_path
    assert data_folder({"XDG_DATA_HOME": str(tmp_path)}).name == "penstock"


# ── forks ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_child_of_a_fork_leaves_the_database_to_its_parent(tmp_path: Path) -> None:
    code = """
import os, sys, warnings
from pathlib import Path
from penstock._store.sqlite_writer import SqliteWriter
warnings.simplefilter("ignore")
made = SqliteWriter(Path(sys.argv[1]))
made.create("CREATE TABLE t (x)")
pid = os.fork()
if not pid:
    assert not made.submit(lambda database: None)
    try:
        made.read("SELECT 1")
    except RuntimeError as error:
        print(error)
    sys.exit()
assert os.waitpid(pid, 0)[1] == 0
made.submit(lambda database: database.execute("INSERT INTO t VALUES (1)") and None)
assert made.flush()
print(made.read("SELECT count(*) FROM t"))
"""
    done = run_python(code, str(tmp_path / "x.sqlite"))
    assert "was opened before a fork" in done.stdout, done.stderr
    assert done.stdout.splitlines()[-1] == "[(1,)]", done.stderr
