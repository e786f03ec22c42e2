"""Idle upstream connections against a real server: they are closed by a timer, and by number, without another request."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from penstock._http.pool import DirectPool
from penstock._http.proxy_and_tls import tls_context
from penstock._http.request_options import RequestOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock._http.connection import UpstreamConnection
    from penstock._http.pool import IdleConnections


SIZED = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
IDLE = 0.3


class Server:
    """Answers when it is told to. `closed` counts the connections that the other side has closed."""

    def __init__(self) -> None:
        self.opened = self.closed = 0
        self.answer = asyncio.Event()
        self._changed = asyncio.Condition()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                await self.answer.wait()
                writer.write(SIZED)
        except (asyncio.IncompleteReadError, ConnectionError):
            async with self._changed:
                self.closed += 1
                self._changed.notify_all()
        finally:
            writer.close()

    async def until_closed(self, count: int) -> None:
        async with asyncio.timeout(20), self._changed:
            await self._changed.wait_for(lambda: self.closed >= count)


@asynccontextmanager
async def serving(*, seconds: float = IDLE, limit: int = 100) -> AsyncIterator[tuple[DirectPool, str, Server]]:
    made = Server()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    direct = DirectPool(aiohttp, idle_seconds=seconds, max_idle=limit)
    try:
        yield direct, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", made
    finally:
        direct.close()
        server.close()
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)


async def ask(direct: DirectPool, url: str) -> None:
    prepared = direct.prepare("GET", url, {}, tls_context(RequestOptions()))
    assert prepared is not None
    made = await direct.send(prepared, b"", connect=5, deadline=asyncio.get_running_loop().time() + 10)
    while await made.readany():
        pass
    made.release()


async def burst(direct: DirectPool, url: str, server: Server, count: int) -> None:
    """As many requests at once, each over a connection of its own."""
    asked = [asyncio.ensure_future(ask(direct, url)) for _ in range(count)]
    while server.opened < count:  # noqa: ASYNC110 — the server has no event for it
        await asyncio.sleep(0.005)
    server.answer.set()
    await asyncio.gather(*asked)


def has_timer(idle: IdleConnections[Any]) -> bool:
    return idle._timer is not None


def pool(direct: DirectPool) -> IdleConnections[UpstreamConnection]:
    (found,) = direct._idle.values()
    return found


def test_idle_connections_are_closed_without_another_request() -> None:
    async def scene() -> None:
        async with serving() as (direct, url, server):
            await burst(direct, url, server, 40)
            assert (direct.idle, len(direct._open)) == (40, 40)
            assert has_timer(pool(direct))
            began = asyncio.get_running_loop().time()
            await server.until_closed(40)
            assert asyncio.get_running_loop().time() - began > IDLE / 2
            assert direct.idle == 0
            assert not has_timer(pool(direct)), "nothing is idle, so nothing is waited for"

    asyncio.run(scene())


def test_the_oldest_goes_first_and_one_that_is_used_stays() -> None:
    """The newest is reused; a connection that is used again and again is not closed."""

    async def scene() -> None:
        async with serving() as (direct, url, server):
            await burst(direct, url, server, 3)
            while server.closed < 2:
                await ask(direct, url)
                await asyncio.sleep(IDLE / 10)
            assert (direct.idle, server.closed, server.opened) == (1, 2, 3)
            await server.until_closed(3)

    asyncio.run(scene())


def test_no_more_than_a_number_are_kept() -> None:
    async def scene() -> None:
        async with serving(seconds=60, limit=5) as (direct, url, server):
            await burst(direct, url, server, 20)
            assert direct.idle == 5
            await server.until_closed(15)

    asyncio.run(scene())


@pytest.mark.parametrize("how", ["closed", "in use", "lost"])
def test_no_timer_is_left(how: str) -> None:
    """`close` stops the timer. It is not stopped for every request: when it fires and nothing is idle, it is over."""

    async def scene() -> None:
        async with serving() as (direct, url, server):
            await burst(direct, url, server, 2)
            idle = pool(direct)
            assert has_timer(idle)
            asked: list[asyncio.Future[None]] = []
            if how == "closed":
                direct.close()
                assert (len(idle), has_timer(idle)) == (0, False)
                return
            if how == "lost":
                for made in list(direct._open):
                    made.transport.abort()
                await server.until_closed(2)
            else:
                server.answer.clear()
                asked = [asyncio.ensure_future(ask(direct, url)) for _ in range(2)]
            async with asyncio.timeout(10):
                while has_timer(idle):  # noqa: ASYNC110 — the timer tells nobody that it is over
                    await asyncio.sleep(IDLE / 10)
            assert len(idle) == 0
            if how == "in use":
                server.answer.set()
                await asyncio.gather(*asked)
                assert (idle._timer is not None, server.opened) == (True, 2)

    asyncio.run(scene())
