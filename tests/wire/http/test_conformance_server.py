"""Responses that our server writes, read by h11 as a client at every split: the same status, headers and bytes come out.

The writers: `ResponseChannel` (past ASGI), `ResponseWriter` over the channel and over plain `send`, and the two fixed
responses of `uvicorn_server`. The request cycle is uvicorn's own, on a transport that records what is written.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, cast

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from penstock._http import uvicorn_server
from penstock._http.direct_response import SCOPE_KEY, ResponseChannel
from penstock._http.header_fields import InvalidHeaderError
from penstock._http.response_writer import CONTENT_TYPES, STREAM_HEADERS, ResponseWriter, send_response
from penstock._http.uvicorn_server import UVICORN_VERSIONS, channel_problem
from tests.wire.http.conformance import Message, all_splits, join_headers, read_with_h11, split_at

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

DATE = (b"date", b"Mon, 16 Nov 2026 12:00:00 GMT")
PATHS = ["channel", "chunks past send", "send"]


class Wire(asyncio.Transport):
    """Records what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class Watch:
    """A client that stays."""

    def ignore_disconnect(self) -> None: ...


class Exchange:
    """One request to uvicorn's cycle, with or without a channel."""

    def __init__(self, path: str, *, keep_alive: bool = True, method: str = "POST") -> None:
        loop, self.wire = asyncio.get_running_loop(), Wire()
        self.ended = 0
        scope: Any = {"type": "http", "method": method}
        silent = logging.getLogger("tests.silent")
        self.cycle = RequestResponseCycle(
            scope=scope, transport=self.wire, flow=FlowControl(self.wire), logger=silent, access_logger=silent,
            access_log=False, default_headers=[DATE], message_event=asyncio.Event(), expect_100_continue=False,
            keep_alive=keep_alive, on_response=self._count_end,
        )  # fmt: skip
        self.channel: ResponseChannel | None = None
        if path != "send":
            self.channel = scope[SCOPE_KEY] = ResponseChannel(self.cycle, self.wire, loop)
            self.cycle.transport = cast("Any", self.channel)
        send: Any = self.cycle.send if path == "channel" else self._send
        self.writer = ResponseWriter(send, cast("Any", Watch()), keep_alive=0, stuck_limit=1, channel=self.channel)

    async def _send(self, message: Any) -> None:
        """A wrapper: only chunks may go past it."""
        await self.cycle.send(message)

    def _count_end(self) -> None:
        self.ended += 1

    async def stream(self, framing: str, headers: Any, chunks: list[bytes], last: bytes) -> None:
        self.writer.prepare_stream(framing, headers)
        await self.writer.start()
        for chunk in chunks:
            if self.channel is None or not self.channel.write_chunk(chunk):
                await self.writer.write(chunk)
        await self.writer.end(last)


def written(work: Callable[[], Awaitable[Exchange]]) -> bytes:
    """What a response wrote. The cycle is complete and was told so once."""

    async def run() -> bytes:
        exchange = await work()
        await asyncio.sleep(0)
        assert exchange.cycle.response_complete
        assert exchange.ended == 1
        assert exchange.wire.closed is not exchange.cycle.keep_alive
        return bytes(exchange.wire.written)

    return asyncio.run(run())


def stream(
    path: str, framing: str, headers: Any, chunks: list[bytes], last: bytes, *, keep_alive: bool = True
) -> bytes:
    async def work() -> Exchange:
        exchange = Exchange(path, keep_alive=keep_alive)
        await exchange.stream(framing, headers, chunks, last)
        return exchange

    return written(work)


def expected(headers: Any, body: bytes, *, status: int = 200) -> Message:
    return Message(True, status, join_headers([DATE, *headers]), body)


CHUNKED = (b"transfer-encoding", b"chunked")


@pytest.mark.parametrize("keep_alive", [True, False], ids=["keep-alive", "close"])
@pytest.mark.parametrize("framing", CONTENT_TYPES)
@pytest.mark.parametrize("path", PATHS)
def test_a_stream_is_read_at_every_split(path: str, framing: str, *, keep_alive: bool) -> None:
    chunks, more = [b"data: 1\n\n", b"", b"x" * 17], (b"x-request-id", b"a b")
    data = stream(path, framing, (more,), chunks, b"end", keep_alive=keep_alive)
    close = () if keep_alive else ((b"connection", b"close"),)
    fields = [(b"content-type", CONTENT_TYPES[framing]), *STREAM_HEADERS, more, *close, CHUNKED]
    assert {read_with_h11(pieces) for pieces in all_splits(data)} == {expected(fields, b"".join(chunks) + b"end")}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("chunks", [[], [b""], [b"a"]], ids=["none", "empty", "one"])
def test_a_stream_may_end_without_a_last_chunk(path: str, chunks: list[bytes]) -> None:
    message = read_with_h11([stream(path, "sse", (), chunks, b"")])
    assert (message.accepted, message.body) == (True, b"".join(chunks))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("status", [200, 400, 429, 500, 529])
