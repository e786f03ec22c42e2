"""An ASGI application on a real port: uvicorn in its own thread."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import uvicorn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.client import Client

LIMIT = 30.0


class _Server(uvicorn.Server):
    """Tells when it has started, and stops within 10 ms."""

    def __init__(self, config: uvicorn.Config, client: Client | None) -> None:
        super().__init__(config)
        self.ready = threading.Event()
        self._client = client

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        if self._client is not None:
            await self._client.aclose()

    async def main_loop(self) -> None:
        while not await self.on_tick(0):  # noqa: ASYNC110 — as in uvicorn, whose flag tells no other way
            await asyncio.sleep(0.01)


@contextmanager
def served(app: Any, client: Client | None = None) -> Iterator[str]:
    """The address of an application that runs. The client that it uses is closed with it."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="error", access_log=False, lifespan="auto", timeout_graceful_shutdown=2)
    server = _Server(config, client)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    try:
        assert server.ready.wait(LIMIT)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(LIMIT)
        listening.close()
    assert not thread.is_alive()
