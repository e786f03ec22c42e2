"""Why turns are no longer in the file of kept turns, or never were: their ids and reasons, without content.

The newest reasons are kept. The mark `complete_since` says from when on none is missing: a turn that is newer, and that
has neither content nor a reason here, was never written to the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable

MAX_MISSING_TURNS = 20_000
BYTES_PER_MISSING_TURN = 2048  # of the file's bound for each missing turn, whose row takes a tenth of that
DELETED = "deleted"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS missing_turns (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, reason TEXT NOT NULL,
    time REAL NOT NULL);
CREATE TABLE IF NOT EXISTS marks (name TEXT PRIMARY KEY, value REAL NOT NULL)
"""
# A deletion stays the reason.
_ADD = """
INSERT INTO missing_turns (id, reason, time) VALUES (?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET reason = excluded.reason, time = excluded.time WHERE reason != 'deleted'
"""


class MissingTurn(NamedTuple):
    """Why a turn is not in the file."""

    id: str
    reason: str


class MissingReason(NamedTuple):
    """What the file tells of a turn. `reason`: empty if unknown. `since`: from then on no reason is missing."""

    reason: str
    since: float


class MissingTurnTable:
    """The table. One thread at a time; the caller begins and commits transactions. `most`: rows that it keeps."""

    def __init__(self, connection: sqlite3.Connection, most: int = MAX_MISSING_TURNS) -> None:
        self._connection, self._most = connection, most

    def create_tables(self, now: float) -> None:
        for statement in _SCHEMA.split(";"):
            self._connection.execute(statement)
        self._connection.execute("INSERT OR IGNORE INTO marks VALUES ('complete_since', ?)", (now,))

    def add(self, missing: Collection[MissingTurn], now: float) -> None:
        """Adds missing turns. The oldest rows are deleted to make room."""
        execute = self._connection.execute
        self._connection.executemany(_ADD, [(*turn, now) for turn in missing])
        (last,) = execute("SELECT max(number) FROM missing_turns").fetchone()
        gone = execute(
            "DELETE FROM missing_turns WHERE number <= ? RETURNING time", ((last or 0) - self._most,)
        ).fetchall()
        if gone:
            since = max(time for (time,) in gone)
            execute("UPDATE marks SET value = max(value, ?) WHERE name = 'complete_since'", (since,))

    def find(self, id: str) -> MissingReason:
        """Returns what is known of a turn that is not in the file."""
        execute = self._connection.execute
        reason = execute("SELECT reason FROM missing_turns WHERE id = ?", (id,)).fetchone()
        since = execute("SELECT value FROM marks WHERE name = 'complete_since'").fetchone()
        return MissingReason(str(reason[0]) if reason else "", float(since[0]) if since else float("inf"))

    def copy_to(self, other: MissingTurnTable, missing: Iterable[MissingTurn], now: float) -> None:
        """Copies all rows to another table, and adds some."""
        (since,) = self._connection.execute("SELECT value FROM marks WHERE name = 'complete_since'").fetchone()
        rows = self._connection.execute("SELECT id, reason FROM missing_turns ORDER BY number").fetchall()
        other.create_tables(since)
        other.add([*(MissingTurn(*row) for row in rows), *missing], now)
