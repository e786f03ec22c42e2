"""Token counts and correction factors in one SQLite file, shared by any number of processes.

Counts are a cache: when the file is locked for long they are counted again, and the least recently used go first.
Factors change under a lock, so that no process loses what another learned. A file that is no database any more is moved
aside, said so in the log, and begun anew; if several processes find it so, one of them moves it. Leans on `sqlite` for
opening.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

from penstock._store.sqlite import IN_MEMORY, DamagedDatabaseError, connect, data_folder, is_damaged, open_error

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
    from pathlib import Path

T = TypeVar("T")
MAX_COUNTS = 200_000  # counts that are kept
TOUCH_INTERVAL = 60.0  # seconds within which another use of a row is not written down
TRIM_INTERVAL = 256  # rows put between two looks at how many there are
KEYS_PER_QUERY = 400  # keys to a query
SIDECAR_SUFFIXES = ("-wal", "-shm")  # what SQLite keeps beside a database
log = logging.getLogger("penstock.store")
_MADE = """
CREATE TABLE IF NOT EXISTS counts (tenant TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, used REAL NOT NULL,
    PRIMARY KEY (tenant, key));
CREATE INDEX IF NOT EXISTS counts_used ON counts (used);
CREATE TABLE IF NOT EXISTS factors (tenant TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, used REAL NOT NULL,
    PRIMARY KEY (tenant, key))"""


def default_path() -> Path:
    """Where the file stands if nobody says otherwise."""
    return data_folder() / "tokens.sqlite"


class TokenStore:
    """Both stores of the estimator: a `CountStore` by `get` and `put`, a `FactorStore` by `factors`."""

    def __init__(
        self, path: Path = IN_MEMORY, *, rows: int = MAX_COUNTS, clock: Callable[[], float] = time.time
    ) -> None:
        self.path = path
        self.factors: FactorTable = FactorTable(self)
        self.moved: list[Path] = []  # what was found broken, and where it is now
        self._rows = rows
        self._clock = clock
        self._put = 0
        self._lock = threading.Lock()
        self._connection = self._open()

    def get(self, tenant: str, keys: Iterable[str], /) -> dict[str, bytes]:
        wanted = list(keys)
        return self._do(lambda: self._read("counts", tenant, wanted), {}) if wanted else {}

    def put(self, tenant: str, rows: Mapping[str, bytes], /) -> None:
        if rows:
            self._do(lambda: self._write(tenant, rows), None)

    def update(self, tenant: str, key: str, change: Callable[[bytes | None], bytes]) -> bytes:
        """Change a factor while nobody else does. If the file stays locked, the change is given but not kept."""
        return self._do(lambda: self._change(tenant, key, change), None) or change(None)

    def factor_rows(self, tenant: str, keys: list[str]) -> dict[str, bytes]:
        return self._do(lambda: self._read("factors", tenant, keys), {})

    def __len__(self) -> int:
        return self._do(lambda: int(self._connection.execute("SELECT count(*) FROM counts").fetchone()[0]), 0)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    # ── statements ────────────────────────────────────────────────────────────────────────────────────────────────

    def _read(self, table: str, tenant: str, keys: list[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        old: list[str] = []
        now = self._clock()
        for start in range(0, len(keys), KEYS_PER_QUERY):
            some = keys[start : start + KEYS_PER_QUERY]
            marks = ",".join("?" * len(some))
            query = f"SELECT key, value, used FROM {table} WHERE tenant = ? AND key IN ({marks})"  # noqa: S608 - marks only
            for key, value, used in self._connection.execute(query, (tenant, *some)):
                found[key] = value
                if now - used > TOUCH_INTERVAL:
                    old.append(key)
        if old:
            touched = [(now, tenant, key) for key in old]
            self._many(f"UPDATE {table} SET used = ? WHERE tenant = ? AND key = ?", touched)  # noqa: S608 - two tables
        return found

    def _write(self, tenant: str, rows: Mapping[str, bytes]) -> None:
        now = self._clock()
        self._many(
            "INSERT OR REPLACE INTO counts VALUES (?, ?, ?, ?)",
            [(tenant, key, value, now) for key, value in rows.items()],
        )
        self._put += len(rows)
        if self._put >= min(TRIM_INTERVAL, self._rows):
            self._put = 0
            self._connection.execute(
                "DELETE FROM counts WHERE rowid IN (SELECT rowid FROM counts ORDER BY used, rowid"
                " LIMIT max(0, (SELECT count(*) FROM counts) - ?))",
                (self._rows,),
            )

    def _many(self, query: str, rows: Sequence[tuple[object, ...]]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self._connection.executemany(query, rows)
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def _change(self, tenant: str, key: str, change: Callable[[bytes | None], bytes]) -> bytes:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            query = "SELECT value FROM factors WHERE tenant = ? AND key = ?"
            row = self._connection.execute(query, (tenant, key)).fetchone()
            value = change(None if row is None else row[0])
            self._connection.execute(
                "INSERT OR REPLACE INTO factors VALUES (?, ?, ?, ?)", (tenant, key, value, self._clock())
            )
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")
        return value

    # ── trouble ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _do(self, work: Callable[[], T], otherwise: T) -> T:
        """Do it; on a broken file once more with a new one, on a locked one not at all."""
        with self._lock:
            for _ in range(2):
                try:
                    return work()
                except sqlite3.Error as error:
                    if not is_damaged(error):
                        log.warning("%s: token counts are not kept: %s", self.path.name, error)
                        return otherwise
                    self._connection.close()
                    self._replace_damaged()
                    self._connection = self._open()
        return otherwise

    def _open(self) -> sqlite3.Connection:
        try:
            return self._prepared()
        except DamagedDatabaseError:
            self._replace_damaged()
            return self._prepared()

    def _prepared(self) -> sqlite3.Connection:
        made = connect(self.path)
        try:
            made.executescript(_MADE)
        except sqlite3.DatabaseError as error:
            made.close()
            raise open_error(self.path, error) from None
        return made

    def _replace_damaged(self) -> None:
        """Move the file out of the way, but keep it: somebody may want to know what happened.

        One process at a time, and only if the file is still damaged: another one may have begun a new file by now.
        """
        with _locked(self.path.with_name(f"{self.path.name}.lock")):
            if not _is_sound(self.path):
                self._move_aside()

    def _move_aside(self) -> None:
        number = next(n for n in range(1, 10_000) if not self.path.with_name(f"{self.path.name}.broken-{n}").exists())
        aside = self.path.with_name(f"{self.path.name}.broken-{number}")
        with suppress(FileNotFoundError):
            os.replace(self.path, aside)  # noqa: PTH105 - atomic, and over nothing
            self.moved.append(aside)
            log.warning("%s is no database any more; it is now %s, and a new one is begun", self.path.name, aside.name)
        for side in SIDECAR_SUFFIXES:
            with suppress(FileNotFoundError):
                self.path.with_name(self.path.name + side).unlink()


def _is_sound(path: Path) -> bool:
    """False only if the file is known to be damaged: one that is missing or locked is left alone."""
    try:
        with closing(connect(path, create=False)) as opened:
            return bool(opened.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok")
    except DamagedDatabaseError:
        return False
    except sqlite3.Error as error:
        return not is_damaged(error)
    except OSError:
        return True


@contextmanager
def _locked(path: Path) -> Generator[None]:
    """Hold a lock file, which is not a database file. On Windows nothing is locked: a file in use cannot be moved."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class FactorTable:
    """The factors of a `TokenStore`, as a `FactorStore`."""

    def __init__(self, store: TokenStore) -> None:
        self._store = store

    def get(self, tenant: str, keys: Iterable[str], /) -> dict[str, bytes]:
        return self._store.factor_rows(tenant, list(keys))

    def update(self, tenant: str, key: str, change: Callable[[bytes | None], bytes], /) -> bytes:
        return self._store.update(tenant, key, change)
