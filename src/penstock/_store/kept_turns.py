"""Kept turns in a SQLite file: a ring that is bounded in size and age, with its text index.

The caller encodes turns and removes secrets before. One thread writes; readers have their own connection. What is
deleted is overwritten (`secure_delete`). The file shrinks when turns go (`auto_vacuum`). Why turns went stays in it.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
import time
import zlib
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from penstock._store.kept_turns_index import TextIndex, TextPiece
from penstock._store.kept_turns_missing import (
    BYTES_PER_MISSING_TURN,
    DELETED,
    MAX_MISSING_TURNS,
    MissingReason,
    MissingTurn,
    MissingTurnTable,
)
from penstock._store.kept_turns_searches import SearchCache, create_log, invalidate_searches
from penstock._store.settled_clock import SettledClock
from penstock._store.sqlite import (
    LOCK_TIMEOUT,
    WAL_SIZE,
    connect,
    count_used_bytes,
    is_damaged,
    is_locked,
    open_error,
    remove_database,
)
from penstock._store.wal_truncation import WalTruncation

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from pathlib import Path

FILE = "turns.sqlite"
VERSION = 2  # of the tables and of `read_words`: a file of another version is emptied
MIN_TRIM = 8  # turns that are deleted at once to make room
MERGED_PAGES = 200  # of the index, after a deletion: they are written anew, before the old ones are freed
PAGE_SIZE = 4096
TURN_ERRORS = (zlib.error, msgspec.MsgspecError, ValueError, LookupError)
"""What a turn that is damaged raises, in a file that can be read."""
FILE_ERRORS = (sqlite3.Error, OSError, *TURN_ERRORS)
"""What a file that is damaged, locked or on a full disk raises."""
_TABLES = ("word_index", "paths", "nodes", "texts", "bodies", "turns", "missing_turns", "marks")
CACHE_SIZE = 16 * 1024  # KiB of pages that searches keep
# Turns that are too old. A turn from the future was written before the clock was set back: its age is not known. It
# goes with the first turn that was written after it and is too old. A clock that jumps back deletes nothing by itself;
# one that jumps ahead nothing until it is believed (`SettledClock`).
_OLD_TURNS = """
SELECT id, tenant FROM turns WHERE time < :oldest
    OR (time > :now AND number < (SELECT max(number) FROM turns WHERE time < :oldest))
