"""Caches of whole answers: in memory, and in a SQLite file that several processes share. And the key of an answer.

`response_key` is a digest of everything that decides what a provider is asked: the canonical request, the targets and
their settings, the options of the call, and the tenant. It leaves out what does not: whether the answer is streamed,
ids, marks for the provider's prompt cache, labels for the provider's dashboard.
"""

from __future__ import annotations

import struct
import threading
import time
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import msgspec

from penstock._store.key_value import SqliteKeyValueTable
from penstock._store.sqlite_writer import SqliteWriter
from penstock.errors import InputError
from penstock.stores import HOUR, Bounds, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.request import Request

VERSION = 1  # of the key and of the rows: another version never finds the rows of this one
DEFAULT_TTL = 24 * HOUR
MEMORY_SIZE = 64 * 2**20  # bytes
SQLITE_SIZE = 512 * 2**20  # bytes
DEFAULT_ROWS = 100_000
_TABLE = "answers"
_STAMP = struct.Struct(">d")  # before each value: when it was stored, in seconds since the epoch
# Fields of a request that do not change the answer.
_UNUSED_FIELDS = ("stream", "usage", "diagnostics")
_UNUSED_SETTINGS = ("metadata", "cache_key", "store")
# How a client has written a request, kept under `_` for its own protocol: empty fields, ids, a text instead of a list.
_SPELLING = frozenset("also read string head count streamed chat model".split())


class MemoryCache:
    """A `ResponseCache` in memory. Answers expire `ttl` seconds after they were stored; the least used go first.

    `size` is in bytes, `rows` a number of answers. Threads may share it.
    """

    def __init__(
        self,
        *,
        ttl: float = DEFAULT_TTL,
        size: int = MEMORY_SIZE,
        rows: int = DEFAULT_ROWS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._ttl, self._clock = check_bounds(ttl, size, rows), clock
        self._store = MemoryStore(clock, Bounds(rows=rows, size=size, total=size, age=ttl))
        self._lock = threading.Lock()

    async def get(self, tenant: str, key: str, /) -> bytes | None:
        with self._lock:
            row = self._store.get(tenant, [key]).get(key)
        return _read_row(row, self._clock() - self._ttl)

    async def put(self, tenant: str, key: str, value: bytes, /) -> None:
        with self._lock:
            self._store.put(tenant, {key: _STAMP.pack(self._clock()) + value})

    def __len__(self) -> int:
        return len(self._store)


class SqliteCache:
    """A `ResponseCache` in a SQLite file. Any number of processes may use the file at the same time.

    A thread reads and another one writes, so that no call waits for the disk. An answer is in the file a quarter of a
    second after it was stored. Call `close` at the end; a process that ends without it still writes what waits.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        ttl: float = DEFAULT_TTL,
        size: int = SQLITE_SIZE,
        rows: int = DEFAULT_ROWS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._ttl, self._clock = check_bounds(ttl, size, rows), clock
        self._writer = SqliteWriter(Path(path))
        try:
            bounds = Bounds(rows=rows, size=size, total=size, age=ttl)
            self._rows = SqliteKeyValueTable(self._writer, _TABLE, clock, bounds)
        except BaseException:
            self._writer.close()
            raise

    async def get(self, tenant: str, key: str, /) -> bytes | None:
        row = (await self._rows.aget(tenant, [key])).get(key)
        return _read_row(row, self._clock() - self._ttl)

    async def put(self, tenant: str, key: str, value: bytes, /) -> None:
        self._rows.put(tenant, {key: _STAMP.pack(self._clock()) + value})

    def __len__(self) -> int:
        return len(self._rows)

    def flush(self) -> bool:
        """Waits until everything is written. False if it is not: the disk is too slow, or cannot be written."""
        return self._writer.flush()

    def close(self) -> None:
        """Writes what waits and closes the file."""
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check_bounds(ttl: float, size: int, rows: int) -> float:
    """Returns the time to live. Raises if a bound is not a positive number."""
    for name, value in (("ttl", ttl), ("size", size), ("rows", rows)):
        number: Any = value
        kinds = (int, float) if name == "ttl" else (int,)
        if type(number) not in kinds or not 0 < number < inf:
            expected = "seconds above 0" if name == "ttl" else "a whole number above 0"
            raise InputError(f"response cache: {name}: expected {expected}, found {value!r}")
    return ttl


def _read_row(row: bytes | None, oldest: float) -> bytes | None:
    """Returns the value of a row; None if it is missing, expired or damaged."""
    if row is None or len(row) < _STAMP.size or _STAMP.unpack_from(row)[0] <= oldest:
        return None
    return row[_STAMP.size :]


# ── the key ───────────────────────────────────────────────────────────────────────────────────────

_encode = msgspec.json.Encoder().encode


def response_key(request: Request, settings: Mapping[str, Any], tenant: str = "") -> str:
    """Returns the key of a request; empty if it cannot be cached, because a value has no canonical form.

    `settings` is everything besides the request that decides what is sent: the operation, the targets, options. The
    order of the keys in JSON Schemas counts: models write fields in that order.
    """
    try:
        fields = msgspec.to_builtins(request)
        _strip_request(fields)
        text = _encode([VERSION, tenant, fields, msgspec.to_builtins(settings)])
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return ""
    return sha256(text).hexdigest()


def _strip_request(fields: dict[str, Any]) -> None:
    """Removes what does not change the answer. Call ids are random: each is replaced by its number."""
    for name in _UNUSED_FIELDS:
        fields.pop(name, None)
    for name in _UNUSED_SETTINGS:
        fields.get("settings", {}).pop(name, None)
    _strip_spelling(fields)
    for tool in fields.get("tools", ()):
        tool.pop("cache", None)
        _strip_spelling(tool)
    numbers: dict[str, str] = {}
    for message in fields.get("messages", ()):
        _strip_spelling(message)
        for part in message.get("parts", ()):
            _strip_part(part, numbers)


def _strip_part(part: dict[str, Any], numbers: dict[str, str]) -> None:
    part.pop("cache", None)
    part.pop("item", None)
    _strip_spelling(part)
    ids = {"call": ("id",), "result": ("call",), "ask": ("call", "id")}.get(part["type"], ())
    for name in ids:
        if part.get(name):
            part[name] = numbers.setdefault(part[name], f"#{len(numbers)}")
    for inner in part.get("content", ()) if part["type"] == "result" else ():
        _strip_part(inner, numbers)


def _strip_spelling(fields: dict[str, Any]) -> None:
    """Removes how something was written, so that clients of all protocols have the same key."""
    extra: dict[str, dict[str, Any]] = fields.pop("extra", None) or {}
    for protocol, own in extra.items():
        spelling = cast("dict[str, Any]", own.get("_") or {})
        rest = {name: spelling[name] for name in spelling if name not in _SPELLING}
        kept: dict[str, Any] = {**{name: own[name] for name in own if name != "_"}, **({"_": rest} if rest else {})}
        if kept:
            fields.setdefault("extra", {})[protocol] = kept
