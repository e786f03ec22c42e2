"""Why turns are no longer in the file of kept turns, or never were: their ids and reasons, without content.

The newest reasons are kept. The mark `losses_since` says from when on none is missing: a turn that is newer, and that
has neither content nor a reason here, was never written to the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable

MAX_LOSSES = 20_000
LOSS_BYTES = 2048  # of the file's bound for each loss: losses take a tenth of that
DELETED = "deleted"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS losses (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, reason TEXT NOT NULL,
    time REAL NOT NULL);
CREATE TABLE IF NOT EXISTS marks (name TEXT PRIMARY KEY, value REAL NOT NULL)
"""
# A deletion stays the reason.
_ADD = """
INSERT INTO losses (id, reason, time) VALUES (?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET reason = excluded.reason, time = excluded.time WHERE reason != 'deleted'
"""


class Loss(NamedTuple):
    """Why a turn is not in the file."""

    id: str
    reason: str


class KnownLoss(NamedTuple):
    """What the file tells of a turn. `reason`: empty if unknown. `since`: from then on no reason is missing."""

    reason: str
    since: float


class LossTable:
    """The table. One thread at a time; the caller begins and commits transactions. `most`: losses that are kept."""

    def __init__(self, connection: sqlite3.Connection, most: int = MAX_LOSSES) -> None:
        self._connection, self._most = connection, most

    def create_tables(self, now: float) -> None:
        for statement in _SCHEMA.split(";"):
            self._connection.execute(statement)
        self._connection.execute("INSERT OR IGNORE INTO marks VALUES ('losses_since', ?)", (now,))

    def add(self, losses: Collection[Loss], now: float) -> None:
        """Adds losses; the oldest make room."""
        execute = self._connection.execute
        self._connection.executemany(_ADD, [(*loss, now) for loss in losses])
        (last,) = execute("SELECT max(number) FROM losses").fetchone()
        gone = execute("DELETE FROM losses WHERE number <= ? RETURNING time", ((last or 0) - self._most,)).fetchall()
        if gone:
            since = max(time for (time,) in gone)
            execute("UPDATE marks SET value = max(value, ?) WHERE name = 'losses_since'", (since,))

    def find(self, id: str) -> KnownLoss:
        """Returns what is known of a turn that is not in the file."""
        execute = self._connection.execute
        reason = execute("SELECT reason FROM losses WHERE id = ?", (id,)).fetchone()
        since = execute("SELECT value FROM marks WHERE name = 'losses_since'").fetchone()
        return KnownLoss(str(reason[0]) if reason else "", float(since[0]) if since else float("inf"))

    def copy_to(self, other: LossTable, losses: Iterable[Loss], now: float) -> None:
        """Copies all losses to another table, and adds some."""
        (since,) = self._connection.execute("SELECT value FROM marks WHERE name = 'losses_since'").fetchone()
        rows = self._connection.execute("SELECT id, reason FROM losses ORDER BY number").fetchall()
        other.create_tables(since)
        other.add([*(Loss(*row) for row in rows), *losses], now)
