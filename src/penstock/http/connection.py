"""One connection of the straight way: HTTP/1.1, parsed by httptools. It is a response, and its content, at once.

It looks like aiohttp's to `Incoming`, and fails with its errors. `direct` keeps the connections and chooses among them.
"""

from __future__ import annotations

import asyncio
import zlib
from copy import copy
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

HIGH = 2**18  # bytes that wait to be read before the other side is held back
HEAD = 2**18  # bytes of a head at most
LINES = 1000  # header lines of a head at most: lines of one name are joined, which copies what is there
MEMBERS = 1000  # gzip members of one answer at most: each may hold nothing, and costs a copy of what follows it
PIECE = 2**18  # bytes that are unpacked at once: a little may hold a thousand times as much
_PACKED = frozenset({"gzip", "x-gzip", "deflate"})
_EITHER = 47  # 32 + 15: gzip or zlib, whichever it is
_GZIP = b"\x1f\x8b"  # what gzip begins with
_LEAST = 100  # the smallest status there is
_INFORMING = 200  # a status below it is not the answer yet


class Ways(Protocol):
    """What a connection asks of whoever keeps it."""

    web: Any
    tools: Any

    def put(self, at: tuple[object, ...], made: Connection) -> None: ...
    def forget(self, at: tuple[object, ...], made: Connection) -> None: ...


