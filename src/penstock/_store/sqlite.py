"""Opens all SQLite databases in the same way, and knows the data folder.

Write-ahead log (readers do not wait), a timeout for every lock, files that only their owner can read.

A database file is never opened outside SQLite: POSIX drops all locks of a process on a file when the process closes any
descriptor of that file (https://www.sqlite.org/howtocorrupt.html, section 2.2). Without its lock a connection does not
keep other processes from deleting the WAL it writes to. So the file is created here only if it is missing, and then
only `connect` opens it. `stat` and `chmod` are allowed: they open nothing.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

LOCK_TIMEOUT = 5.0  # seconds to wait for a lock of another process
IN_MEMORY = Path(":memory:")
"""Instead of a path: the database is in memory and ends with the process."""
CACHE_SIZE = 512  # KiB of pages that a connection keeps; SQLite's own limit is four times that
WAL_SIZE = 16 * 2**20  # bytes: a WAL that was emptied is cut to this size
_RETRY_DELAY = 0.02  # seconds between two attempts to open a file that other processes are opening too
# The switch to WAL locks the whole file for a moment, and SQLite does not always wait for that.
_CONTENDED = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
# Held from the creation of a file to the end of the descriptor that created it: no other thread may lock it meanwhile.
_creating = threading.Lock()
log = logging.getLogger("penstock.store")


class DatabaseOpenError(OSError):
    """The database cannot be opened. The message names the file and the reason."""

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


class LockedDatabaseError(DatabaseOpenError):
    """Another process holds the lock of the file."""


class DamagedDatabaseError(DatabaseOpenError):
    """The file is not a database, or not a sound one. The message names the file and the fix."""


def connect(path: Path = IN_MEMORY, *, create: bool = True, timeout: float | None = None) -> sqlite3.Connection:
    """Returns a connection that one thread at a time may use. Each statement commits, except after `BEGIN`.

    Creates missing folders and files, unless `create` is false. `timeout`: seconds to wait for a lock. Raises an
    `OSError` that names the file. Any number of processes may do this at the same time.
    """
    timeout = LOCK_TIMEOUT if timeout is None else timeout
    if path == IN_MEMORY:
        return _open(":memory:", timeout)
    real = os.path.realpath(path)  # SQLite follows links too; behind a dangling one it would create the file itself
    if create:
        Path(real).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _create_private(real)
    ends = time.monotonic() + timeout
    while True:
        try:
            return _open(Path(real).as_uri() + "?mode=rw", timeout)
        except sqlite3.Error as error:
            if error_code(error) not in _CONTENDED or time.monotonic() >= ends:
                raise open_error(path, error, timeout) from None
        time.sleep(_RETRY_DELAY)


def connect_read_only(path: Path) -> sqlite3.Connection:
    """Returns a connection that only reads. It can be opened while another connection holds the write lock."""
    return sqlite3.connect(Path(os.path.realpath(path)).as_uri() + "?mode=ro", uri=True, timeout=LOCK_TIMEOUT)


def remove_database(path: Path) -> None:
    """Removes a file that is not a database, its WAL first: a WAL without its file would be read into the next one."""
    for suffix in ("-wal", "-shm", ""):
        path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)


def _create_private(path: str) -> None:
    """Creates the file for its owner only, if it is missing. SQLite gives its other files the same permissions.

    O_EXCL: an existing file is not opened. A file that this creates was open nowhere before; the lock keeps other
    threads from opening it by SQLite before the descriptor is closed.
    """
    with _creating, suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _open(name: str, timeout: float) -> sqlite3.Connection:
    with _creating:  # see `_create_private`
        connection = sqlite3.connect(
            name, timeout=timeout, isolation_level=None, check_same_thread=False, uri=name.startswith("file:")
        )
    try:
        connection.create_function("translate", 3, translate_letters, deterministic=True)
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # before the first table, or it has no effect
        mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        for setting in ("synchronous=NORMAL", f"journal_size_limit={WAL_SIZE}", f"cache_size=-{CACHE_SIZE}"):
            connection.execute(f"PRAGMA {setting}")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # fails if the schema is damaged
    except BaseException:
        connection.close()
        raise
    if mode not in ("wal", "memory"):
        hint = "readers and writers will wait for each other. Keep the data folder on a local disk (PENSTOCK_DATA)"
        log.warning("%s: the file system does not support WAL (journal mode %s); %s", name, mode, hint)
    return connection


def translate_letters(text: str | None, letters: str, others: str) -> str | None:
    """`translate` of PostgreSQL: each of some letters becomes the one at the same place in `others`."""
    return text.translate(_letter_table(letters, others)) if text is not None else None


@lru_cache(16)
def _letter_table(letters: str, others: str) -> dict[int, int]:
    return str.maketrans(letters, others)


# ── errors ────────────────────────────────────────────────────────────────────────────────────────


def error_code(error: BaseException) -> int:
    """Returns the primary result code of an SQLite error; 0 if it has none."""
    return int(getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


def is_damaged(error: BaseException) -> bool:
    """True if an SQLite error says that the file is damaged."""
    return error_code(error) in _DAMAGED


def is_locked(error: BaseException) -> bool:
    """True if an error says that another process holds a lock of the file."""
    return isinstance(error, LockedDatabaseError | TimeoutError) or error_code(error) in _CONTENDED


def repair_hint(path: Path) -> str:
    """Returns the text that says how to repair a damaged database."""
    return (
        f"stop all penstock processes, then repair it (`sqlite3 {path.name} .recover`) or move it away together with "
        f"{path.name}-wal and {path.name}-shm; a new one is created"
    )


def open_error(path: Path, error: sqlite3.Error, timeout: float | None = None) -> OSError:
    """Returns the error for a database that cannot be opened: it names the file and the fix."""
    if is_damaged(error):
        return DamagedDatabaseError(None, f"not a database, or damaged ({error}): {repair_hint(path)}", str(path))
    if error_code(error) in _CONTENDED:
        fix = "end that process or its transaction"
        waited = LOCK_TIMEOUT if timeout is None else timeout
        reason = f"{error}: another process has held its lock for {waited:g} s; {fix}"
        return LockedDatabaseError(None, reason, str(path))
    return DatabaseOpenError(None, f"cannot be opened as a database: {error}", str(path))


def count_used_bytes(connection: sqlite3.Connection) -> int:
    """Returns the bytes in use in the file, without freed pages."""
    pages, free, page = (
        int(connection.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * page
