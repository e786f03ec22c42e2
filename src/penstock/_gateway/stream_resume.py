"""Resumable streams: keeps the bytes of running streams, and sends them to clients that come back and to followers.

A stream is kept if the client or the configuration asks for it. Its frames then have an `id`: the id of the stream, and
the position after the frame. A client resumes by sending the last one as `Last-Event-ID`, on any replica that shares
the log. Without a request to keep a stream nothing is wrapped, and no frame costs more.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from penstock._gateway import passthrough_frames as sse
from penstock._gateway.client_stream import encode_late_error
from penstock._gateway.endpoints import IncomingRequest, TurnRequest
from penstock._http.response_writer import BODY, KEEP_ALIVES, EventStream
from penstock._store.limit_store import StoreUnavailable
from penstock._store.stream_log import MemoryStreamLog
from penstock.errors import InputError, StreamFault
from penstock.events import Fault
from penstock.request import Request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from penstock._gateway.config import GatewayConfig
    from penstock._http.response_writer import DisconnectWatch
    from penstock._store.stream_log import LogReader, LogWriter, StreamLog, StreamState

    Send = Callable[[Any], Awaitable[None]]

RESUME_HEADER = "x-penstock-resume"
LAST_EVENT_ID = "last-event-id"
_EVENT_ID = re.compile(r"([0-9a-f]{32})-([0-9]{1,15})")
_FRAMINGS = frozenset({"sse", "sse+json"})
_KEEP_ALIVES = frozenset(KEEP_ALIVES.values())
_READ_SECONDS = 2.0  # that a follower waits for bytes before it looks whether the gateway stops
CANCEL_SECONDS = 10.0  # that a stream has to end after it was cancelled
_OK = 200
CANCELLED = Fault("cancelled", "the stream was cancelled", code="cancelled")
UNKNOWN_STREAM = Fault(
    "not-found",
    "Last-Event-ID: this stream is not kept any more; send the request again without the header",
    status=404,
    code="stream_not_found",
)
_FAULTS: dict[StreamState, Fault] = {
    "overflow": Fault(
        "truncated",
        "the stream is longer than resume.size and is not kept; send the request again, or raise resume.size",
        status=410,
        code="stream_too_long",
    ),
    "deleted": Fault("not-found", "the stream was deleted", status=404, code="stream_not_found"),
    "lost": Fault(
        "server",
        "the gateway process that made this stream has ended; send the request again",
        status=502,
        code="stream_lost",
    ),
}
_AWAY = Fault(
    "overloaded",
    "the store of streams is away; resume again in a moment",
    status=503,
    code="stream_store_away",
    retry_after=1.0,
)
_STOPPING = Fault(
    "overloaded",
    "this gateway is shutting down; the stream goes on: resume it on another one",
    status=503,
    code="shutting-down",
    retry_after=1.0,
)


class DeletedStream(StreamFault):
    """The stream existed and was deleted."""


class StreamHead(msgspec.Struct, omit_defaults=True):
    """What a follower needs to know of a stream. `id` and `model` are those of the answer."""

    protocol: str
    framing: str
    id: str
    model: str
    event_ids: bool = False
    headers: tuple[tuple[bytes, bytes], ...] = ()
    response: bytes = b""  # of a background response: the first one that was sent

    def encode_error(self, fault: Fault, last: bytes) -> bytes:
        """Returns an error in the form of the stream. `last` are the last bytes that were sent."""
        options = {"id": self.id, "model": self.model}
        turn_request = TurnRequest(Request(model=self.model), self.protocol, framing=self.framing, options=options)
        return encode_late_error(turn_request, fault, last=last)


_encode_head = msgspec.msgpack.Encoder().encode
_decode_head = msgspec.msgpack.Decoder(StreamHead).decode


class StreamTap:
    """Adds a response to the log on its way to the client.

    With `stays`, the turn goes on without the client if that disconnects or stops reading.
    """

    def __init__(self, id: str, head: StreamHead, writer: LogWriter, watch: DisconnectWatch, *, stays: bool) -> None:
        self._id, self._head, self._writer, self._watch = id, head, writer, watch
        self._is_stream = self._ended = self._left = False
        self._position = 0
        self._last = b""
        self._sending: set[asyncio.Task[Any]] = set()
        writer.when_cancelled(lambda: watch.cancel_with(CANCELLED))
        if stays:
            watch.on_leave = self._leave

    def wrap_send(self, send: Send) -> Send:
        async def sending(message: Any) -> None:
            if message["type"] != BODY:
                self._is_stream = message["status"] == _OK
            elif self._is_stream:
                message = self._add(message)
            if not self._left:
                await self._send(send, message)

        return sending

    def _add(self, message: Any) -> Any:
        data: bytes = message["body"]
        self._ended = not message["more_body"]
        if not data or data in _KEEP_ALIVES:
            return message
        self._writer.append(data)
        start, self._position, self._last = self._position, self._position + len(data), data
        return {**message, "body": add_event_ids(data, self._id, start)} if self._head.event_ids else message

    async def _send(self, send: Send, message: Any) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 — an application runs in a task
        self._sending.add(task)
        try:
            await send(message)
        except asyncio.CancelledError:
            if not self._left or self._watch.reason:
                raise
            task.uncancel()
        except OSError:
            if self._watch.on_leave is None:
                raise
            self._left = True
        finally:
            self._sending.discard(task)

    def _leave(self) -> None:
        """Goes on without the client. A write that waits for it is given up."""
        self._left = True
        for task in self._sending:
            task.cancel()

    def close(self, fault: Fault | None) -> None:
        """Ends the stream. One that ended without a last frame gets an error, for those who follow it."""
        if not self._ended:
            self._writer.append(self._head.encode_error(fault or _FAULTS["lost"], self._last))
        self._writer.finish()


class StreamResume:
    """The log of streams, made when it is first needed, and what decides which streams are kept."""

    def __init__(self, config: GatewayConfig) -> None:
        self._config = config
        self._log: StreamLog | None = None
        self._stopped = False

    def stop(self) -> None:
        """End followers of other processes' streams. Those of this process end with the streams that they follow."""
        self._stopped = True

    def reload(self, config: GatewayConfig) -> None:
        """Use another configuration for new streams. The log and its bounds stay."""
        self._config = config

    @property
    def log(self) -> StreamLog:
        """The log: in Redis if there is one, else in memory."""
        if self._log is None:
            resume, redis = self._config.resume, self._config.stores.redis
            if redis:
                from penstock._store.redis_streams import RedisStreamLog  # noqa: PLC0415 — an optional extra

                # Without PostgreSQL each replica has its own stored responses, and must hear what others delete.
                age = 0.0 if self._config.stores.postgres else self._config.state.hours * 3600
                bounds = {"size": resume.size, "total": resume.total}
                self._log = RedisStreamLog(redis, **bounds, keep=resume.keep, deletions=age)
            else:
                self._log = MemoryStreamLog(size=resume.size, total=resume.total, keep=resume.keep)
        return self._log

    async def aclose(self) -> None:
        if self._log is not None:
            await self._log.aclose()

    def resume_mode(self, incoming: IncomingRequest) -> Literal["", "keep", "background"]:
        """Return whether a stream is kept, and whether it goes on without its client."""
        value, resume = incoming.headers.get(RESUME_HEADER), self._config.resume
        if value is None and not resume.enabled:
            return ""
        words = {None: "keep", "true": "keep", "background": "background", "false": ""}
        mode = words.get(value.lower() if value is not None else None)
        if mode is None:
            raise InputError(f"{RESUME_HEADER}: expected true, background or false, found {str(value)[:40]!r}")
        if mode == "keep" and not resume.background_on_disconnect:
            return "keep"
        return "background" if mode else ""

    def tap(self, incoming: IncomingRequest, turn_request: TurnRequest, watch: DisconnectWatch) -> StreamTap | None:
        """Begin to keep a stream, if somebody asks for it."""
        if RESUME_HEADER not in incoming.headers and not self._config.resume.enabled:  # most streams
            return None
        if turn_request.framing not in _FRAMINGS or not turn_request.request.stream:
            return None
        mode = self.resume_mode(incoming)
        if not mode:
            return None
        # Google's SDKs cannot read `id` lines: they get them only if they ask.
        ids = turn_request.framing == "sse" or RESUME_HEADER in incoming.headers
        head = make_head(turn_request, event_ids=ids)
        writer = self.log.begin(incoming.caller.tenant, incoming.id, _encode_head(head), turn_request.stream_name)
        return StreamTap(incoming.id, head, writer, watch, stays=mode == "background")

    def begin_background(self, incoming: IncomingRequest, turn_request: TurnRequest, response: bytes) -> LogWriter:
        """Begin to keep the stream of a background response."""
        head = make_head(turn_request, event_ids=bool(self.resume_mode(incoming)))
        head.response = response
        return self.log.begin(incoming.caller.tenant, incoming.id, _encode_head(head))

    async def open(self, tenant: str, id: str, *, needed: bool = True) -> FollowedStream | None:
        """Return a stream of a tenant; None if there is none. Not `needed`: None also if the store is away.

        Raises `DeletedStream` for one that was deleted a short time ago.
        """
        try:
            reader = await self.log.open(tenant, id)
        except StoreUnavailable:
            if not needed:
                return None
            raise StreamFault(_AWAY) from None
        if reader is not None and reader.state == "deleted":
            raise DeletedStream(_FAULTS["deleted"])
        return FollowedStream(id, reader, lambda: self._stopped) if reader is not None else None

    async def find(self, tenant: str, name: str) -> FollowedStream | None:
        """Return the newest stream of a name."""
        try:
            id = await self.log.find(tenant, name)  # noqa: A001 — as stores call it
        except StoreUnavailable:
            raise StreamFault(_AWAY) from None
        return await self.open(tenant, id) if id is not None else None

    async def cancel(self, tenant: str, id: str) -> None:
        """Cancel a stream on whatever replica it runs, and wait for its end.

        A replica that seems to be dead may only be slow: it is told too, but not waited for.
        """
        stream = await self.open(tenant, id, needed=False)
        if stream is None or stream.state not in {"", "lost"}:
            return
        try:
            await self.log.cancel(tenant, id)
        except StoreUnavailable:
            raise StreamFault(_AWAY) from None
        if not stream.state:
            await stream.wait_end(CANCEL_SECONDS)

    async def drop(self, tenant: str, id: str) -> None:
        """Forget a stream. Raises if the store is away."""
        try:
            await self.log.drop(tenant, id)
        except StoreUnavailable:
            raise StreamFault(_AWAY) from None


