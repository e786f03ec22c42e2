"""Key-value tables, by tenant, limited by `penstock.stores.Bounds`: reasoning state, stored responses.

They work like the store in memory, but survive restarts. `SqliteKeyValueTable` is in SQLite, `PostgresKeyValueTable`
(`postgres_stores`) in PostgreSQL. A writer writes the rows; those that wait for it are also kept here
(`BufferedKeyValueTable`). To read a row counts as a use of it.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import msgspec

from penstock._lenient_fields import Object, get_text
from penstock._store.migrations import key_value_statements
from penstock.stores import Bounds, ReasoningStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock._store.sqlite_writer import SqliteWriter

TOUCH_INTERVAL = 60.0  # seconds in which another use of a row is not recorded
CHECK_SHARE = 50  # a bound is checked after a fiftieth of it was written: a check counts all rows
_BATCH = 200  # keys in a query, and rows that are deleted at once
_COUNTED_TENANTS = 10_000  # whose writes are counted
TOMBSTONE = b"\0"  # the value of a row that was buried
log = logging.getLogger("penstock.store")
_QUERIES = {
    "get": "SELECT key, value, used FROM {table} WHERE tenant = ? AND used >= ? AND key IN ",
    "count": "SELECT count(*) FROM {table}",
    "put": "INSERT OR REPLACE INTO {table} VALUES (?, ?, ?, ?, ?)",
    "guard": (
        "INSERT INTO {table} VALUES (?, ?, ?, ?, ?) ON CONFLICT (tenant, key) DO UPDATE "
        "SET value = excluded.value, used = excluded.used, size = excluded.size WHERE value <> ?"
    ),
    "drop": "DELETE FROM {table} WHERE tenant = ? AND key = ?",
    "touch": "UPDATE {table} SET used = ? WHERE tenant = ? AND key = ?",
    "expire": "DELETE FROM {table} WHERE used < ?",
    "measure": "SELECT count(*), coalesce(sum(size), 0) FROM {table} WHERE tenant = ?",
    "total": "SELECT coalesce(sum(size), 0) FROM {table}",
    "oldest": "SELECT key, size FROM {table} WHERE tenant = ? ORDER BY used, rowid LIMIT ?",
    "idle": "SELECT tenant FROM {table} GROUP BY tenant ORDER BY max(used) LIMIT 1",
}


class BufferedKeyValueTable:
    """What tables in databases have in common. `clock` returns seconds since the epoch: rows outlive the process."""

    def __init__(self, clock: Callable[[], float], bounds: Bounds | None = None) -> None:
        self._clock = clock
        self._bounds = bounds or Bounds()
        self._lock = threading.Lock()
        self._fresh: dict[tuple[str, str], bytes | None] = {}  # not written yet; None: deleted
        # Rows and bytes written since the last check; None: of all tenants.
        self._since: dict[str | None, tuple[int, int]] = {}

    def get(self, tenant: str, keys: Iterable[str], /) -> dict[str, bytes]:
        """Returns the rows with these keys; unknown keys are left out. Reads the file: not for the event loop."""
        found, missing = self._split_keys(tenant, keys)
        return {**found, **self._read_all(tenant, missing)}

    def put(self, tenant: str, rows: Mapping[str, bytes], /, guard: str = "") -> None:
        """Stores rows; rows with the same keys are replaced. A row that is larger than a bound is not stored.

        `guard` is the key of one of the rows: if any process has buried that row, none of them is stored.
        """
        limit = min(self._bounds.size, self._bounds.total)
        if fitting := {key: value for key, value in rows.items() if len(key) + len(value) <= limit}:
            self._change(tenant, fitting, guard if guard in fitting else "")

    def drop(self, tenant: str, keys: Iterable[str], /) -> None:
        """Deletes rows."""
        self._change(tenant, dict.fromkeys(keys))

    def bury(self, tenant: str, guard: str, keys: Iterable[str], /) -> None:
        """Deletes rows, and leaves a tombstone in the row `guard`: what another process still writes is not stored."""
        self._change(tenant, {**dict.fromkeys(keys), guard: TOMBSTONE})

    # ── what a database implements ────────────────────────────────────────────────────────────────

    def _read_all(self, tenant: str, keys: list[str]) -> dict[str, bytes]:
        """Returns rows of the database. Not for the event loop."""
        raise NotImplementedError

    def _submit(self, tenant: str, rows: Mapping[str, bytes | None], now: float, guard: str) -> bool:
        """Writes rows soon, then calls `_remove_fresh`. None deletes a row. False: there is no room."""
        raise NotImplementedError

    # ── rows that are not written yet ─────────────────────────────────────────────────────────────

    def _split_keys(self, tenant: str, keys: Iterable[str]) -> tuple[dict[str, bytes], list[str]]:
        """Returns the rows that are not written yet, and the other keys."""
        found: dict[str, bytes] = {}
        missing: list[str] = []
        with self._lock:
            for key in keys:
                if (tenant, key) not in self._fresh:
                    missing.append(key)
                elif (value := self._fresh[tenant, key]) is not None:
                    found[key] = value
        return found, missing

    def _change(self, tenant: str, rows: Mapping[str, bytes | None], guard: str = "") -> None:
        with self._lock:
            if guard and self._fresh.get((tenant, guard)) == TOMBSTONE:
                return
            self._fresh.update({(tenant, key): value for key, value in rows.items()})
        if not self._submit(tenant, rows, self._clock(), guard):
            self._remove_fresh(tenant, rows)

    def _remove_fresh(self, tenant: str, rows: Mapping[str, bytes | None]) -> None:
        """The file has these rows now. A newer value with the same key still waits."""
        with self._lock:
            for key, value in rows.items():
                if self._fresh.get((tenant, key), b"") is value:
                    del self._fresh[tenant, key]

    def _due(self, whose: str | None, rows: int, size: int, most: int) -> bool:
        """True if so much was written since the last check that a bound may be passed. The first call returns True."""
        count, held = self._since.get(whose, (self._bounds.rows, most))
        count, held = count + rows, held + size
        due = count * CHECK_SHARE >= self._bounds.rows or held * CHECK_SHARE >= most
        if len(self._since) > _COUNTED_TENANTS:
            self._since.clear()
        self._since[whose] = (0, 0) if due else (count, held)
        return due


class SqliteKeyValueTable(BufferedKeyValueTable):
    """One table in SQLite."""

    def __init__(
        self, writer: SqliteWriter, table: str, clock: Callable[[], float], bounds: Bounds | None = None
    ) -> None:
        super().__init__(clock, bounds)
        self._writer = writer
        self._sql = {name: query.format(table=table) for name, query in _QUERIES.items()}
        writer.create(";".join(key_value_statements(table)))

    async def aget(self, tenant: str, keys: Iterable[str], /) -> dict[str, bytes]:
        """Does the same for the event loop: a thread reads the file. A file that cannot be read counts as empty."""
        found, missing = self._split_keys(tenant, keys)
        if missing:
            try:
                found.update(await self._writer.in_thread(lambda: self._read_all(tenant, missing)))
            except sqlite3.Error as error:
                log.error("%s: the state of earlier turns cannot be read: %s", self._writer.path, error)  # noqa: TRY400
        return found

    def __len__(self) -> int:
        self._writer.flush()
        return int(cast("int", self._writer.read(self._sql["count"])[0][0]))

    def _read_all(self, tenant: str, keys: list[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for start in range(0, len(keys), _BATCH):
            found.update(self._read(tenant, keys[start : start + _BATCH]))
        return found

    def _read(self, tenant: str, keys: list[str]) -> dict[str, bytes]:
        now = self._clock()
        query = f"{self._sql['get']}({','.join('?' * len(keys))})"
        rows = self._writer.read(query, (tenant, now - self._bounds.age, *keys))
        stale = [str(key) for key, _, used in rows if now - cast("float", used) > TOUCH_INTERVAL]
        if stale:
            touched = [(now, tenant, key) for key in stale]

            def touch(database: sqlite3.Connection) -> None:
                database.executemany(self._sql["touch"], touched)

            self._writer.submit(touch)
        return {str(key): bytes(cast("bytes", value)) for key, value, _ in rows}

    def _submit(self, tenant: str, rows: Mapping[str, bytes | None], now: float, guard: str) -> bool:
        def job(database: sqlite3.Connection) -> Callable[[], None]:
            if not guard or self._write_guard(database, tenant, guard, rows[guard] or b"", now):
                self._write(database, tenant, rows, now)
            return lambda: self._remove_fresh(tenant, rows)

        return self._writer.submit(job)

    # ── in the writer's thread ────────────────────────────────────────────────────────────────────

    def _write_guard(self, database: sqlite3.Connection, tenant: str, key: str, value: bytes, now: float) -> bool:
        """Writes a row unless it is buried. Returns whether it was written."""
        values = (tenant, key, value, now, len(key) + len(value), TOMBSTONE)
        return database.execute(self._sql["guard"], values).rowcount > 0

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
            self._shrink_all(database)

    def _shrink_all(self, database: sqlite3.Connection) -> None:
        """Deletes rows of the tenants that are idle longest, until the total size is within its bound."""
        over = database.execute(self._sql["total"]).fetchone()[0] - self._bounds.total
        while over > 0:
            idle = database.execute(self._sql["idle"]).fetchone()[0]
            size = database.execute(self._sql["measure"], (idle,)).fetchone()[1]
            over -= self._shrink(database, idle, size - over, self._bounds.rows)

    def _shrink(self, database: sqlite3.Connection, tenant: str, size: int, rows: int) -> int:
        """Deletes the oldest rows of a tenant until it is within these bounds. Returns the bytes that are freed."""
        count, held = database.execute(self._sql["measure"], (tenant,)).fetchone()
        freed = 0
        while count > rows or held - freed > size:
            for key, weight in database.execute(self._sql["oldest"], (tenant, _BATCH)).fetchall():
                if count <= rows and held - freed <= size:
                    break
                database.execute(self._sql["drop"], (tenant, key))
                count, freed = count - 1, freed + weight
        return freed


T = TypeVar("T")


class KeyValueTable(ReasoningStore, Protocol):
    """A `ReasoningStore` that can delete rows for good."""

    def put(self, tenant: str, rows: Mapping[str, bytes], /, guard: str = "") -> None: ...

    def bury(self, tenant: str, guard: str, keys: Iterable[str], /) -> None: ...


ID_PREFIX = "resp_"  # before the id of a request


class StoredTurn(msgspec.Struct):
    """One turn: its own input items, and the response that the client got."""

    input: list[Any]
    response: Object

    def items(self) -> list[Any]:
        return [*self.input, *self.response["output"]]


class ConversationPast(msgspec.Struct):
    """The items of a conversation up to a response. `chain`: the keys of their rows; None if they are not stored."""

    items: list[Any]
    chain: tuple[str, ...] | None = ()


class _Head(msgspec.Struct):
    """The row of a response id: the keys of the turns that led to the response, its own last."""

    chain: tuple[str, ...]


_encode = msgspec.json.Encoder().encode
_decoders: dict[type, Callable[[bytes], Any]] = {
    kind: msgspec.json.Decoder(kind).decode for kind in (_Head, StoredTurn)
}


class StoredResponses:
    """The responses of all tenants. Rows: `r:<response id>`, `t:<turn>`, `i:<item id>`. `mint` creates turn keys."""

    def __init__(self, rows: KeyValueTable, mint: Callable[[], str]) -> None:
        self._rows, self._mint = rows, mint

    def put(self, tenant: str, turn: StoredTurn, before: tuple[str, ...] = (), key: str = "") -> str:
        """Stores a turn that follows others. Returns the key of its row; with that key it can be replaced.

        A response that was deleted stays deleted, on whatever replica that was.
        """
        key, head = key or self._mint(), f"r:{turn.response['id']}"
        rows = {f"t:{key}": _encode(turn), head: _encode(_Head((*before, key)))}
        rows |= {name: key.encode() for name in _item_keys(turn)}
        self._rows.put(tenant, rows, guard=head)
        return key

    def get(self, tenant: str, id: str) -> StoredTurn | None:
        """Returns a response and its own input."""
        return next(iter(self._turns(tenant, self._chain(tenant, id)[-1:])), None)

    def past(self, tenant: str, id: str) -> ConversationPast | None:
        """Returns all items up to the end of a response; None if any of them is not known."""
        chain = self._chain(tenant, id)
        turns = self._turns(tenant, chain)
        if not chain or None in turns:
            return None
        return ConversationPast([item for turn in turns if turn is not None for item in turn.items()], chain)

    def input_items(self, tenant: str, id: str) -> list[Any] | None:
        """Returns the items that a response answers: its own input, after what is known of the turns before it."""
        turns = self._turns(tenant, self._chain(tenant, id))
        if not turns or turns[-1] is None:
            return None
        return [item for turn in turns[:-1] if turn is not None for item in turn.items()] + turns[-1].input

    def items(self, tenant: str, ids: Iterable[str]) -> dict[str, Object]:
        """Returns the items of earlier responses by id."""
        wanted = list(ids)
        rows = self._rows.get(tenant, [f"i:{id}" for id in wanted])  # noqa: A001
        turns = self._turns(tenant, tuple(dict.fromkeys(row.decode() for row in rows.values())))
        known = {get_text(item, "id"): item for turn in turns if turn is not None for item in turn.response["output"]}
        return {id: known[id] for id in wanted if id in known}  # noqa: A001

    def drop(self, tenant: str, id: str, *, exists: bool = False) -> bool:
        """Deletes a response and its items. False if there is none.

        `exists`: there is one, even if another replica has not written it yet. The key of its turn is then its id
        without the prefix.
        """
        head = f"r:{id}"
        row = self._rows.get(tenant, [head]).get(head)
        if row == TOMBSTONE:
            return False
        chain = self._chain(tenant, id)
        turn = next(iter(self._turns(tenant, chain[-1:])), None)
        if turn is None and not exists:
            return False
        turns = {f"t:{key}" for key in (*chain[-1:], id.removeprefix(ID_PREFIX))}
        self._rows.bury(tenant, head, [*turns, *(_item_keys(turn) if turn is not None else ())])
        return turn is not None

    def _chain(self, tenant: str, id: str) -> tuple[str, ...]:
        head = _read(_Head, self._rows.get(tenant, [f"r:{id}"]).get(f"r:{id}"))
        return head.chain if head is not None else ()

    def _turns(self, tenant: str, chain: tuple[str, ...]) -> list[StoredTurn | None]:
        rows = self._rows.get(tenant, [f"t:{key}" for key in chain]) if chain else {}
        return [_read(StoredTurn, rows.get(f"t:{key}")) for key in chain]


def _item_keys(turn: StoredTurn) -> list[str]:
    output: list[Any] = turn.response.get("output") or []
    return [f"i:{item['id']}" for item in output if isinstance(item.get("id"), str)]


def _read(kind: type[T], row: bytes | None) -> T | None:
    """Returns the content of a row; None if there is no row, or if it is damaged or of another version."""
    try:
        content: T | None = None if row is None else _decoders[kind](row)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return content
