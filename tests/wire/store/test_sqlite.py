"""Opening databases: files are created once, for their owner, and never opened beside SQLite."""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
import threading
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest

from penstock._store.sqlite import IN_MEMORY, DamagedDatabaseError, connect
from penstock._store.sqlite_writer import SqliteWriter
from tests.wire.store.processes import deleted_files, holds_lock, needs_proc, run_python, start_python

if TYPE_CHECKING:
    from pathlib import Path

posix = pytest.mark.skipif(sys.platform == "win32", reason="rights and links are another matter there")
OPEN_AND_CLOSE = """
import sqlite3, sys
opened = sqlite3.connect(sys.argv[1])
print(opened.execute("SELECT count(*) FROM t").fetchone()[0])
opened.close()
"""


def insert_row(database: sqlite3.Connection) -> None:
    database.execute("INSERT INTO t VALUES (1)")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# ── locks ─────────────────────────────────────────────────────────────────────────────────────────


@needs_proc
@pytest.mark.parametrize("connects", [1, 2, 5])
def test_a_process_keeps_its_lock_however_often_it_connects(tmp_path: Path, connects: int) -> None:
    path = tmp_path / "x.sqlite"
    with closing(connect(path)) as first:  # the file exists from here on, as at a second start
        first.execute("CREATE TABLE t (x)")
    with ExitStack() as stack:
        for _ in range(connects):
            stack.enter_context(closing(connect(path)))
            assert holds_lock(os.getpid(), path)


@needs_proc
def test_a_reader_that_closes_leaves_the_wal_of_others_alone(tmp_path: Path) -> None:
    """The reproduction: a second start, a reader of another process, and rows after it."""
    path = tmp_path / "x.sqlite"
    first = SqliteWriter(path)
    first.create("CREATE TABLE t (x)")
    first.close()
    second = SqliteWriter(path)
    try:
        for number in range(3):
            second.submit(insert_row)
            second.flush()
            assert run_python(OPEN_AND_CLOSE, str(path)).stdout == f"{number + 1}\n"
            assert deleted_files(os.getpid()) == []
            assert holds_lock(os.getpid(), path)
    finally:
        second.close()


@needs_proc
def test_other_names_of_a_file_do_not_cost_its_lock(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    path, link, detour = tmp_path / "x.sqlite", tmp_path / "link.sqlite", tmp_path / "folder" / ".." / "x.sqlite"
    with closing(connect(path)) as opened:
        opened.execute("CREATE TABLE t (x)")
        link.symlink_to(path)
        for other in (link, detour, path):
            with closing(connect(other)) as again:
                again.execute("INSERT INTO t VALUES (1)")
            assert holds_lock(os.getpid(), path)
        assert opened.execute("SELECT count(*) FROM t").fetchone() == (3,)
    assert sorted(found.name for found in tmp_path.iterdir()) == ["folder", "link.sqlite", "x.sqlite"]


@needs_proc
def test_threads_that_create_a_file_at_once_all_keep_their_lock(tmp_path: Path) -> None:
    for number in range(20):
        path, ready = tmp_path / f"{number}.sqlite", threading.Barrier(4)
        opened: list[sqlite3.Connection] = []

        def work(
            path: Path = path, ready: threading.Barrier = ready, opened: list[sqlite3.Connection] = opened
        ) -> None:
            ready.wait(30)
            opened.append(connect(path))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert len(opened) == 4
        assert holds_lock(os.getpid(), path)
        for one in opened:
            one.close()


AUDITED = """
import os, sys, time
from pathlib import Path
bad = []
def hook(event, args):
    if event == "open" and isinstance(args[0], str) and ".sqlite" in args[0] and not args[0].endswith(".lock"):
        if not (args[2] & os.O_EXCL):
            bad.append(args[0])
sys.addaudithook(hook)
from penstock._store.journal import JournalStore, JournalEntry
from penstock._store.key_value import SqliteKeyValueTable
from penstock._store.tokens import TokenStore
from penstock._store.sqlite_writer import SqliteWriter
from penstock._cli import main
folder = Path(os.environ["PENSTOCK_DATA"])
for _ in range(2):
    rows = JournalStore(folder / "journal.sqlite", time.time, age=1e9, size=10**9)
    state = SqliteWriter(folder / "state.sqlite")
    kept = SqliteKeyValueTable(state, "reasoning", time.time)
    tokens = TokenStore(folder / "tokens.sqlite")
    rows.add(JournalEntry(time=time.time()))
    kept.put("t", {"a": b"1"})
    tokens.put("t", {"a": b"1"})
    rows.flush(); state.flush()
    assert main(["usage"]) == 0
    assert main(["tokens", "--learned", "--model", "openai/gpt-4o", "/dev/null"]) in (0, 2)
    assert rows.total().turns and kept.get("t", ["a"]) and tokens.get("t", ["a"])
    rows.close(); state.close(); tokens.close()
assert not bad, bad
print("done")
"""


@posix
def test_nothing_opens_a_database_file_that_exists_except_sqlite(tmp_path: Path) -> None:
    """Python reports every `open` to an audit hook; SQLite's own do not pass through Python."""
    done = run_python(f"import os; os.environ['PENSTOCK_DATA'] = {str(tmp_path / 'data')!r}\n{AUDITED}")
    assert done.stdout.splitlines()[-1:] == ["done"], done.stderr


# ── files ─────────────────────────────────────────────────────────────────────────────────────────


@posix
def test_files_are_for_their_owner_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o000)
    try:
        with closing(connect(tmp_path / "deep" / "x.sqlite")) as opened:
            opened.execute("CREATE TABLE t (x)")
            found = {path.name: mode(path) for path in (tmp_path / "deep").iterdir()}
    finally:
        os.umask(before)
    assert found == {"x.sqlite": 0o600, "x.sqlite-wal": 0o600, "x.sqlite-shm": 0o600}
    assert mode(tmp_path / "deep") == 0o700