def test_a_complete_response_is_read_at_every_split(path: str, status: int) -> None:
    async def work() -> Exchange:
        exchange = Exchange(path)
        await exchange.writer.send_response(status, b'{"a":1}', ((b"content-type", b"application/json"),))
        return exchange

    fields = [(b"content-type", b"application/json"), (b"content-length", b"7")]
    results = {read_with_h11(pieces) for pieces in all_splits(written(work))}
    assert results == {expected(fields, b'{"a":1}', status=status)}


@pytest.mark.parametrize("path", PATHS)
def test_the_response_to_head_has_no_body(path: str) -> None:
    async def work() -> Exchange:
        exchange = Exchange(path, method="HEAD")
        await send_response(exchange.cycle.send, 200, b"hello", (), head_only=True)
        return exchange

    data = written(work)
    assert read_with_h11([data], "HEAD") == expected([(b"content-length", b"5")], b"")


@pytest.mark.parametrize("path", PATHS)
def test_two_responses_of_one_connection_do_not_mix(path: str) -> None:
    first = stream(path, "sse", (), [b"one"], b"")
    client = h11.Connection(h11.CLIENT)
    bodies: list[bytes] = []
    for data in (first, first):
        client.send(h11.Request(method="POST", target="/", headers=[("host", "x"), ("content-length", "0")]))
        client.send(h11.EndOfMessage())
        client.receive_data(data)
        body = b""
        while not isinstance(event := client.next_event(), h11.EndOfMessage):
            body += bytes(event.data) if isinstance(event, h11.Data) else b""
        bodies.append(body)
        client.start_next_cycle()
    assert bodies == [b"one", b"one"]
    assert client.trailing_data == (b"", False)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("header", [(b"x", b"a\r\nb: c"), (b"x y", b"a"), (b"x", b"a\0"), (b"", b"a")])
def test_no_writer_writes_a_header_that_is_not_valid(path: str, header: tuple[bytes, bytes]) -> None:
    async def run() -> None:
        exchange = Exchange(path)
        exchange.writer.prepare_stream("sse", (header,))
        with pytest.raises(InvalidHeaderError):
            await exchange.writer.start()
        with pytest.raises(InvalidHeaderError):
            await exchange.writer.send_response(200, b"", (header,))
        with pytest.raises(InvalidHeaderError):
            await send_response(exchange.cycle.send, 200, b"", (header,))
        await asyncio.sleep(0)
        assert not exchange.wire.written

    asyncio.run(run())


@pytest.mark.parametrize(("name", "status"), [("_HEAD_TIMEOUT", 408), ("_HEAD_TOO_LARGE", 431)])
def test_the_fixed_responses_are_read(name: str, status: int) -> None:
    results = {read_with_h11(pieces) for pieces in all_splits(getattr(uvicorn_server, name))}
    fields = join_headers([(b"connection", b"close"), (b"content-length", b"0")])
    assert results == {Message(True, status, fields, b"")}


NAMES = st.from_regex(rb"x-[a-z0-9]{1,12}", fullmatch=True)
VALUES = st.from_regex(rb"[!-~\x80-\xff]([ -~\x80-\xff]{0,20}[!-~\x80-\xff])?", fullmatch=True)


@settings(deadline=None, max_examples=100)
@given(
    path=st.sampled_from(PATHS),
    headers=st.dictionaries(NAMES, VALUES, max_size=4),
    chunks=st.lists(st.binary(max_size=60), max_size=6),
    last=st.binary(max_size=20),
    cuts=st.sets(st.integers(0, 400), max_size=6),
)
def test_any_stream_is_read_alike(
    path: str, headers: dict[bytes, bytes], chunks: list[bytes], last: bytes, cuts: set[int]
) -> None:
    data = stream(path, "sse", tuple(headers.items()), chunks, last)
    message = read_with_h11(split_at(data, {cut for cut in cuts if cut < len(data)}))
    fields = [(b"content-type", CONTENT_TYPES["sse"]), *STREAM_HEADERS, *headers.items(), CHUNKED]
    assert message == expected(fields, b"".join(chunks) + last)


# ── the fallback ──────────────────────────────────────────────────────────────────────────────────


def test_the_installed_uvicorn_supports_the_channel() -> None:
    assert channel_problem() == ""


@pytest.mark.parametrize("version", ["0.33.9", f"0.{UVICORN_VERSIONS[1][1]}.0", "1.0.0", "unknown"])
def test_other_versions_of_uvicorn_use_plain_asgi(version: str) -> None:
    assert "not one of the tested versions" in channel_problem(version)


def test_a_cycle_without_an_attribute_uses_plain_asgi() -> None:
    from uvicorn.protocols.http.h11_impl import H11Protocol

    assert channel_problem(protocol=H11Protocol).endswith("has no chunked_encoding")
