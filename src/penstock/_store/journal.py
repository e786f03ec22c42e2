"""The journal's table: one row for each turn, limited in age and size, and sums over the rows.

`JournalRows` is the interface: a queue of rows, and queries, which see the rows that are written. `JournalStore` keeps
them in SQLite, in a file or in memory; `PostgresJournal` (`postgres_stores`) in PostgreSQL.
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

from penstock._store.journal_retention import DELETE_FIRST_ROWS, DELETE_OLD_ROWS, LAST_OLD_ROW
from penstock._store.migrations import migrate_sqlite
from penstock._store.row_marks import SQLITE_MARKS, RowMarkCache
from penstock._store.sqlite import count_used_bytes
from penstock._store.sqlite_writer import MAX_WAITING_JOBS, SqliteWriter
from penstock._store.turn_states import join_names
from penstock.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

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
    client: str = ""  # the program: a known client, or the product in its User-Agent
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
    notes: int = 0  # diagnostics of the request and the answer
    agent: str = ""  # the User-Agent of a client that is not known by name
    tools: str = ""  # names of tools that the model called, one in a line


class JournalEntry(TurnFacts, frozen=True, kw_only=True, omit_defaults=True):
    """One row of the journal. A new column needs a `Migration`. `bytes_in` and `bytes_out`: the client's request
    body, and what was sent to the client.

    Requests that are not turns (embeddings, counts, refused callers) have a row too: see `operation`.
    """

    tenant: str = ""
    team: str = ""  # of the key
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


FIELDS = JournalEntry.__struct_fields__
COLUMNS = ", ".join(f'"{name}"' if name == "user" else name for name in FIELDS)  # a reserved word in PostgreSQL
WRITTEN_COLUMNS = f"{COLUMNS}, names"  # `names` is only searched
_MARKS = f"({', '.join('?' * (len(FIELDS) + 1))})"
_INSERT = {
    many: f"INSERT INTO turns ({WRITTEN_COLUMNS}) VALUES {', '.join([_MARKS] * many)}"  # noqa: S608 — our own names
    for many in BATCH_SIZES
}
JOURNAL_GROUPS = "key provider model client route protocol engine status fault asked tenant team operation".split()
ESTIMATE_COLUMNS = ("estimate", "low", "high", "factor", "method", "uncertain")
_ESTIMATES = ", ".join(f"{name} = ?" for name in ESTIMATE_COLUMNS)
_SET_ESTIMATE = f"UPDATE turns SET {_ESTIMATES} WHERE time = ? AND request_id = ?"  # noqa: S608 — our own names
CleanEntry: TypeAlias = Callable[[JournalEntry], JournalEntry]
JournalRow: TypeAlias = tuple[object, ...]


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


# Both databases run the same queries. Sums of PostgreSQL are of another type unless they are cast.
_SUMS = """CAST(sum(coalesce(times, 1)) AS BIGINT), count(*) FILTER (WHERE status = 'fault'),
    count(*) FILTER (WHERE status = 'cancelled'),
    CAST(sum(coalesce(times, 1)) FILTER (WHERE status = 'refused') AS BIGINT),
    CAST(sum(input) AS BIGINT), CAST(sum(output) AS BIGINT), CAST(sum(cached) AS BIGINT),
    CAST(sum(reasoning) AS BIGINT),
    coalesce(sum(cost), 0.0), count(*) FILTER (WHERE cost IS NULL AND (input IS NOT NULL OR output IS NOT NULL)),
    avg(ttft), avg(duration)
    FROM turns WHERE time >= ? AND time < ?"""
_FOREVER = 1e12


class JournalRows:
    """A queue of rows before a table, and queries. `location` names the database in messages.

    `lost` counts the rows that were not written.
    """

    slice_number = "CAST(time / ? AS INTEGER)"  # SQLite cuts
    mark_queries = SQLITE_MARKS
    newest_rows: int = 20_000  # that a search looks at first

    def __init__(self, location: str) -> None:
        self.location = location
        self.lost: int = 0
        self.row_marks: RowMarkCache = RowMarkCache(self.mark_queries)
        self._entries: deque[tuple[JournalEntry, CleanEntry | None]] = deque()  # not converted yet
        self._uncommitted: list[JournalRow] = []
        self._scheduled = False  # the writer has a job that writes the entries

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
        """Waits until the rows so far are written, or cannot be."""
        self._schedule()
        self._wait_for_writer()

    def close(self) -> None:
        """Writes the rows that wait. Rows that cannot be written are logged and counted as lost."""
        self._schedule()
        self._close_writer()
        self._scheduled = False
        if self.waiting:
            log.error("%s: %d rows were not written and are lost", self.location, self.waiting)
            self.lost += self.waiting
            self._entries.clear()
            self._uncommitted.clear()

    def _schedule(self) -> bool:
        if self._scheduled or not self.waiting:
            return True
        self._scheduled = True  # before `submit`: the job may reset it before `submit` returns
        if self._submit_entries():
            return True
        self._scheduled = False  # the writer is closed
        self.lost += len(self._entries)
        self._entries.clear()
        return False

    def _unschedule(self) -> None:
        """The job failed: the next row schedules it again."""
        self._scheduled = False

    def _take_rows(self, many: int) -> list[JournalRow]:
        """Takes entries from the queue and converts them."""
        rows: list[JournalRow] = []
        for _ in range(min(len(self._entries), many)):
            rows += self._convert(*self._entries.popleft())
        return rows

    def _convert(self, row: JournalEntry, clean: CleanEntry | None) -> list[JournalRow]:
        try:
            cleaned = row if clean is None else clean(row)
            return [(*astuple(cleaned), join_names(cleaned))]
        except Exception:  # a bad row must not stop the journal
            self.lost += 1
            log.exception("%s: a row could not be cleaned, and is not written", self.location)
            return []

    # ── what a database implements ────────────────────────────────────────────────────────────────

    def _submit_entries(self) -> bool:
        """Has the writer write all entries soon. False: it is closed."""
        raise NotImplementedError

    def _wait_for_writer(self) -> None:
        raise NotImplementedError

    def _close_writer(self) -> None:
        raise NotImplementedError

    def read(self, query: str, values: JournalRow = ()) -> list[tuple[Any, ...]]:
        """Returns the rows of a query, whose values are marked by `?`. Not for the event loop."""
        raise NotImplementedError

    def update(self, query: str, values: JournalRow) -> None:
        """Runs a statement soon."""
        raise NotImplementedError

    def add_estimate(self, turn: JournalEntry) -> None:
        """Adds the estimate to the row of a turn."""
        values = [getattr(turn, name) for name in ESTIMATE_COLUMNS]
        self.update(_SET_ESTIMATE, (*values, turn.time, turn.request_id))

    # ── queries ───────────────────────────────────────────────────────────────────────────────────

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
        query = f"SELECT {self.slice_number}, {_SUMS}{where} GROUP BY 1 ORDER BY 1 LIMIT 10000"
        return [_sum("", float(row[0]) * step, row[1:]) for row in self.read(query, (step, since, until, *values))]


class JournalStore(JournalRows):
    """The table in SQLite. `age` in seconds, `size` in bytes. `read_only`: nothing is deleted."""

    def __init__(
        self, path: Path, clock: Callable[[], float], *, age: float = 0, size: int = 0, read_only: bool = False
    ) -> None:
        super().__init__(str(path))
        self.path = path
        self._writer = SqliteWriter(path, create=not read_only)
        self._clock, self._age, self._size = clock, age, size
        self._added = 0
        max_values = self._writer.connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER)  # 999 before SQLite 3.32
        self._batch_sizes = [many for many in BATCH_SIZES if many * (len(FIELDS) + 1) <= max_values]
        try:
            exists = self._writer.change(lambda opened: migrate_sqlite(opened, path, "journal", create=not read_only))
        except BaseException:
            self._writer.close()
            raise
        if not exists:
            self._writer.close()
            raise InputError(f"{path}: there is no journal in this file: it has no table `turns`")
        if not read_only:
            self._writer.submit(self._trim)
        self._writer.on_failure = self._unschedule

    def _submit_entries(self) -> bool:
        return self._writer.submit(self._write_entries)

    def _wait_for_writer(self) -> None:
        self._writer.flush()

    def _close_writer(self) -> None:
        self._writer.close()

    def read(self, query: str, values: JournalRow = ()) -> list[tuple[Any, ...]]:
        return self._writer.read(query, values)

    def update(self, query: str, values: JournalRow) -> None:
        def job(database: sqlite3.Connection) -> None:
            database.execute(query, values)

        self._writer.submit(job)

    # ── in the writer's thread ────────────────────────────────────────────────────────────────────

    def _write_entries(self, database: sqlite3.Connection) -> Callable[[], None]:
        """Writes all entries, and again the rows that were not committed."""
        self._scheduled = False  # before entries are taken: one that is added from here on schedules the next job
        uncommitted, self._uncommitted = self._uncommitted, []
        self._write_rows(database, uncommitted)
        while self._entries:
            self._write_rows(database, self._take_rows(TRIM_INTERVAL))
        return self._uncommitted.clear

    def _write_rows(self, database: sqlite3.Connection, rows: list[JournalRow]) -> None:
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

    def _insert(self, database: sqlite3.Connection, rows: list[JournalRow]) -> None:
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
        """Deletes rows that are too old, then the first tenth until the size is within its bound."""
        now = self._clock()
        oldest = now - self._age
        (last,) = database.execute(LAST_OLD_ROW, (oldest,)).fetchone()
        if last:
            database.execute(DELETE_OLD_ROWS, (oldest, now, last))
        while count_used_bytes(database) > self._size:
            count = database.execute("SELECT count(*) FROM turns").fetchone()[0]
            if not count:
                break
            database.execute(DELETE_FIRST_ROWS, (max(count // 10, 1),))
        database.execute("PRAGMA incremental_vacuum")


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
