"""Empties the write-ahead log of a database, so that no deleted text is left in it."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class WalTruncation:
    """Empties the WAL. `is_pending`: another connection's read transaction kept it from that the last time.

    `is_pending` is also true at first if there is a WAL already: the process before may have left deleted text in it.
    Make it before the database is opened.
    """

    def __init__(self, wal: Path) -> None:
        self.is_pending: bool = False
        with suppress(FileNotFoundError):
            self.is_pending = wal.stat().st_size > 0

    def run(self, connection: sqlite3.Connection) -> None:
        """Empties the WAL. Waits for readers as long as the connection waits for a lock."""
        # `busy` is 1 if readers still need the WAL: that is no error (https://www.sqlite.org/pragma.html#pragma_wal_checkpoint).
        busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self.is_pending = bool(busy)

    def retry(self, connection: sqlite3.Connection) -> None:
        """Tries again, if that is needed, and waits for nobody."""
        if not self.is_pending:
            return
        (timeout,) = connection.execute("PRAGMA busy_timeout").fetchone()
        connection.execute("PRAGMA busy_timeout=0").fetchall()
        try:
            with suppress(sqlite3.OperationalError):  # a lock: it stays pending
                self.run(connection)
        finally:
            connection.execute(f"PRAGMA busy_timeout={int(timeout)}").fetchall()
