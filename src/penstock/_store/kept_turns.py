"""Kept turns in a SQLite file: a ring that is bounded in size and age, with its text index.

The caller encodes turns and removes secrets before. One thread writes; readers have their own connection. What is
deleted is overwritten (`secure_delete`). The file shrinks when turns go (`auto_vacuum`).
"""

from __future__ import annotations

import sqlite3
import threading
import time
import zlib
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from penstock._store.kept_turns_index import TextIndex, TextPiece
from penstock._store.sqlite import WAL_SIZE, connect, count_used_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from pathlib import Path

FILE = "turns.sqlite"
VERSION = 1  # of the tables and of `read_words`: a file of another version is emptied
MIN_TRIM = 8  # turns that are deleted at once to make room
MERGED_PAGES = 200  # of the index, after a deletion
# What a file that is damaged, locked or on a full disk raises.
FILE_ERRORS = (sqlite3.Error, OSError, zlib.error, msgspec.MsgspecError, ValueError, LookupError)
_TABLES = ("word_index", "paths", "nodes", "texts", "bodies", "turns")
CACHED_SEARCHES = 8  # whose result is kept until the file changes: a list asks again for its next page
CACHE_SIZE = 16 * 1024  # KiB of pages that searches keep
# Turns that are too old. A turn from the future was written before the clock was set back: its age is not known. It
# goes with the first turn that was written after it and is too old. A clock that jumps back deletes nothing by itself.
_OLD_TURNS = """
SELECT id, tenant FROM turns WHERE time < :oldest
    OR (time > :now AND number < (SELECT max(number) FROM turns WHERE time < :oldest))
"""


class RemovedTurn(NamedTuple):
    """A turn that was deleted to make room."""

    id: str
    tenant: str
    reason: Literal["disk-age", "disk-full"]


class KeptTurnRow(msgspec.Struct, frozen=True):
    """A turn to write. `paths`: the texts of its request and answer, then those of each attempt's request."""

    id: str
    tenant: str
    time: float
    body: bytes
    paths: list[list[TextPiece]]


