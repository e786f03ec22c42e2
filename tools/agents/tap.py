"""A wire between an agent and the gateway that notes what is asked over it: a WebSocket, or something else.

Bytes go through untouched. Leans on nothing of penstock.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Generator

LIMIT = 30.0
_READING = 0.4  # seconds in which an agent reads what came before a reset, which else is lost with it
_HEAD = re.compile(rb"^([A-Z]+) (/\S*) HTTP/1\.[01]\r\n")
_UPGRADE = re.compile(rb"\r\nupgrade: *websocket\r\n", re.IGNORECASE)


class Tap:
    """`asked` are the heads that went by: method, or WEBSOCKET, and path."""

    def __init__(self, host: str, port: int) -> None:
        self.asked: list[str] = []
        self._to = host, port

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        far_reader, far_writer = await asyncio.open_connection(*self._to)
        there = asyncio.create_task(self._pass(reader, far_writer, note=True))
        back = asyncio.create_task(self._pass(far_reader, writer, note=False))
        with suppress(asyncio.CancelledError):  # the tap is closed while an agent's connection is open
            await asyncio.wait({there, back})

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, note: bool) -> None:
        try:
            while chunk := await reader.read(65536):
                if note:
                    self._note(chunk)
                writer.write(chunk)
                await writer.drain()
        except ConnectionError:
            if not note:
                await _reset(writer)  # an end in order is another thing: Bun then asks again and joins both answers
        finally:
            writer.close()

    def _note(self, chunk: bytes) -> None:
        found = _HEAD.match(chunk)
        if found:
            method = "WEBSOCKET" if _UPGRADE.search(chunk) else found[1].decode()
            self.asked.append(f"{method} {found[2].decode()}")


async def _reset(writer: asyncio.StreamWriter) -> None:
    """Reset the agent's connection, as the server reset its own."""
    await asyncio.sleep(_READING)
    raw: socket.socket = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@contextmanager
def tapped(url: str) -> Generator[tuple[str, Tap]]:
    """An address that leads to the other one, and what went by."""
    parts = urlsplit(url)
    tap = Tap(parts.hostname or "", parts.port or 0)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def opened() -> asyncio.Server:
        return await asyncio.start_server(tap.serve, "127.0.0.1", 0)

    server = asyncio.run_coroutine_threadsafe(opened(), loop).result(LIMIT)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", tap
    finally:
        asyncio.run_coroutine_threadsafe(_closed(server), loop).result(LIMIT)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(LIMIT)
        loop.close()


async def _closed(server: asyncio.Server) -> None:
    server.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
