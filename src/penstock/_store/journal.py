"""The journal's table: one row for each turn in SQLite, limited in age and size, and sums over the rows.

A `SqliteWriter` writes the rows; queries see the rows that are written.
"""

from __future__ import annotations

import logging
import sqlite3
from collections import deque
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import msgspec
from msgspec.structs import astuple

from penstock._store.sqlite import count_used_bytes
from penstock._store.sqlite_writer import MAX_WAITING_JOBS, SqliteWriter, ensure_table
from penstock.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from penstock._store.sqlite_writer import WriteJob

TRIM_INTERVAL = 256  # rows between two checks of the bounds
# Rows in a statement. SQLite releases the GIL for each statement, and taking it again is the expensive part.
BATCH_SIZES = (100, 20, 5, 1)
log = logging.getLogger("penstock.store")
TurnStatus: TypeAlias = Literal["finish", "fault", "refused", "cancelled"]


class TurnFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the journal and the inspector's list say about a turn. Times in seconds; None is unknown.

    `time` is when the request came, since the epoch. `asked` is the model that the client named, `provider` and `model`
    those that answered. `ttft` runs to the first content. `times`: how many similar requests the row stands for.
    """

    time: float
    key: str = ""
    client: str = ""
    route: str = ""
    protocol: str = ""  # the client's
    upstream: str = ""  # the provider's protocol
    operation: str = ""
    stream: bool = False
    tee: bool = False
    asked: str = ""
    provider: str = ""
    model: str = ""
    engine: str = ""
    http: int = 0  # the status that the client saw
    finish: str = ""
    fault: str = ""
    ttft: float | None = None
    input: int | None = None
    output: int | None = None
    cached: int | None = None
    reasoning: int | None = None
    cost: float | None = None
    estimate: int | None = None  # of the input, as it is before the request is sent,
    low: int | None = None  # and its bounds
    high: int | None = None
    method: str = ""  # of the estimate: actual, hybrid or estimated
    times: int = 1
    malformed: int = 0  # frames of the provider that could not be read: skipped, or withheld from the client


class JournalEntry(TurnFacts, frozen=True, kw_only=True, omit_defaults=True):
    """One row of the journal. `bytes_in` and `bytes_out`: the client's request body, and what was sent to the client.

    Requests that are not turns (embeddings, counts, refused callers) have a row too: see `operation`.
    """

    tenant: str = ""
    tries: int = 0
    decisions: str = ""  # one in a line
    status: TurnStatus = "finish"
    fault_message: str = ""
    duration: float = 0.0
    written: int | None = None
    exact: bool = True
    factor: float | None = None  # learned for this model from turns up to this one
    uncertain: str = ""  # what in the request could only be guessed, in words of `UncertainKind`
    request_id: str = ""  # the gateway's
    upstream_id: str = ""
    user: str = ""
    bytes_in: int = 0
    bytes_out: int = 0


_TYPES = {int: "INTEGER", bool: "INTEGER", float: "REAL"}
FIELDS = JournalEntry.__struct_fields__
COLUMNS = ", ".join(FIELDS)
_CREATE = (
    "CREATE TABLE IF NOT EXISTS turns (id INTEGER PRIMARY KEY, time REAL NOT NULL, {columns});"
    "CREATE INDEX IF NOT EXISTS turns_time ON turns (time);"
    "CREATE INDEX IF NOT EXISTS turns_key ON turns (key, time)"
)
_MARKS = f"({', '.join('?' * len(FIELDS))})"
_INSERT = {
    many: f"INSERT INTO turns ({COLUMNS}) VALUES {', '.join([_MARKS] * many)}"  # noqa: S608 — our own names
    for many in BATCH_SIZES
}
JOURNAL_GROUPS = "key provider model client route protocol engine status fault asked tenant operation".split()
CleanEntry: TypeAlias = Callable[[JournalEntry], JournalEntry]
_Row: TypeAlias = tuple[object, ...]


class UsageSum(msgspec.Struct, frozen=True, omit_defaults=True):
    """The sum of several turns. `name` is what they share, `start` the beginning of their time slice."""

    name: str = ""
    start: float = 0.0
    turns: int = 0
    faults: int = 0
    cancelled: int = 0
    refused: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0
    cost: float = 0.0
    unpriced: int = 0  # turns with tokens whose price is not known
    ttft: float | None = None  # mean
    duration: float | None = None  # mean

    @property
    def tokens(self) -> int:
        return self.input + self.output


_SUMS = """sum(coalesce(times, 1)), sum(status = 'fault'), sum(status = 'cancelled'),
    sum((status = 'refused') * coalesce(times, 1)),
    coalesce(sum(input), 0), coalesce(sum(output), 0), coalesce(sum(cached), 0), coalesce(sum(reasoning), 0),
    coalesce(sum(cost), 0.0), sum(cost IS NULL AND (input IS NOT NULL OR output IS NOT NULL)), avg(ttft), avg(duration)
    FROM turns WHERE time >= ? AND time < ?"""
_FOREVER = 1e12


class JournalStore:
    """The table, in a file or in memory. `age` in seconds, `size` in bytes. `read_only`: nothing is deleted.

    `lost` counts the rows that were not written.
    """

    def __init__(
        self, path: Path, clock: Callable[[], float], *, age: float = 0, size: int = 0, read_only: bool = False
    ) -> None:
        self.path = path
        self.lost: int = 0
        self._writer = SqliteWriter(path, create=not read_only)
        self.submit: Callable[[WriteJob], bool] = self._writer.submit
        self._clock, self._age, self._size = clock, age, size
        self._added = 0
        max_values = self._writer.connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER)  # 999 before SQLite 3.32
        self._batch_sizes = [many for many in BATCH_SIZES if many * len(FIELDS) <= max_values]
        try:
            self._create_table(create=not read_only)
        except BaseException:
            self._writer.close()
            raise
        if not read_only:
            self._writer.submit(self._trim)
        self._entries: deque[tuple[JournalEntry, CleanEntry | None]] = deque()  # not converted yet
        self._uncommitted: list[_Row] = []
        self._scheduled = False  # the writer has a job that writes the entries
        self._writer.on_failure = self._unschedule

    def add(self, row: JournalEntry, clean: CleanEntry | None = None) -> bool:
        """Writes a row soon. The writer's thread calls `clean` before. False: there is no room for it."""
        if self.waiting >= MAX_WAITING_JOBS:
            self.lost += 1
            return False
        self._entries.append((row, clean))
        return self._scheduled or self._schedule()

    @property
    def waiting(self) -> int:
        return len(self._entries) + len(self._uncommitted)

    def flush(self) -> None:
        self._schedule()
        self._writer.flush()

    def close(self) -> None:
        """Writes the rows that wait. Rows that cannot be written are logged and counted as lost."""
        self._schedule()
        self._writer.close()
        self._scheduled = False
        if self.waiting:
            log.error("%s: %d rows were not written and are lost", self.path, self.waiting)
            self.lost += self.waiting
            self._entries.clear()
            self._uncommitted.clear()

    def _schedule(self) -> bool:
        if self._scheduled or not self.waiting:
            return True
        self._scheduled = True  # before `submit`: `_write_entries` may reset it before `submit` returns
        if self._writer.submit(self._write_entries):
            return True
        self._scheduled = False  # the writer is closed
        self.lost += len(self._entries)
        self._entries.clear()
        return False

    def _create_table(self, *, create: bool) -> None:
        columns = _column_types()
        statements = _CREATE.format(columns=", ".join(f"{name} {columns[name]}" for name in columns if name != "time"))
        if not ensure_table(self._writer, "turns", statements, columns, create=create):
            raise InputError(f"{self.path}: there is no journal in this file: it has no table `turns`")

    # ── queries ───────────────────────────────────────────────────────────────────────────────────

    def read(self, query: str, values: _Row = ()) -> list[tuple[Any, ...]]:
        """Returns the rows of any query."""
        return self._writer.read(query, values)

    def turns(
        self, *, since: float = 0.0, until: float = _FOREVER, limit: int = 100, before: int | None = None, **same: str
    ) -> list[tuple[int, JournalEntry]]:
        """Returns the latest turns with their ids, newest first. `before`: only lower ids. `key="x"` filters."""
        where, values = _filter(same)
        query = (
            f"SELECT id, {COLUMNS} FROM turns WHERE time >= ? AND time < ? AND id < ?{where} ORDER BY id DESC LIMIT ?"  # noqa: S608 — our own names
        )
        rows = self.read(query, (since, until, before or 2**62, *values, limit))
        return [(int(row[0]), read_entry(row[1:])) for row in rows]

    def total(self, *, since: float = 0.0, until: float = _FOREVER, without: str = "", **same: str) -> UsageSum:
        """Returns the sum of all turns of a period. `without`: an operation that is not counted."""
        where, values = _filter(same, without)
        return _sum("", 0.0, self.read(f"SELECT {_SUMS}{where}", (since, until, *values))[0])

    def by(
        self, group: str, *, since: float = 0.0, until: float = _FOREVER, without: str = "", **same: str
    ) -> list[UsageSum]:
        """Returns sums by the value of a column (one of `JOURNAL_GROUPS`), those with the most turns first."""
        where, values = _filter({group: ""} if group not in JOURNAL_GROUPS else same, without)
        query = f"SELECT {group}, {_SUMS}{where} GROUP BY {group} ORDER BY 2 DESC, 1 LIMIT 1000"
        return [_sum(str(row[0] or ""), 0.0, row[1:]) for row in self.read(query, (since, until, *values))]

    def slices(
        self, step: float, *, since: float, until: float = _FOREVER, without: str = "", **same: str
    ) -> list[UsageSum]:
        """Returns sums by time slice; slices without a turn are left out."""
        where, values = _filter(same, without)
        query = f"SELECT CAST(time / ? AS INTEGER), {_SUMS}{where} GROUP BY 1 ORDER BY 1 LIMIT 10000"
        return [_sum("", float(row[0]) * step, row[1:]) for row in self.read(query, (step, since, until, *values))]

    # ── in the writer's thread ────────────────────────────────────────────────────────────────────

    def _unschedule(self) -> None:
        """The job failed, for example because another process locked the file: the next row schedules it again."""
        self._scheduled = False

    def _write_entries(self, database: sqlite3.Connection) -> Callable[[], None]:
        """Writes all entries, and again the rows that were not committed."""
        self._scheduled = False  # before entries are taken: one that is added from here on schedules the next job
        uncommitted, self._uncommitted = self._uncommitted, []
        self._write_rows(database, uncommitted)
        while self._entries:
            rows: list[_Row] = []
            for _ in range(min(len(self._entries), TRIM_INTERVAL)):
                rows += self._convert(*self._entries.popleft())
            self._write_rows(database, rows)
        return self._uncommitted.clear

    def _convert(self, row: JournalEntry, clean: CleanEntry | None) -> list[_Row]:
        try:
            return [astuple(row if clean is None else clean(row))]
        except Exception:  # a bad row must not stop the journal
            self.lost += 1
            log.exception("%s: a row could not be cleaned, and is not written", self.path)
            return []

    def _write_rows(self, database: sqlite3.Connection, rows: list[_Row]) -> None:
        """Writes rows, as many in a statement as possible. Checks the bounds from time to time."""
        self._uncommitted += rows
        start = 0
        for many in self._batch_sizes:
            for at in range(start, len(rows) - many + 1, many):
                self._insert(database, rows[at : at + many])
                start = at + many
        self._added += len(rows)
        if self._added >= TRIM_INTERVAL:
            self._added = 0
            self._trim(database)

    def _insert(self, database: sqlite3.Connection, rows: list[_Row]) -> None:
        """Inserts rows. A value that SQLite does not take costs only its own row."""
        try:
            database.execute(_INSERT[len(rows)], (*chain.from_iterable(rows),))
        except (OverflowError, ValueError, sqlite3.ProgrammingError) as error:
            if len(rows) > 1:
                for row in rows:
                    self._insert(database, [row])
                return
            self.lost += 1
            log.error("%s: a row was not written: %s", self.path, error)  # noqa: TRY400 — no bug of ours

    def _trim(self, database: sqlite3.Connection) -> None:
        """Deletes rows that are too old, then the oldest tenth until the size is within its bound."""
        database.execute("DELETE FROM turns WHERE time < ?", (self._clock() - self._age,))
        while count_used_bytes(database) > self._size:
            count = database.execute("SELECT count(*) FROM turns").fetchone()[0]
            if not count:
                break
            oldest = "DELETE FROM turns WHERE id IN (SELECT id FROM turns ORDER BY time LIMIT ?)"
            database.execute(oldest, (max(count // 10, 1),))
        database.execute("PRAGMA incremental_vacuum")


def _column_types() -> dict[str, str]:
    columns: dict[str, str] = {}
    for field in msgspec.structs.fields(JournalEntry):
        kinds = {field.type, *getattr(field.type, "__args__", ())}
        columns[field.name] = next((name for kind, name in _TYPES.items() if kind in kinds), "TEXT")
    return columns


def _filter(same: dict[str, str], without: str = "") -> tuple[str, tuple[str, ...]]:
    """Returns the conditions of a query and their values. Raises for a name that is not a column."""
    if unknown := same.keys() - set(JOURNAL_GROUPS):
        raise ValueError(*unknown)
    condition = " AND coalesce(operation, '') != ?" if without else ""
    return "".join(f" AND {name} = ?" for name in same) + condition, (*same.values(), *filter(None, (without,)))


def read_entry(row: tuple[Any, ...]) -> JournalEntry:
    """Returns an entry from the values of its columns, in the order of `FIELDS`."""
    fields = {name: value for name, value in zip(FIELDS, row, strict=True) if value is not None}
    return msgspec.convert(fields, JournalEntry, strict=False)


def _sum(name: str, start: float, row: tuple[Any, ...]) -> UsageSum:
    # The sum of no rows is NULL, which means 0; the mean of no rows is unknown.
    return UsageSum(name, start, *cast("Any", [*(value or 0 for value in row[:-2]), *row[-2:]]))
