"""The timeout for what a client must read."""

from __future__ import annotations

import asyncio
import time

import pytest

from penstock._http.response_writer import write_timeout

LONG = 60.0


def test_a_client_that_does_not_read_is_given_up() -> None:
    async def wait() -> None:
        async with write_timeout(0.01):
            await asyncio.sleep(LONG)

    with pytest.raises(TimeoutError):
        asyncio.run(wait())


def test_time_in_which_the_event_loop_was_blocked_does_not_count() -> None:
    async def wait(server: asyncio.Server) -> bool:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        async with write_timeout(0.05):
            time.sleep(0.2)  # noqa: ASYNC251 — blocks the loop
            writer.write(b"x")
            found = await reader.read(1)
        writer.close()
        await writer.wait_closed()
        return found == b"x"

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(1))
        writer.close()
        await writer.wait_closed()

    async def run() -> bool:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        async with server:
            return await wait(server)

    assert asyncio.run(run())


def test_what_ends_in_time_leaves_no_timer() -> None:
    async def wait() -> None:
        async with write_timeout(0.01):
            pass
        await asyncio.sleep(0.03)

    asyncio.run(wait())
