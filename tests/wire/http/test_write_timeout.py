"""Clients that stop reading: the timeout, and the end of a stream that is not read."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from penstock._framing.sse import split_bare_error
from penstock._http import response_writer
from penstock._http.response_writer import DisconnectWatch, ResponseWriter, write_timeout

LONG = 60.0
BARE_ERROR = b'{"error":{}}\n\ndata: {"error":{}}\n\n'


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


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_client_that_does_not_read_the_end_is_given_up(goes_on: bool) -> None:
    """The task is cancelled, or goes on without the client if it has said that it can."""
    left: list[str] = []

    async def send(message: Any) -> None:
        if message["type"] == response_writer.BODY:
            await asyncio.sleep(LONG)

    async def respond() -> str:
        watch = DisconnectWatch(asyncio.Event().wait)
        if goes_on:
            watch.on_leave = lambda: left.append("left")
        writer = ResponseWriter(send, watch, keep_alive=0, stuck_limit=0.01)
        writer.prepare_stream("sse", ())
        try:
            await writer.end(b"data: last\n\n")
        except asyncio.CancelledError:
            assert watch.absorb_cancellation()
        watch.close()
        return watch.reason

    assert asyncio.run(asyncio.wait_for(respond(), LONG)) == ("" if goes_on else "the client has stopped reading")
    assert left == (["left"] if goes_on else [])


def test_no_keep_alive_comes_between_an_error_and_its_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are sent apart: on a busy machine there is time for a keep-alive in between."""
    sent: list[bytes] = []
    monkeypatch.setattr(response_writer, "ERROR_GAP", 0.1)
    assert len(split_bare_error(BARE_ERROR)) > 1

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))

    async def respond() -> None:
        watch = DisconnectWatch(asyncio.Event().wait)
        writer = ResponseWriter(send, watch, keep_alive=0.01, stuck_limit=LONG)
        writer.prepare_stream("sse+json", ())
        await writer.end(BARE_ERROR)
        watch.close()

    asyncio.run(respond())
    assert b"".join(sent) == BARE_ERROR
    assert len(sent) > len([b"head", b"all at once"])
