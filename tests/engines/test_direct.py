"""The straight way against answers as servers write them: cut anywhere, packed, without a length, told in advance."""

from __future__ import annotations

import asyncio
import gzip
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from penstock.engines import tls
from penstock.engines.direct import Direct, place_of
from penstock.engines.options import RequestOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n there\r\n0\r\n\r\n"
SIZED = HEAD + b"content-length: 11\r\n\r\nhello there"
CLOSED = HEAD + b"connection: close\r\n\r\nhello there"
TOLD = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + SIZED
_PACKED = gzip.compress(b"hello there")
PACKED = HEAD + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n%b" % (len(_PACKED), _PACKED)


@asynccontextmanager
async def serving(
    answer: bytes, step: int = 0, *, close: bool = False
) -> AsyncIterator[tuple[Direct, str, list[bytes]]]:
    """A way, an address where that is answered, and what was asked there. All is closed and seen off at the end."""
    seen: list[bytes] = []

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
                seen.append(head + await reader.readexactly(size))
                for at in range(0, len(answer), step or len(answer)):
                    writer.write(answer[at : at + (step or len(answer))])
                    await writer.drain()
                    await asyncio.sleep(0)
                if close:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    server = await asyncio.start_server(one, "127.0.0.1", 0)
    direct = Direct(aiohttp)
    try:
        yield direct, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/x?y=1", seen
    finally:
        direct.close()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0)


async def ask(direct: Direct, url: str, body: bytes = b"{}") -> tuple[int, bytes]:
    options = RequestOptions()
    made: Any = await direct.request(
        "POST", url, {"x-a": "b"}, body, tls=tls.context(options), key=(), connect=2
    )  # fmt: skip
    pieces = []
    while piece := await made.all():
        pieces.append(piece)
    made.release()
    return made.status, b"".join(pieces)


@pytest.mark.row("P3")
@pytest.mark.parametrize("step", [0, 1, 7])
@pytest.mark.parametrize(
    "answer", [CHUNKED, SIZED, CLOSED, TOLD, PACKED], ids=["chunked", "sized", "closed", "told", "packed"]
)
def test_an_answer_however_it_is_written(answer: bytes, step: int) -> None:
    async def scene() -> None:
        async with serving(answer, step, close=answer is CLOSED) as (direct, url, seen):
            for _ in range(3):
                assert await ask(direct, url) == (200, b"hello there")
            assert seen[0].startswith(b"POST /x?y=1 HTTP/1.1\r\nhost: 127.0.0.1:")
            assert seen[0].endswith(b"\r\n\r\n{}")
            assert len(direct._open) <= 1
            assert direct.busy == 0

    asyncio.run(scene())


@pytest.mark.parametrize("place", range(len(HEAD) + 30, len(CHUNKED) - 1, 5))
def test_an_answer_that_breaks_off_is_no_answer(place: int) -> None:
    async def scene() -> None:
        async with serving(CHUNKED[:place], close=True) as (direct, url, _):
            with pytest.raises((aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError)):
                await ask(direct, url)
            assert direct.busy == 0

    asyncio.run(scene())


def test_what_is_not_http_is_said_to_be_none() -> None:
    async def scene() -> None:
        async with serving(b"SSH-2.0-whatever\r\n\r\n", close=True) as (direct, url, _):
            with pytest.raises(aiohttp.ClientError):
                await ask(direct, url)

    asyncio.run(scene())


def test_a_connection_that_was_closed_in_the_meantime_costs_nothing() -> None:
    async def scene() -> None:
        async with serving(SIZED, close=True) as (direct, url, seen):
            for _ in range(3):
                assert await ask(direct, url) == (200, b"hello there")
            assert len(seen) == 3

    asyncio.run(scene())


def test_odd_addresses_are_left_to_aiohttp() -> None:
    assert place_of("https://api.example.com/v1/x?y=1") == (
        "api.example.com",
        443,
        True,
        "/v1/x?y=1",
        "api.example.com",
    )
    assert place_of("http://user:word@host/") is None
    assert place_of("http://bücher.example/") is None
    assert place_of("ftp://host/") is None
