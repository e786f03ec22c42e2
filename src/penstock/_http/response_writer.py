"""Writes one response: a head, chunks, an end. Sends keep-alives when idle; aborts when the client stops reading.

One timer serves the whole response and is moved when it fires: a chunk costs a counter and a look at the clock, so the
idle time counts from the last byte sent. Writes go to ASGI's `send`, or to the request's `ResponseChannel`.

`DisconnectWatch` cancels the request's task when the client disconnects, its key is revoked or the server stops. A
disconnect is reported by the channel or by ASGI's `http.disconnect`. The task closes its own resources.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._framing.sse import BLANK_LINES, KEEP_ALIVE, split_bare_error
from penstock._http.header_fields import encode_response_headers

if TYPE_CHECKING:
    from penstock._http.direct_response import ResponseChannel
    from penstock.events import Fault

    Headers = tuple[tuple[bytes, bytes], ...]
    Receive = Callable[[], Awaitable[Any]]
    Send = Callable[[Any], Awaitable[None]]


class CancellableTask:
    """The current task, for others to cancel. `reason` says why it was cancelled.

    `fault` is sent to the client if the client is not the one who ended the response.
    """

    __slots__ = ("_finished", "_task", "fault", "reason")

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 — an application runs in a task
        self._task = task
        self._finished = False
        self.reason: str = ""
        self.fault: Fault | None = None

    def cancel_with(self, fault: Fault) -> None:
        """Cancels the task, which then ends the response with this fault."""
        if not self._finished and not self.reason:
            self.fault = fault
            self.cancel(fault.message)

    def cancel(self, reason: str) -> None:
        """Cancels the task, once."""
        if not self._finished and not self.reason:
            self.reason = reason
            self._task.cancel()

    def absorb_cancellation(self) -> bool:
        """Takes back a caught cancellation if `cancel` caused it. False: raise it again."""
        if self.reason:
            self._task.uncancel()
        return bool(self.reason)


class DisconnectWatch(CancellableTask):
    """Cancels the current task when the client disconnects or stops reading. Call `close` at the end."""

    __slots__ = ("_channel", "_waiter", "on_leave")

    def __init__(self, receive: Receive, channel: ResponseChannel | None = None) -> None:
        super().__init__()
        self.on_leave: Callable[[], None] | None = None  # called instead of a cancellation: the task goes on
        self._channel = channel
        self._waiter: asyncio.Task[None] | None = None
        if channel is not None:
            channel.watch_disconnect(self._on_disconnect)
        else:
            self._waiter = asyncio.get_running_loop().create_task(self._wait(receive))

    async def _wait(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._on_disconnect()

    def _on_disconnect(self) -> None:
        self.leave("the client has gone")

    def leave(self, reason: str) -> None:
        """The client gets nothing more: cancels the task, unless the task goes on without it."""
        if self.on_leave is not None:
            self.on_leave()
        else:
            self.cancel(reason)

    def ignore_disconnect(self) -> None:
        """Only the end of the response is left to send. Servers report that end as a disconnect."""
        self._finished = True

    def give_up(self, reason: str) -> None:
        """The end of the response cannot be sent."""
        self._finished = False
        self.leave(reason)

    def close(self) -> None:
        """Stops watching."""
        self._finished, self.on_leave = True, None
        if self._channel is not None:
            self._channel.on_disconnect = None
        if self._waiter is not None:
            self._waiter.cancel()
            self._waiter = None  # its exception has a traceback that refers to this object


NO_CONTENT = 204  # has no body and no length: RFC 9110, section 8.6
START = "http.response.start"
BODY = "http.response.body"
_SSE = b"text/event-stream; charset=utf-8"
CONTENT_TYPES = {"sse": _SSE, "sse+json": _SSE, "ndjson": b"application/x-ndjson", "jsonarray": b"application/json"}
# Bytes between two frames that every reader skips. NDJSON has none.
KEEP_ALIVES = {"sse": KEEP_ALIVE, "sse+json": BLANK_LINES, "jsonarray": b"\n", "ndjson": b""}
# `no-transform`: a proxy that compresses a stream delays its events.
STREAM_HEADERS: Headers = ((b"cache-control", b"no-cache, no-transform"), (b"x-accel-buffering", b"no"))
ERROR_GAP = 0.1  # seconds between two chunks that a client must read separately: fetch() joins simultaneous ones
ERROR_SECONDS = 0.5  # that a client has to read the error of a response that is aborted
_TIMEOUT_STEPS = 5
_TIMER_SLACK = 0.002  # seconds by which a timer may fire too early


async def send_response(send: Send, status: int, body: bytes, headers: Headers, *, head_only: bool = False) -> None:
    """Sends a complete response. Raises for a header that is not valid. `head_only`: the answer to a HEAD request."""
    fields = [*headers, (b"content-length", b"%d" % len(body))]
    encode_response_headers(fields)
    await send({"type": START, "status": status, "headers": fields})
    await send({"type": BODY, "body": b"" if head_only else body, "more_body": False})


class ResponseWriter:
    """Writes one response. `chunk_count`: chunks sent; `sent_at`: when the last one was sent, by `clock`.

    Code that sends a chunk by itself updates both. `channel` writes chunks past `send`, None if that is not allowed.
    """

    def __init__(
        self,
        send: Send,
        watch: DisconnectWatch,
        *,
        keep_alive: float,
        stuck_limit: float,
        channel: ResponseChannel | None = None,
    ) -> None:
        self.send: Send = send
        self.channel = channel
        # A wrapper of `send` must see the head and the end: then only chunks go to the channel.
        self._head_channel = channel if channel is not None and channel.owns_send(send) else None
        self.started: bool = False
        self.late_headers: Headers = ()  # known only after `prepare_stream`
        self.chunk_count: int = 0
        self.body_size: int = 0
        self._watch = watch
        self._interval, self._stuck_limit = keep_alive, stuck_limit
        self._loop = asyncio.get_running_loop()
        self._headers: Headers = ()
        self._keep_alive = b""
        self._has_bare_errors = False
        self.clock: Callable[[], float] = self._loop.time
        self.sent_at: float = 0.0
        self._stuck_seconds = 0.0
        self._keep_alive_task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def send_response(self, status: int, body: bytes, headers: Headers) -> None:
        """Sends a complete response."""
        self.started = True
        self.body_size = len(body)
        fields = [*headers, (b"content-length", b"%d" % len(body))] if status != NO_CONTENT else [*headers]
        encode_response_headers(fields)
        await self.send({"type": START, "status": status, "headers": fields})
        self._watch.ignore_disconnect()
        await self.send({"type": BODY, "body": body, "more_body": False})

    # ── streams ───────────────────────────────────────────────────────────────────────────────────

    def prepare_stream(self, framing: str, headers: Headers) -> None:
        """Sets the headers and starts the keep-alive timer. The head leaves with the first chunk or keep-alive."""
        self._headers = ((b"content-type", CONTENT_TYPES[framing]), *STREAM_HEADERS, *headers)
        self._keep_alive = KEEP_ALIVES[framing]
        self._has_bare_errors = framing == "sse+json"
        self.sent_at = self.clock()
        if self._interval > 0:
            self._timer = self._loop.call_later(self._interval, self._on_timer)

    @property
    def prepared(self) -> bool:
        """True if the response is a stream."""
        return bool(self._headers)

    async def start(self) -> None:
        """Sends the head, unless it is sent."""
        if not self.started:
            await self._send_head()
        elif self._keep_alive_task is not None:
            await self._keep_alive_task

    async def _send_head(self) -> None:
        self.started = True
        headers = [*self._headers, *self.late_headers]
        if self._head_channel is None or not self._head_channel.start_stream(headers):
            encode_response_headers(headers)
            await self.send({"type": START, "status": 200, "headers": headers})

    async def write(self, data: bytes) -> None:
        """Sends a chunk, after the head."""
        await self.start()
        self.chunk_count += 1
        self.sent_at = self.clock()
        self.body_size += len(data)
        await self.send({"type": BODY, "body": data, "more_body": True})

    async def end(self, data: bytes) -> None:
        """Sends the last chunk. A bare error is sent alone, because clients look for it in a separate read."""
        if self._has_bare_errors:
            *before, data = split_bare_error(data)
            if before:
                await self.start()
                self.stop_keep_alives()  # one between the error and its event would separate them
                self._watch.ignore_disconnect()  # a client that disconnects after the error does not cancel the turn
            for piece in before:
                await self._wait_error_gap()
                await self.write(piece)
            if before:
                await self._wait_error_gap()
        await self.start()
        self.stop_keep_alives()
        self._watch.ignore_disconnect()
        self.chunk_count += 1
        self.body_size += len(data)
        if self._head_channel is None or not self._head_channel.end_stream(data):
            await self._send_end(data)

    async def _send_end(self, data: bytes) -> None:
        """Sends the last chunk. No timer runs any more, so a client that has stopped reading is noticed here."""
        try:
            async with write_timeout(self._stuck_limit):
                await self.send({"type": BODY, "body": data, "more_body": False})
        except TimeoutError:
            self._watch.give_up("the client has stopped reading")
            await asyncio.sleep(0)  # where the cancellation arrives

    async def _wait_error_gap(self) -> None:
        """Waits until the client has read the last chunk."""
        await asyncio.sleep(max(self.sent_at + ERROR_GAP - self.clock(), 0))

    def wrap_send(self, wrapper: Callable[[Send], Send]) -> None:
        """Wraps `send`. From then on every write goes through it, none to the channel."""
        self.send, self.channel, self._head_channel = wrapper(self.send), None, None

    def stop_keep_alives(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        due = self.sent_at + self._interval
        if self._keep_alive_task is None and due - self.clock() > _TIMER_SLACK:
            self._timer = self._loop.call_at(due, self._on_timer)
            return
        self._timer = self._loop.call_later(self._interval, self._on_timer)
        if self._keep_alive_task is not None:  # the last keep-alive is still not written: the client does not read
            self._stuck_seconds += self._interval
            if self._stuck_seconds >= self._stuck_limit:
                self.stop_keep_alives()
                self._keep_alive_task.cancel()
                self._watch.leave("the client has stopped reading")
            return
        self._keep_alive_task = self._loop.create_task(self._send_keep_alive())
        self._keep_alive_task.add_done_callback(self._on_keep_alive_sent)

    async def _send_keep_alive(self) -> None:
        if not self.started:
            await self._send_head()
        self.sent_at = self.clock()
        await self.send({"type": BODY, "body": self._keep_alive, "more_body": True})

    def _on_keep_alive_sent(self, task: asyncio.Task[None]) -> None:
        self._keep_alive_task, self._stuck_seconds = None, 0.0
        if not task.cancelled():
            task.exception()  # marks it as retrieved: the next chunk fails in the same way


class EventStream(msgspec.Struct, frozen=True):
    """A response of server-sent events that is not a turn: a stored stream, or one that is followed."""

    chunks: AsyncIterator[bytes]
    framing: str = "sse"
    headers: tuple[tuple[bytes, bytes], ...] = ()

    async def send_to(self, writer: ResponseWriter, headers: Headers) -> None:
        """Sends all chunks."""
        writer.prepare_stream(self.framing, (*self.headers, *headers))
        try:
            await writer.start()
            async for chunk in self.chunks:
                writer.chunk_count += 1
                writer.sent_at = writer.clock()
                await writer.send({"type": BODY, "body": chunk, "more_body": True})
            await writer.end(b"")
        finally:
            writer.stop_keep_alives()


@asynccontextmanager
async def write_timeout(seconds: float) -> AsyncGenerator[None]:
    """A timeout for what a client must read. Time in which the event loop itself was blocked does not count."""
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle | None = None

    def count_down(left: int) -> None:
        nonlocal timer
        if left:
            timer = loop.call_later(seconds / _TIMEOUT_STEPS, count_down, left - 1)
        else:
            timeout.reschedule(loop.time())

    async with asyncio.timeout(None) as timeout:
        count_down(_TIMEOUT_STEPS)
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()


async def end_with_error(writer: ResponseWriter, status: int, body: bytes, headers: Headers) -> int:
    """Aborts a response:

    with an error response if the head is not sent yet, else with an error event. Returns the status. Gives up after
    `ERROR_SECONDS` if the client does not read.
    """
    with suppress(TimeoutError, OSError):
        async with write_timeout(ERROR_SECONDS):
            if writer.started:
                await writer.end(b"event: error\ndata: %b\n\n" % body)
            else:
                await writer.send_response(status, body, headers)
    return status
