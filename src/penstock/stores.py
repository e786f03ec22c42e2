"""Data that outlives a request: the Protocols of stores, and a store in memory.

Every key belongs to a tenant: no tenant ever sees rows of another. Values are bytes, so that any
database can hold them. The caller passes the clock.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

HOUR = 3600.0


class RowReader(Protocol):
    """What all stores have in common."""

    def get(self, tenant: str, keys: Iterable[str], /) -> dict[str, bytes]:
        """Returns the rows under these keys; unknown keys are left out."""
        ...


class RowStore(RowReader, Protocol):
    """A store that may forget rows, but must not mix tenants."""

    def put(self, tenant: str, rows: Mapping[str, bytes], /) -> None:
        """Keeps these rows; rows under the same keys are replaced."""
        ...


class CountStore(RowStore, Protocol):
    """Keeps counts of messages and known prefixes, by a digest of their content."""


class ReasoningStore(RowStore, Protocol):
    """Keeps the state of earlier turns for the next request.

    A store that reads a disk or a network also has `async def aget`, with the arguments and the result of `get`:
    clients and the gateway then await it, and never call `get`. `put` must not block.
    """


class ResponseCache(Protocol):
    """Keeps whole answers by the digest of their request, for as long as it likes.

    Clients call it on their event loop: a cache on a disk or in a network awaits it. An error counts as a miss.
    """

    async def get(self, tenant: str, key: str, /) -> bytes | None:
        """Returns the answer under a key; None if there is none, or if it has expired."""
        ...

    async def put(self, tenant: str, key: str, value: bytes, /) -> None:
        """Keeps an answer; one under the same key is replaced."""
        ...


class FactorStore(RowReader, Protocol):
    """Keeps correction factors, which several processes learn at once."""

    def update(self, tenant: str, key: str, change: Callable[[bytes | None], bytes], /) -> bytes:
        """Replaces a row by the result of `change`, and returns it. Nobody else changes the row in between."""
        ...


class Bounds(msgspec.Struct, frozen=True):
    """The limits of a store. Over its limit a tenant loses its oldest rows; over the total, the longest idle tenant."""

    rows: int = 5_000  # of one tenant
    size: int = 32 * 2**20  # bytes of one tenant
    total: int = 256 * 2**20  # bytes of all
    age: float = 24 * HOUR  # seconds since a row was last used


class _TenantRows:
    """The rows of one tenant; the row that was not used for the longest time comes first."""

    __slots__ = ("rows", "size")

    def __init__(self) -> None:
        self.rows: OrderedDict[str, tuple[float, bytes]] = OrderedDict()
        self.size = 0

    def put(self, key: str, value: bytes, now: float) -> int:
        """Keeps a row, and returns by how many bytes the size has grown."""
        freed = self.drop(key) if key in self.rows else 0
        self.rows[key] = (now, value)
        self.size += _row_size(key, value)
        return _row_size(key, value) - freed

    def drop(self, key: str) -> int:
        """Drops a row, and returns its size."""
        freed = _row_size(key, self.rows.pop(key)[1])
        self.size -= freed
        return freed

    def oldest(self) -> str:
        return next(iter(self.rows))


def _row_size(key: str, value: bytes) -> int:
    return len(key) + len(value)


class MemoryStore:
    """A store in memory. It forgets the least recently used rows first; reading a row counts as use.

    Examples:
        >>> import time
        >>> store = MemoryStore(time.monotonic)
        >>> store.put("team-a", {"key": b"value"})
        >>> store.get("team-a", ["key"]), store.get("team-b", ["key"])
        ({'key': b'value'}, {})
    """

    def __init__(self, clock: Callable[[], float], bounds: Bounds | None = None) -> None:
        self._clock = clock
        self._bounds = bounds or Bounds()
        self._tenants: OrderedDict[str, _TenantRows] = OrderedDict()  # the tenant idle longest first
        self.size: int = 0  # bytes of all tenants

    def __len__(self) -> int:
        return sum(len(tenant.rows) for tenant in self._tenants.values())

    def get(self, tenant: str, keys: Iterable[str], /) -> dict[str, bytes]:
        stored = self._tenants.get(tenant)
        if stored is None:
            return {}
        now = self._clock()
        self._expire(stored, now)
        self._tenants.move_to_end(tenant)
        found: dict[str, bytes] = {}
        for key in keys:
            row = stored.rows.get(key)
            if row is not None:
                found[key] = row[1]
                stored.rows[key] = (now, row[1])
                stored.rows.move_to_end(key)
        return found

    def put(self, tenant: str, rows: Mapping[str, bytes], /) -> None:
        now, bounds = self._clock(), self._bounds
        stored = self._tenants.setdefault(tenant, _TenantRows())
        self._tenants.move_to_end(tenant)
        self._expire(stored, now)
        for key, value in rows.items():
            if _row_size(key, value) <= min(bounds.size, bounds.total):
                self.size += stored.put(key, value, now)
        while len(stored.rows) > bounds.rows or stored.size > bounds.size:
            self._forget(tenant, stored)
        while self.size > bounds.total:
            idle = next(iter(self._tenants))
            self._forget(idle, self._tenants[idle])

    def update(self, tenant: str, key: str, change: Callable[[bytes | None], bytes], /) -> bytes:
        row = change(self.get(tenant, [key]).get(key))
        self.put(tenant, {key: row})
        return row

    def _expire(self, stored: _TenantRows, now: float) -> None:
        while stored.rows and now - stored.rows[stored.oldest()][0] > self._bounds.age:
            self.size -= stored.drop(stored.oldest())

    def _forget(self, tenant: str, stored: _TenantRows) -> None:
        """Drops a tenant's oldest row, and the tenant with its last one."""
        if stored.rows:
            self.size -= stored.drop(stored.oldest())
        if not stored.rows:
            del self._tenants[tenant]
