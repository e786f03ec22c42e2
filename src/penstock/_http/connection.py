"""One upstream HTTP/1.1 connection, parsed by httptools. The same object is the connection, the response and its body.

It offers what `UpstreamResponse` uses of an aiohttp response, and raises aiohttp's exceptions. `pool` owns the
connections.
"""

from __future__ import annotations

import asyncio
import zlib
from copy import copy
from typing import TYPE_CHECKING, Any, Protocol

from penstock._http.header_fields import COMMON_HEADERS

if TYPE_CHECKING:
    from collections.abc import Callable

READ_AHEAD = 2**18  # bytes that wait to be read before the transport is paused
MAX_HEAD = 2**18  # bytes of the headers, and of the trailers
_MAX_FRAMING = (
    2**19
)  # bytes in a row without body: a head, chunk extensions, trailers. httptools keeps a line in memory
LINES = 1000  # header lines of a head: repeated headers are joined, which copies the value each time
MEMBERS = 1000  # gzip members of one body: each may be empty, and costs a copy of the rest
INFLATE_CHUNK = 2**18  # bytes that are inflated at once: compressed data may hold a thousand times its size
_COMPRESSIONS = frozenset({"gzip", "x-gzip", "deflate"})
_ANY_WINDOW = 47  # zlib's wbits: 32 + 15 detects gzip or zlib
_GZIP_MAGIC = b"\x1f\x8b"
_FIRST_STATUS = 100
_FIRST_FINAL_STATUS = 200


class ConnectionOwner(Protocol):
    """What a connection needs of the pool."""

    aiohttp: Any
    httptools: Any

    def add_idle(self, address: tuple[object, ...], connection: UpstreamConnection) -> None: ...
    def discard(self, address: tuple[object, ...], connection: UpstreamConnection) -> None: ...


