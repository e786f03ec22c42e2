"""Rows of bytes by tenant and key in SQLite, bounded as `penstock.stores.Bounds` says: reasoning state, stored answers.

The same promises as the store in memory, across restarts. Writes go through a `Writer`; what it has not written yet is
found here. Reading a row is using it.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from typing import TYPE_CHECKING, cast

from penstock.stores import Bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.store.writer import Writer

FRESH = 60.0  # seconds within which another use of a row is not written down
SLACK = 50  # a bound is looked at again after this part of it was written: to look is to count all rows
_SOME = 200  # keys to a query, and rows to one step of forgetting
_TENANTS = 10_000  # whose writing is counted
log = logging.getLogger("penstock.store")
_MADE = """
CREATE TABLE IF NOT EXISTS {table} (tenant TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL,
    used REAL NOT NULL, size INTEGER NOT NULL, PRIMARY KEY (tenant, key));
CREATE INDEX IF NOT EXISTS {table}_used ON {table} (tenant, used, size);
CREATE INDEX IF NOT EXISTS {table}_age ON {table} (used)"""
_QUERIES = {
    "get": "SELECT key, value, used FROM {table} WHERE tenant = ? AND used >= ? AND key IN ",
    "count": "SELECT count(*) FROM {table}",
    "put": "INSERT OR REPLACE INTO {table} VALUES (?, ?, ?, ?, ?)",
    "drop": "DELETE FROM {table} WHERE tenant = ? AND key = ?",
    "touch": "UPDATE {table} SET used = ? WHERE tenant = ? AND key = ?",
    "expire": "DELETE FROM {table} WHERE used < ?",
    "measure": "SELECT count(*), coalesce(sum(size), 0) FROM {table} WHERE tenant = ?",
    "total": "SELECT coalesce(sum(size), 0) FROM {table}",
    "oldest": "SELECT key, size FROM {table} WHERE tenant = ? ORDER BY used, rowid LIMIT ?",
    "idle": "SELECT tenant FROM {table} GROUP BY tenant ORDER BY max(used) LIMIT 1",
}


class SqliteRows:
    """One table of rows. `clock` gives seconds since the epoch: rows are older than the process."""

    def __init__(self, writer: Writer, table: str, clock: Callable[[], float], bounds: Bounds | None = None) -> None:
        self._writer, self._clock = writer, clock
        self._bounds = bounds or Bounds()
        self._sql = {name: query.format(table=table) for name, query in _QUERIES.items()}
        self._lock = threading.Lock()
        self._fresh: dict[tuple[str, str], bytes | None] = {}  # not yet written; None: to be gone
        self._since: dict[str | None, tuple[int, int]] = {}  # rows and bytes written since a look; None: of all
        writer.create(_MADE.format(table=table))

    def get(self, tenant: str, keys: Iterable[str], /) -> dict[str, bytes]:
        """What is known under these keys; those unknown are not in it. Reads the file: not for the event loop."""
        found, missing = self._unwritten(tenant, keys)
        return {**found, **self._read_all(tenant, missing)}

    async def aget(self, tenant: str, keys: Iterable[str], /) -> dict[str, bytes]:
        """The same for the event loop: the file is read in a thread. One that cannot be read is as good as empty."""
        found, missing = self._unwritten(tenant, keys)
        if missing:
            try:
                found.update(await self._writer.in_thread(lambda: self._read_all(tenant, missing)))
            except sqlite3.Error as error:
                log.error("%s: the state of earlier turns cannot be read: %s", self._writer.path, error)  # noqa: TRY400
        return found

    def put(self, tenant: str, rows: Mapping[str, bytes], /) -> None:
        """Keep these rows; what was there under the same keys is replaced."""
        now, most = self._clock(), min(self._bounds.size, self._bounds.total)
        kept: dict[str, bytes | None] = {
            key: value for key, value in rows.items() if len(key) + len(value) <= most
        }  # a row that no bound has room for is not kept, as in memory
        if kept:
            self._change(tenant, kept, now)

    def drop(self, tenant: str, keys: Iterable[str], /) -> None:
        """Forget these."""
        self._change(tenant, dict.fromkeys(keys), self._clock())

    def __len__(self) -> int:
        self._writer.flush()
        return int(cast("int", self._writer.read(self._sql["count"])[0][0]))

    # ── reading and writing ───────────────────────────────────────────────────────────────────────

    def _unwritten(self, tenant: str, keys: Iterable[str]) -> tuple[dict[str, bytes], list[str]]:
        """What the writer has not written yet, and the keys that only the file may know."""
        found: dict[str, bytes] = {}
        missing: list[str] = []
        with self._lock:
            for key in keys:
                if (tenant, key) not in self._fresh:
                    missing.append(key)
                elif (value := self._fresh[tenant, key]) is not None:
                    found[key] = value
        return found, missing

    def _read_all(self, tenant: str, keys: list[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for start in range(0, len(keys), _SOME):
            found.update(self._read(tenant, keys[start : start + _SOME]))
        return found

    def _read(self, tenant: str, keys: list[str]) -> dict[str, bytes]:
        now = self._clock()
        query = f"{self._sql['get']}({','.join('?' * len(keys))})"
        rows = self._writer.read(query, (tenant, now - self._bounds.age, *keys))
        stale = [str(key) for key, _, used in rows if now - cast("float", used) > FRESH]
        if stale:
            self._writer.submit(lambda database: self._touch(database, tenant, stale, now))
        return {str(key): bytes(cast("bytes", value)) for key, value, _ in rows}

    def _change(self, tenant: str, rows: Mapping[str, bytes | None], now: float) -> None:
        with self._lock:
            self._fresh.update({(tenant, key): value for key, value in rows.items()})

        def job(database: sqlite3.Connection) -> Callable[[], None]:
            self._write(database, tenant, rows, now)
            return lambda: self._settle(tenant, rows)

        if not self._writer.submit(job):
            self._settle(tenant, rows)

    def _settle(self, tenant: str, rows: Mapping[str, bytes | None]) -> None:
        """Written: the table has it now. A newer value under the same key still waits for its turn."""
        with self._lock:
            for key, value in rows.items():
                if self._fresh.get((tenant, key), b"") is value:
                    del self._fresh[tenant, key]

    # ── in the writer's thread ────────────────────────────────────────────────────────────────────

    def _touch(self, database: sqlite3.Connection, tenant: str, keys: list[str], now: float) -> None:
        database.executemany(self._sql["touch"], [(now, tenant, key) for key in keys])

    def _write(self, database: sqlite3.Connection, tenant: str, rows: Mapping[str, bytes | None], now: float) -> None:
        for key, value in rows.items():
            if value is None:
                database.execute(self._sql["drop"], (tenant, key))
            else:
                database.execute(self._sql["put"], (tenant, key, value, now, len(key) + len(value)))
        database.execute(self._sql["expire"], (now - self._bounds.age,))
        size = sum(len(key) + len(value or b"") for key, value in rows.items())
        if self._due(tenant, len(rows), size, self._bounds.size):
            self._shrink(database, tenant, self._bounds.size, self._bounds.rows)
        if self._due(None, len(rows), size, self._bounds.total):
            self._settle_all(database)

    def _due(self, whose: str | None, rows: int, size: int, most: int) -> bool:
        """Whether so much was written since the last look that a bound may be passed; always at first."""
        count, held = self._since.get(whose, (self._bounds.rows, most))
        count, held = count + rows, held + size
        due = count * SLACK >= self._bounds.rows or held * SLACK >= most
        if len(self._since) > _TENANTS:
            self._since.clear()
        self._since[whose] = (0, 0) if due else (count, held)
        return due

    def _settle_all(self, database: sqlite3.Connection) -> None:
        """Have the tenants that are idle longest forget, until all have room."""
        over = database.execute(self._sql["total"]).fetchone()[0] - self._bounds.total
        while over > 0:
            idle = database.execute(self._sql["idle"]).fetchone()[0]
            size = database.execute(self._sql["measure"], (idle,)).fetchone()[1]
            over -= self._shrink(database, idle, size - over, self._bounds.rows)

    def _shrink(self, database: sqlite3.Connection, tenant: str, size: int, rows: int) -> int:
        """Forget a tenant's oldest rows until it is within these bounds; gives the bytes that are gone."""
        count, held = database.execute(self._sql["measure"], (tenant,)).fetchone()
        freed = 0
        while count > rows or held - freed > size:
            for key, weight in database.execute(self._sql["oldest"], (tenant, _SOME)).fetchall():
                if count <= rows and held - freed <= size:
                    break
                database.execute(self._sql["drop"], (tenant, key))
                count, freed = count - 1, freed + weight
        return freed
