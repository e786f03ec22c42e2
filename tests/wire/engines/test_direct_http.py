"""Our HTTP client against responses as servers write them: split anywhere, compressed, without a length, 1xx first."""

from __future__ import annotations

import asyncio
import gzip
import random
import socket
import threading
import tracemalloc
import zlib
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from penstock._engines.engine_interface import HttpRequest
from penstock._engines.native import NativeEngine
from penstock._http.connection import INFLATE_CHUNK
from penstock._http.pool import DirectPool, split_url
from penstock._http.proxy_and_tls import tls_context
from penstock._http.request_options import RequestOptions
from penstock.errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

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
) -> AsyncIterator[tuple[DirectPool, str, list[bytes]]]:
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
    direct = DirectPool(aiohttp)
    try:
        yield direct, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/x?y=1", seen
    finally:
        direct.close()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0)


async def sent(direct: DirectPool, url: str, body: bytes, *, method: str = "POST") -> Any:
    prepared = direct.prepare(method, url, {"x-a": "b"}, tls_context(RequestOptions()))
    assert prepared is not None
    return await direct.send(prepared, body, connect=2, deadline=asyncio.get_running_loop().time() + 10)


async def ask(direct: DirectPool, url: str, body: bytes = b"{}", *, method: str = "POST") -> tuple[int, bytes]:
    made: Any = await sent(direct, url, body, method=method)
    pieces = []
    while piece := await made.readany():
        pieces.append(piece)
    made.release()
    return made.status, b"".join(pieces)


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
            assert len(direct._open) == direct.idle

    asyncio.run(scene())


@pytest.mark.parametrize("place", range(len(HEAD) + 30, len(CHUNKED) - 1, 5))
def test_an_answer_that_breaks_off_is_no_answer(place: int) -> None:
    async def scene() -> None:
        async with serving(CHUNKED[:place], close=True) as (direct, url, _):
            with pytest.raises((aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError)):
                await ask(direct, url)
            assert len(direct._open) == direct.idle

    asyncio.run(scene())


def test_what_is_not_http_is_said_to_be_none() -> None:
    async def scene() -> None:
        async with serving(b"SSH-2.0-whatever\r\n\r\n", close=True) as (direct, url, _):
            with pytest.raises(aiohttp.ClientError):
                await ask(direct, url)

    asyncio.run(scene())


def test_a_second_answer_behind_the_first_is_not_read() -> None:
    """Its status and body would be taken for the first one's; the connection is closed after the answer."""
    second = b"HTTP/1.1 500 No\r\ncontent-length: 4\r\n\r\nevil"

    async def asked() -> None:
        for answer in (SIZED, CHUNKED):
            async with serving(answer + second) as (direct, url, seen):
                for _ in range(2):
                    assert await ask(direct, url) == (200, b"hello there")
                    assert not direct._idle
                assert len(seen) == 2

    asyncio.run(asked())


def test_a_connection_that_was_closed_in_the_meantime_costs_nothing() -> None:
    async def scene() -> None:
        async with serving(SIZED, close=True) as (direct, url, seen):
            for _ in range(3):
                assert await ask(direct, url) == (200, b"hello there")
                while direct._open:  # noqa: ASYNC110 — until the end of it has come
                    await asyncio.sleep(0)
            assert len(seen) == 3

    asyncio.run(scene())


class Plain(threading.Thread):
    """A server in a thread: it answers `good` requests of each connection and then, having read one more, hangs up."""

    def __init__(self, good: int, *, hasty: bool = False) -> None:
        super().__init__(daemon=True)
        self.seen: list[bytes] = []
        self.closed = threading.Event()
        self._good, self._hasty = good, hasty
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/"

    def run(self) -> None:
        with suppress(OSError):
            while True:
                self._serve(self._listening.accept()[0])

    def _serve(self, one: socket.socket) -> None:
        with one:
            for _ in range(self._good):
                self.seen.append(one.recv(4096))
                one.sendall(SIZED)
            if not self._hasty:
                self.seen.append(one.recv(4096))
        self.closed.set()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.join(5)