def make_head(turn_request: TurnRequest, *, event_ids: bool) -> StreamHead:
    options, model = turn_request.options, turn_request.request.model
    head = StreamHead(turn_request.protocol, turn_request.framing, str(options.get("id", "")), model)
    head.event_ids, head.headers = event_ids, turn_request.headers
    return head


class FollowedStream:
    """A stream that a client follows. `is_stopped` tells whether the gateway stops."""

    def __init__(self, id: str, reader: LogReader, is_stopped: Callable[[], bool]) -> None:
        self.id, self.state = id, reader.state
        self.head: StreamHead = _decode_head(reader.head)
        self._reader, self._is_stopped = reader, is_stopped

    def events(
        self, position: int = 0, last: bytes = b"", is_seen: Callable[[bytes], bool] | None = None
    ) -> EventStream:
        """Return the response that sends what follows a position, and the frame from the first that is not seen."""
        if self.state == "overflow":
            raise StreamFault(_FAULTS["overflow"])
        chunks = self._follow(position, last, is_seen)
        return EventStream(chunks, framing=self.head.framing, headers=self.head.headers)

    async def _follow(
        self, position: int, last: bytes, is_seen: Callable[[bytes], bool] | None
    ) -> AsyncIterator[bytes]:
        while True:
            try:
                page = await self._reader.read(position, _READ_SECONDS)
            except StoreUnavailable:
                yield self.head.encode_error(_AWAY, last)
                return
            data = page.data
            if data and is_seen is not None:
                data = _drop_seen(data, is_seen)
                is_seen = None if data else is_seen
            position = page.position
            if data:
                last = data
                yield add_event_ids(data, self.id, position - len(data)) if self.head.event_ids else data
            if page.state:
                if page.state != "finished":
                    yield self.head.encode_error(_FAULTS[page.state], last)
                return
            if self._is_stopped() and not self._reader.is_local:
                yield self.head.encode_error(_STOPPING, last)
                return

    async def after_event(self, incoming: IncomingRequest) -> bytes | EventStream | None:
        """Return the response to a GET with `Last-Event-ID` of this stream; None without one.

        If nothing follows it is empty, with status 204: an `EventSource` then does not connect again.
        """
        seen = read_event_id(incoming)
        if seen is None or seen[0] != self.id:
            return None
        with suppress(StoreUnavailable):
            if self.state and not (await self._reader.read(seen[1], 0)).data:
                return b""
        return self.events(seen[1])

    async def read_all(self) -> bytes:
        """Return the bytes of a stream that has ended."""
        pieces, position = list[bytes](), 0
        while True:
            page = await self._reader.read(position, _READ_SECONDS)
            pieces.append(page.data)
            position = page.position
            if page.state or not page.data:
                return b"".join(pieces)

    async def wait_end(self, seconds: float) -> None:
        """Wait until the stream has ended."""
        position = 0
        try:
            async with asyncio.timeout(seconds):
                while not (page := await self._reader.read(position, _READ_SECONDS)).state:
                    position = page.position
        except (TimeoutError, StoreUnavailable):
            return


