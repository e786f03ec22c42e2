"""Waiting for a database that cannot be written for now: which errors are worth it, how long, and what the log says."""

from __future__ import annotations

import logging
import sqlite3
import time
from typing import TYPE_CHECKING

from penstock.store.sqlite import error_code, is_damaged, repair_hint

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BUSY_DELAY = 0.005  # seconds until a lock is asked for again: other writers hold it for milliseconds
OTHER_DELAY = 0.5  # seconds until a full disk and the like are tried again
SHORT = 1.0  # seconds that a lock may be held by others before it is worth a line in the log
REPEAT = 60.0  # seconds until the log says it again
log = logging.getLogger("penstock.store")

_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
# What is wrong with the database rather than with a row. https://www.sqlite.org/rescode.html
_DATABASE = _BUSY | {
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_NOLFS,
}  # fmt: skip


def is_held(error: BaseException | None) -> bool:
    """Whether the same transaction may succeed later."""
    return error is not None and error_code(error) in _DATABASE


class Held:
    """The wait of one writer. `told`: it has lasted so long that the log says so."""

    def __init__(self, path: Path, waiting: Callable[[], int]) -> None:
        self.told = False
        self.give_up_at = float("inf")
        self._path, self._waiting = path, waiting
        self._since = self._said = 0.0

    def wait(self, error: BaseException | None, on_told: Callable[[], None]) -> bool:
        """Wait a little. False: there is no more time, and what is held is lost."""
        now = time.monotonic()
        self._since = self._since or now
        busy = error is not None and error_code(error) in _BUSY
        if (not busy or now - self._since >= SHORT) and (not self.told or now - self._said >= REPEAT):
            self._say(error)
            self.told, self._said = True, now
            on_told()
        if now >= self.give_up_at:
            return False
        time.sleep(BUSY_DELAY if busy else OTHER_DELAY)
        return True

    def clear(self) -> None:
        """The database can be written again."""
        if self.told:
            log.warning("%s: rows that were held back are written again", self._path)
        self.told, self._since = False, 0.0

    def _say(self, error: BaseException | None) -> None:
        hint = f"; {repair_hint(self._path)}" if error is not None and is_damaged(error) else ""
        log.error("%s: rows are held back, %d changes wait: %s%s", self._path, self._waiting(), error, hint)
