"""The writer against a model: jobs, bad jobs, locks of other processes, flushes, reopenings, in any order."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock._store.sqlite_writer import SqliteWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._store.sqlite_writer import WriteJob


class WriterMachine(RuleBasedStateMachine):
    """`given` is what must be in the file once it could be written, in this order."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "x.sqlite"
        self.given: list[int] = []
        self.confirmed: list[int] = []
        self.failed = self.next = 0
        self.other: sqlite3.Connection | None = None
        self.writer = self.opened()

    def opened(self) -> SqliteWriter:
        writer = SqliteWriter(self.path)
        writer.create("CREATE TABLE IF NOT EXISTS t (x INTEGER UNIQUE)")
        return writer

    @initialize()
    def reopen_once(self) -> None:
        """The second start is where the lock used to be lost."""
        self.writer.close()
        self.writer = self.opened()

    @rule(count=st.integers(1, 30))
    def submit(self, count: int) -> None:
        for _ in range(count):
            self.next += 1
            self.given.append(self.next)
            assert self.writer.submit(self.job(self.next))

    def job(self, number: int) -> WriteJob:
        def work(database: sqlite3.Connection) -> Callable[[], None]:
            database.execute("INSERT INTO t VALUES (?)", (number,))
            return lambda: self.confirmed.append(number)

        return work

    @precondition(lambda self: self.given)
    @rule(kind=st.sampled_from(["twice", "raises"]))
    def submit_bad(self, kind: str) -> None:
        def raises(_: sqlite3.Connection) -> None:
            raise LookupError(kind)

        self.failed += 1
        assert self.writer.submit(raises if kind == "raises" else self.job(self.given[0]))

    @precondition(lambda self: self.other is None)
    @rule()
    def lock(self) -> None:
        self.other = sqlite3.connect(self.path, isolation_level=None, timeout=30)
        self.other.execute("BEGIN IMMEDIATE")

    @precondition(lambda self: self.other is not None)
    @rule(commit=st.booleans())
    def unlock(self, commit: bool) -> None:
        assert self.other is not None
        self.other.execute("COMMIT" if commit else "ROLLBACK")
        self.other.close()
        self.other = None

    @precondition(lambda self: self.other is None)
    @rule()
    def flush(self) -> None:
        assert self.writer.flush()
        assert self.confirmed == self.rows() == self.given

    @precondition(lambda self: self.other is None)
    @rule()
    def reopen(self) -> None:
        self.writer.close()
        assert self.writer.failed == self.failed
        assert self.rows() == self.given
        self.failed = 0
        self.writer = self.opened()

    @invariant()
    def no_row_is_there_that_comes_later(self) -> None:
        found = self.rows()
        assert found == self.given[: len(found)]

    def rows(self) -> list[int]:
        with closing(sqlite3.connect(self.path, timeout=30)) as opened:
            return [row[0] for row in opened.execute("SELECT x FROM t ORDER BY rowid")]

    def teardown(self) -> None:
        if self.other is not None:
            self.other.close()
        self.writer.close()
        assert self.rows() == self.given
        with closing(sqlite3.connect(self.path)) as opened:
            assert opened.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        self.folder.cleanup()


TestWriterMachine = WriterMachine.TestCase
TestWriterMachine.settings = settings(max_examples=20, stateful_step_count=15, deadline=None)