@posix
def test_a_file_behind_a_dangling_link_is_for_its_owner_too(tmp_path: Path) -> None:
    (tmp_path / "link.sqlite").symlink_to(tmp_path / "real.sqlite")
    before = os.umask(0o000)
    try:
        with closing(connect(tmp_path / "link.sqlite")) as opened:
            opened.execute("CREATE TABLE t (x)")
            assert mode(tmp_path / "real.sqlite-wal") == 0o600
    finally:
        os.umask(before)
    assert mode(tmp_path / "real.sqlite") == 0o600


@posix
def test_the_rights_of_a_file_that_exists_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    connect(path).close()
    path.chmod(0o640)
    connect(path).close()
    assert mode(path) == 0o640


def test_names_that_mean_something_in_an_address_are_only_names(tmp_path: Path) -> None:
    path = tmp_path / "what?mode=ro#100%25 ü.sqlite"
    with closing(connect(path)) as opened:
        opened.execute("CREATE TABLE t (x)")
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


def test_a_missing_file_is_not_created_where_that_is_not_wanted(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"x\.sqlite"):
        connect(tmp_path / "x.sqlite", create=False)
    assert list(tmp_path.iterdir()) == []


def test_memory_needs_no_file() -> None:
    with closing(connect(IN_MEMORY)) as opened:
        assert opened.execute("PRAGMA database_list").fetchone()[2] == ""


# ── trouble ───────────────────────────────────────────────────────────────────────────────────────


def test_a_file_that_is_not_a_database_is_named_with_the_fix(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    path.write_bytes(b"not a database at all " * 1000)
    with pytest.raises(DamagedDatabaseError, match=r"not a database.*x\.sqlite-wal.*") as caught:
        connect(path)
    assert caught.value.filename == str(path)
    assert ".recover" in str(caught.value)


def test_a_damaged_schema_is_found_when_the_file_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    with closing(connect(path)) as opened:
        opened.execute("CREATE TABLE t (x)")
        opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray(path.read_bytes())
    data[100:1000] = b"\xff" * 900
    path.write_bytes(data)
    with pytest.raises(DamagedDatabaseError, match=r"x\.sqlite"):
        connect(path)


def test_a_lock_that_is_held_too_long_is_said_to_be_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock._store.sqlite.LOCK_TIMEOUT", 0.2)
    path = tmp_path / "x.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:  # not WAL: it keeps everybody out
        other.execute("CREATE TABLE t (x)")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(OSError, match=r"another process has held its lock for 0\.2 s"):
            connect(path)


MANY = """
import sys
from pathlib import Path
from penstock._store.key_value import SqliteKeyValueTable
from penstock._store.sqlite_writer import SqliteWriter
from penstock._store.journal import JournalStore, JournalEntry
sys.stdin.readline()
rows = JournalStore(Path(sys.argv[1]) / "journal.sqlite", lambda: 0.0, age=1e9, size=10**9)
state = SqliteWriter(Path(sys.argv[1]) / "state.sqlite")
SqliteKeyValueTable(state, "reasoning", lambda: 0.0).put("t", {sys.argv[2]: b"1"})
rows.add(JournalEntry(time=1.0, route=sys.argv[2]))
rows.close(); state.close()
print("done")
"""


def test_processes_that_start_at_once_all_create_the_same_files(tmp_path: Path) -> None:
    workers = [start_python(MANY, str(tmp_path / "data"), str(number)) for number in range(8)]
    try:
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
        assert [worker.communicate(timeout=60)[0] for worker in workers] == ["done\n"] * 8
    finally:
        for worker in workers:
            worker.kill()
    with closing(sqlite3.connect(tmp_path / "data" / "journal.sqlite")) as found:
        assert sorted(row[0] for row in found.execute("SELECT route FROM turns")) == [str(n) for n in range(8)]
    with closing(sqlite3.connect(tmp_path / "data" / "state.sqlite")) as found:
        assert sorted(row[0] for row in found.execute("SELECT key FROM reasoning")) == [str(n) for n in range(8)]