class Connection(asyncio.Protocol):
    """One connection, one answer at a time. It is the response and its content at once."""

    def __init__(self, ways: Ways, key: tuple[object, ...]) -> None:
        self._ways, self._key = ways, key
        self.loop = asyncio.get_running_loop()
        self.transport: Any = None
        self.lost = False
        self.poll: Any = None  # of its socket; whoever first looks makes it
        self.since = 0.0  # when it became idle
        self.heard = 0.0  # when something of this answer has come last; 0 before that
        self.begin()

    def begin(self) -> None:
        self._chunks: list[bytes] = []  # what has come; of a packed answer, what was unpacked
        # What the parser finds goes there without a step of ours: there are many pieces to a read of a fast stream.
        self.on_body = self._chunks.append
        # They refer to each other until `connection_lost`, so there is none before `connection_made`.
        self._parser: Any = None if self.transport is None else self._ways.tools.HttpResponseParser(self)
        self.status = 0
        self.heard = 0.0
        self.headers: dict[str, str] = {}
        self._size = 0  # bytes of the head, then bytes that wait
        self._lines = 0  # header lines that have come
        self._answering = True
        self._ready = self._complete = self._paused = self._kept = False
        self._unpack: Any = None
        self._packed: list[bytes] = []  # what has come and is not unpacked yet
        self._members = 0  # gzip members that were unpacked
        self.sent = False  # whether anything of the request may have left
        self._error: BaseException | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._take: Callable[[bytes], bool] | None = None  # what takes the next read,
        self._first: Callable[[bytes], bool] | None = None  # and what took the first

    # ── what Incoming asks of a response ──────────────────────────────────────────────────────────

    @property
    def content(self) -> Connection:
        return self

    @property
    def connection(self) -> Connection | None:
        return None if self.lost else self

    async def ask(self, data: bytes, until: float) -> None:
        """Send a request and wait for the head of its answer, up to that time of the loop's."""
        self.transport.write(data)
        self.sent = not self.transport.is_closing()  # it closes at once if nothing could be written at all
        timer = self.loop.call_at(until, self._failed, TimeoutError())
        try:
            while not self._ready:
                await self._wait_for_more()
        except BaseException:
            self.transport.abort()
            raise
        finally:
            timer.cancel()

    async def all(self) -> bytes:
        """All that has come, waiting for something to come; nothing at the end."""
        while not (data := self._waiting()):
            if self._complete:
                return self._ended()
            self._resume()  # what had come may have unpacked to nothing
            await self._wait_for_more()
        if self._unpack is not None:
            await asyncio.sleep(0)  # a few packed bytes may hold gigabytes: others have their turn between two pieces
        if not self._packed:
            self._resume()
        return data

    def _resume(self) -> None:
        """All that has come was taken: the other side may send on."""
        self._size = 0
        if self._paused and not self.lost:
            self._paused = False
            self.transport.resume_reading()

    def _waiting(self) -> bytes:
        """What has come and was not taken, in one piece."""
        chunks = self._chunks
        if not chunks and not (self._packed and self._unpacked()):
            return b""
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        return data

    async def pour(self, take: Callable[[bytes], bool]) -> None:
        """Hand on what comes in the moment it comes, until `take` says that it is enough, or there is no more.

        A reader that waits costs a future, a task's step and a round of the loop for every chunk; this one a call.
        """
        if self._chunks or self._complete or self._error is not None or self._unpack is not None:
            return
        self._take = self._first = take
        try:
            await self._wait_for_more()
        finally:
            self._take = self._first = None

    def taking(self, take: Callable[[bytes], bool]) -> None:
        """Another takes what comes from the next read on."""
        if self._take is not None:
            self._take = take

    def again(self, chunk: bytes) -> bool:
        """The first takes this, and what comes from now on."""
        self._take = self._first
        return self._take is not None and self._take(chunk)

    async def readany(self) -> bytes:
        """The same, by aiohttp's name."""
        return await self.all()

    def at_eof(self) -> bool:
        return self._complete and not self._chunks and not self._packed

    def set_exception(self, error: BaseException) -> None:
        """Somebody has waited too long."""
        self._failed(error)

    def release(self) -> None:
        """The answer was read: the connection may serve again."""
        if not self._answering:
            return
        self._answering = False
        if self._complete and self._kept and not self.lost and not self._paused:
            self._ways.put(self._key, self)
        elif self.transport is not None:
            self.transport.close()

    def close(self) -> None:
        self._answering = False
        if self.transport is not None:
            self.transport.abort()

    def _unpacked(self) -> bool:
        """Unpack a piece of what has come; False where that gives nothing."""
        while self._packed:
            data = self._packed.pop(0)
            try:
                piece: bytes = self._unpack.decompress(data, PIECE)
            except zlib.error as error:
                raise self._ways.web.http_exceptions.ContentEncodingError(str(error)) from None
            rest: bytes = self._unpack.unconsumed_tail
            if self._unpack.eof and self._unpack.unused_data[:2] == _GZIP:  # one more behind the first
                rest = self._unpack.unused_data
                self._unpack = zlib.decompressobj(_EITHER)
                self._members += 1
                if self._members > MEMBERS:
                    raise self._ways.web.http_exceptions.ContentEncodingError("it has too many gzip members")
            if rest or len(piece) == PIECE:  # it may hold more than it was given
                self._packed.insert(0, rest)
            if piece:
                self._chunks.append(piece)
                return True
        return False

    def _ended(self) -> bytes:
        """Nothing more; what is packed says itself where it ends."""
        if self._unpack is not None and not self._unpack.eof and self.headers.get("content-length") != "0":
            raise self._ways.web.http_exceptions.ContentEncodingError("it ends too early")
        return b""

    async def _wait_for_more(self) -> None:
        if self._error is not None:
            # A copy: the traceback of what is raised refers to this connection, which would refer back to it.
            raise copy(self._error)
        mine = self._waiter = self.loop.create_future()
        try:
            await mine
        finally:
            if self._waiter is mine:  # whoever reads the rest may be waiting already
                self._waiter = None

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _failed(self, error: BaseException) -> None:
        self._error = self._error or error
        self._wake()

    # ── the connection ────────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._parser = self._ways.tools.HttpResponseParser(self)

    def data_received(self, data: bytes) -> None:
        if not self._answering:  # nobody asked: whatever it is, it belongs to no answer
            self.transport.abort()
            return
        self.heard = self.loop.time()
        try:
            self._parser.feed_data(data)
        except self._ways.tools.HttpParserUpgrade:
            self._failed(self._ways.web.ClientPayloadError("it wants to speak another protocol"))
        except self._ways.tools.HttpParserError as error:
            self._unparsable(error)
        take, chunks = self._take, self._chunks
        if take is not None:
            piece = chunks.pop() if len(chunks) == 1 else self._waiting()
            if piece and not take(piece):
                self._take = None
            elif self._error is None and not self._complete:
                return  # all that came was taken, and more is wanted
        elif self._ready:
            self._held(len(data))
        if self._ready or self._error is not None:
            self._wake()

    def _unparsable(self, error: Exception) -> None:
        """What came is not HTTP, or is a second answer: the connection is not used again."""
        if self._complete:  # the answer itself is whole
            self._kept = False
        else:
            web = self._ways.web
            self._failed(web.ClientPayloadError(str(error)) if self._ready else web.ClientResponseError(None, ()))
        self.transport.abort()

    def _held(self, size: int) -> None:
        """What came must wait; when that is too much, the other side waits too."""
        self._size += size
        if self._unpack is not None:
            self._packed += self._chunks
            self._chunks.clear()
        if self._size > HIGH and not self._paused and not self._complete:
            self._paused = True
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: BaseException | None) -> None:
        self.lost = True
        self._parser = None
        self._ways.forget(self._key, self)
        if self._complete or not self._answering:
            return
        web = self._ways.web
        if not self._ready:
            self._failed(exc if isinstance(exc, OSError) else web.ServerDisconnectedError())
        elif exc is None and not ({"content-length", "transfer-encoding"} & self.headers.keys()):
            self._complete = True  # an answer that only the end of the connection ends
            self._wake()
        else:
            self._failed(web.ClientPayloadError("the connection was closed before the answer was whole"))

    # ── httptools ─────────────────────────────────────────────────────────────────────────────────

    def on_message_begin(self) -> None:
        if self._complete:
            raise ValueError("a second answer to one request")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._size += len(name) + len(value)
        self._lines += 1
        if self._size > HEAD or self._lines > LINES:
            raise ValueError("the head of the answer is too large")
        key, text = str(name.lower(), "latin-1"), str(value, "latin-1")
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        self._size = self._lines = 0
        if status < _LEAST:
            raise ValueError("the status of the answer has fewer than three digits")
        if status < _INFORMING:
            self.headers = {}
            return
        self.status = status
        self._ready = True
        if self.headers.get("content-encoding", "").lower() in _PACKED:
            self._unpack = zlib.decompressobj(_EITHER)

    def on_message_complete(self) -> None:
        if self._ready:
            self._complete = True
            self._kept = self._parser.should_keep_alive()
