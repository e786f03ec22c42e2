"""HTTP clients of the vendors' SDKs: one for each way of connecting, closed when nobody has used it for a while.

An httpx pool closes idle connections only when it is used again, so the client itself is closed by a timer.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from penstock.http.pool import IdleConnections

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_IDLE_CLIENTS = 64


class SdkClient:
    """An HTTP client and the SDK objects made over it. `since`: when its last user gave it back."""

    def __init__(self, key: tuple[object, ...], http: Any, clients: SdkClients) -> None:
        self.key, self.http = key, http
        self.vendors: dict[Any, Any] = {}
        self.users = 0
        self.since = 0.0
        self._clients = clients

    def close(self) -> None:
        """Called by the timer, in the event loop."""
        self._clients.close(self)


class SdkClients:
    """The clients of an engine. `borrow` and `give_back` are called in the event loop that the key begins with."""

    def __init__(self, idle_seconds: float = 0.0) -> None:
        self._idle_seconds = idle_seconds
        self._open: dict[tuple[object, ...], SdkClient] = {}
        self._idle: dict[object, IdleConnections[SdkClient]] = {}  # by event loop
        self._closing: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._open)

    def borrow(self, key: tuple[object, ...], make: Callable[[], Any]) -> SdkClient:
        """The client for a way of connecting, new or used before."""
        found = self._open.get(key)
        if found is None:
            found = self._open[key] = SdkClient(key, make(), self)
        elif not found.users:
            self._of(key).discard(found)
        found.users += 1
        return found

    def give_back(self, client: SdkClient) -> None:
        client.users -= 1
        if not client.users and self._open.get(client.key) is client:
            self._of(client.key).add(client.key, client)

    def close(self, client: SdkClient) -> None:
        del self._open[client.key]
        task = asyncio.get_running_loop().create_task(client.http.aclose())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def aclose(self) -> None:
        """Close all clients, those in use too."""
        found, self._open = list(self._open.values()), {}
        for client in found:
            self._of(client.key).discard(client)
            await client.http.aclose()
        await asyncio.gather(*self._closing)
        self._idle = {}

    def _of(self, key: tuple[object, ...]) -> IdleConnections[SdkClient]:
        loop: Any = key[0]
        found = self._idle.get(loop)
        if found is None:
            found = self._idle[loop] = IdleConnections(loop, self._idle_seconds, MAX_IDLE_CLIENTS)
        return found
