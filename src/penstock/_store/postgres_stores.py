"""Stores in PostgreSQL: the journal, key-value tables, token factors. They behave as those in SQLite do.

Writes never wait for the server. Reads fail within seconds while it is away.
"""

from __future__ import annotations

import logging
import math
import time
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from msgspec import structs

from penstock._store.journal import TRIM_INTERVAL, WRITTEN_COLUMNS, JournalEntry, JournalRow, JournalRows
from penstock._store.journal_retention import DELETE_FIRST_ROWS, DELETE_OLD_ROWS, LAST_OLD_ROW
from penstock._store.key_value import CHECK_SHARE, TOMBSTONE, TOUCH_INTERVAL, BufferedKeyValueTable
from penstock._store.postgres import PostgresDatabase, PostgresError
from penstock._store.row_marks import POSTGRES_MARKS
from penstock._store.sqlite_writer import LOG_INTERVAL
from penstock._store.tokens import MAX_FACTORS, MAX_UNWRITTEN, SHARES, split_excess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from psycopg import AsyncConnection

    from penstock.stores import Bounds

TRIM_SECONDS = 60.0  # between two checks of the journal's bounds by one process
MAX_TRIMMED = 50_000  # rows that one check deletes
LARGE_TABLE = 20_000  # pages: above it the number of rows is the server's estimate
ROWS_PER_COPY = 500
FACTOR_SECONDS = 5.0  # in which a factor is not read again
MAX_KNOWN_FACTORS = 10_000  # in memory
_TRIM_LOCK = 0x7472696D  # "trim"
log = logging.getLogger("penstock.store")
_COPY = f"COPY turns ({WRITTEN_COLUMNS}) FROM STDIN".encode()
_texts: Callable[[JournalRow], tuple[str, ...]] = itemgetter(
    *(at for at, field in enumerate(structs.fields(JournalEntry)) if isinstance(field.default, str)),
    -1,  # the names
)
_COUNT_ROWS = "SELECT count(*) FROM turns"
_TABLE_SIZE = "SELECT relpages, reltuples::bigint FROM pg_class WHERE oid = 'turns'::regclass"
_ROW_SIZE = "SELECT avg(pg_column_size(t.*)) FROM (SELECT * FROM turns ORDER BY id DESC LIMIT 1000) AS t"