"""
log = logging.getLogger("penstock.store")


class RemovedTurn(NamedTuple):
    """A turn that was deleted to make room."""

    id: str
    tenant: str
    reason: Literal["disk-age", "disk-full"]


class KeptTurnRow(msgspec.Struct, frozen=True):
    """A turn to write. `paths`: the texts of its request and answer, then those of each attempt's request.

    `cut`: they are only a part.
    """

    id: str
    tenant: str
    time: float
    body: bytes
    paths: list[list[TextPiece]]
    cut: bool = False


class KeptTurnStore:
    """The file. `size`: bytes of the file and its WAL, at most. `age`: seconds that a turn is kept."""

    def __init__(self, path: Path, *, size: int, age: float, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self.size: int = size
        self.age: float = age
        self.trim_problem: str = ""  # why old turns could not be deleted the last time
        self._clock = clock
        self._wal = path.with_name(f"{path.name}-wal")
        wal = min(WAL_SIZE, size // 16)
        self._wal_limit, self._limit = wal, max(size - 3 * wal - MERGED_PAGES * PAGE_SIZE, size // 2)
        self._write_lock, self._read_lock = threading.Lock(), threading.Lock()
        self._most_missing = min(MAX_MISSING_TURNS, size // BYTES_PER_MISSING_TURN)
        self._open()

    def _open(self) -> None:
        self._truncation = WalTruncation(self._wal)
        self._writer = connect(self.path)
        self._index, self._missing = TextIndex(self._writer), MissingTurnTable(self._writer, self._most_missing)
        self._settled_clock = SettledClock(self._writer, self._clock)
        try:
            self._create_tables()
            self._reader = connect(self.path)
            self._inode = self.path.stat().st_ino
        except sqlite3.Error as error:
            self._writer.close()
            raise open_error(self.path, error) from None
        except BaseException:
            self._writer.close()
            raise
        self._reader.execute(f"PRAGMA cache_size=-{CACHE_SIZE}")
        self._reading, self._reading_missing = TextIndex(self._reader), MissingTurnTable(self._reader)
        self._searches = SearchCache(self._reader, self._reading)

    def _create_tables(self) -> None:
        wal = self._wal_limit
        for setting in ("secure_delete=ON", f"journal_size_limit={wal}", f"wal_autocheckpoint={wal // 2 // PAGE_SIZE}"):
            self._writer.execute(f"PRAGMA {setting}")
        with self._writer:
            self._writer.execute("BEGIN IMMEDIATE")
            (found,) = self._writer.execute("PRAGMA user_version").fetchone()
            if found not in {0, VERSION}:
                for table in _TABLES:
                    self._writer.execute(f"DROP TABLE IF EXISTS {table}")
            _create_tables(self._writer)
            self._missing.create_tables(self._clock())
            if found != VERSION:
                invalidate_searches(self._writer)

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
                    self._index.add_turn(turn.id, turn.tenant, turn.time, turn.paths, turn.body, cut=turn.cut)
                self._index.rebuild_damaged_index()
            return self._trim()

    def trim(self) -> list[RemovedTurn]:
        """Deletes what is too old or too much. Returns what was deleted; `trim_problem` says what could not be."""
        with self._write_lock:
            return self._trim()

    def _trim(self) -> list[RemovedTurn]:
        removed: list[RemovedTurn] = []
        self.trim_problem = ""
        try:
            self._truncation.retry(self._writer)
            self._limit_wal()
            self._remove_old(removed)
            self._remove_excess(removed)
            self._limit_wal()
        except FILE_ERRORS as error:
            self.trim_problem = str(error)
        return removed

    def _remove_old(self, removed: list[RemovedTurn]) -> None:
        times = {"now": self._clock(), "oldest": self._settled_clock.read() - self.age}
        old = self._writer.execute(_OLD_TURNS, times).fetchall()
        self._remove([MissingTurn(name, "disk-age") for name, _ in old])
        removed += [RemovedTurn(name, tenant, "disk-age") for name, tenant in old]

    def _remove_excess(self, removed: list[RemovedTurn]) -> None:
        """Deletes the turns that were written first: the clock may have been set back since."""
        execute = self._writer.execute
        while count_used_bytes(self._writer) > self._limit:
            (count,) = execute("SELECT count(*) FROM turns").fetchone()
            if not count:
                return
            several = max(count // 50, min(MIN_TRIM, count // 8), 1)  # few, if they are large
            first = execute("SELECT id, tenant FROM turns ORDER BY number LIMIT ?", (several,)).fetchall()
            self._remove([MissingTurn(name, "disk-full") for name, _ in first])
            removed += [RemovedTurn(name, tenant, "disk-full") for name, tenant in first]
            self._merge_words()

    def _merge_words(self) -> None:
        """Frees what removed words take, until there is room: before, FTS5 only marks them as deleted.

        It is done in steps, as https://www.sqlite.org/fts5.html#the_merge_command says, so that the WAL stays small.
        """
        while count_used_bytes(self._writer) > self._limit:
            before = self._writer.total_changes
            self._writer.execute("INSERT INTO word_index (word_index, rank) VALUES ('merge', ?)", (-MERGED_PAGES,))
            merged = self._writer.total_changes - before
            self._writer.execute("PRAGMA incremental_vacuum").fetchall()
            self._limit_wal()
            if merged < 2:  # noqa: PLR2004 — nothing is left to merge
                return

    def _remove(self, missing: Collection[MissingTurn]) -> int:
        """Deletes turns, remembers why, and gives their pages back."""
        if not missing:
            return 0
        with self._writer:
            self._writer.execute("BEGIN IMMEDIATE")
            count = sum(self._index.remove_turn(one.id) for one in missing)
            self._index.rebuild_damaged_index()
            self._missing.add(missing, self._clock())
            self._writer.execute("INSERT INTO word_index (word_index, rank) VALUES ('merge', ?)", (MERGED_PAGES,))
        self._writer.execute("PRAGMA incremental_vacuum").fetchall()
        self._limit_wal()
        return count

    def _limit_wal(self) -> None:
        """Empties a WAL that has grown over its bound in one transaction, or that has freed pages of a large file."""
        with suppress(FileNotFoundError):
            if self._wal.stat().st_size > self._wal_limit or self.file_bytes > self.size:
                self._truncation.run(self._writer)

    def write_missing(self, missing: Collection[MissingTurn]) -> None:
        """Remembers why turns were not written, or are no longer in memory."""
        with self._write_lock, self._writer:
            self._writer.execute("BEGIN IMMEDIATE")
            self._missing.add(missing, self._clock())

    def delete_turns(self, ids: Collection[str] | None = None, tenant: str | None = None) -> dict[str, str]:
        """Deletes turns by their ids, or all; only those of `tenant`, if one is given. Returns their tenants by id.

        The words leave the index, and the bytes the file and its WAL; the WAL perhaps later (`may_hold_deleted`). A
        damaged file is emptied, if all are to go.
        """
        wanted: dict[str, str] = {}
        with self._write_lock:
            try:
                found = self._writer.execute("SELECT id, tenant FROM turns").fetchall()
                wanted = {one: owner for one, owner in found if (ids is None or one in ids) and tenant in {None, owner}}
                removed = self._remove([MissingTurn(name, DELETED) for name in wanted])
                if removed:
                    self._writer.execute("INSERT INTO word_index (word_index) VALUES ('optimize')")
                    self._writer.execute("PRAGMA incremental_vacuum").fetchall()
                if removed or self._truncation.is_pending:
                    self._truncation.run(self._writer)
            except FILE_ERRORS as error:
                if ids is not None or tenant is not None or is_locked(error):
                    raise
                log.warning("%s cannot be read or written (%s): it is emptied", self.path, error)
                self._empty([MissingTurn(name, DELETED) for name in wanted])
        return wanted

    @property
    def may_hold_deleted(self) -> bool:
        """True if deleted text may still be in the WAL, because of another connection's reader. `trim` tries again."""
        return self._truncation.is_pending

    # ── a damaged file ────────────────────────────────────────────────────────────────────────────

    def _empty(self, missing: Collection[MissingTurn]) -> None:
        """Replaces the content of the file by empty tables. If it is no database, the file itself is replaced."""
        with closing(connect()) as empty:
            store, now = MissingTurnTable(empty, self._most_missing), self._clock()
            _create_tables(empty)
            # Results of searches that other processes have are void: their last change is another one.
            empty.execute("INSERT INTO changes (number, id) VALUES (?, '')", (time.time_ns() // 1_000_000,))
            try:
                self._missing.copy_to(store, missing, now)
            except FILE_ERRORS:  # the reasons are lost, too
                store.create_tables(now)
            try:
                self._overwrite(empty)
            except FILE_ERRORS as error:
                if not is_damaged(error):
                    raise
                with self._read_lock:
                    self._reader.close()
                    self._writer.close()
                    remove_database(self.path)
                    self._open()

    def _overwrite(self, other: sqlite3.Connection) -> None:
        """Overwrites all pages by those of another database. Other connections of the file see that."""
        ends = time.monotonic() + LOCK_TIMEOUT

        def check_time(*_: int) -> None:  # a backup waits for locks without end
            if time.monotonic() > ends:
                raise TimeoutError(f"{self.path}: another process holds its lock")

        other.backup(self._writer, progress=check_time)
        self._truncation.run(self._writer)

    @property
    def is_replaced(self) -> bool:
        """True if the path names another file, or none: somebody has removed the file that is open here."""
        try:
            return self.path.stat().st_ino != self._inode
        except FileNotFoundError:
            return True
        except OSError:  # it cannot be looked at
            return False

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    def find_missing(self, id: str) -> MissingReason:
        """Returns why a turn is not in the file."""
        with self._read_lock:
            return self._reading_missing.find(id)

    def read_turn(self, id: str, tenant: str | None) -> tuple[bytes, list[list[TextPiece]]] | None:
        """Returns the body of a turn and the texts of its paths; None if there is no such turn."""
        with self._read_lock, self._reader:  # ends the transaction, in which all queries see the same state
            self._reader.execute("BEGIN")
            return self._reading.read_turn(id, tenant)

    def find_turns(self, phrase: str, tenant: str | None) -> frozenset[str]:
        """Returns the ids of turns that have these words in this order. `tenant`: whose turns; None means all."""
        with self._read_lock:
            return self._searches.find_turns(phrase, tenant)

    def find_cut_turns(self, tenant: str | None) -> Collection[str]:
        """Returns the ids of turns that are kept only in part: other words of them are not found."""
        with self._read_lock:
            return self._reading.find_cut_turns(tenant)

    def list_turns(self, limit: int, tenant: str | None = None) -> list[str]:
        """Returns the ids of the newest turns, of one tenant or all, the newest first."""
        where, values = ("", ()) if tenant is None else (" WHERE tenant = ?", (tenant,))
        query = f"SELECT id FROM turns{where} ORDER BY number DESC LIMIT ?"  # noqa: S608 — our own names
        with self._read_lock:
            rows = self._reader.execute(query, (*values, limit)).fetchall()
        return [str(row[0]) for row in rows]

    def list_tenants(self, limit: int) -> list[str]:
        """Returns the tenants of the newest turns, each once."""
        query = "SELECT DISTINCT tenant FROM (SELECT tenant FROM turns ORDER BY number DESC LIMIT ?)"
        with self._read_lock:
            return [str(row[0]) for row in self._reader.execute(query, (limit,)).fetchall()]

    def holds(self, id: str) -> bool:
        """True if a turn is in the file."""
        return bool(self.find_kept((id,)))

    def find_kept(self, ids: Collection[str]) -> frozenset[str]:
        """Returns those of some turns that are in the file."""
        query = "SELECT id FROM turns WHERE id IN (SELECT value FROM json_each(?))"
        with self._read_lock:
            return frozenset(str(row[0]) for row in self._reader.execute(query, (json.dumps([*ids]),)))

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


def _create_tables(connection: sqlite3.Connection) -> None:
    TextIndex(connection).create_tables()
    create_log(connection)
    connection.execute(f"PRAGMA user_version={VERSION}")
