"""Idle upstream connections of one event loop: reused newest first, closed when they are too old or too many.

One timer for all of them. It may run on for a while when nothing is idle: to stop and start one for every request would
cost more than anything else here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Hashable

IDLE_SECONDS = 60.0
MAX_IDLE = 512  # over all addresses; beyond that the one idle longest is closed


class IdleConnection(Protocol):
    """What is asked of a connection here. `since`: when it became idle, by the loop's clock."""

    since: float

    def close(self) -> None: ...


C = TypeVar("C", bound=IdleConnection)


class IdleConnections(Generic[C]):
    """The idle connections by address. Not for threads: everything happens in the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float = 0.0, limit: int = 0) -> None:
        self._loop = loop
        self._seconds, self._limit = seconds or IDLE_SECONDS, limit or MAX_IDLE
        self._by_address: dict[Hashable, dict[C, None]] = {}
        self._oldest_first: dict[C, Hashable] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._oldest_first)

    @property
    def has_timer(self) -> bool:
        return self._timer is not None

    def add(self, address: Hashable, connection: C) -> None:
        """Keep a connection that has become idle now."""
        if len(self._oldest_first) >= self._limit:
            self._drop(next(iter(self._oldest_first)))
        connection.since = self._loop.time()
        self._by_address.setdefault(address, {})[connection] = None
        self._oldest_first[connection] = address
        if self._timer is None:
            self._timer = self._loop.call_at(connection.since + self._seconds, self._expire)

    def take(self, address: Hashable) -> C | None:
        """The connection to an address that became idle last. The caller finds out whether it still works."""
        found = self._by_address.get(address)
        if not found:
            return None
        connection = next(reversed(found))
        self.discard(connection)
        return connection

    def discard(self, connection: C) -> None:
        """Forget a connection, if it is here."""
        address = self._oldest_first.pop(connection, None)
        if address is None:
            return
        found = self._by_address[address]
        del found[connection]
        if not found:
            del self._by_address[address]

    def close(self) -> None:
        """Close every connection."""
        for connection in list(self._oldest_first):
            self._drop(connection)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _drop(self, connection: C) -> None:
        self.discard(connection)
        connection.close()

    def _expire(self) -> None:
        self._timer = None
        oldest_that_stays = self._loop.time() - self._seconds
        for connection in list(self._oldest_first):
            if connection.since > oldest_that_stays:
                self._timer = self._loop.call_at(connection.since + self._seconds, self._expire)
                return
            self._drop(connection)
