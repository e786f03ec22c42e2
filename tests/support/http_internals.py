"""What tests of HTTP need from the inside: our parser of responses beside h11's, and short lives of idle connections.

A response is read at every cut: over sockets that would take an hour.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import h11

from penstock._http import pool
from penstock._http.connection import UpstreamConnection

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

Header = tuple[bytes, bytes]


class Message(NamedTuple):
    """A response as a parser reads it. `accepted` is False for an error or an incomplete message."""

    accepted: bool
    status: int = 0
    headers: tuple[Header, ...] = ()
    body: bytes = b""


REJECTED = Message(accepted=False)


class Owner:
    """The owner of connections that are not pooled."""

    def __init__(self) -> None:
        self.aiohttp: Any = import_module("aiohttp")
        self.httptools: Any = pool.load_httptools()

    def add_idle(self, address: tuple[object, ...], connection: UpstreamConnection) -> None: ...
    def discard(self, address: tuple[object, ...], connection: UpstreamConnection) -> None: ...


class RecordingTransport(asyncio.Transport):
    """Records whether it was paused or closed."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = False
        self.pauses = 0

    def write(self, data: Any) -> None: ...

    def is_closing(self) -> bool:
        return self.closed

    def abort(self) -> None:
        self.closed = True

    close = abort

    def pause_reading(self) -> None:
        self.pauses += 1

    def resume_reading(self) -> None: ...


@cache
def owner() -> Owner:
    return Owner()


def split_at(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    """Cuts data at these positions. No piece is empty: h11 takes an empty one for the end of the connection."""
    return [data[start:end] for start, end in pairwise([0, *sorted(cuts), len(data)]) if start < end]


def all_splits(data: bytes) -> list[list[bytes]]:
    """The data whole, cut at every position, and byte by byte."""
    return [
        split_at(data, []),
        *(split_at(data, [cut]) for cut in range(1, len(data))),
        split_at(data, range(1, len(data))),
    ]


async def _read_response(pieces: Sequence[bytes]) -> Message:
    connection, transport = UpstreamConnection(owner(), ()), RecordingTransport()
    connection.connection_made(transport)
    for piece in pieces:
        if transport.closed:
            break
        connection.data_received(piece)
    connection.connection_lost(None)
    body = b""
    lib = owner().aiohttp
    try:
        while piece := await connection.readany():
            body += piece
    except (lib.ClientError, lib.http_exceptions.HttpProcessingError, OSError):
        return REJECTED
    headers = tuple(
        sorted((name.encode("latin-1"), value.encode("latin-1")) for name, value in connection.headers.items())
    )
    return Message(True, connection.status, headers, body)


def read_responses(attempts: Iterable[Sequence[bytes]]) -> set[Message]:
    """The different results of reading the same response in pieces. The connection ends after the last piece."""

    async def read_all() -> set[Message]:
        return {await _read_response(pieces) for pieces in attempts}

    return asyncio.run(read_all())


def feed(start: bytes, piece: bytes) -> int:
    """Feeds a piece again and again until reading is paused or the connection closed. How many bytes it took."""

    async def run() -> int:
        connection, transport = UpstreamConnection(owner(), ()), RecordingTransport()
        connection.connection_made(transport)
        connection.data_received(start)
        size = 0
        while not transport.closed and not transport.pauses and size < 2**24:
            connection.data_received(piece)
            size += len(piece)
        return size

    return asyncio.run(run())


def read_with_h11(pieces: Sequence[bytes], method: str = "POST") -> Message:
    """Reads the first final response with h11. The connection ends after the last piece."""
    client = h11.Connection(h11.CLIENT, max_incomplete_event_size=2**18)
    client.send(h11.Request(method=method, target="/", headers=[("host", "x"), ("content-length", "0")]))
    client.send(h11.EndOfMessage())
    message = REJECTED
    try:
        for piece in [*pieces, b""]:
            client.receive_data(piece)
            while (event := client.next_event()) is not h11.NEED_DATA:
                if isinstance(event, h11.Response):
                    message = message._replace(status=event.status_code, headers=join_headers(event.headers))
                elif isinstance(event, h11.Data):
                    message = message._replace(body=message.body + bytes(event.data))
                elif isinstance(event, h11.EndOfMessage):
                    return message._replace(accepted=True)
                elif not isinstance(event, h11.InformationalResponse):
                    return REJECTED
    except h11.RemoteProtocolError:
        pass
    return REJECTED


def join_headers(fields: Iterable[tuple[bytes, bytes]]) -> tuple[Header, ...]:
    """Headers of one name joined by a comma, sorted."""
    joined: dict[bytes, bytes] = {}
    for name, value in fields:
        joined[bytes(name)] = joined[bytes(name)] + b", " + bytes(value) if bytes(name) in joined else bytes(value)
    return tuple(sorted(joined.items()))


@contextmanager
def idle_limits(seconds: float, most: int) -> Generator[None]:
    """Clients that are made meanwhile close idle connections after these seconds, and keep no more than so many."""
    before = pool.IDLE_SECONDS, pool.MAX_IDLE
    pool.IDLE_SECONDS, pool.MAX_IDLE = seconds, most
    try:
        yield
    finally:
        pool.IDLE_SECONDS, pool.MAX_IDLE = before
