"""Idle upstream connections against a real server: they are closed by a timer, and by number, without another request."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from penstock.client import Client
from penstock.gateway import Account, Config
from penstock.testing import Reply, play
from tests.support.http_internals import idle_limits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


BODY = Reply.of("openai-chat", play("text"), stream=False).data
SIZED = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(BODY), BODY)
IDLE = 0.3


class Server:
    """Answers when it is told to. `closed` counts the connections that the other side has closed."""

    def __init__(self) -> None:
        self.opened = self.closed = 0
        self.answer = asyncio.Event()
        self._changed = asyncio.Condition()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._change(opened=1)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = re.search(rb"(?i)content-length: (\d+)", head)
                await reader.readexactly(int(length[1]) if length else 0)
                await self.answer.wait()
                writer.write(SIZED)
        except (asyncio.IncompleteReadError, ConnectionError):
            await self._change(closed=1)
        finally:
            writer.close()

    async def _change(self, opened: int = 0, closed: int = 0) -> None:
        async with self._changed:
            self.opened, self.closed = self.opened + opened, self.closed + closed
            self._changed.notify_all()

    async def until(self, *, opened: int = 0, closed: int = 0) -> None:
        async with asyncio.timeout(20), self._changed:
            await self._changed.wait_for(lambda: self.closed >= closed and self.opened >= opened)


@asynccontextmanager
async def serving(*, seconds: float = IDLE, limit: int = 100) -> AsyncIterator[tuple[Client, Server]]:
    made = Server()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    provider = Account(like="openai-compatible", base_url=base, key="x", fields={"has": ["chat"]})
    with idle_limits(seconds, limit):
        try:
            async with Client(Config(providers={"up": provider}, retries=0)) as client:
                yield client, made
        finally:
            server.close()
            await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)


async def ask(client: Client) -> None:
    assert (await client.chat("up/m", "Hi.")).text


async def burst(client: Client, server: Server, count: int) -> None:
    """As many requests at once, each over a connection of its own."""
    asked = [asyncio.ensure_future(ask(client)) for _ in range(count)]
    await server.until(opened=count)
    server.answer.set()
    await asyncio.gather(*asked)


def test_idle_connections_are_closed_without_another_request() -> None:
    async def scene() -> None:
        async with serving() as (client, server):
            await burst(client, server, 40)
            assert server.closed == 0
            began = asyncio.get_running_loop().time()
            await server.until(closed=40)
            assert asyncio.get_running_loop().time() - began > IDLE / 2

    asyncio.run(scene())


def test_the_oldest_goes_first_and_one_that_is_used_stays() -> None:
    """The newest is reused; a connection that is used again and again is not closed."""

    async def scene() -> None:
        async with serving() as (client, server):
            await burst(client, server, 3)
            while server.closed < 2:
                await ask(client)
                await asyncio.sleep(IDLE / 10)
            assert (server.closed, server.opened) == (2, 3)
            await server.until(closed=3)

    asyncio.run(scene())


def test_no_more_than_a_number_are_kept() -> None:
    async def scene() -> None:
        async with serving(seconds=60, limit=5) as (client, server):
            await burst(client, server, 20)
            await server.until(closed=15)
            await asyncio.gather(*(ask(client) for _ in range(5)))
            assert (server.opened, server.closed) == (20, 15)
        await server.until(closed=20)  # a client that is closed closes them at once

    asyncio.run(scene())


def test_a_connection_in_use_is_not_closed_and_is_idle_again_afterwards() -> None:
    async def scene() -> None:
        async with serving() as (client, server):
            await burst(client, server, 2)
            server.answer.clear()
            asked = [asyncio.ensure_future(ask(client)) for _ in range(2)]
            await asyncio.sleep(2 * IDLE)  # nothing tells that nothing is closed
            server.answer.set()
            await asyncio.gather(*asked)
            assert (server.opened, server.closed) == (2, 0)
            await server.until(closed=2)

    asyncio.run(scene())
