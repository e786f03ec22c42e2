"""The journal's table: turns in SQLite, bounded in age and size, and the questions that are asked of them.

Rows go in through a `Writer`; questions see what is written.
"""

from __future__ import annotations

import logging
import sqlite3
from collections import deque
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

import msgspec
from msgspec.structs import astuple

from penstock._store.sqlite import count_used_bytes
from penstock._store.writer import MAX_WAITING_JOBS, SqliteWriter, ensure_table
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TRIM_INTERVAL = 256  # rows between two looks at the bounds
# Rows to a statement. SQLite runs one without the interpreter's lock; to give that up and get it back is what costs.
BATCH_SIZES = (100, 20, 5, 1)
log = logging.getLogger("penstock.store")
TurnStatus: TypeAlias = Literal["finish", "fault", "refused", "cancelled"]


class JournalEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One turn. Times in seconds: `time` since the epoch, when it was asked; None is unknown.

    `asked` is the model as the client named it, `provider` and `model` who answered. `ttft` runs to the first content.
    `bytes_in` and `bytes_out` are the client's: its body, and what was sent to it. What is no turn (embeddings, counts,
    whoever was not let in) has a row too: `operation` says what was asked for, `times` how many alike it stands for.
    """

    time: float
    key: str = ""
    tenant: str = ""
    client: str = ""
    route: str = ""
    protocol: str = ""  # the client's
    upstream: str = ""  # the provider's protocol
    stream: bool = False
    tee: bool = False
    asked: str = ""
    provider: str = ""
    model: str = ""
    engine: str = ""
    tries: int = 0
    decisions: str = ""  # one a line
    http: int = 0  # the status that the client saw
    status: TurnStatus = "finish"
    finish: str = ""
    fault: str = ""
    fault_message: str = ""
    ttft: float | None = None
    duration: float = 0.0
    input: int | None = None
    output: int | None = None
    cached: int | None = None
    written: int | None = None
    reasoning: int | None = None
    exact: bool = True
    estimate: int | None = None  # of the input, as it would have been before it was sent,
    low: int | None = None  # and its bounds
    high: int | None = None
    factor: float | None = None  # learned for this model from turns up to this one
    cost: float | None = None
    request_id: str = ""  # the gateway's own
    upstream_id: str = ""
    user: str = ""
    bytes_in: int = 0
    bytes_out: int = 0
    operation: str = ""
    times: int = 1
    malformed: int = 0  # frames of the provider that nobody could read: skipped, or withheld from the client


_TYPES = {int: "INTEGER", bool: "INTEGER", float: "REAL"}
_FIELDS = JournalEntry.__struct_fields__
_MADE = (
    "CREATE TABLE IF NOT EXISTS turns (id INTEGER PRIMARY KEY, time REAL NOT NULL, {columns});"
    "CREATE INDEX IF NOT EXISTS turns_time ON turns (time);"
    "CREATE INDEX IF NOT EXISTS turns_key ON turns (key, time)"
)
_MARKS = f"({', '.join('?' * len(_FIELDS))})"
_INSERT = {
    many: f"INSERT INTO turns ({', '.join(_FIELDS)}) VALUES {', '.join([_MARKS] * many)}"  # noqa: S608 — names are ours
    for many in BATCH_SIZES
}
JournalGroup: TypeAlias = Literal[
    "key",
    "provider",
    "model",
    "client",
    "route",
    "protocol",
    "engine",
    "status",
    "fault",
    "asked",
    "tenant",
    "operation",
]
JOURNAL_GROUPS: tuple[str, ...] = get_args(JournalGroup)


class UsageSum(msgspec.Struct, frozen=True, omit_defaults=True):
    """Turns counted together. `name` is what they share, `start` the beginning of their slice of time."""

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
    """The table in a file, or in memory. `age` in seconds, `size` in bytes. `read_only`: nothing is forgotten."""

    def __init__(
        self, path: Path, clock: Callable[[], float], *, age: float = 0, size: int = 0, read_only: bool = False
    ) -> None:
        self.path = path
        self._writer = SqliteWriter(path, create=not read_only)
        self._clock, self._age, self._size = clock, age, size
        self._added = self._refused = 0
        values = self._writer.connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER)  # 999 before SQLite 3.32
        self._together = [many for many in BATCH_SIZES if many * len(_FIELDS) <= values]
        try:
            self._prepare(create=not read_only)
        except BaseException:
            self._writer.close()
            raise
        if not read_only:
            self._writer.submit(self._trim)
        self._given: deque[tuple[JournalEntry, Callable[[JournalEntry], JournalEntry] | None]] = (
            deque()
        )  # not yet looked at
        self._taken: list[tuple[object, ...]] = []  # not yet committed
        self._called = False  # the writer knows that something was given
        self._writer.on_failure = self._uncalled

    def add(self, row: JournalEntry, clean: Callable[[JournalEntry], JournalEntry] | None = None) -> bool:
        """Have a row written soon, cleaned first, in the writer's thread; False where there is no room for it."""
        if self.waiting >= MAX_WAITING_JOBS:
            self._refused += 1
            return False
        self._given.append((row, clean))
        return self._called or self._call()

    @property
    def waiting(self) -> int:
        return len(self._given) + len(self._taken)

    @property
    def lost(self) -> int:
        return self._refused

    def flush(self) -> None:
        self._call()
        self._writer.flush()

    def close(self) -> None:
        """Write what waits. What cannot be written is counted as lost, and logged."""
        self._call()
        self._writer.close()
        self._called = False
        if self.waiting:
            log.error("%s: %d rows were not written and are lost", self.path, self.waiting)
            self._refused += self.waiting
            self._given.clear()
            self._taken.clear()

    def _call(self) -> bool:
        if self._called or not self.waiting:
            return True
        self._called = True  # before the job is given: `_pour` may have set it back by the time `submit` returns
        if self._writer.submit(self._pour):
            return True
        self._called = False  # the writer is closed
        self._refused += len(self._given)
        self._given.clear()
        return False

    def _prepare(self, *, create: bool) -> None:
        columns = _columns()
        statements = _MADE.format(columns=", ".join(f"{name} {columns[name]}" for name in columns if name != "time"))
        if not ensure_table(self._writer, "turns", statements, columns, create=create):
            raise InputError(f"{self.path}: there is no journal in this file: it has no table `turns`")

    # ── questions ─────────────────────────────────────────────────────────────────────────────────

    def read(self, query: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """The answer to any question; `history` has some."""
        return self._writer.read(query, values)

    def submit(self, job: Callable[[sqlite3.Connection], None]) -> bool:
        return self._writer.submit(job)

    def turns(
        self, *, since: float = 0.0, until: float = _FOREVER, limit: int = 100, before: int | None = None, **same: str
    ) -> list[tuple[int, JournalEntry]]:
        """The latest turns, newest first, with their numbers; `before` a number pages on. `key="x"` filters."""
        where, values = _same(same)
        names = ", ".join(_FIELDS)
        query = f"SELECT id, {names} FROM turns WHERE time >= ? AND time < ? AND id < ?{where} ORDER BY id DESC LIMIT ?"  # noqa: S608 — names are ours
        rows = self._writer.read(query, (since, until, before or 2**62, *values, limit))
        return [(int(str(row[0])), read_entry(row[1:])) for row in rows]

    def total(self, *, since: float = 0.0, until: float = _FOREVER, without: str = "", **same: str) -> UsageSum:
        """All turns of a time together; `without` an operation."""
        where, values = _same(same, without)
        row = self._writer.read(f"SELECT {_SUMS}{where}", (since, until, *values))[0]
        return _sum("", 0.0, row)

    def by(
        self, group: JournalGroup, *, since: float = 0.0, until: float = _FOREVER, without: str = "", **same: str
    ) -> list[UsageSum]:
        """Turns counted by what they share, those with the most first."""
        where, values = _same({group: ""} if group not in JOURNAL_GROUPS else same, without)
        query = f"SELECT {group}, {_SUMS}{where} GROUP BY {group} ORDER BY 2 DESC, 1 LIMIT 1000"
        return [_sum(str(row[0] or ""), 0.0, row[1:]) for row in self._writer.read(query, (since, until, *values))]

    def slices(
        self, step: float, *, since: float, until: float = _FOREVER, without: str = "", **same: str
    ) -> list[UsageSum]:
        """Turns counted by slices of time; those without a turn are left out."""
        where, values = _same(same, without)
        query = f"SELECT CAST(time / ? AS INTEGER), {_SUMS}{where} GROUP BY 1 ORDER BY 1 LIMIT 10000"
        rows = self._writer.read(query, (step, since, until, *values))
        return [_sum("", float(str(row[0])) * step, row[1:]) for row in rows]

    # ── in the writer's thread ────────────────────────────────────────────────────────────────────

    def _uncalled(self) -> None:
        """Nothing could be written, perhaps because somebody else had the file: the next row calls again."""
        self._called = False

    def _pour(self, database: sqlite3.Connection) -> Callable[[], None]:
        """Write what was given. What was taken and not committed is tried again."""
        self._called = False  # before the rows are taken: one that is given from here on calls again
        again, self._taken = self._taken, []
        self._several(database, again)
        while self._given:
            rows: list[tuple[object, ...]] = []
            for _ in range(min(len(self._given), TRIM_INTERVAL)):
                rows += self._cleaned(*self._given.popleft())
            self._several(database, rows)
        return self._taken.clear

    def _cleaned(
        self, row: JournalEntry, clean: Callable[[JournalEntry], JournalEntry] | None
    ) -> list[tuple[object, ...]]:
        try:
            return [astuple(row if clean is None else clean(row))]
        except Exception:  # one row is not worth the journal
            self._refused += 1
            log.exception("%s: a row could not be cleaned, and is not written", self.path)
            return []

    def _several(self, database: sqlite3.Connection, rows: list[tuple[object, ...]]) -> None:
        """Some rows, as many to a statement as it takes, and a look at the bounds from time to time."""
        self._taken += rows
        start = 0
        for many in self._together:
            for at in range(start, len(rows) - many + 1, many):
                self._put(database, rows[at : at + many])
                start = at + many
        self._added += len(rows)
        if self._added >= TRIM_INTERVAL:
            self._added = 0
            self._trim(database)

    def _put(self, database: sqlite3.Connection, rows: list[tuple[object, ...]]) -> None:
        """Some rows; a value that no column takes costs its own row only."""
        try:
            database.execute(_INSERT[len(rows)], (*chain.from_iterable(rows),))
        except (OverflowError, ValueError, sqlite3.ProgrammingError) as error:
            if len(rows) > 1:
                for row in rows:
                    self._put(database, [row])
                return
            self._refused += 1
            log.error("%s: a row was not written: %s", self.path, error)  # noqa: TRY400 — no bug of ours

    def _trim(self, database: sqlite3.Connection) -> None:
        """Forget what is too old, then the oldest tenth until the rest has room."""
        database.execute("DELETE FROM turns WHERE time < ?", (self._clock() - self._age,))
        while count_used_bytes(database) > self._size:
            count = database.execute("SELECT count(*) FROM turns").fetchone()[0]
            if not count:
                break
            oldest = "DELETE FROM turns WHERE id IN (SELECT id FROM turns ORDER BY time LIMIT ?)"
            database.execute(oldest, (max(count // 10, 1),))
        database.execute("PRAGMA incremental_vacuum")


def _columns() -> dict[str, str]:
    made: dict[str, str] = {}
    for field in msgspec.structs.fields(JournalEntry):
        kinds = {field.type, *getattr(field.type, "__args__", ())}
        made[field.name] = next((word for kind, word in _TYPES.items() if kind in kinds), "TEXT")
    return made


def _same(same: dict[str, str], without: str = "") -> tuple[str, tuple[str, ...]]:
    for name in same:
        if name not in JOURNAL_GROUPS:
            raise ValueError(name)
    but = " AND coalesce(operation, '') != ?" if without else ""
    return "".join(f" AND {name} = ?" for name in same) + but, (*same.values(), *([without] if without else ()))


def read_entry(row: tuple[Any, ...]) -> JournalEntry:
    """The fields of a turn, in order, as one."""
    given = {name: value for name, value in zip(_FIELDS, row, strict=True) if value is not None}
    return msgspec.convert(given, JournalEntry, strict=False)


def _sum(name: str, start: float, row: tuple[Any, ...]) -> UsageSum:
    # Sums of no rows are NULL, which is nothing; means of none are unknown.
    return UsageSum(name, start, *cast("Any", [*(value or 0 for value in row[:-2]), *row[-2:]]))
