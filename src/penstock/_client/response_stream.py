"""The response of a web server that streams an answer, apart from any framework: status, headers, chunks, errors."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from penstock import _protocols as protocols
from penstock._bridge import encoding
from penstock._http.response_writer import CONTENT_TYPES, KEEP_ALIVES, STREAM_HEADERS
from penstock._http_errors import redact_fault
from penstock._vendor_errors import PARAM
from penstock.errors import BadRequest, InputError, MissingExtra, PenstockError, StreamFault
from penstock.events import Fault, FaultKind, Start

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

UI_STREAM = "uistream"
KEEP_ALIVE_SECONDS = 15.0  # of silence before a comment is sent, so that no proxy gives the connection up
JSON = "application/json"
# The key and the model are the server's: the page can do nothing about them, and 401 would make it ask for a login.
STATUSES: dict[FaultKind, int] = {
    "invalid": 400,
    "filter": 400,
    "too-large": 413,
    "rate-limit": 429,
    "cancelled": 499,
    "overloaded": 503,
    "timeout": 504,
}
BAD_GATEWAY = 502
_INTERNAL = Fault("other", "internal error", status=500)


class AnswerStream(Protocol):
    """What can be streamed to a client: a `Stream` or a `Run`."""

    def to(self, protocol: str, **options: Any) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None: ...


class SyncAnswerStream(Protocol):
    """The same without `await`: a `SyncStream` or a `SyncRun`."""

    def to(self, protocol: str, **options: Any) -> Iterator[bytes]: ...

    def close(self) -> None: ...


class ResponseStream:
    """The status, headers and chunks of a response. Its own task reads the answer, from the first chunk to the last.

    One task, because a tool of a run may hold a resource that must be closed by the task that opened it.
    """

    def __init__(self, source: AnswerStream, protocol: str, keep_alive: float, options: Mapping[str, Any]) -> None:
        self.status = 200
        self.headers = stream_headers(protocol)
        self._source, self._protocol, self._options = source, protocol, encoder_options(protocol, options)
        self._idle_bytes = KEEP_ALIVES[protocols.protocol(protocol).writes]
        self._keep_alive = keep_alive if self._idle_bytes else None
        self._queue: asyncio.Queue[bytes | Exception | None] = asyncio.Queue(1)
        self._task: asyncio.Task[None] | None = None
        self._first = b""
        self._ended = False

    async def open(self) -> None:
        """Waits for the first chunk. An error before it decides on the status and the headers."""
        self._task = asyncio.create_task(self._read())
        try:
            item = await self._queue.get()
        except asyncio.CancelledError:
            await self.aclose()
            raise
        self._ended = not isinstance(item, bytes)
        if isinstance(item, PenstockError):
            self.status, self.headers, self._first = build_error(item, self._protocol)
        elif isinstance(item, Exception):
            raise item
        else:
            self._first = item or b""

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self.chunks()

    def close(self) -> None:
        """Ends the reading, from any thread. Django calls it when a response is over, sent or not."""
        if self._task is not None:
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yields the body, and comments while the provider is silent. Ends the reading when it is closed."""
        try:
            if self._first:
                yield self._first
            while not self._ended:
                item = await self._next_item()
                if isinstance(item, bytes):
                    yield item
                    continue
                self._ended = True
                if isinstance(item, Exception):
                    yield encode_fault(_fault_of(item, self._protocol), self._protocol)
                if isinstance(item, Exception) and not isinstance(item, PenstockError):
                    raise item  # for the server's log
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Ends the reading: the connection to the provider is closed."""
        self._ended = True
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _read(self) -> None:
        last: Exception | None = None
        try:
            async for chunk in self._source.to(self._protocol, **self._options):
                await self._queue.put(chunk)
        except Exception as error:  # noqa: BLE001 — the reader of the queue raises it
            last = error
        finally:
            await self._source.aclose()
        await self._queue.put(last)

    async def _next_item(self) -> bytes | Exception | None:
        try:
            async with asyncio.timeout(self._keep_alive):
                return await self._queue.get()
        except TimeoutError:
            return self._idle_bytes


class SyncResponseStream:
    """The same for a source without `await`. The thread that reads the chunks reads the answer."""

    def __init__(self, source: SyncAnswerStream, protocol: str, options: Mapping[str, Any]) -> None:
        self.status = 200
        self.headers = stream_headers(protocol)
        self._source, self._protocol = source, protocol
        self._chunks = iter(source.to(protocol, **encoder_options(protocol, options)))
        self._first = b""

    def open(self) -> None:
        """Waits for the first chunk. An error before it decides on the status and the headers."""
        try:
            self._first = next(self._chunks, b"")
        except PenstockError as error:
            self.close()
            self.status, self.headers, self._first = build_error(error, self._protocol)
            self._chunks = iter(())

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield self._first
            yield from self._chunks
        except Exception as error:
            yield encode_fault(_fault_of(error, self._protocol), self._protocol)
            if not isinstance(error, PenstockError):
                raise  # for the server's log
        finally:
            self.close()

    def close(self) -> None:
        """Ends the reading: the connection to the provider is closed."""
        self._source.close()


def stream_headers(protocol: str) -> dict[str, str]:
    """Returns the headers of a stream: its type, and that nobody may keep it back."""
    headers = {name.decode(): value.decode() for name, value in STREAM_HEADERS}
    headers["content-type"] = CONTENT_TYPES[protocols.protocol(protocol).writes].decode()
    return {**headers, "x-vercel-ai-ui-message-stream": "v1"} if protocol == UI_STREAM else headers


def encoder_options(protocol: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the options of the encoder. A UI stream gets no message id, unless one is given.

    Without an id a page continues its last message; with a new id it would show that message twice.
    """
    return {"message_id": "", **options} if protocol == UI_STREAM else options


def encode_fault(fault: Fault, protocol: str) -> bytes:
    """Returns a fault as a protocol writes it in the middle of a stream."""
    pipe = encoding(protocol)
    pipe.feed([Start()])
    return b"".join([*pipe.feed([fault]), *pipe.finish()])


def build_error(error: Exception, protocol: str) -> tuple[int, dict[str, str], bytes]:
    """Returns the status, headers and body of an error before the first byte."""
    fault = _fault_of(error, protocol)
    headers = {"content-type": JSON, "cache-control": "no-store"}
    if fault.retry_after is not None:
        headers["retry-after"] = str(max(1, round(fault.retry_after)))
    status = 500 if isinstance(error, MissingExtra) else STATUSES.get(fault.kind, BAD_GATEWAY)
    return status, headers, protocols.error_body(protocol, fault)


def _fault_of(error: Exception, protocol: str) -> Fault:
    """Returns the fault of an error, without secrets. Errors that are not ours may hold anything: they stay unnamed."""
    if isinstance(error, StreamFault):
        return redact_fault(error.fault)
    if isinstance(error, BadRequest):
        extra = {protocol: {PARAM: error.path}} if error.path else None
        return redact_fault(Fault("invalid", str(error), status=400, extra=extra))
    if isinstance(error, InputError):
        return redact_fault(Fault("invalid", str(error), status=400))
    return _INTERNAL
