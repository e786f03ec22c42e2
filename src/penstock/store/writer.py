"""A thread that writes to a database, so that nobody else waits for a disk.

Jobs run in the order they were given, many to a transaction; what a job gives back is called once it is committed.
`flush` waits for those given so far; `close` for all.
"""

from __future__ import annotations

import atexit
import logging
import sqlite3
import threading
from collections import deque
from contextlib import nullcontext
from typing import TYPE_CHECKING, TypeAlias

from penstock.store.sqlite import ABSENT, connect

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Job: TypeAlias = Callable[[sqlite3.Connection], Callable[[], None] | None]

BATCH = 500  # jobs to a transaction
PAUSE = 0.2  # seconds that jobs gather for
WAITING = 100_000  # jobs that wait at most; beyond it the disk has been stuck for long, and new ones are refused
PATIENCE = 10.0  # seconds that a close or flush waits
log = logging.getLogger("penstock.store")


class Writer:
    """Owns the writing connection of one database."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.connection = connect(path)
        self.refused = 0  # jobs that there was no room for
        self.failed = 0  # jobs that the database would not take
        self.on_failure: Callable[[], None] = lambda: None  # called for each, in the writer's thread
        self._jobs: deque[Job] = deque()
        # Readers of a file have a connection of their own, and wait for no batch; one in memory has no other.
        self._reader = connect(path) if path != ABSENT else self.connection
        self._lock = threading.Lock()  # around the reader
        self._given = threading.Condition()
        self._todo = self._done = self._wanted = 0
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=f"penstock-writer-{path.name}", daemon=True)
        self._thread.start()
        atexit.register(self.close)  # a process that ends without a word still writes what it was given

    def submit(self, job: Job) -> bool:
        """Have a job done soon. False: refused, because too many wait or the writer is closed."""
        with self._given:
            if self._closing or len(self._jobs) >= WAITING:
                self.refused += 1
                return False
            self._jobs.append(job)
            self._todo += 1
            if len(self._jobs) == 1:
                self._given.notify_all()
        return True

    @property
    def waiting(self) -> int:
        return len(self._jobs)

    def create(self, statements: str) -> None:
        """Make tables, and wait until they are there: statements apart by semicolons."""

        def job(database: sqlite3.Connection) -> None:
            for statement in statements.split(";"):
                database.execute(statement)

        self.submit(job)
        self.flush()

    def read(self, query: str, values: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
        """The rows of a query, as far as they are written."""
        with self._lock:
            return self._reader.execute(query, values).fetchall()

    def flush(self, patience: float = PATIENCE) -> bool:
        """Wait until all that was given before now is written."""
        with self._given:
            goal = self._wanted = self._todo
            self._given.notify_all()
            return self._given.wait_for(lambda: self._done >= goal, patience)

    def close(self) -> None:
        """Write what waits, then let go of the file. A second close does nothing."""
        with self._given:
            if self._closing:
                return
            self._closing = True
            self._given.notify_all()
        self._thread.join(PATIENCE)
        if self._thread.is_alive():
            log.error("%s: %d rows were not written within %g s", self.path, len(self._jobs), PATIENCE)
            return
        self._reader.close()
        self.connection.close()
        atexit.unregister(self.close)

    def _run(self) -> None:
        while True:
            with self._given:
                self._given.wait_for(lambda: self._jobs or self._closing)
                self._given.wait_for(lambda: self._closing or self._wanted > self._done, PAUSE)
                batch = [self._jobs.popleft() for _ in range(min(BATCH, len(self._jobs)))]
                if not batch and self._closing:
                    return
            self._write(batch)
            with self._given:
                self._done += len(batch)
                self._given.notify_all()

    def _write(self, batch: list[Job]) -> None:
        """All in one transaction; where that fails, one by one, so that a bad row takes no other with it."""
        if self._together(batch) or len(batch) == 1:
            return
        for job in batch:
            self._together([job])

    def _together(self, batch: list[Job]) -> bool:
        with self._lock if self._reader is self.connection else nullcontext():
            try:
                self.connection.execute("BEGIN IMMEDIATE")
                after = [job(self.connection) for job in batch]
                self.connection.execute("COMMIT")
            except (sqlite3.Error, OverflowError, ValueError) as error:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                if len(batch) == 1:
                    self.failed += 1
                    self.on_failure()
                    log.error("%s: a row was not written: %s", self.path, error)  # noqa: TRY400 — no bug of ours
                return False
        for call in after:
            if call is not None:
                call()
        return True
