"""The journal's table: turns in SQLite, bounded in age and size, and the questions that are asked of them.

Rows go in through a `Writer`; questions see what is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import msgspec

from penstock.store.sqlite import size
from penstock.store.writer import Writer

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable
    from pathlib import Path

TRIM = 256  # rows between two looks at the bounds
Status: TypeAlias = Literal["finish", "fault", "refused", "cancelled"]


class Turn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One turn. Times in seconds: `time` since the epoch, when it was asked; None is unknown.

    `asked` is the model as the client named it, `provider` and `model` who answered. `ttft` runs to the first content.
    `bytes_in` and `bytes_out` are the client's: its body, and what was sent to it.
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
    status: Status = "finish"
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
    estimate: int | None = None  # of the input, before it was sent
    cost: float | None = None
    request_id: str = ""  # the gateway's own
    upstream_id: str = ""
    user: str = ""
    bytes_in: int = 0
    bytes_out: int = 0


_TYPES = {int: "INTEGER", bool: "INTEGER", float: "REAL"}
_FIELDS = Turn.__struct_fields__
_MADE = (
    "CREATE TABLE IF NOT EXISTS turns (id INTEGER PRIMARY KEY, time REAL NOT NULL, {columns});"
    "CREATE INDEX IF NOT EXISTS turns_time ON turns (time);"
    "CREATE INDEX IF NOT EXISTS turns_key ON turns (key, time)"
)
_INSERT = "INSERT INTO turns ({names}) VALUES ({marks})"
GROUPS = ("key", "provider", "model", "client", "route", "protocol", "engine", "status", "fault", "asked", "tenant")
Group: TypeAlias = Literal[
    "key", "provider", "model", "client", "route", "protocol", "engine", "status", "fault", "asked", "tenant"
]


class Sum(msgspec.Struct, frozen=True, omit_defaults=True):
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


_SUMS = """count(*), sum(status = 'fault'), sum(status = 'cancelled'), sum(status = 'refused'),
    coalesce(sum(input), 0), coalesce(sum(output), 0), coalesce(sum(cached), 0), coalesce(sum(reasoning), 0),
    coalesce(sum(cost), 0.0), sum(cost IS NULL AND (input IS NOT NULL OR output IS NOT NULL)), avg(ttft), avg(duration)
    FROM turns WHERE time >= ? AND time < ?"""
_FOREVER = 1e12


class JournalRows:
    """The table in a file, or in memory. `age` in seconds, `size` in bytes. `read_only`: nothing is forgotten."""

    def __init__(
        self, path: Path, clock: Callable[[], float], *, age: float = 0, size: int = 0, read_only: bool = False
    ) -> None:
        self.path = path
        self._writer = Writer(path)
        self._clock, self._age, self._size = clock, age, size
        self._added = 0
        columns = ", ".join(f"{name} {kind}" for name, kind in _columns().items() if name != "time")
        self._writer.create(_MADE.format(columns=columns))
        self._writer.submit(self._widen)
        if not read_only:
            self._writer.submit(self._trim)
        names, marks = ", ".join(_FIELDS), ", ".join("?" * len(_FIELDS))
        self._insert = _INSERT.format(names=names, marks=marks)

    def add(self, row: Turn, clean: Callable[[Turn], Turn] | None = None) -> bool:
        """Have a row written soon, cleaned first, in the writer's thread; False where there is no room for it."""

        def job(database: sqlite3.Connection) -> None:
            kept = row if clean is None else clean(row)
            database.execute(self._insert, tuple(getattr(kept, name) for name in _FIELDS))

        self._added += 1
        if self._added % TRIM == 0:
            self._writer.submit(self._trim)
        return self._writer.submit(job)

    @property
    def waiting(self) -> int:
        return self._writer.waiting

    @property
    def lost(self) -> int:
        return self._writer.refused + self._writer.failed

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()

    # ── questions ─────────────────────────────────────────────────────────────────────────────────

    def turns(
        self, *, since: float = 0.0, until: float = _FOREVER, limit: int = 100, before: int | None = None, **same: str
    ) -> list[tuple[int, Turn]]:
        """The latest turns, newest first, with their numbers; `before` a number pages on. `key="x"` filters."""
        where, values = _same(same)
        names = ", ".join(_FIELDS)
        query = f"SELECT id, {names} FROM turns WHERE time >= ? AND time < ? AND id < ?{where} ORDER BY id DESC LIMIT ?"  # noqa: S608 — names are ours
        rows = self._writer.read(query, (since, until, before or 2**62, *values, limit))
        return [(int(str(row[0])), _turn(row[1:])) for row in rows]

    def total(self, *, since: float = 0.0, until: float = _FOREVER, **same: str) -> Sum:
        """All turns of a time together."""
        where, values = _same(same)
        row = self._writer.read(f"SELECT {_SUMS}{where}", (since, until, *values))[0]
        return _sum("", 0.0, row)

    def by(self, group: Group, *, since: float = 0.0, until: float = _FOREVER, **same: str) -> list[Sum]:
        """Turns counted by what they share, those with the most first."""
        where, values = _same({group: ""} if group not in GROUPS else same)
        query = f"SELECT {group}, {_SUMS}{where} GROUP BY {group} ORDER BY 2 DESC, 1 LIMIT 1000"
        return [_sum(str(row[0] or ""), 0.0, row[1:]) for row in self._writer.read(query, (since, until, *values))]

    def slices(self, step: float, *, since: float, until: float = _FOREVER, **same: str) -> list[Sum]:
        """Turns counted by slices of time; those without a turn are left out."""
        where, values = _same(same)
        query = f"SELECT CAST(time / ? AS INTEGER), {_SUMS}{where} GROUP BY 1 ORDER BY 1 LIMIT 10000"
        rows = self._writer.read(query, (step, since, until, *values))
        return [_sum("", float(str(row[0])) * step, row[1:]) for row in rows]

    # ── in the writer's thread ────────────────────────────────────────────────────────────────────

    def _widen(self, database: sqlite3.Connection) -> None:
        """A table of an older version is given the columns it lacks."""
        there = {row[1] for row in database.execute("PRAGMA table_info(turns)")}
        for name, kind in _columns().items():
            if name not in there:
                database.execute(f"ALTER TABLE turns ADD COLUMN {name} {kind}")

    def _trim(self, database: sqlite3.Connection) -> None:
        """Forget what is too old, then the oldest tenth until the rest has room."""
        database.execute("DELETE FROM turns WHERE time < ?", (self._clock() - self._age,))
        while size(database) > self._size:
            count = database.execute("SELECT count(*) FROM turns").fetchone()[0]
            if not count:
                break
            oldest = "DELETE FROM turns WHERE id IN (SELECT id FROM turns ORDER BY time LIMIT ?)"
            database.execute(oldest, (max(count // 10, 1),))
        database.execute("PRAGMA incremental_vacuum")


def _columns() -> dict[str, str]:
    made: dict[str, str] = {}
    for field in msgspec.structs.fields(Turn):
        kinds = {field.type, *getattr(field.type, "__args__", ())}
        made[field.name] = next((word for kind, word in _TYPES.items() if kind in kinds), "TEXT")
    return made


def _same(same: dict[str, str]) -> tuple[str, tuple[str, ...]]:
    for name in same:
        if name not in GROUPS:
            raise ValueError(name)
    return "".join(f" AND {name} = ?" for name in same), tuple(same.values())


def _turn(row: tuple[Any, ...]) -> Turn:
    given = {name: value for name, value in zip(_FIELDS, row, strict=True) if value is not None}
    return msgspec.convert(given, Turn, strict=False)


def _sum(name: str, start: float, row: tuple[Any, ...]) -> Sum:
    # Sums of no rows are NULL, which is nothing; means of none are unknown.
    return Sum(name, start, *cast("Any", [*(value or 0 for value in row[:-2]), *row[-2:]]))
