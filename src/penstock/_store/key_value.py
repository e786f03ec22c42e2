"""Rows of bytes by tenant and key in SQLite, bounded as `penstock.stores.Bounds` says: reasoning state, stored answers.

The same promises as the store in memory, across restarts. Writes go through a `Writer`; what it has not written yet is
found here. Reading a row is using it.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import msgspec

from penstock._lenient_fields import Object, get_text
from penstock.stores import Bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock._store.writer import SqliteWriter

TOUCH_INTERVAL = 60.0  # seconds within which another use of a row is not written down
CHECK_SHARE = 50  # a bound is looked at again after this part of it was written: to look is to count all rows
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


class SqliteKeyValueTable:
    """One table of rows. `clock` gives seconds since the epoch: rows are older than the process."""

    def __init__(
        self, writer: SqliteWriter, table: str, clock: Callable[[], float], bounds: Bounds | None = None
    ) -> None:
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
        stale = [str(key) for key, _, used in rows if now - cast("float", used) > TOUCH_INTERVAL]
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
        due = count * CHECK_SHARE >= self._bounds.rows or held * CHECK_SHARE >= most
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


T = TypeVar("T")


class KeyValueTable(Protocol):
    """Where rows are kept: a `ReasoningStore` that can also forget."""

    def get(self, tenant: str, keys: Iterable[str], /) -> dict[str, bytes]: ...
    def put(self, tenant: str, rows: Mapping[str, bytes], /) -> None: ...
    def drop(self, tenant: str, keys: Iterable[str], /) -> None: ...


class StoredTurn(msgspec.Struct):
    """One turn: its own input, and the response as its client saw it."""

    input: list[Any]
    response: Object


class ConversationPast(msgspec.Struct):
    """All that was said up to a point. `chain` are its rows; None where it is in no table."""

    items: list[Any]
    chain: tuple[str, ...] | None = ()


class _Head(msgspec.Struct):
    """A response by its id: the rows of the turns that led to it, its own last."""

    chain: tuple[str, ...]


_encode = msgspec.json.Encoder().encode
_decoders: dict[type, Callable[[bytes], Any]] = {
    kind: msgspec.json.Decoder(kind).decode for kind in (_Head, StoredTurn)
}


class StoredResponses:
    """The responses of all tenants. `mint` makes names for rows that nothing else is called by."""

    def __init__(self, rows: KeyValueTable, mint: Callable[[], str]) -> None:
        self._rows, self._mint = rows, mint

    def put(self, tenant: str, turn: StoredTurn, before: tuple[str, ...] = (), key: str = "") -> str:
        """Keep a turn that came after others. Gives the key of its row, under which it may be put again."""
        key = key or self._mint()
        rows = {_turn(key): _encode(turn), _head(turn.response["id"]): _encode(_Head((*before, key)))}
        rows |= {_item(name): key.encode() for name in _ids(turn.response.get("output"))}
        self._rows.put(tenant, rows)
        return key

    def get(self, tenant: str, id: str) -> StoredTurn | None:
        """A response, and the input that was its own."""
        chain = self._chain(tenant, id)
        return self._turns(tenant, chain[-1:])[0] if chain else None

    def past(self, tenant: str, id: str) -> ConversationPast | None:
        """All items up to the end of a response; None where any of them is not known."""
        chain = self._chain(tenant, id)
        turns = self._turns(tenant, chain)
        if not chain or None in turns:
            return None
        return ConversationPast([item for turn in turns if turn is not None for item in _said(turn)], chain)

    def asked(self, tenant: str, id: str) -> list[Any] | None:
        """The items that a response is an answer to: its own input, behind what is known of the turns before it."""
        turns = self._turns(tenant, self._chain(tenant, id))
        if not turns or turns[-1] is None:
            return None
        return [item for turn in turns[:-1] if turn is not None for item in _said(turn)] + turns[-1].input

    def items(self, tenant: str, ids: Iterable[str]) -> dict[str, Object]:
        """The items of earlier responses that have these ids."""
        keys = {name: row.decode() for name, row in self._rows.get(tenant, map(_item, ids)).items()}
        chain = tuple(dict.fromkeys(keys.values()))
        known = {
            _item(get_text(item, "id")): item
            for turn in self._turns(tenant, chain)
            if turn is not None
            for item in turn.response["output"]
        }
        return {get_text(known[name], "id"): known[name] for name in keys if name in known}

    def drop(self, tenant: str, id: str) -> bool:
        """Forget a response and what was said in it. Whether there was one."""
        chain = self._chain(tenant, id)
        turn = self._turns(tenant, chain[-1:])[0] if chain else None
        if turn is None:
            return False
        self._rows.drop(tenant, [_head(id), _turn(chain[-1]), *map(_item, _ids(turn.response.get("output")))])
        return True

    def _chain(self, tenant: str, id: str) -> tuple[str, ...]:
        head = _read(_Head, self._rows.get(tenant, [_head(id)]).get(_head(id)))
        return head.chain if head is not None else ()

    def _turns(self, tenant: str, chain: tuple[str, ...]) -> list[StoredTurn | None]:
        found = self._rows.get(tenant, [_turn(key) for key in chain]) if chain else {}
        return [_read(StoredTurn, found.get(_turn(key))) for key in chain]


def _head(id: str) -> str:
    return f"r:{id}"


def _turn(key: str) -> str:
    return f"t:{key}"


def _item(id: str) -> str:
    return f"i:{id}"


def _ids(output: Any) -> list[str]:
    return [item["id"] for item in output or () if isinstance(item.get("id"), str)]


def _said(turn: StoredTurn) -> list[Any]:
    return [*turn.input, *turn.response["output"]]


def _read(kind: type[T], row: bytes | None) -> T | None:
    """What stands in a row; one of another version, or damaged, is as good as forgotten."""
    try:
        made: T | None = None if row is None else _decoders[kind](row)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return made
