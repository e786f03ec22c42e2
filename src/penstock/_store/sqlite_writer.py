"""A thread that writes to a database, so that no other thread waits for the disk.

Jobs run in the order in which they are submitted, many in a transaction. A job may return a function, which is called
after the commit. `flush` waits for the jobs submitted so far, `close` for all.

A job is committed within `COMMIT_SECONDS`. A commit survives the end of the process, `kill -9` included. A power cut
or a crash of the system may lose the commits since the last checkpoint (`synchronous=NORMAL`), but does not damage the
file. If the database cannot be written (locked, disk full, read-only, I/O error), jobs wait and are tried again until
they succeed. The log says so, and says what was not written when the writer is closed.
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
    from collections.abc import Callable
    from pathlib import Path

    WriteJob: TypeAlias = Callable[[sqlite3.Connection], Callable[[], None] | None]

T = TypeVar("T")
COMMIT_SECONDS = 0.25  # a job is committed within this time, unless the database cannot be written: documented
GATHER_SECONDS = 0.15  # of it, in which jobs are collected; the rest is for the transaction
JOBS_PER_COMMIT = 500
MAX_WAITING_JOBS = 100_000  # beyond it new jobs are refused: the disk has been stuck for long
CLOSE_TIMEOUT = 10.0  # seconds that `close` and `flush` wait
LARGE_WAL = 4 * WAL_SIZE  # bytes: a larger WAL is emptied even if readers must wait for that
FILE_CHECK_INTERVAL = 5.0  # seconds
_READER_TIMEOUT = 100  # milliseconds that the emptying of a WAL waits for readers
log = logging.getLogger("penstock.store")


class SqliteWriter:
    """Owns the writing connection of one database. `gather`: seconds in which jobs are collected for a commit."""

    def __init__(self, path: Path, *, create: bool = True, gather: float = GATHER_SECONDS) -> None:
        self.path = path
        self._gather = gather
        self.connection: sqlite3.Connection = connect(path, create=create)
        self.refused: int = 0  # jobs, because too many waited
        self.failed: int = 0  # jobs
        self.on_failure: Callable[[], None] = lambda: None  # called for each failed job, in the writer's thread
        self._jobs: deque[WriteJob] = deque()
        # A file has a second connection for readers, so they wait for no transaction. Memory has only one.
        try:
            self._reader = connect(path, create=create) if path != IN_MEMORY else self.connection
        except BaseException:
            self.connection.close()
            raise
        self.connection.execute("PRAGMA busy_timeout=0")  # `WriteBackoff` tries again, sooner than SQLite would
        self._lock = threading.Lock()  # around the reader
        self._readers: ThreadPoolExecutor | None = None
        self._condition = threading.Condition()
        self._submitted = self._finished = self._flush_goal = 0  # numbers of jobs
        self._due = 0.0  # when the first waiting job is to be written
        self._closing = self._forked = False
        self._backoff = WriteBackoff(path, lambda: self._submitted - self._finished)
        self._name = os.path.realpath(path)
        self._inode, self._checked_at = _inode(self._name), 0.0
        self._thread = threading.Thread(target=self._run, name=f"penstock-writer-{path.name}", daemon=True)
        self._thread.start()
        _writers.add(self)
        atexit.register(self.close)  # a process that ends without `close` still writes its jobs

    def submit(self, job: WriteJob) -> bool:
        """Runs a job soon. False: refused, because too many wait or the writer is closed."""
        with self._condition:
            if self._closing or len(self._jobs) >= MAX_WAITING_JOBS:
                self.refused += 1
                return False
            self._jobs.append(job)
            self._submitted += 1
            if len(self._jobs) == 1:
                self._due = time.monotonic() + self._gather
                self._condition.notify_all()
        return True

    def create(self, statements: str) -> None:
        """Creates tables, in the caller's thread. The statements are separated by semicolons.

        Raises an `OSError` that names the file. Processes that do this at the same time wait for each other.
        """
        self.change(lambda database: [database.execute(statement) for statement in statements.split(";")])

    def change(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs a function now, in the caller's thread; errors are as in `create`. Not for the event loop."""
        with self._lock:
            try:
                return work(self._check_reader())
            except sqlite3.Error as error:
                raise open_error(self.path, error) from None

    def read(self, query: str, values: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
        """Returns the rows of a query, as far as they are written. Not for the event loop: see `in_thread`."""
        with self._lock:
            return self._check_reader().execute(query, values).fetchall()

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Runs a function that reads in the reader's thread, for the event loop."""
        if self._readers is None:
            self._readers = ThreadPoolExecutor(1, f"penstock-reader-{self.path.name}")
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    def flush(self, timeout: float = CLOSE_TIMEOUT) -> bool:
        """Waits until all jobs submitted so far are written. False if they are not: too slow, or not writable."""
        with self._condition:
            goal = self._flush_goal = self._submitted
            self._condition.notify_all()
            self._condition.wait_for(lambda: self._finished >= goal or self._backoff.reported, timeout)
            return self._condition.wait_for(lambda: self._finished >= goal, min(SHORT_LOCK, timeout))

    def close(self) -> None:
        """Writes the jobs that wait, then closes the file. A second call does nothing."""
        with self._condition:
            if self._closing:
                return
            self._closing = True
            self._backoff.give_up_at = time.monotonic() + CLOSE_TIMEOUT - 1
            self._condition.notify_all()
        self._thread.join(CLOSE_TIMEOUT)
        left = self._submitted - self._finished
        if left:
            log.error("%s: %d changes were not written within %g s and are lost", self.path, left, CLOSE_TIMEOUT)
        if self._thread.is_alive():
            return
        if self._readers is not None:
            self._readers.shutdown()
        self._reader.close()
        self.connection.close()
        atexit.unregister(self.close)

    def _check_reader(self) -> sqlite3.Connection:
        if self._forked:
            raise RuntimeError(f"{self.path} was opened before a fork: open it again in this process")
        return self._reader

    def abandon(self) -> None:
        """Called in the child of a fork: the connections belong to the parent, and are neither used nor closed here."""
        self._closing = self._forked = True
        self._condition, self._lock = threading.Condition(), threading.Lock()  # the old ones may be locked for ever
        atexit.unregister(self.close)

    # ── in the writer's thread ────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._jobs or self._closing)
                gather = max(self._due - time.monotonic(), 0)
                self._condition.wait_for(lambda: self._closing or self._flush_goal > self._finished, gather)
                batch = [self._jobs.popleft() for _ in range(min(JOBS_PER_COMMIT, len(self._jobs)))]
                self._due = 0.0  # the jobs that are left have waited long enough
                if not batch:
                    return
            if not self._write(batch):
                return
            with self._condition:
                self._finished += len(batch)
                self._condition.notify_all()
            self._check_files()

    def _write(self, batch: list[WriteJob]) -> bool:
        """Commits all jobs in one transaction; if that fails, one by one, so that a bad row costs no other.

        False: the writer is closed, and the database still cannot be written.
        """
        while is_retryable(error := self._commit(batch)):
            if not self._backoff.wait(error, self._notify):
                return False
        self._backoff.clear()
        if error is None:
            return True
        if len(batch) > 1:
            return all(self._write([job]) for job in batch)
        self.failed += 1
        log.error("%s: a row was not written: %s", self.path, error)
        self.on_failure()
        return True

    def _notify(self) -> None:
        with self._condition:
            self._condition.notify_all()

    def _commit(self, batch: list[WriteJob]) -> Exception | None:
        """Runs jobs in one transaction. Returns the error that kept it from being committed."""
        with self._lock if self._reader is self.connection else nullcontext():
            try:
                with self.connection:  # commits, or rolls back after an error
                    self.connection.execute("BEGIN IMMEDIATE")
                    callbacks = [job(self.connection) for job in batch]
            except Exception as error:  # noqa: BLE001 — an error of a job must not end the thread
                return error
        for callback in filter(None, callbacks):
            callback()
        return None

    def _check_files(self) -> None:
        """Checks the files from time to time, by their names only: only SQLite may open them."""
        now = time.monotonic()
        if self.path == IN_MEMORY or now - self._checked_at < FILE_CHECK_INTERVAL:
            return
        self._checked_at = now
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
        """Empties a WAL that grew because there was always a reader."""
        try:
            self.connection.execute(f"PRAGMA busy_timeout={_READER_TIMEOUT}")
            if self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                log.warning("%s: a long read keeps the WAL above %d MiB", self.path, LARGE_WAL // 2**20)
        except sqlite3.Error as error:
            log.warning("%s: the WAL could not be emptied: %s", self.path, error)
        finally:
            self.connection.execute("PRAGMA busy_timeout=0")


def _inode(name: str) -> int:
    """Returns the inode of a file; 0 if there is none. Windows does not let a file in use be moved."""
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


BUSY_DELAY = 0.005  # seconds until the next attempt to get a lock: other writers hold it for milliseconds
OTHER_DELAY = 0.5  # seconds until the next attempt after other errors, such as a full disk
SHORT_LOCK = 1.0  # seconds that others may hold the lock before it is logged
LOG_INTERVAL = 60.0  # seconds until the same error is logged again

_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
# Errors of the database, not of a row. https://www.sqlite.org/rescode.html
_CODES = "FULL IOERR READONLY CANTOPEN PERM NOMEM PROTOCOL INTERRUPT CORRUPT NOTADB NOLFS"
_DATABASE = _BUSY | {getattr(sqlite3, f"SQLITE_{name}") for name in _CODES.split()}


def is_retryable(error: BaseException | None) -> bool:
    """True if the same transaction may succeed later."""
    return error is not None and error_code(error) in _DATABASE


class WriteBackoff:
    """The waits of one writer. `reported`: the current wait is so long that it is in the log."""

    def __init__(self, path: Path, count_waiting: Callable[[], int]) -> None:
        self.reported = False
        self.give_up_at = float("inf")
        self._path, self._count_waiting = path, count_waiting
        self._since = self._reported_at = 0.0

    def wait(self, error: BaseException | None, on_report: Callable[[], None]) -> bool:
        """Waits until the next attempt. False: there is no more time, and the jobs are lost."""
        now = time.monotonic()
        self._since = self._since or now
        busy = error is not None and error_code(error) in _BUSY
        due = not self.reported or now - self._reported_at >= LOG_INTERVAL
        if due and (not busy or now - self._since >= SHORT_LOCK):
            hint = f"; {repair_hint(self._path)}" if error is not None and is_damaged(error) else ""
            count = self._count_waiting()
            log.error("%s: rows are held back, %d changes wait: %s%s", self._path, count, error, hint)
            self.reported, self._reported_at = True, now
            on_report()
        if now >= self.give_up_at:
            return False
        time.sleep(BUSY_DELAY if busy else OTHER_DELAY)
        return True

    def clear(self) -> None:
        """The database can be written again."""
        if self.reported:
            log.warning("%s: rows that were held back are written again", self._path)
        self.reported, self._since = False, 0.0