def _drop_seen(data: bytes, is_seen: Callable[[bytes], bool]) -> bytes:
    """Return the frames from the first that is not seen."""
    start = 0
    for frame in sse.split_frames(data):
        if not is_seen(frame):
            break
        start += len(frame)
    return data[start:]


def add_event_ids(data: bytes, stream: str, position: int) -> bytes:
    """Add an `id` line to each frame with data. `position` is where the bytes begin in the stream."""
    frames: list[bytes] = []
    for frame in sse.split_frames(data):
        position += len(frame)
        line_end = b"\r\n" if frame.endswith(b"\r\n") else b"\n"
        if frame.endswith(line_end * 2) and (frame.startswith(b"data") or b"\ndata" in frame):
            frames.append(b"%bid: %b-%d%b%b" % (frame[: -len(line_end)], stream.encode(), position, line_end, line_end))
        else:
            frames.append(frame)
    return b"".join(frames)


def read_event_id(incoming: IncomingRequest) -> tuple[str, int] | None:
    """Return the stream and the position of the header `Last-Event-ID`; None if it is not one of ours."""
    value = incoming.headers.get(LAST_EVENT_ID)
    found = _EVENT_ID.fullmatch(value) if value is not None else None
    return (found[1], int(found[2])) if found is not None else None
