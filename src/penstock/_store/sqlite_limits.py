"""A store of limits in a SQLite file, for all processes of one machine.

Each call is one short transaction (`BEGIN IMMEDIATE`) in a thread. Commits survive the end of the process, `kill -9`
included; see `penstock._store.sqlite_writer` for power cuts. Make the store in the process that uses it: a connection
does not survive a fork.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import msgspec

from penstock._store.limit_delivery import SettlementQueue
from penstock._store.limit_store import (
    LEASE,
    NEVER,
    RESERVATION_SECONDS,
    SECOND,
    SLOT_WAIT,
    Amounts,
    Counting,
    LimitRefusal,
    LimitRule,
    StoreUnavailable,
    bound_amounts,
    check_reservation,
    counting_of,
    longest_wait,
)
from penstock._store.sqlite import connect, error_code

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from penstock._store.limit_delivery import Settlement

T = TypeVar("T")
# A charge of a reservation: how it is counted, its kind, its bucket, the amount.
Charge: TypeAlias = tuple[Counting, str, int, int]
TIMEOUT = 1.0  # seconds for a call, with all waiting for locks
RETRY_DELAYS = (0.0005, 0.003)  # seconds until the next attempt to get the lock: others hold it for less than that
SWEEP_INTERVAL = 30.0  # seconds until rows that count no more are removed
SWEEP_ROWS = 500  # of each table at a time
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_TABLES = (
    """CREATE TABLE IF NOT EXISTS limit_counters (
        name TEXT PRIMARY KEY, total INTEGER NOT NULL, oldest INTEGER NOT NULL, latest INTEGER NOT NULL,
        expires INTEGER NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS limit_buckets (
        name TEXT NOT NULL, number INTEGER NOT NULL, amount INTEGER NOT NULL, PRIMARY KEY (name, number)
        ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS limit_reservations (
        id TEXT PRIMARY KEY, charges BLOB NOT NULL, expires INTEGER NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS limit_slots (
        id TEXT NOT NULL, name TEXT NOT NULL, ends INTEGER NOT NULL, PRIMARY KEY (id, name)) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS limit_slots_of ON limit_slots (name, ends)",
    "CREATE INDEX IF NOT EXISTS limit_counters_expire ON limit_counters (expires)",
    "CREATE INDEX IF NOT EXISTS limit_reservations_expire ON limit_reservations (expires)",
)
log = logging.getLogger("penstock.store")
_encode_charges = msgspec.msgpack.Encoder().encode
_decode_charges = msgspec.msgpack.Decoder(list[tuple[Counting, str, int, int]]).decode


class SqliteLimitStore:
    """A `LimitStore` in a SQLite file: one of its own, or one with other tables. `clock`: seconds since the epoch.

    While the file is locked by others or cannot be written, calls fail and settlements wait.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time, *, timeout: float = TIMEOUT) -> None:
        self.path = path
        self._clock, self._timeout = clock, timeout
        self._queue = SettlementQueue(str(path), self._deliver)
        self._thread = ThreadPoolExecutor(1, f"penstock-limits-{path.name}")
        # Used in the thread only.
        self._database: sqlite3.Connection | None = None
        self._inode = 0
        self._swept_at = 0.0

    @property
    def lost(self) -> int:
        return self._queue.lost

    async def reserve(
        self,
        id: str,
        rules: Sequence[LimitRule],
        amounts: Amounts,
        lease: float = LEASE,
        used: dict[LimitRule, int] | None = None,
    ) -> LimitRefusal | None:
        checked = check_reservation(id, rules)
        if not checked:
            return None
        asked = bound_amounts(amounts)
        work = partial(_reserve, id=id, rules=checked, asked=asked, lease=int(lease * SECOND), counted=used)
        try:
            return await self._run(work)
        except StoreUnavailable:
            self._queue.note_unsure(id, list(checked.values()))
            raise

    async def settle_reservation(self, id: str, amounts: Amounts) -> None:
        settlement = self._queue.take(id, amounts)
        try:
            await self._run(partial(_write_settlement, settlement=settlement))
        except StoreUnavailable:
            self._queue.add(settlement)

    async def renew(self, ids: Sequence[str], lease: float = LEASE) -> None:
        await self._run(partial(_renew, ids=ids, lease=int(lease * SECOND)))

    async def usage(self, rules: Sequence[LimitRule]) -> list[int]:
        return await self._run(partial(_read_usage, rules=rules))

    async def aclose(self) -> None:
        await self._queue.aclose()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown()

    async def _run(self, work: Callable[[sqlite3.Connection, int], T]) -> T:
        self._queue.check()
        try:
            return await self._in_thread(work)
        except StoreUnavailable as error:
            self._queue.mark_away(error)
            raise

    async def _in_thread(self, work: Callable[[sqlite3.Connection, int], T]) -> T:
        ends = time.monotonic() + self._timeout  # from now: calls before this one may have to wait for a lock, too
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._transact, work, ends)

    async def _deliver(self, settlements: Sequence[Settlement]) -> None:
        def work(database: sqlite3.Connection, now: int) -> None:
            for settlement in settlements:
                _write_settlement(database, now, settlement=settlement)

        await self._in_thread(work)

    # ── in the thread ─────────────────────────────────────────────────────────────────────────────

    def _transact(self, work: Callable[[sqlite3.Connection, int], T], ends: float) -> T:
        try:
            return self._commit(work, ends)
        except sqlite3.Error as error:
            if error_code(error) not in _BUSY:
                self._close()
            raise StoreUnavailable(f"{self.path}: limits cannot be counted: {error}") from None
        except OSError as error:
            raise StoreUnavailable(f"limits cannot be counted: {error}") from None

    def _commit(self, work: Callable[[sqlite3.Connection, int], T], ends: float) -> T:
        database = self._open()
        self._begin(database, ends)
        with database:  # commits, or rolls back after an error
            now = int(self._clock() * SECOND)
            result = work(database, now)
            if time.monotonic() - self._swept_at > SWEEP_INTERVAL:
                self._sweep(database, now)
        return result

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            database = connect(self.path, timeout=self._timeout)
            try:
                for statement in _TABLES:
                    database.execute(statement)
                database.execute("PRAGMA busy_timeout=0")  # `_begin` waits: SQLite's own pauses grow to 100 ms
                self._inode = _inode(self.path)
            except BaseException:
                database.close()
                raise
            self._database = database
        return self._database

    def _begin(self, database: sqlite3.Connection, ends: float) -> None:
        while True:
            try:
                database.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if error_code(error) not in _BUSY or time.monotonic() >= ends:
                    raise
                time.sleep(random.uniform(*RETRY_DELAYS))  # noqa: S311 — no secret
            else:
                return

    def _sweep(self, database: sqlite3.Connection, now: int) -> None:
        """Removes some of what counts no more. Checks the file, by its name only: see `penstock._store.sqlite`."""
        self._swept_at = time.monotonic()
        if _inode(self.path) != self._inode:
            log.error("%s was moved, replaced or deleted while it is in use: restart all penstock processes", self.path)
        for id_row in database.execute(
            "SELECT id FROM limit_reservations WHERE expires <= ? LIMIT ?", (now, SWEEP_ROWS)
        ).fetchall():
            database.execute("DELETE FROM limit_reservations WHERE id = ?", id_row)
            database.execute("DELETE FROM limit_slots WHERE id = ?", id_row)
        for name_row in database.execute(
            "SELECT name FROM limit_counters WHERE expires <= ? LIMIT ?", (now, SWEEP_ROWS)
        ).fetchall():
            _drop_counter(database, *name_row)

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None


def _inode(path: Path) -> int:
    """Returns the inode of a file; 0 if there is none."""
    try:
        return os.stat(path).st_ino  # noqa: PTH116 — opens nothing
    except OSError:
        return 0


# ── inside a transaction: a database, and the time in microseconds ────────────────────────────────


def _reserve(
    database: sqlite3.Connection,
    now: int,
    *,
    id: str,
    rules: Mapping[Counting, LimitRule],
    asked: Mapping[str, int],
    lease: int,
    counted: dict[LimitRule, int] | None = None,
) -> LimitRefusal | None:
    if _find_charges(database, now, id) is not None:
        return None
    charges: list[Charge] = []
    refusals: list[LimitRefusal] = []
    found: dict[LimitRule, int] = {}
    for counting, rule in rules.items():
        number, used = _count(database, now, counting, rule)
        amount = asked[rule.kind]
        charges.append((counting, rule.kind, number, amount))
        found[rule] = used + amount
        if amount and used + amount > rule.most:
            refusals.append(LimitRefusal(rule, used, _wait_for(database, now, counting, rule, used, amount)))
    if refusals:
        return longest_wait(refusals)
    for counting, kind, number, amount in charges:
        if kind == "concurrent":
            database.execute("REPLACE INTO limit_slots VALUES (?, ?, ?)", (id, counting.name, now + lease))
        else:
            _add(database, now, counting, number, amount)
    _write_reservation(database, now, id, charges)
    if counted is not None:
        counted.update(found)
    return None


def _write_settlement(database: sqlite3.Connection, now: int, *, settlement: Settlement) -> None:
    actual = bound_amounts(settlement.amounts)
    charges = _find_charges(database, now, settlement.id)
    if charges is None:  # no rules: an unknown id. Else the reservation could not be made
        for rule in settlement.rules:
            counting = counting_of(rule)
            if rule.kind != "concurrent":
                _add(database, now, counting, _advance(database, now, counting)[0], actual[rule.kind])
        return
    database.execute("DELETE FROM limit_reservations WHERE id = ?", (settlement.id,))
    database.execute("DELETE FROM limit_slots WHERE id = ?", (settlement.id,))
    for counting, kind, number, reserved in charges:
        if kind != "concurrent":
            current, difference = _advance(database, now, counting)[0], actual[kind] - reserved
            _add(database, now, counting, current if difference > 0 else number, difference)


def _renew(database: sqlite3.Connection, now: int, *, ids: Sequence[str], lease: int) -> None:
    values = [(now + RESERVATION_SECONDS * SECOND, name, now) for name in ids]
    database.executemany("UPDATE limit_reservations SET expires = ? WHERE id = ? AND expires > ?", values)
    database.executemany(
        "UPDATE limit_slots SET ends = ? WHERE id = ? "
        "AND EXISTS (SELECT 1 FROM limit_reservations AS open WHERE open.id = limit_slots.id AND open.expires > ?)",
        [(now + lease, name, now) for name in ids],
    )


def _read_usage(database: sqlite3.Connection, now: int, *, rules: Sequence[LimitRule]) -> list[int]:
    return [_count(database, now, counting_of(rule), rule)[1] for rule in rules]


def _find_charges(database: sqlite3.Connection, now: int, id: str) -> list[Charge] | None:
    row = database.execute("SELECT charges FROM limit_reservations WHERE id = ? AND expires > ?", (id, now)).fetchone()
    return _decode_charges(row[0]) if row is not None else None


def _write_reservation(database: sqlite3.Connection, now: int, id: str, charges: list[Charge]) -> None:
    row = (id, _encode_charges(charges), now + RESERVATION_SECONDS * SECOND)
    database.execute("REPLACE INTO limit_reservations VALUES (?, ?, ?)", row)


def _count(database: sqlite3.Connection, now: int, counting: Counting, rule: LimitRule) -> tuple[int, int]:
    """Returns the current bucket and what is used."""
    if rule.kind != "concurrent":
        return _advance(database, now, counting)
    query = "SELECT count(*) FROM limit_slots WHERE name = ? AND ends > ?"
    return 0, int(database.execute(query, (counting.name, now)).fetchone()[0])


def _advance(database: sqlite3.Connection, now: int, counting: Counting) -> tuple[int, int]:
    """Drops what has left the window. Returns the current bucket and the sum. As `WindowCounter.advance`."""
    number = now // counting.width if counting.width else 0
    query = "SELECT total, oldest, latest FROM limit_counters WHERE name = ?"
    row = database.execute(query, (counting.name,)).fetchone()
    if row is None:
        return number, 0
    total, oldest, latest = row
    if abs(latest - number) > counting.span:  # nothing counts any more, or the clock went back
        _drop_counter(database, counting.name)
        return number, 0
    number = max(number, latest)
    first = number - counting.span
    if oldest < first:
        values = (counting.name, first)
        query = "SELECT total(amount) FROM limit_buckets WHERE name = ? AND number < ?"
        total -= int(database.execute(query, values).fetchone()[0])
        database.execute("DELETE FROM limit_buckets WHERE name = ? AND number < ?", values)
        query = "SELECT min(number) FROM limit_buckets WHERE name = ?"
        oldest = database.execute(query, (counting.name,)).fetchone()[0]
        query = "UPDATE limit_counters SET total = ?, oldest = ? WHERE name = ?"
        database.execute(query, (total, number if oldest is None else oldest, counting.name))
    return number, total


def _add(database: sqlite3.Connection, now: int, counting: Counting, number: int, amount: int) -> None:
    """Adds to a bucket. A negative amount only to one that still counts."""
    query = "SELECT amount FROM limit_buckets WHERE name = ? AND number = ?"
    row = database.execute(query, (counting.name, number)).fetchone()
    count = row[0] if row is not None else 0
    change = max(amount, -count)
    if not change:
        return
    if count + change:
        values = (counting.name, number, count + change)
        database.execute("REPLACE INTO limit_buckets VALUES (?, ?, ?)", values)
    else:
        database.execute("DELETE FROM limit_buckets WHERE name = ? AND number = ?", (counting.name, number))
    database.execute(
        "INSERT INTO limit_counters VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET total = total + ?, "
        "latest = max(latest, excluded.latest), expires = max(expires, excluded.expires)",
        (counting.name, change, number, number, now + counting.keep * SECOND, change),
    )


def _wait_for(
    database: sqlite3.Connection, now: int, counting: Counting, rule: LimitRule, used: int, amount: int
) -> float:
    """Returns the seconds until an amount fits. As `WindowCounter.seconds_until`."""
    if rule.kind == "concurrent":
        return SLOT_WAIT if rule.most else NEVER
    if amount > rule.most or not counting.width:
        return NEVER
    excess = used + amount - rule.most
    query = "SELECT number, amount FROM limit_buckets WHERE name = ? ORDER BY number"
    for number, count in database.execute(query, (counting.name,)):
        excess -= count
        if excess <= 0:
            return float(max((number + 1 + counting.span) * counting.width - now, 1) / SECOND)
    return NEVER


def _drop_counter(database: sqlite3.Connection, name: str) -> None:
    database.execute("DELETE FROM limit_buckets WHERE name = ?", (name,))
    database.execute("DELETE FROM limit_counters WHERE name = ?", (name,))
