"""Token counts and correction factors in one SQLite file, shared by any number of processes.

Counts are a cache: when there is no room, tenants with more than their share lose rows first, and each loses counts of
messages before counts of prompts, the least recently used first. What is learned while the file is locked is kept in
memory, within a bound, and written later. Factors change under a lock, so that no process loses what another learned.
A file that is not a database any more is moved aside with a line in the log, and a new one is created; of several
processes only one moves it.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

from penstock._store.data_folder import data_folder
from penstock._store.migrations import migrate_sqlite
from penstock._store.provider_keys import lock_file
from penstock._store.sqlite import (
    IN_MEMORY,
    LOCK_TIMEOUT,
    DamagedDatabaseError,
    LockedDatabaseError,
    connect,
    is_damaged,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

T = TypeVar("T")
_Kind: TypeAlias = Literal["read", "write"]
_Change: TypeAlias = "Callable[[bytes | None], bytes]"
MAX_COUNTS = 200_000  # rows
MAX_FACTORS = 10_000  # rows
SHARES = 8  # a tenant has at most this part of the rows while others need the room
TOUCH_INTERVAL = 60.0  # seconds in which another use of a row is not recorded
TRIM_INTERVAL = 256  # rows written between two checks of their number
RETRY_INTERVAL = 1.0  # seconds in which a locked file is not tried again
MAX_UNWRITTEN = 10_000  # counts, and changes of factors, that wait while the file is locked
KEYS_PER_QUERY = 400
SIDECAR_SUFFIXES = ("-wal", "-shm")  # files that SQLite creates beside a database
# What goes first. Keys of prompts begin with `p`, others are hexadecimal: a prompt's count cannot be computed again.
_ORDER = {"counts": "(key >= 'p'), used, rowid", "factors": "used, rowid"}
log = logging.getLogger("penstock.store")


def default_path() -> Path:
    """Returns the path of the file in the data folder."""
    return data_folder() / "tokens.sqlite"


class TokenStore:
    """Both stores of the estimator: itself is a `CountStore`, `factors` is a `FactorStore`.

    `timeout`: seconds to wait for a lock of another process. Threads may share the store. A file that is locked when it
    is opened raises an `OSError`; unless `required`, the store goes on without it and opens it later.
    """

    def __init__(
        self,
        path: Path | str = IN_MEMORY,
        *,
        rows: int = MAX_COUNTS,
        factors: int = MAX_FACTORS,
        clock: Callable[[], float] = time.time,
        timeout: float = LOCK_TIMEOUT,
        required: bool = True,
    ) -> None:
        self.path: Path = Path(path)
        self.factors: FactorTable = FactorTable(self)
        self.moved: list[Path] = []  # damaged files, where they are now
        self._max_rows, self._max_factors, self._clock, self._timeout = rows, factors, clock, timeout
        # By the monotonic clock: until then the file is not read, or not written.
        self._locked_until = {"read": 0.0, "write": 0.0}
        self._counts: dict[tuple[str, str], bytes] = {}  # not written yet, by tenant and key
        self._changes: dict[tuple[str, str], list[_Change]] = {}  # of factors, as well
        self._warned = False  # of a file that cannot be written; reset when it can
        self._written = 0  # rows since the last check of their number
        self._lock = threading.Lock()
        self._opened: sqlite3.Connection | None = None
        try:
            self._opened = self._open()
        except LockedDatabaseError as error:
            if required:
                raise
            self._note_failure(error, "read")

    def get(self, tenant: str, keys: Iterable[str], /) -> dict[str, bytes]:
        return self.read("counts", tenant, list(keys))

    def put(self, tenant: str, rows: Mapping[str, bytes], /) -> None:
        if rows:
            with self._lock:
                self._counts.update({(tenant, key): value for key, value in rows.items()})
            self._run(self._write, None, "write")

    def update(self, tenant: str, key: str, change: _Change) -> bytes:
        """Changes a factor under a lock. While the file is locked, the change waits."""
        found = self._run(lambda: self._change(tenant, key, [change]), None, "write")
        if found is None:
            found = change(self.read("factors", tenant, [key]).get(key))
            with self._lock:
                if sum(map(len, self._changes.values())) < MAX_UNWRITTEN:
                    self._changes.setdefault((tenant, key), []).append(change)
        return found

    def read(self, table: str, tenant: str, keys: list[str]) -> dict[str, bytes]:
        """Returns the values of a table (`counts` or `factors`) by key."""
        found: dict[str, bytes] = self._run(lambda: self._read(table, tenant, keys), {}, "read") if keys else {}
        with self._lock:
            if table == "counts" and self._counts:
                found |= {key: self._counts[tenant, key] for key in keys if (tenant, key) in self._counts}
            elif table == "factors" and self._changes:
                for key in keys:
                    for change in self._changes.get((tenant, key), ()):
                        found[key] = change(found.get(key))
        return found

    def __len__(self) -> int:
        query = "SELECT count(*) FROM counts"
        return self._run(lambda: int(self._connection.execute(query).fetchone()[0]), 0, "read")

    def close(self) -> None:
        """Writes what waits, if the file is not locked, and closes it."""
        if self._counts or self._changes:
            self._locked_until["write"] = 0.0
            self._run(self._write, None, "write")
        with self._lock:
            if self._opened is not None:
                self._opened.close()

    @property
    def _connection(self) -> sqlite3.Connection:
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    # ── statements ────────────────────────────────────────────────────────────────────────────────

    def _read(self, table: str, tenant: str, keys: list[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        old: list[str] = []
        now = self._clock()
        for start in range(0, len(keys), KEYS_PER_QUERY):
            batch = keys[start : start + KEYS_PER_QUERY]
            marks = ",".join("?" * len(batch))
            query = f"SELECT key, value, used FROM {table} WHERE tenant = ? AND key IN ({marks})"  # noqa: S608 - marks only
            for key, value, used in self._connection.execute(query, (tenant, *batch)):
                found[key] = value
                if now - used > TOUCH_INTERVAL:
                    old.append(key)
        if old:
            self._touch(table, [(now, tenant, key) for key in old])
        return found

    def _touch(self, table: str, rows: list[tuple[object, ...]]) -> None:
        """Records the use of rows. Does not wait for a lock: the rows are read, and will be used again."""
        query = f"UPDATE {table} SET used = ? WHERE tenant = ? AND key = ?"  # noqa: S608 - two tables
        self._set_timeout(0)
        try:
            self._execute_many(query, rows)
        except sqlite3.OperationalError as error:
            if is_damaged(error):
                raise
        finally:
            self._set_timeout(self._timeout)

    def _set_timeout(self, seconds: float) -> None:
        self._connection.execute(f"PRAGMA busy_timeout={round(seconds * 1000)}")

    def _write(self) -> None:
        """Writes all counts and changes that wait."""
        for tenant, key in [*self._changes]:
            self._change(tenant, key, [])
        now = self._clock()
        values = [(tenant, key, value, now) for (tenant, key), value in self._counts.items()]
        self._execute_many("INSERT OR REPLACE INTO counts VALUES (?, ?, ?, ?)", values)
        self._counts.clear()
        self._warned = False
        self._written += len(values)
        if self._written >= min(TRIM_INTERVAL, self._max_rows):
            self._written = 0
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                self._trim("counts", self._max_rows)

    def _trim(self, table: str, most: int) -> None:
        """Deletes rows beyond a number: first of the tenants with more than their share, those with most of them."""
        over = self._connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] - most  # noqa: S608 - two tables
        if over <= 0:
            return
        query = f"SELECT tenant, count(*) FROM {table} GROUP BY tenant"  # noqa: S608 - two tables
        held: dict[str, int] = dict(self._connection.execute(query))
        for tenant, rows in split_excess(held, over, max(most // SHARES, 1)).items():
            self._delete_oldest(table, "WHERE tenant = ?", tenant, rows)
            over -= rows
        if over > 0:
            self._delete_oldest(table, "", None, over)

    def _delete_oldest(self, table: str, where: str, tenant: str | None, rows: int) -> None:
        query = f"SELECT rowid FROM {table} {where} ORDER BY {_ORDER[table]} LIMIT ?"  # noqa: S608 - two tables
        values = (rows,) if tenant is None else (tenant, rows)
        self._connection.execute(f"DELETE FROM {table} WHERE rowid IN ({query})", values)  # noqa: S608 - as above

    def _execute_many(self, query: str, rows: Sequence[tuple[object, ...]]) -> None:
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(query, rows)

    def _change(self, tenant: str, key: str, changes: list[_Change]) -> bytes | None:
        """Applies the changes that wait, and these."""
        waiting = self._changes.get((tenant, key), [])
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            query = "SELECT value FROM factors WHERE tenant = ? AND key = ?"
            row = self._connection.execute(query, (tenant, key)).fetchone()
            value: bytes | None = None if row is None else row[0]
            for change in (*waiting, *changes):
                value = change(value)
            values = (tenant, key, value, self._clock())
            self._connection.execute("INSERT OR REPLACE INTO factors VALUES (?, ?, ?, ?)", values)
            if row is None:
                self._trim("factors", self._max_factors)
        self._changes.pop((tenant, key), None)
        return value

    # ── damaged files ─────────────────────────────────────────────────────────────────────────────

    def _run(self, work: Callable[[], T], default: T, kind: _Kind) -> T:
        """Returns the result of `work`: with a new file if this one is damaged, the default if it is locked."""
        with self._lock:
            if time.monotonic() < self._locked_until[kind]:
                return default
            for _ in range(2):
                try:
                    return work()
                except (sqlite3.Error, OSError) as error:
                    if not is_damaged(error):
                        self._note_failure(error, kind)
                        return default
                    self._connection.close()
                try:
                    self._replace_damaged()
                    self._opened = self._open()
                except OSError as error:
                    self._note_failure(error, kind)
                    return default
        return default

    def _note_failure(self, error: Exception, kind: _Kind) -> None:
        """Logs that counts are not written: once, until they are again. What cannot be read cannot be written."""
        until = time.monotonic() + RETRY_INTERVAL
        self._locked_until |= {"write": until} if kind == "write" and self._opened else {"read": until, "write": until}
        for key in [*self._counts][: max(len(self._counts) - MAX_UNWRITTEN, 0)]:
            del self._counts[key]
        level = logging.DEBUG if self._warned else logging.WARNING
        log.log(level, "%s: token counts are not written: %s", self.path.name, error)
        self._warned = True

    def _open(self) -> sqlite3.Connection:
        try:
            return self._connect()
        except DamagedDatabaseError:
            self._replace_damaged()
            return self._connect()

    def _connect(self) -> sqlite3.Connection:
        connection = connect(self.path, timeout=self._timeout)
        try:
            migrate_sqlite(connection, self.path, "tokens", timeout=self._timeout)
            connection.execute(f"PRAGMA busy_timeout={round(self._timeout * 1000)}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _replace_damaged(self) -> None:
        """Moves the file aside for later inspection.

        One process at a time, and only if the file is still damaged: another process may have created a new one.
        """
        with lock_file(self.path):
            if not _is_sound(self.path):
                self._move_aside()

    def _move_aside(self) -> None:
        names = (self.path.with_name(f"{self.path.name}.broken-{number}") for number in range(1, 10_000))
        aside = next(path for path in names if not path.exists())
        with suppress(FileNotFoundError):
            os.replace(self.path, aside)  # noqa: PTH105 - atomic, and over nothing
            self.moved.append(aside)
            log.warning("%s is no database any more; it is now %s, and a new one is begun", self.path.name, aside.name)
        for side in SIDECAR_SUFFIXES:
            with suppress(FileNotFoundError):
                self.path.with_name(self.path.name + side).unlink()


def split_excess(held: Mapping[str, int], over: int, share: int) -> dict[str, int]:
    """Returns how many rows each tenant above its share loses: those with the most rows come down to one level."""
    tenants = sorted((tenant for tenant in held if held[tenant] > share), key=held.__getitem__, reverse=True)
    level, number = share, len(tenants)
    for position in range(1, len(tenants) + 1):
        below = held[tenants[position]] if position < number else share
        freed = sum(held[other] - below for other in tenants[:position])
        if freed >= over:  # the level is between this tenant and the next one
            level, number = below + (freed - over) // position, position
            break
    lost = {tenant: held[tenant] - level for tenant in tenants[:number]}
    return {tenant: min(rows, over) for tenant, rows in lost.items() if rows > 0}


def _is_sound(path: Path) -> bool:
    """False only if the file is known to be damaged: a missing or locked file is left alone."""
    try:
        with closing(connect(path, create=False)) as opened:
            return bool(opened.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok")
    except DamagedDatabaseError:
        return False
    except sqlite3.Error as error:
        return not is_damaged(error)
    except OSError:
        return True


class FactorTable:
    """The factors of a `TokenStore`, as a `FactorStore`."""

    def __init__(self, store: TokenStore) -> None:
        self._store = store

    def get(self, tenant: str, keys: Iterable[str], /) -> dict[str, bytes]:
        return self._store.read("factors", tenant, list(keys))

    def update(self, tenant: str, key: str, change: _Change, /) -> bytes:
        return self._store.update(tenant, key, change)
