"""A thread that writes to a database, so that nobody else waits for a disk.

Jobs run in the order they were given, many to a transaction; what a job gives back is called once it is committed.
`flush` waits for those given so far; `close` for all.

A job is committed within `PAUSE` seconds after it was given, and a commit outlives the process, `kill -9` included. A
power cut or a crash of the system may cost the commits since the last checkpoint (`synchronous=NORMAL`), but does not
damage the file. If the database cannot be written (locked, disk full, read-only, I/O error), jobs are held and tried
again until they succeed; the log says so, and says again what was not written when the writer is closed.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import sqlite3
import threading
import time
import weakref
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from penstock._store.sqlite import IN_MEMORY, WAL_SIZE, connect, error_code, is_damaged, open_error, repair_hint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    WriteJob: TypeAlias = Callable[[sqlite3.Connection], Callable[[], None] | None]

T = TypeVar("T")
COMMIT_SECONDS = 0.25  # a job is committed within this time, unless the database cannot be written: documented
GATHER_SECONDS = 0.15  # seconds of it that jobs gather for; the rest is for the transaction itself
JOBS_PER_COMMIT = 500  # jobs to a transaction
MAX_WAITING_JOBS = 100_000  # new jobs are refused beyond it: the disk has been stuck for long
CLOSE_TIMEOUT = 10.0  # seconds that a close or flush waits
LARGE_WAL = 4 * WAL_SIZE  # bytes: a WAL beyond it is emptied even if readers must wait for that
FILE_CHECK_INTERVAL = 5.0  # seconds between two looks at the files
_READERS_END = 100  # milliseconds that the emptying of a WAL waits for readers to end
log = logging.getLogger("penstock.store")


class SqliteWriter:
    """Owns the writing connection of one database."""

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self.path = path
        self.connection: sqlite3.Connection = connect(path, create=create)
        self.refused: int = 0  # jobs that there was no room for
        self.failed: int = 0  # jobs that could not be done
        self.on_failure: Callable[[], None] = lambda: None  # called for each, in the writer's thread
        self._jobs: deque[WriteJob] = deque()
        # Readers of a file have a connection of their own, and wait for no batch; one in memory has no other.
        try:
            self._reader = connect(path, create=create) if path != IN_MEMORY else self.connection
        except BaseException:
            self.connection.close()
            raise
        self.connection.execute("PRAGMA busy_timeout=0")  # `Held` asks again, sooner than SQLite would
        self._lock = threading.Lock()  # around the reader
        self._readers: ThreadPoolExecutor | None = None
        self._given = threading.Condition()
        self._todo = self._done = self._wanted = 0
        self._due = 0.0  # when the first job that waits is to be written
        self._closing = self._forked = False
        self._held = WriteBackoff(path, lambda: self._todo - self._done)
        self._name = os.path.realpath(path)
        self._inode = _inode(self._name)
        self._checked = 0.0
        self._thread = threading.Thread(target=self._run, name=f"penstock-writer-{path.name}", daemon=True)
        self._thread.start()
        _writers.add(self)
        atexit.register(self.close)  # a process that ends without a word still writes what it was given

    def submit(self, job: WriteJob) -> bool:
        """Have a job done soon. False: refused, because too many wait or the writer is closed."""
        with self._given:
            if self._closing or len(self._jobs) >= MAX_WAITING_JOBS:
                self.refused += 1
                return False
            self._jobs.append(job)
            self._todo += 1
            if len(self._jobs) == 1:
                self._due = time.monotonic() + GATHER_SECONDS
                self._given.notify_all()
        return True

    @property
    def waiting(self) -> int:
        return len(self._jobs)

    def create(self, statements: str) -> None:
        """Create tables, in the caller's thread: statements apart by semicolons.

        Raises an `OSError` that names the file. Processes that do this at the same time wait for each other.
        """
        self.change(lambda database: [database.execute(statement) for statement in statements.split(";")])

    def change(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do something at once, in the caller's thread; errors are as in `create`. Not for the event loop."""
        with self._lock:
            try:
                return work(self._own_reader())
            except sqlite3.Error as error:
                raise open_error(self.path, error) from None

    def read(self, query: str, values: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
        """The rows of a query, as far as they are written. Not for the event loop: see `in_thread`."""
        with self._lock:
            return self._own_reader().execute(query, values).fetchall()

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Do something that reads, in a thread that is there for it, while the event loop goes on."""
        if self._readers is None:
            self._readers = ThreadPoolExecutor(1, f"penstock-reader-{self.path.name}")
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    def flush(self, patience: float = CLOSE_TIMEOUT) -> bool:
        """Wait until all that was given before now is written. False if it is not: too slow, or held."""
        with self._given:
            goal = self._wanted = self._todo
            self._given.notify_all()
            self._given.wait_for(lambda: self._done >= goal or self._held.told, patience)
            return self._given.wait_for(lambda: self._done >= goal, min(SHORT_LOCK, patience))

    def close(self) -> None:
        """Write what waits, then let go of the file. A second close does nothing."""
        with self._given:
            if self._closing:
                return
            self._closing = True
            self._held.give_up_at = time.monotonic() + CLOSE_TIMEOUT - 1
            self._given.notify_all()
        self._thread.join(CLOSE_TIMEOUT)
        left = self._todo - self._done
        if left:
            log.error("%s: %d changes were not written within %g s and are lost", self.path, left, CLOSE_TIMEOUT)
        if self._thread.is_alive():
            return
        if self._readers is not None:
            self._readers.shutdown()
        self._reader.close()
        self.connection.close()
        atexit.unregister(self.close)

    def _own_reader(self) -> sqlite3.Connection:
        if self._forked:
            raise RuntimeError(f"{self.path} was opened before a fork: open it again in this process")
        return self._reader

    def abandon(self) -> None:
        """In the child of a fork: the connections are the parent's, and neither used nor closed here."""
        self._closing = self._forked = True
        self._given, self._lock = threading.Condition(), threading.Lock()  # the old ones may be held for ever
        atexit.unregister(self.close)

    # ── in the writer's thread ────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        while True:
            with self._given:
                self._given.wait_for(lambda: self._jobs or self._closing)
                gather = max(self._due - time.monotonic(), 0)
                self._given.wait_for(lambda: self._closing or self._wanted > self._done, gather)
                batch = [self._jobs.popleft() for _ in range(min(JOBS_PER_COMMIT, len(self._jobs)))]
                self._due = 0.0  # those that are left have waited long enough
                if not batch:
                    return
            if not self._write(batch):
                return
            with self._given:
                self._done += len(batch)
                self._given.notify_all()
            self._check_files()

    def _write(self, batch: list[WriteJob]) -> bool:
        """All in one transaction; where that fails, one by one, so that a bad row takes no other with it.

        False: given up, because the writer is closed and the database still cannot be written.
        """
        while is_retryable(error := self._commit(batch)):
            if not self._held.wait(error, self._tell_waiters):
                return False
        self._held.clear()
        if error is None:
            return True
        if len(batch) > 1:
            return all(self._write([job]) for job in batch)
        self.failed += 1
        log.error("%s: a row was not written: %s", self.path, error)
        self.on_failure()
        return True

    def _tell_waiters(self) -> None:
        with self._given:
            self._given.notify_all()

    def _commit(self, batch: list[WriteJob]) -> Exception | None:
        """The error that kept a transaction from being committed; None where it was."""
        with self._lock if self._reader is self.connection else nullcontext():
            try:
                self.connection.execute("BEGIN IMMEDIATE")
                after = [job(self.connection) for job in batch]
                self.connection.execute("COMMIT")
            except Exception as error:  # noqa: BLE001 — whatever a job raises must not end the thread
                with suppress(sqlite3.Error):  # some errors end the transaction by themselves
                    if self.connection.in_transaction:
                        self.connection.execute("ROLLBACK")
                return error
        for call in after:
            if call is not None:
                call()
        return None

    def _check_files(self) -> None:
        """Look at the files from time to time, by their names only: they are never opened beside SQLite."""
        now = time.monotonic()
        if self.path == IN_MEMORY or now - self._checked < FILE_CHECK_INTERVAL:
            return
        self._checked = now
        if _inode(self._name) != self._inode:
            log.error(
                "%s was moved, replaced or deleted while it is in use: what is written from now on is in a file "
                "that nobody else sees; restart this process",
                self.path,
            )
        with suppress(OSError):
            if os.stat(f"{self._name}-wal").st_size > LARGE_WAL:  # noqa: PTH116 — as above
                self._empty_wal()

    def _empty_wal(self) -> None:
        """Empty a WAL that readers have kept from being emptied, one after the other."""
        try:
            self.connection.execute(f"PRAGMA busy_timeout={_READERS_END}")
            if self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                log.warning("%s: a long read keeps the WAL above %d MiB", self.path, LARGE_WAL // 2**20)
        except sqlite3.Error as error:
            log.warning("%s: the WAL could not be emptied: %s", self.path, error)
        finally:
            self.connection.execute("PRAGMA busy_timeout=0")


def ensure_table(
    writer: SqliteWriter, table: str, statements: str, columns: Mapping[str, str], *, create: bool
) -> bool:
    """Create a table and add the columns it lacks (name → type). Writes only where it must; true if the table exists.

    Where `create` is false a missing table is not created. Errors are an `OSError` that names the file.
    """
    known = writer.change(lambda database: column_names(database, table))
    if not known and create:
        writer.create(statements)
        known = writer.change(lambda database: column_names(database, table))
    if known and not columns.keys() <= known:
        writer.change(lambda database: _add_columns(database, table, columns))
    return bool(known)


def column_names(database: sqlite3.Connection, table: str) -> set[str]:
    """The columns of a table; empty if there is no such table."""
    return {str(row[1]) for row in database.execute(f"PRAGMA table_info({table})")}


def _add_columns(database: sqlite3.Connection, table: str, columns: Mapping[str, str]) -> None:
    """The missing columns are looked for under the write lock: another process may have added them by now."""
    database.execute("BEGIN IMMEDIATE")
    try:
        known = column_names(database, table)
        for name, kind in columns.items():
            if name not in known:
                database.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")
    except BaseException:
        database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")


def _inode(name: str) -> int:
    """The number of a file; 0 if there is none. Windows does not let go of a file in use."""
    try:
        return os.stat(name).st_ino  # noqa: PTH116 — as above
    except OSError:
        return 0


_writers: weakref.WeakSet[SqliteWriter] = weakref.WeakSet()


def _abandon_all() -> None:
    for writer in list(_writers):
        writer.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)


BUSY_DELAY = 0.005  # seconds until a lock is asked for again: other writers hold it for milliseconds
OTHER_DELAY = 0.5  # seconds until a full disk and the like are tried again
SHORT_LOCK = 1.0  # seconds that a lock may be held by others before it is worth a line in the log
LOG_INTERVAL = 60.0  # seconds until the log says it again


_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
# What is wrong with the database rather than with a row. https://www.sqlite.org/rescode.html
_DATABASE = _BUSY | {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_NOLFS,
}


def is_retryable(error: BaseException | None) -> bool:
    """Whether the same transaction may succeed later."""
    return error is not None and error_code(error) in _DATABASE


class WriteBackoff:
    """The wait of one writer. `told`: it has lasted so long that the log says so."""

    def __init__(self, path: Path, waiting: Callable[[], int]) -> None:
        self.told = False
        self.give_up_at = float("inf")
        self._path, self._waiting = path, waiting
        self._since = self._said = 0.0

    def wait(self, error: BaseException | None, on_told: Callable[[], None]) -> bool:
        """Wait a little. False: there is no more time, and what is held is lost."""
        now = time.monotonic()
        self._since = self._since or now
        busy = error is not None and error_code(error) in _BUSY
        if (not busy or now - self._since >= SHORT_LOCK) and (not self.told or now - self._said >= LOG_INTERVAL):
            self._say(error)
            self.told, self._said = True, now
            on_told()
        if now >= self.give_up_at:
            return False
        time.sleep(BUSY_DELAY if busy else OTHER_DELAY)
        return True

    def clear(self) -> None:
        """The database can be written again."""
        if self.told:
            log.warning("%s: rows that were held back are written again", self._path)
        self.told, self._since = False, 0.0

    def _say(self, error: BaseException | None) -> None:
        hint = f"; {repair_hint(self._path)}" if error is not None and is_damaged(error) else ""
        log.error("%s: rows are held back, %d changes wait: %s%s", self._path, self._waiting(), error, hint)
