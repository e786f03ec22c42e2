"""Feeds a stream through an upstream connection and returns what the client gets, written in the read callback."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from penstock._engines.engine_interface import DecisionLog
from penstock._engines.reply import ModelReply
from penstock._engines.reply_decoding import NativeSource
from penstock._gateway.client_stream import client_stream
from penstock._gateway.endpoints import TurnRequest
from penstock._gateway.relay import ReasoningCapture, StreamRelay
from penstock._http.connection import UpstreamConnection
from penstock._http.pool import load_httptools
from penstock._http.request_options import Timeouts
from penstock._http.response import UpstreamResponse
from penstock._http.response_writer import ResponseWriter
from penstock.request import Request

if TYPE_CHECKING:
    from penstock._engines.engine_interface import UpstreamRequest

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class Owner:
    """The owner of a connection that is not pooled."""

    aiohttp: Any = None
    httptools = load_httptools()

    def add_idle(self, *_: Any) -> None: ...
    def discard(self, *_: Any) -> None: ...


class Wire:
    """The other end of a connection, which is never slow and never closed."""

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...


class Stays:
    """A client that does not leave."""

    def ignore_disconnect(self) -> None: ...


class Written:
    """The channel of a client that cannot always take more; `said` is what it was given."""

    lost = False

    def __init__(self, said: list[bytes], taken: list[bool]) -> None:
        self.flow, self._said, self._taken = self, said, iter(taken)

    @property
    def write_paused(self) -> bool:
        return not next(self._taken, True)

    def write_chunk(self, data: bytes) -> bool:
        if self.write_paused:
            return False
        self._said.append(data)
        return True

    def owns_send(self, send: Any) -> bool:
        return False


async def client_gets(
    chunks: list[bytes], target: str, taken: list[bool], job: UpstreamRequest
) -> tuple[bytes, ReasoningCapture]:
    """What a client gets of chunks that come one by one, and what was kept.

    `taken` says of each push whether the client could take it at once.
    """
    connection = UpstreamConnection(cast("Any", Owner()), ())
    connection.connection_made(Wire())
    connection.data_received(HEAD)
    loop = asyncio.get_running_loop()
    limits = Timeouts()
    reading = NativeSource(UpstreamResponse(connection, limits, loop, loop.time()), job)
    reply = ModelReply(reading, job, DecisionLog("m"), "native")
    said: list[bytes] = []

    async def send(message: Any) -> None:
        said.append(message.get("body", b""))

    line: Any = Written(said, taken)
    out = ResponseWriter(send, cast("Any", Stays()), keep_alive=0, stuck_limit=1, channel=line)
    out.prepare_stream("sse", ())
    kept = ReasoningCapture()
    asked = TurnRequest(Request(model="m"), target)
    way = client_stream(asked, reply)
    stream = StreamRelay(reply, way, out, capture=kept, observer=None, recording=None)
    task = loop.create_task(stream.run())
    for chunk in chunks:
        connection.data_received(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        for _ in range(4):  # a reader that waits goes on
            await asyncio.sleep(0)
    connection.data_received(b"0\r\n\r\n")
    await asyncio.wait_for(task, 10)
    assert out.body_size == len(b"".join(said))
    return b"".join(said), kept