@contextmanager
def plain(good: int, *, hasty: bool = False) -> Iterator[Plain]:
    server = Plain(good, hasty=hasty)
    server.start()
    try:
        yield server
    finally:
        server.close()


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_an_end_that_nobody_has_read_yet_is_found_before_a_request_is_sent(loop: str) -> None:
    async def scene(server: Plain) -> None:
        direct = DirectPool(aiohttp)
        assert await ask(direct, server.url) == (200, b"hello there")
        server.closed.wait(5)  # the loop stands still: it has not heard of the end
        server.closed.clear()
        assert await ask(direct, server.url) == (200, b"hello there")
        direct.close()
        await asyncio.sleep(0)

    with plain(1, hasty=True) as server:
        _run(scene(server), loop)
    assert len(server.seen) == 2


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_a_request_that_may_have_been_begun_is_not_sent_twice(method: str, loop: str) -> None:
    """The second request comes over a kept connection, is read, and never answered."""

    async def scene(server: Plain) -> None:
        direct = DirectPool(aiohttp)
        await ask(direct, server.url)
        if method == "POST":
            with pytest.raises((aiohttp.ServerDisconnectedError, ConnectionError)):
                await ask(direct, server.url)
        else:
            assert await ask(direct, server.url, b"", method=method) == (200, b"hello there")
        direct.close()
        await asyncio.sleep(0)

    with plain(1) as server:
        _run(scene(server), loop)
    assert len([one for one in server.seen if one]) == {"POST": 2, "GET": 3}[method]


def _run(scene: Any, loop: str) -> None:
    factory = None if loop == "asyncio" else pytest.importorskip("uvloop").new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(scene)


# ── what is packed ────────────────────────────────────────────────────────────────────────────────


def packed(data: bytes, head: bytes = b"content-encoding: gzip\r\n") -> bytes:
    return HEAD + head + b"content-length: %d\r\n\r\n%b" % (len(data), data)


def test_a_little_that_unpacks_to_very_much_comes_in_pieces() -> None:
    """A bomb: it is taken in as slowly as it is read, and given up at the limit."""
    bomb = gzip.compress(b"\0" * 60_000_000, 9)
    assert len(bomb) < 250_000

    async def scene() -> None:
        async with serving(packed(bomb)) as (direct, url, _):
            options = RequestOptions()
            made: Any = await sent(direct, url, b"{}")
            pieces = [len(await made.readany()) for _ in range(5)]
            assert pieces == [INFLATE_CHUNK] * 5
            assert sum(map(len, made._compressed)) <= len(bomb)
            made.close()
            incoming = await NativeEngine().send(HttpRequest(url=url, body=b"{}"), options)
            tracemalloc.start()
            with pytest.raises(ProviderError) as error:
                await incoming.read_all(10_000_000)
            most = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert (error.value.kind, "larger than 10000000 bytes" in str(error.value)) == ("malformed", True)
            assert most < 30_000_000

    asyncio.run(scene())


@pytest.mark.parametrize("size", [0, 1, INFLATE_CHUNK - 1, INFLATE_CHUNK, INFLATE_CHUNK + 1, 3 * INFLATE_CHUNK])
@pytest.mark.parametrize("step", [0, 1000])
def test_what_is_packed_comes_whole(size: int, step: int) -> None:
    data = random.Random(7).randbytes(size // 2) + b"x" * (size - size // 2)

    async def scene() -> None:
        for body in (gzip.compress(data), zlib.compress(data), gzip.compress(data[:99]) + gzip.compress(data[99:])):
            async with serving(packed(body), step) as (direct, url, _):
                for _ in range(2):
                    assert await ask(direct, url) == (200, data)
                assert len(direct._open) == 1, "its connection serves again"

    asyncio.run(scene())


SPOILT = {"none": b"no gzip at all", "cut": gzip.compress(b"hello there")[:-9], "begun": gzip.compress(b"x")[:5]}


@pytest.mark.parametrize("body", SPOILT.values(), ids=SPOILT)  # what is packed tells the time: no name for a test
def test_what_is_not_packed_as_it_says_is_malformed(body: bytes) -> None:
    async def scene() -> None:
        async with serving(packed(body)) as (_, url, __), aclosing(NativeEngine()) as native:
            incoming = await native.send(HttpRequest(url=url, body=b"{}"), RequestOptions())
            with pytest.raises(ProviderError) as error:
                await incoming.read_all()
            assert error.value.kind == "malformed"

    asyncio.run(scene())


def test_odd_addresses_are_left_to_aiohttp() -> None:
    assert split_url("https://api.example.com/v1/x?y=1") == (
        "api.example.com",
        443,
        True,
        "/v1/x?y=1",
        "api.example.com",
    )
    assert split_url("http://user:word@host/") is None
    assert split_url("http://bücher.example/") is None
    assert split_url("ftp://host/") is None