class PostgresJournal(JournalRows):
    """The journal in PostgreSQL. `age` in seconds, `size` in bytes of rows. `read_only`: nothing is deleted."""

    slice_number = "CAST(floor(time / ?) AS BIGINT)"
    mark_queries = POSTGRES_MARKS
    newest_rows = 2_000  # more would be sorted, not read from the index

    def __init__(
        self,
        database: PostgresDatabase,
        clock: Callable[[], float],
        *,
        age: float = 0,
        size: int = 0,
        read_only: bool = False,
    ) -> None:
        super().__init__(database.location)
        self._database, self._clock, self._age, self._size = database, clock, age, size
        self._added, self._trimmed_at = 0, time.monotonic()
        if not read_only:
            database.submit(self._trim)

    def read(self, query: str, values: JournalRow = ()) -> list[tuple[Any, ...]]:
        return self._database.read(_translate(query), values)

    def update(self, query: str, values: JournalRow) -> None:
        async def job(connection: AsyncConnection[Any]) -> None:
            await connection.execute(_translate(query).encode(), values)

        self._database.submit(job)

    def _submit_entries(self) -> bool:
        return self._database.submit(self._write_entries, on_failure=self._unschedule)

    def _wait_for_writer(self) -> None:
        self._database.flush()

    def _close_writer(self) -> None:
        self._database.flush()

    # ── in the database's thread ──────────────────────────────────────────────────────────────────

    async def _write_entries(self, connection: AsyncConnection[Any]) -> Callable[[], None]:
        """Writes all entries, and again the rows that were not committed."""
        self._scheduled = False  # before entries are taken: one that is added from here on schedules the next job
        uncommitted, self._uncommitted = self._uncommitted, []
        for start in range(0, len(uncommitted), ROWS_PER_COPY):
            await self._write_rows(connection, uncommitted[start : start + ROWS_PER_COPY])
        waiting = len(self._entries)  # those that come meanwhile have a job of their own, and are collected
        for start in range(0, waiting, ROWS_PER_COPY):
            rows = self._take_rows(min(ROWS_PER_COPY, waiting - start))
            await self._write_rows(connection, [_without_nul(row) for row in rows])
        return self._uncommitted.clear

    async def _write_rows(self, connection: AsyncConnection[Any], rows: list[JournalRow]) -> None:
        self._uncommitted += rows  # before the first await: a failure leaves them for the next attempt
        await self._copy(connection, rows)
        self._added += len(rows)
        if self._added >= TRIM_INTERVAL and time.monotonic() - self._trimmed_at >= TRIM_SECONDS:
            self._added, self._trimmed_at = 0, time.monotonic()
            self._database.submit(self._trim)

    async def _copy(self, connection: AsyncConnection[Any], rows: list[JournalRow]) -> None:
        """Copies rows into the table. A value that PostgreSQL does not take costs only its own row."""
        from psycopg import DataError  # noqa: PLC0415 — an extra

        if not rows:
            return
        try:
            async with connection.transaction(), connection.cursor() as cursor, cursor.copy(_COPY) as copy:
                for row in rows:
                    await copy.write_row(row)
        except (DataError, ValueError, OverflowError) as error:
            if len(rows) == 1:
                self.lost += 1
                self._uncommitted.remove(rows[0])
                log.error("%s: a row was not written: %s", self.location, error)  # noqa: TRY400 — no bug of ours
                return
            half = len(rows) // 2
            await self._copy(connection, rows[:half])
            await self._copy(connection, rows[half:])

    async def _trim(self, connection: AsyncConnection[Any]) -> None:
        """Deletes rows that are too old, then the oldest until the size is within its bound. One process at a time."""
        locked = await _fetch_row(connection, "SELECT pg_try_advisory_xact_lock(%s)", (_TRIM_LOCK,))
        if not locked[0]:
            return
        now = self._clock()
        oldest = now - self._age
        (last,) = await _fetch_row(connection, _translate(LAST_OLD_ROW), (oldest,))
        if last:
            await connection.execute(_translate(DELETE_OLD_ROWS).encode(), (oldest, now, last))
        pages, count = await _fetch_row(connection, _TABLE_SIZE)
        if pages < LARGE_TABLE:
            (count,) = await _fetch_row(connection, _COUNT_ROWS)
        (width,) = await _fetch_row(connection, _ROW_SIZE)
        over = count - int(self._size / float(width)) if width else 0
        if over > 0:
            await connection.execute(_translate(DELETE_FIRST_ROWS).encode(), (min(over + count // 20, MAX_TRIMMED),))


async def _fetch_row(connection: AsyncConnection[Any], query: str, values: tuple[object, ...] = ()) -> tuple[Any, ...]:
    row = await (await connection.execute(query.encode(), values)).fetchone()
    return row if row is not None else ()


def _translate(query: str) -> str:
    """Returns a query of SQLite in PostgreSQL's syntax.

    LIKE of SQLite ignores the case of letters. The column `names` and the words that are looked for in it are in lower
    case, so that the quicker LIKE of PostgreSQL will do.
    """
    query = query.replace(" LIKE ", " ILIKE ").replace("names ILIKE ", "names LIKE ")
    return query.replace("%", "%%").replace("?", "%s")


def _without_nul(row: JournalRow) -> JournalRow:
    """Returns a row that PostgreSQL takes: a text cannot contain NUL."""
    if "\0" in "".join(_texts(row)):
        return tuple([value.replace("\0", "\ufffd") if isinstance(value, str) else value for value in row])
    return row


# ── key-value tables ──────────────────────────────────────────────────────────────────────────────

_QUERIES = {
    "get": "SELECT key, value, used FROM {table} WHERE tenant = %s AND used >= %s AND key = ANY(%s)",
    "count": "SELECT count(*) FROM {table}",
    "put": (
        "INSERT INTO {table} VALUES (%s, %s, %s, %s, %s) ON CONFLICT (tenant, key) "
        "DO UPDATE SET value = excluded.value, used = excluded.used, size = excluded.size"
    ),
    "guard": (
        "INSERT INTO {table} VALUES (%s, %s, %s, %s, %s) ON CONFLICT (tenant, key) "
        "DO UPDATE SET value = excluded.value, used = excluded.used, size = excluded.size WHERE {table}.value <> %s"
    ),
    "drop": "DELETE FROM {table} WHERE tenant = %s AND key = ANY(%s)",
    "touch": "UPDATE {table} SET used = greatest(used, %s) WHERE tenant = %s AND key = ANY(%s)",
    "expire": "DELETE FROM {table} WHERE used < %s",
    "shrink": (
        "DELETE FROM {table} USING (SELECT key, row_number() OVER newest AS number, sum(size) OVER newest AS held "
        "FROM {table} WHERE tenant = %(tenant)s "
        "WINDOW newest AS (ORDER BY used DESC, key DESC ROWS UNBOUNDED PRECEDING)) AS ranked "
        "WHERE tenant = %(tenant)s AND {table}.key = ranked.key "
        "AND (number > %(rows)s OR held > %(size)s)"
    ),
    "total": "SELECT coalesce(sum(size), 0)::bigint FROM {table}",
    "idle": "SELECT tenant, sum(size)::bigint FROM {table} GROUP BY tenant ORDER BY max(used) LIMIT 1",
}


class PostgresKeyValueTable(BufferedKeyValueTable):
    """One table in PostgreSQL. `dropped` counts changes for which there was no room while the server was away."""

    def __init__(
        self, database: PostgresDatabase, table: str, clock: Callable[[], float], bounds: Bounds | None = None
    ) -> None:
        super().__init__(clock, bounds)
        self.dropped: int = 0
        self._database = database
        self._sql: dict[str, Any] = {name: query.format(table=table) for name, query in _QUERIES.items()}
        self._expired_at = self._logged_at = float("-inf")

    async def aget(self, tenant: str, keys: Iterable[str], /) -> dict[str, bytes]:
        """Does the same as `get` for the event loop. A server that is away counts as empty."""
        found, missing = self._split_keys(tenant, keys)
        if missing:
            try:
                found.update(await self._database.acall(lambda connection: self._fetch(connection, tenant, missing)))
            except PostgresError as error:
                if time.monotonic() - self._logged_at >= LOG_INTERVAL:
                    self._logged_at = time.monotonic()
                    log.error("the state of earlier turns cannot be read: %s", error)  # noqa: TRY400 — no bug of ours
        return found

    def __len__(self) -> int:
        self._database.flush()
        return int(self._database.read(self._sql["count"])[0][0])

    def _read_all(self, tenant: str, keys: list[str]) -> dict[str, bytes]:
        if not keys:
            return {}
        return self._database.call(lambda connection: self._fetch(connection, tenant, keys))

    def _submit(self, tenant: str, rows: Mapping[str, bytes | None], now: float, guard: str) -> bool:
        async def job(connection: AsyncConnection[Any]) -> Callable[[], None]:
            if not guard or await self._write_guard(connection, tenant, guard, rows[guard] or b"", now):
                await self._write(connection, tenant, rows, now)
            return lambda: self._remove_fresh(tenant, rows)

        size = sum(len(key) + len(value or b"") for key, value in rows.items())
        accepted = self._database.submit(job, size, on_failure=lambda: self._remove_fresh(tenant, rows))
        self.dropped += not accepted
        return accepted

    # ── in the database's thread ──────────────────────────────────────────────────────────────────

    async def _fetch(self, connection: AsyncConnection[Any], tenant: str, keys: list[str]) -> dict[str, bytes]:
        now, whose = self._clock(), _encode(tenant)
        values = (whose, now - self._bounds.age, [_encode(key) for key in keys])
        rows = await (await connection.execute(self._sql["get"], values)).fetchall()
        stale = [key for key, _, used in rows if now - used > TOUCH_INTERVAL]
        if stale:

            async def touch(connection: AsyncConnection[Any]) -> None:
                await connection.execute(self._sql["touch"], (now, whose, stale))

            self._database.submit(touch)
        return {_decode(key): bytes(value) for key, value, _ in rows}

    async def _write_guard(
        self, connection: AsyncConnection[Any], tenant: str, key: str, value: bytes, now: float
    ) -> bool:
        """Writes a row unless it is buried. The row is locked until the transaction ends. Returns whether it was."""
        values = (_encode(tenant), _encode(key), value, now, len(key) + len(value), TOMBSTONE)
        return (await connection.execute(self._sql["guard"], values)).rowcount > 0

    async def _write(
        self, connection: AsyncConnection[Any], tenant: str, rows: Mapping[str, bytes | None], now: float
    ) -> None:
        whose = _encode(tenant)
        sizes = {key: len(key) + len(value or b"") for key, value in rows.items()}
        kept = [(whose, _encode(key), value, now, sizes[key]) for key, value in rows.items() if value is not None]
        if kept:
            async with connection.cursor() as cursor:
                await cursor.executemany(self._sql["put"], kept)
        if gone := [_encode(key) for key, value in rows.items() if value is None]:
            await connection.execute(self._sql["drop"], (whose, gone))
        if now - self._expired_at >= self._bounds.age / CHECK_SHARE:
            self._expired_at = now
            await connection.execute(self._sql["expire"], (now - self._bounds.age,))
        if self._due(tenant, len(rows), sum(sizes.values()), self._bounds.size):
            await self._shrink(connection, whose, self._bounds.size)
        if self._due(None, len(rows), sum(sizes.values()), self._bounds.total):
            await self._shrink_all(connection)

    async def _shrink(self, connection: AsyncConnection[Any], tenant: bytes, size: int) -> None:
        """Deletes the oldest rows of a tenant until it is within its bounds."""
        values = {"tenant": tenant, "rows": self._bounds.rows, "size": size}
        await connection.execute(self._sql["shrink"], values)

    async def _shrink_all(self, connection: AsyncConnection[Any]) -> None:
        """Deletes rows of the tenants that are idle longest, until the total size is within its bound."""
        over = (await _fetch_row(connection, self._sql["total"]))[0] - self._bounds.total
        while over > 0:
            idle, held = await _fetch_row(connection, self._sql["idle"])
            await self._shrink(connection, idle, held - over)
            over = (await _fetch_row(connection, self._sql["total"]))[0] - self._bounds.total


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decode(data: bytes) -> str:
    return bytes(data).decode("utf-8", "surrogatepass")


# ── token factors ─────────────────────────────────────────────────────────────────────────────────

_SET_FACTOR = """INSERT INTO factors VALUES (%s, %s, %s, %s)
    ON CONFLICT (tenant, key) DO UPDATE SET value = excluded.value, used = excluded.used"""
_FACTOR = "SELECT value FROM factors WHERE tenant = %s AND key = %s"
_LOCK_FACTOR = "SELECT pg_advisory_xact_lock(hashtextextended(encode(%s, 'hex'), 0))"
_DROP_FACTORS = """DELETE FROM factors WHERE tenant = %s AND key IN
    (SELECT key FROM factors WHERE tenant = %s ORDER BY used LIMIT %s)"""
_DROP_OLDEST = "DELETE FROM factors WHERE ctid IN (SELECT ctid FROM factors ORDER BY used LIMIT %s)"


class PostgresFactors:
    """Correction factors in PostgreSQL: a `FactorStore`. Changes wait while the server is away.

    Every turn needs factors, so they are read anew only after `FACTOR_SECONDS`. Not for the event loop.
    """

    def __init__(
        self, database: PostgresDatabase, *, rows: int = MAX_FACTORS, clock: Callable[[], float] = time.time
    ) -> None:
        self._database, self._max_rows, self._clock = database, rows, clock
        self._changes: dict[tuple[str, str], list[Callable[[bytes | None], bytes]]] = {}  # not written yet
        self._known: dict[tuple[str, str], tuple[bytes | None, float]] = {}  # values, and when they were read

    def get(self, tenant: str, keys: Iterable[str], /) -> dict[str, bytes]:
        wanted = list(keys)
        self._read_again(tenant, wanted)
        found: dict[str, bytes] = {}
        for key in wanted:
            value = self._known.get((tenant, key), (None, 0.0))[0]
            for change in self._changes.get((tenant, key), ()):
                value = change(value)
            if value is not None:
                found[key] = value
        return found

    def _read_again(self, tenant: str, keys: list[str]) -> None:
        """Reads the factors that were not read of late. Those that cannot be read stay as they were."""
        now = self._clock()
        due = [
            key for key in keys if not 0 <= now - self._known.get((tenant, key), (None, -math.inf))[1] < FACTOR_SECONDS
        ]
        if not due:
            return
        query = "SELECT key, value FROM factors WHERE tenant = %s AND key = ANY(%s)"
        try:
            rows = self._database.read(query, (_encode(tenant), [_encode(key) for key in due]))
        except PostgresError:
            return
        values = {_decode(key): bytes(value) for key, value in rows}
        if len(self._known) + len(due) > MAX_KNOWN_FACTORS:
            self._known.clear()
        self._known.update({(tenant, key): (values.get(key), now) for key in due})

    def update(self, tenant: str, key: str, change: Callable[[bytes | None], bytes], /) -> bytes:
        """Changes a factor under a lock. While the server is away, the change waits for the next one."""
        waiting = self._changes.get((tenant, key), [])
        try:
            found = self._database.transact(lambda opened: self._change(opened, tenant, key, [*waiting, change]))
        except PostgresError as error:
            found = change(self.get(tenant, [key]).get(key))
            if sum(map(len, self._changes.values())) < MAX_UNWRITTEN:
                self._changes.setdefault((tenant, key), []).append(change)
            log.debug("a factor is not written yet: %s", error)
            return found
        self._changes.pop((tenant, key), None)
        self._known[tenant, key] = (found, self._clock())
        return found

    async def _change(
        self, connection: AsyncConnection[Any], tenant: str, key: str, changes: list[Callable[[bytes | None], bytes]]
    ) -> bytes:
        whose, name = _encode(tenant), _encode(key)
        await connection.execute(_LOCK_FACTOR, (whose + b"\0" + name,))
        row = await _fetch_row(connection, _FACTOR, (whose, name))
        value: bytes | None = bytes(row[0]) if row else None
        for change in changes:
            value = change(value)
        await connection.execute(_SET_FACTOR, (whose, name, value, self._clock()))
        if not row:
            await self._trim(connection)
        return value or b""

    async def _trim(self, connection: AsyncConnection[Any]) -> None:
        """Deletes rows beyond the bound, first of the tenants with more than their share."""
        held_rows = await (await connection.execute("SELECT tenant, count(*) FROM factors GROUP BY tenant")).fetchall()
        held = {_decode(tenant): int(count) for tenant, count in held_rows}
        over = sum(held.values()) - self._max_rows
        if over <= 0:
            return
        for tenant, rows in split_excess(held, over, max(self._max_rows // SHARES, 1)).items():
            await connection.execute(_DROP_FACTORS, (_encode(tenant), _encode(tenant), rows))
            over -= rows
        if over > 0:
            await connection.execute(_DROP_OLDEST, (over,))