class KeptTurnStore:
    """The file. `size`: bytes of the file and its WAL, at most. `age`: seconds that a turn is kept."""

    def __init__(self, path: Path, *, size: int, age: float, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self.size: int = size
        self.age: float = age
        self.trim_problem: str = ""  # why old turns could not be deleted the last time
        self._clock = clock
        self._wal = path.with_name(f"{path.name}-wal")
        self._found: OrderedDict[tuple[str, str | None], Collection[str]] = OrderedDict()  # by the last searches
        self._found_version = -1
        wal = min(WAL_SIZE, size // 16)
        self._wal_limit, self._limit = wal, size - 3 * wal
        self._write_lock, self._read_lock = threading.Lock(), threading.Lock()
        self._writer = connect(path)
        self._index = TextIndex(self._writer)
        try:
            self._create_tables()
            self._reader = connect(path)
        except BaseException:
            self._writer.close()
            raise
        self._reader.execute(f"PRAGMA cache_size=-{CACHE_SIZE}")
        self._reading = TextIndex(self._reader)

    def _create_tables(self) -> None:
        wal = self._wal_limit
        for setting in ("secure_delete=ON", f"journal_size_limit={wal}", f"wal_autocheckpoint={wal // 2 // 4096}"):
            self._writer.execute(f"PRAGMA {setting}")
        with self._writer:
            self._writer.execute("BEGIN IMMEDIATE")
            (found,) = self._writer.execute("PRAGMA user_version").fetchone()
            if found not in {0, VERSION}:
                for table in _TABLES:
                    self._writer.execute(f"DROP TABLE IF EXISTS {table}")
            self._index.create_tables()
            self._writer.execute(f"PRAGMA user_version={VERSION}")

    def close(self) -> None:
        with self._write_lock, self._read_lock:
            self._reader.close()
            self._writer.close()

    # ── writing ───────────────────────────────────────────────────────────────────────────────────

    def write_turns(self, turns: Iterable[KeptTurnRow]) -> list[RemovedTurn]:
        """Writes turns in one transaction. Returns those that were deleted to make room.

        An error means that none was written. If only the deletion fails, `trim_problem` says so.
        """
        with self._write_lock:
            with self._writer:
                self._writer.execute("BEGIN IMMEDIATE")
                for turn in turns:
                    self._index.add_turn(turn.id, turn.tenant, turn.time, turn.paths, turn.body)
            return self._trim()

    def trim(self) -> list[RemovedTurn]:
        """Deletes what is too old or too much. Returns what was deleted; `trim_problem` says what could not be."""
        with self._write_lock:
            return self._trim()

    def _trim(self) -> list[RemovedTurn]:
        removed: list[RemovedTurn] = []
        self.trim_problem = ""
        try:
            self._limit_wal()
            self._remove_old(removed)
            self._remove_excess(removed)
        except FILE_ERRORS as error:
            self.trim_problem = str(error)
        return removed

    def _remove_old(self, removed: list[RemovedTurn]) -> None:
        now = self._clock()
        old = self._writer.execute(_OLD_TURNS, {"now": now, "oldest": now - self.age}).fetchall()
        self._remove([name for name, _ in old])
        removed += [RemovedTurn(name, tenant, "disk-age") for name, tenant in old]

    def _remove_excess(self, removed: list[RemovedTurn]) -> None:
        """Deletes the turns that were written first: the clock may have been set back since."""
        execute = self._writer.execute
        while count_used_bytes(self._writer) > self._limit:
            (count,) = execute("SELECT count(*) FROM turns").fetchone()
            if not count:
                return
            several = max(MIN_TRIM, count // 50)
            first = execute("SELECT id, tenant FROM turns ORDER BY number LIMIT ?", (several,)).fetchall()
            self._remove([name for name, _ in first])
            removed += [RemovedTurn(name, tenant, "disk-full") for name, tenant in first]

    def _remove(self, ids: Collection[str]) -> int:
        """Deletes turns, and gives their pages back."""
        if not ids:
            return 0
        with self._writer:
            self._writer.execute("BEGIN IMMEDIATE")
            count = sum(self._index.remove_turn(name) for name in ids)
            self._writer.execute("INSERT INTO word_index (word_index, rank) VALUES ('merge', ?)", (MERGED_PAGES,))
        self._writer.execute("PRAGMA incremental_vacuum").fetchall()
        self._limit_wal()
        return count

    def _limit_wal(self) -> None:
        """Empties a WAL that has grown over its bound in one transaction."""
        with suppress(FileNotFoundError):
            if self._wal.stat().st_size > self._wal_limit:
                self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def delete_turns(self, ids: Collection[str] | None = None, tenant: str | None = None) -> dict[str, str]:
        """Deletes turns by their ids, or all; only those of `tenant`, if one is given. Returns their tenants by id.

        The words leave the index, and the bytes the file and its WAL.
        """
        with self._write_lock:
            found = self._writer.execute("SELECT id, tenant FROM turns").fetchall()
            wanted = {name: owner for name, owner in found if (ids is None or name in ids) and tenant in {None, owner}}
            if self._remove(wanted):
                self._writer.execute("INSERT INTO word_index (word_index) VALUES ('optimize')")
                self._writer.execute("PRAGMA incremental_vacuum").fetchall()
                self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            return wanted

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    def read_turn(self, id: str, tenant: str | None) -> tuple[bytes, list[list[TextPiece]]] | None:
        """Returns the body of a turn and the texts of its paths; None if there is no such turn."""
        with self._read_lock:
            return self._reading.read_turn(id, tenant)

    def find_turns(self, phrase: str, tenant: str | None) -> Collection[str]:
        """Returns the ids of turns that have these words in this order. `tenant`: whose turns; None means all."""
        with self._read_lock:
            (version,) = self._reader.execute("PRAGMA data_version").fetchone()
            if version != self._found_version:
                self._found.clear()
                self._found_version = version
            found = self._found.get((phrase, tenant))
            if found is None:
                found = self._found[phrase, tenant] = self._reading.find_turns(phrase, tenant)
                if len(self._found) > CACHED_SEARCHES:
                    self._found.popitem(last=False)
            return found

    def list_turns(self, limit: int) -> list[str]:
        """Returns the ids of the newest turns, the newest first."""
        with self._read_lock:
            rows = self._reader.execute("SELECT id FROM turns ORDER BY number DESC LIMIT ?", (limit,)).fetchall()
        return [str(row[0]) for row in rows]

    def holds(self, id: str) -> bool:
        """True if a turn is in the file."""
        with self._read_lock:
            return self._reader.execute("SELECT 1 FROM turns WHERE id = ?", (id,)).fetchone() is not None

    def count(self, tenant: str | None = None) -> int:
        """Returns the number of turns, of one tenant or all."""
        query, values = ("", ()) if tenant is None else (" WHERE tenant = ?", (tenant,))
        with self._read_lock:
            return int(self._reader.execute(f"SELECT count(*) FROM turns{query}", values).fetchone()[0])  # noqa: S608

    @property
    def file_bytes(self) -> int:
        """The size of the file and its WAL."""
        names = (self.path, self._wal)
        return sum(name.stat().st_size for name in names if name.exists())
