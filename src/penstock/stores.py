"""What must outlive a request: the Protocols of stores, and the one that keeps things in memory.

Every key is looked up under a tenant first: no tenant ever sees what another one put in. Values are bytes, so that any
database can hold them. The clock is given, not read.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

HOUR = 3600.0


class ReasoningStore(Protocol):
    """Where the state of earlier turns waits for the next request. Forgetting is allowed; mixing tenants is not.

    A store that reads a disk or a network has `async def aget` besides, with the arguments and the result of `get`:
    clients and the gateway then await it, and never call `get`. `put` must not block.
    """

    def get(self, tenant: str, keys: Iterable[str], /) -> dict[str, bytes]:
        """What is known under these keys; those unknown are not in it."""
        ...

    def put(self, tenant: str, rows: Mapping[str, bytes], /) -> None:
        """Keep these rows; what was there under the same keys is replaced."""
        ...


class CountStore(Protocol):
    """Where counts of messages and known prefixes wait, by a digest of their content. Forgetting is allowed."""

    def get(self, tenant: str, keys: Iterable[str], /) -> dict[str, bytes]:
        """What is known under these keys; those unknown are not in it."""
        ...

    def put(self, tenant: str, rows: Mapping[str, bytes], /) -> None:
        """Keep these rows; what was there under the same keys is replaced."""
        ...


class FactorStore(Protocol):
    """Where correction factors are learned, by several processes at once."""

    def get(self, tenant: str, keys: Iterable[str], /) -> dict[str, bytes]:
        """What is known under these keys; those unknown are not in it."""
        ...

    def update(self, tenant: str, key: str, change: Callable[[bytes | None], bytes], /) -> bytes:
        """Replace a row by what `change` makes of it; nobody else changes it in between. Gives the new row."""
        ...


class Bounds(msgspec.Struct, frozen=True):
    """How much is kept. A tenant over its bounds loses its own oldest rows; over all, the tenant idle longest loses."""

    rows: int = 5_000  # of one tenant
    size: int = 32 * 2**20  # bytes of one tenant
    total: int = 256 * 2**20  # bytes of all
    age: float = 24 * HOUR  # seconds since a row was last used


class _Shelf:
    """The rows of one tenant, the one unused longest first."""

    __slots__ = ("rows", "size")

    def __init__(self) -> None:
        self.rows: OrderedDict[str, tuple[float, bytes]] = OrderedDict()
        self.size = 0

    def put(self, key: str, value: bytes, now: float) -> int:
        """Keep a row; gives how many bytes more there are."""
        grown = -self.drop(key)
        self.rows[key] = (now, value)
        self.size += _weight(key, value)
        return grown + _weight(key, value)

    def drop(self, key: str) -> int:
        row = self.rows.pop(key, None)
        freed = 0 if row is None else _weight(key, row[1])
        self.size -= freed
        return freed

    def oldest(self) -> str:
        return next(iter(self.rows))


def _weight(key: str, value: bytes) -> int:
    return len(key) + len(value)


class MemoryStore:
    """Rows in memory, the least recently used forgotten first. Reading a row is using it."""

    def __init__(self, clock: Callable[[], float], bounds: Bounds | None = None) -> None:
        self._clock = clock
        self._bounds = bounds or Bounds()
        self._shelves: OrderedDict[str, _Shelf] = OrderedDict()  # the tenant idle longest first
        self.size: int = 0  # bytes of all tenants

    def __len__(self) -> int:
        return sum(len(shelf.rows) for shelf in self._shelves.values())

    def get(self, tenant: str, keys: Iterable[str], /) -> dict[str, bytes]:
        shelf = self._shelves.get(tenant)
        if shelf is None:
            return {}
        now = self._clock()
        self._expire(shelf, now)
        self._shelves.move_to_end(tenant)
        found: dict[str, bytes] = {}
        for key in keys:
            row = shelf.rows.get(key)
            if row is not None:
                found[key] = row[1]
                shelf.rows[key] = (now, row[1])
                shelf.rows.move_to_end(key)
        return found

    def put(self, tenant: str, rows: Mapping[str, bytes], /) -> None:
        now, bounds = self._clock(), self._bounds
        shelf = self._shelves.setdefault(tenant, _Shelf())
        self._shelves.move_to_end(tenant)
        self._expire(shelf, now)
        for key, value in rows.items():
            if _weight(key, value) <= min(bounds.size, bounds.total):
                self.size += shelf.put(key, value, now)
        while len(shelf.rows) > bounds.rows or shelf.size > bounds.size:
            self._forget(tenant, shelf)
        while self.size > bounds.total:
            idle = next(iter(self._shelves))
            self._forget(idle, self._shelves[idle])

    def update(self, tenant: str, key: str, change: Callable[[bytes | None], bytes], /) -> bytes:
        row = change(self.get(tenant, [key]).get(key))
        self.put(tenant, {key: row})
        return row

    def _expire(self, shelf: _Shelf, now: float) -> None:
        while shelf.rows and now - shelf.rows[shelf.oldest()][0] > self._bounds.age:
            self.size -= shelf.drop(shelf.oldest())

    def _forget(self, tenant: str, shelf: _Shelf) -> None:
        """Drop a tenant's oldest row, and the tenant with its last."""
        if shelf.rows:
            self.size -= shelf.drop(shelf.oldest())
        if not shelf.rows:
            del self._shelves[tenant]