class UpstreamConnection(asyncio.Protocol):
    """One connection; one response at a time."""

    def __init__(self, owner: ConnectionOwner, address: tuple[object, ...]) -> None:
        self._owner, self._address = owner, address
        self.loop = asyncio.get_running_loop()
        self.transport: Any = None
        self.lost = False
        self.poller: Any = None  # of the socket; created by the first check for input
        self.idle_since = 0.0
        self.reset()

    def reset(self) -> None:
        """Prepares the connection for the next request."""
        self._chunks: list[bytes] = []  # received; of a compressed body, inflated
        # httptools appends to the list without a Python call in between: a fast stream has many pieces in one read.
        self.on_body = self._chunks.append
        # Parser and connection refer to each other until `connection_lost`, so none exists before `connection_made`.
        self._parser: Any = None if self.transport is None else self._owner.httptools.HttpResponseParser(self)
        self.status = 0
        self.last_read_at = 0.0  # 0: nothing of this response has arrived
        self.headers: dict[str, str] = {}
        self._head_size = self._header_count = 0  # of the headers, then of the trailers
        self._framing_size = 0  # bytes received since the last byte of body
        self._waiting_size = 0  # bytes that wait to be read
        self._in_use = True
        self._head_complete = self._body_complete = self._paused = self._reusable = False
        self._inflater: Any = None
        self._compressed: list[bytes] = []  # received and not inflated yet
        self._gzip_members = 0
        self.request_sent = False  # True if part of the request may have left
        self._error: BaseException | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._consumer: Callable[[bytes], bool] | None = None

    # ── used as a response ────────────────────────────────────────────────────────────────────────

    @property
    def content(self) -> UpstreamConnection:
        return self

    @property
    def connection(self) -> UpstreamConnection | None:
        return None if self.lost else self

    async def send_and_wait_for_head(self, data: bytes, deadline: float) -> None:
        """Sends a request and waits for the response's head until `deadline` (the loop's clock)."""
        self.transport.write(data)
        self.request_sent = not self.transport.is_closing()  # it closes at once if nothing could be written
        timer = self.loop.call_at(deadline, self._fail, TimeoutError())
        try:
            while not self._head_complete:
                await self._wait_for_input()
        except BaseException:
            self.transport.abort()
            raise
        finally:
            timer.cancel()

    async def readany(self) -> bytes:
        """Returns everything received so far, waits if there is nothing. Empty at the end of the body."""
        while not (data := self._take_received()):
            if self._body_complete:
                self._check_compressed_end()
                return b""
            self._resume_reading()  # the received bytes may have inflated to nothing
            await self._wait_for_input()
        if self._inflater is not None:
            await asyncio.sleep(0)  # few compressed bytes may hold gigabytes: let other tasks run between two pieces
        if not self._compressed:
            self._resume_reading()
        return data

    def _resume_reading(self) -> None:
        self._waiting_size = 0
        if self._paused and not self.lost:
            self._paused = False
            self.transport.resume_reading()

    def _take_received(self) -> bytes:
        chunks = self._chunks
        if not chunks and not (self._compressed and self._inflate_next()):
            return b""
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        return data

    async def stream_to(self, consumer: Callable[[bytes], bool]) -> None:
        """Calls `consumer` with each read as it arrives, until it returns False or the body ends.

        A waiting reader costs a future, a task step and a loop iteration for each read; this costs a call.
        """
        if self._chunks or self._body_complete or self._error is not None or self._inflater is not None:
            return
        self._consumer = consumer
        try:
            await self._wait_for_input()
        finally:
            self._consumer = None

    def at_eof(self) -> bool:
        return self._body_complete and not self._chunks and not self._compressed

    def set_exception(self, error: BaseException) -> None:
        """Makes the current and the next read raise."""
        self._fail(error)

    def release(self) -> None:
        """Ends the response. The connection becomes idle if it can be used again."""
        if not self._in_use:
            return
        self._in_use = False
        if self._body_complete and self._reusable and not self.lost and not self._paused:
            self._owner.add_idle(self._address, self)
        elif self.transport is not None:
            self.transport.close()

    def close(self) -> None:
        self._in_use = False
        if self.transport is not None:
            self.transport.abort()

    def _inflate_next(self) -> bool:
        """Inflates up to `INFLATE_CHUNK` bytes. False if that gives nothing."""
        while self._compressed:
            data = self._compressed.pop(0)
            try:
                piece: bytes = self._inflater.decompress(data, INFLATE_CHUNK)
            except zlib.error as error:
                raise self._encoding_error(str(error)) from None
            rest: bytes = self._inflater.unconsumed_tail
            if self._inflater.eof and self._inflater.unused_data[:2] == _GZIP_MAGIC:  # another gzip member follows
                rest = self._inflater.unused_data
                self._inflater = zlib.decompressobj(_ANY_WINDOW)
                self._gzip_members += 1
                if self._gzip_members > MEMBERS:
                    raise self._encoding_error("it has too many gzip members")
            if rest or len(piece) == INFLATE_CHUNK:  # the inflater may hold more
                self._compressed.insert(0, rest)
            if piece:
                self._chunks.append(piece)
                return True
        return False

    def _check_compressed_end(self) -> None:
        """Raises if the body ends before the compressed data does."""
        if self._inflater is not None and not self._inflater.eof and self.headers.get("content-length") != "0":
            raise self._encoding_error("it ends too early")

    def _encoding_error(self, message: str) -> Exception:
        error: Exception = self._owner.aiohttp.http_exceptions.ContentEncodingError(message)
        return error

    async def _wait_for_input(self) -> None:
        if self._error is not None:
            # A copy: the traceback of a raised exception refers to this connection, which refers to the exception.
            raise copy(self._error)
        waiter = self._waiter = self.loop.create_future()
        try:
            await waiter
        finally:
            if self._waiter is waiter:  # another reader may wait already
                self._waiter = None

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _fail(self, error: BaseException) -> None:
        self._error = self._error or error
        self._wake()

    # ── called by the event loop ──────────────────────────────────────────────────────────────────

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._parser = self._owner.httptools.HttpResponseParser(self)

    def data_received(self, data: bytes) -> None:
        if not self._in_use:  # input without a request belongs to no response
            self.transport.abort()
            return
        self.last_read_at = self.loop.time()
        try:
            self._parser.feed_data(data)
        except self._owner.httptools.HttpParserUpgrade:
            self._fail(self._owner.aiohttp.ClientPayloadError("it wants to speak another protocol"))
        except self._owner.httptools.HttpParserError as error:
            self._reject_input(error)
        consumer, chunks = self._consumer, self._chunks
        if chunks:
            self._framing_size = 0
        else:
            self._count_framing(len(data))
        if consumer is not None:
            piece = chunks.pop() if len(chunks) == 1 else self._take_received()
            if piece and not consumer(piece):
                self._consumer = None
            elif self._error is None and not self._body_complete:
                return  # everything is consumed, and more is wanted
        elif self._head_complete:
            self._count_waiting(len(data))
        if self._head_complete or self._error is not None:
            self._wake()

    def _reject_input(self, error: Exception) -> None:
        """The input is not HTTP, or is a second response: the connection is not used again."""
        if self._body_complete:  # the response itself is complete
            self._reusable = False
        else:
            lib = self._owner.aiohttp
            self._fail(lib.ClientPayloadError(str(error)) if self._head_complete else lib.ClientResponseError(None, ()))
        self.transport.abort()

    def _count_framing(self, size: int) -> None:
        self._framing_size += size
        if self._framing_size > _MAX_FRAMING and not self._body_complete and self._error is None:
            self._reject_input(ValueError("the answer has too many bytes without content"))

    def _count_waiting(self, size: int) -> None:
        """Pauses the transport when too many bytes wait to be read."""
        self._waiting_size += size
        if self._inflater is not None:
            self._compressed += self._chunks
            self._chunks.clear()
        if self._waiting_size > READ_AHEAD and not self._paused and not self._body_complete:
            self._paused = True
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: BaseException | None) -> None:
        self.lost = True
        self._parser = None
        self._owner.discard(self._address, self)
        if self._body_complete or not self._in_use:
            return
        lib = self._owner.aiohttp
        if not self._head_complete:
            self._fail(exc if isinstance(exc, OSError) else lib.ServerDisconnectedError())
        elif exc is None and not ({"content-length", "transfer-encoding"} & self.headers.keys()):
            self._body_complete = True  # the end of the connection ends such a body
            self._wake()
        else:
            self._fail(lib.ClientPayloadError("the connection was closed before the answer was whole"))

    # ── called by httptools ───────────────────────────────────────────────────────────────────────

    def on_message_begin(self) -> None:
        if self._body_complete:
            raise ValueError("a second answer to one request")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_size += len(name) + len(value)
        self._header_count += 1
        if self._head_size > MAX_HEAD or self._header_count > LINES:
            raise ValueError("the head of the answer is too large")
        if self._head_complete:
            return  # a trailer must not change a header that was used already (RFC 9110, section 6.5.1)
        key = COMMON_HEADERS.get(name) or str(name.lower(), "latin-1")
        text = str(value, "latin-1").strip(" \t")
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        self._head_size = self._header_count = 0
        if status < _FIRST_STATUS:
            raise ValueError("the status of the answer has fewer than three digits")
        if status < _FIRST_FINAL_STATUS:
            self.headers = {}
            return
        if self.headers.get("transfer-encoding", "chunked").lower() != "chunked":
            raise ValueError("the answer has a transfer coding other than chunked")
        self.status = status
        self._head_complete = True
        if self.headers.get("content-encoding", "").lower() in _COMPRESSIONS:
            self._inflater = zlib.decompressobj(_ANY_WINDOW)

    def on_message_complete(self) -> None:
        if self._head_complete:
            self._body_complete = True
            self._reusable = self._parser.should_keep_alive()
