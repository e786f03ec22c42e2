"""Where an answer goes: a head once, chunks, an end. Sends keep-alives when idle; aborts when the client stops reading.

One timer for the whole answer, moved when it rings: a chunk costs a counter and a look at the clock, so that silence is
measured from the last byte sent. Leans on ASGI's `send`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.framing import BLANK_LINES, KEEP_ALIVE, split_bare_error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.http.disconnect import Gone
    from penstock.http.response_channel import Line

    Headers = tuple[tuple[bytes, bytes], ...]
    Send = Callable[[Any], Awaitable[None]]

BODY = "http.response.body"
_EVENTS = b"text/event-stream; charset=utf-8"
TYPES: dict[str, bytes] = {
    "sse": _EVENTS, "sse+json": _EVENTS, "ndjson": b"application/x-ndjson", "jsonarray": b"application/json",
}  # fmt: skip
# What may be written between two frames without a reader's notice. Lines have nothing of the kind.
SIGNS: dict[str, bytes] = {"sse": KEEP_ALIVE, "sse+json": BLANK_LINES, "jsonarray": b"\n", "ndjson": b""}
# `no-transform`: a proxy that compresses a stream holds its events back.
STREAMED: Headers = ((b"cache-control", b"no-cache, no-transform"), (b"x-accel-buffering", b"no"))
APART = 0.05  # seconds between two chunks that a client should read one by one: fetch() joins what comes at once
_EARLY = 0.002  # seconds by which a timer may ring too early


class Outlet:
    """One answer on its way out. `count` is how many chunks were sent, `sent_at` when the last one was by `clock`;
    whoever sends a chunk updates both.
    """

    __slots__ = ("_beat", "_every", "_gone", "_has_bare_errors", "_head", "_limit", "_loop", "_sign", "_stuck",
                 "_timer", "begun", "clock", "count", "line", "more", "past", "send", "sent_at", "size")  # fmt: skip

    def __init__(self, send: Send, gone: Gone, *, every: float, limit: float, line: Line | None = None) -> None:
        self.send = send
        self.past = line  # what writes chunks at once, where they may go past `send`,
        self.line = line if line is not None and line.speaks(send) else None  # and where head and end may
        self.begun = False
        self.more: Headers = ()  # headers that are learnt of late
        self.count = self.size = 0
        self._gone = gone
        self._every, self._limit = every, limit
        self._loop = asyncio.get_running_loop()
        self._head: Headers = ()
        self._sign = b""
        self._has_bare_errors = False
        self.clock = self._loop.time
        self.sent_at = 0.0
        self._stuck = 0.0
        self._beat: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def whole(self, status: int, body: bytes, headers: Headers) -> None:
        """An answer in one piece."""
        self.begun = True
        self.size = len(body)
        length = (b"content-length", b"%d" % len(body))
        await self.send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
        self._gone.ending()
        await self.send({"type": BODY, "body": body, "more_body": False})

    # ── streams ───────────────────────────────────────────────────────────────────────────────────

    def prepare(self, framing: str, headers: Headers) -> None:
        """Say how a stream will look, and begin to watch: the head goes out with the first word, or in silence."""
        self._head = ((b"content-type", TYPES[framing]), *STREAMED, *headers)
        self._sign = SIGNS[framing]
        self._has_bare_errors = framing == "sse+json"
        self.sent_at = self.clock()
        if self._every > 0:
            self._timer = self._loop.call_later(self._every, self._tick)

    @property
    def prepared(self) -> bool:
        """Whether the answer is to be a stream."""
        return bool(self._head)

    async def begin(self) -> None:
        """Send the head, if it is not sent."""
        if not self.begun:
            await self._open()
        elif self._beat is not None:
            await self._beat

    async def _open(self) -> None:
        self.begun = True
        headers = [*self._head, *self.more]
        if self.line is None or not self.line.begin(headers):
            await self.send({"type": "http.response.start", "status": 200, "headers": headers})

    async def say(self, data: bytes) -> None:
        """A chunk, which may come before anything else."""
        await self.begin()
        self.count += 1
        self.sent_at = self.clock()
        self.size += len(data)
        await self.send({"type": BODY, "body": data, "more_body": True})

    async def end(self, data: bytes) -> None:
        """The last chunk. An error that clients look for in a read of its own is sent apart from what is around it."""
        if self._has_bare_errors:
            *before, data = split_bare_error(data)
            if before:
                self._gone.ending()  # a client that leaves as soon as it has the error has not called the turn off
            for piece in before:
                await self._keep_apart()
                await self.say(piece)
            if before:
                await self._keep_apart()
        await self.begin()
        self.stop()
        self._gone.ending()
        self.count += 1
        self.size += len(data)
        if self.line is None or not self.line.end(data):
            await self.send({"type": BODY, "body": data, "more_body": False})

    async def _keep_apart(self) -> None:
        """Wait until what was sent last has been read."""
        await asyncio.sleep(max(self.sent_at + APART - self.clock(), 0))

    def around(self, over: Callable[[Send], Send]) -> None:
        """Let somebody see all that is sent: then nothing goes past `send`."""
        self.send, self.past, self.line = over(self.send), None, None

    def stop(self) -> None:
        """No more signs."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        due = self.sent_at + self._every
        if self._beat is None and due - self.clock() > _EARLY:
            self._timer = self._loop.call_at(due, self._tick)
            return
        self._timer = self._loop.call_later(self._every, self._tick)
        if self._beat is not None:  # a sign that cannot be sent: the client takes nothing
            self._stuck += self._every
            if self._stuck >= self._limit:
                self.stop()
                self._beat.cancel()
                self._gone.call_off("the client has stopped reading")
            return
        self._beat = self._loop.create_task(self._signal())
        self._beat.add_done_callback(self._signalled)

    async def _signal(self) -> None:
        if not self.begun:
            await self._open()
        self.sent_at = self.clock()
        await self.send({"type": BODY, "body": self._sign, "more_body": True})

    def _signalled(self, task: asyncio.Task[None]) -> None:
        self._beat, self._stuck = None, 0.0
        if not task.cancelled():
            task.exception()  # looked at: what goes wrong here goes wrong with the next chunk too


LAST_WORDS = 0.5  # seconds that a client has to take the end of an answer that may not go on


class Flow(msgspec.Struct, frozen=True):
    """Chunks of server-sent events."""

    chunks: AsyncIterator[bytes]

    async def out(self, outlet: Outlet, headers: Headers) -> None:
        """Send all of it."""
        outlet.prepare("sse", headers)
        try:
            await outlet.begin()
            async for chunk in self.chunks:
                outlet.count += 1
                outlet.sent_at = outlet.clock()
                await outlet.send({"type": BODY, "body": chunk, "more_body": True})
            await outlet.end(b"")
        finally:
            outlet.stop()


async def end_with(outlet: Outlet, status: int, body: bytes, headers: Headers) -> int:
    """End an answer that may not go on: with a status if there is time for one, else with an event. Gives the status.

    A client that does not read is not waited for.
    """
    with suppress(TimeoutError, OSError):
        async with asyncio.timeout(LAST_WORDS):
            if outlet.begun:
                await outlet.end(b"event: error\ndata: %b\n\n" % body)
            else:
                await outlet.whole(status, body, headers)
    return status
