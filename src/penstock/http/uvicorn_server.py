"""How the gateway listens: uvicorn, with limits to what a connection may do before there is a request.

A request line and headers must come whole within a time and a size. Shutdown gives answers `serve.drain` seconds to
become whole, then has them end with an error in their dialect, and closes the application only when none is left.
A second signal skips the wait. Needs the extra `serve`.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from penstock.errors import InputError, MissingExtra
from penstock.http.response_channel import NAME, Line
from penstock.input_limits import MAX_PIPELINED

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

try:
    import uvicorn
    from uvicorn.protocols.http.auto import AutoHTTPProtocol
except ImportError as error:
    raise MissingExtra("uvicorn", "serve") from error

PING = 30.0  # seconds between two signs of life on a WebSocket
PONG = 600.0  # seconds that a client may leave one unanswered: many read nothing while they run their tools
COLLECT = (10_000, 20, 20)  # objects more than before, and rounds, until the collector looks
SETTLE = 5.0  # seconds in which answers that were ended must be written, and their tasks over
FORCED = 1.0  # the same after a second signal
_LATE = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_Base: Any = AutoHTTPProtocol


class ServerSettings(Protocol):
    """The part of the gateway's table `serve` that the server reads. Sizes in bytes, times in seconds."""

    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def headers(self) -> int: ...
    @property
    def body(self) -> int: ...
    @property
    def read(self) -> float: ...
    @property
    def idle(self) -> float: ...
    @property
    def drain(self) -> float: ...


class Bounded(_Base):  # type: ignore[misc]
    """Uvicorn's protocol, whichever it chose, with bounds on the head of a request."""

    size = 64 * 1024
    patience = 60.0
    _came = 0  # bytes of a head that is not whole yet
    _timer: Any = None
    _cycle: Any = None  # of the last whole head
    _lines: tuple[Line, ...] = ()  # of requests that are not answered yet

    def on_headers_complete(self) -> None:
        """Only httptools calls this: with another parser there is no line.

        One read can hold thousands of small requests, from a caller that nobody knows yet. No client of a model sends
        requests ahead, so a few may wait, and more end the connection.
        """
        if len(self._lines) > MAX_PIPELINED:
            self.transport.abort()  # no answer: it would be read as a part of the one that is going on
            raise ValueError("too many pipelined requests")  # so that the parser stops
        before = self.cycle
        super().on_headers_complete()  # pyright: ignore[reportUnknownMemberType]
        if self.cycle is not before:
            self.cycle.transport = line = Line(self.cycle, self.transport, self.loop)
            self.scope[NAME] = line
            self._lines = (*self._answering(), line)

    def _answering(self) -> tuple[Line, ...]:
        """The lines that are still needed."""
        for line in self._lines:
            if line.over:
                line.part()
        return tuple([line for line in self._lines if not line.over])

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)  # pyright: ignore[reportUnknownMemberType]
        self._timer = self.loop.call_later(self.patience, self._late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        for line in self._lines:
            line.left()
            line.part()  # its turn may go on for a moment, but holds the line itself
        self._lines = ()
        super().connection_lost(exc)  # pyright: ignore[reportUnknownMemberType]

    def data_received(self, data: bytes) -> None:
        super().data_received(data)  # pyright: ignore[reportUnknownMemberType]
        if self.cycle is not self._cycle:  # a head has come whole
            self._cycle, self._came = self.cycle, 0
            self._timer.cancel()
        elif self._cycle is None or self._cycle.response_complete:
            self._heading(len(data))

    def _heading(self, size: int) -> None:
        if self.transport.get_protocol() is not self:  # it is a WebSocket now
            self._timer.cancel()
            self.parser = None  # it refers back to this, which nobody needs any more
            return
        if not self._came:
            self._timer.cancel()
            self._timer = self.loop.call_later(self.patience, self._late)
        self._came += size
        if self._came > self.size:
            self._close(_LARGE)

    def _late(self) -> None:
        self._close(_LATE if self._came else b"")

    def _close(self, said: bytes) -> None:
        self._timer.cancel()
        if not self.transport.is_closing():
            self.transport.write(said)
            self.transport.close()


class Server(uvicorn.Server):
    """Says where it listens once it does, ends answers that take too long, and closes the application last."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[int, Server], None], drain: float = 0.0) -> None:
        super().__init__(config)
        self._ready = ready
        self._drain = drain
        self._loop: asyncio.AbstractEventLoop | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal begins the shutdown; a second one, of either kind, ends what is left of it."""
        again = self.should_exit
        super().handle_exit(sig, frame)
        if again:
            self.force_exit = True
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._end_answers)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        _settle()
        if sockets and not self.should_exit:
            self._ready(sockets[0].getsockname()[1], self)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        closing = self.lifespan.shutdown
        loop = self._loop = asyncio.get_running_loop()
        stopping = getattr(self.config.app, "stopping", None)
        if stopping is not None:  # those who only listen are not waited for
            stopping()
        timer = loop.call_later(self._drain, self._end_answers)

        async def settled() -> None:
            """Turns that were ended write their rows before the journal is closed."""
            await self._settled(SETTLE)
            await closing()

        self.lifespan.shutdown = settled
        await super().shutdown(sockets)
        timer.cancel()
        if self.force_exit:  # uvicorn leaves the application as it is
            await self._settled(FORCED)
            with suppress(TimeoutError):
                await asyncio.wait_for(closing(), FORCED)

    def _end_answers(self) -> None:
        end = getattr(self.config.app, "end_answers", None)
        if end is not None:
            end()

    async def _settled(self, limit: float) -> None:
        tasks = set(self.server_state.tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=limit)


def _settle() -> None:
    """What was loaded so far stays: the collector need not look at it again, nor as often at what a turn leaves."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT)


def settings(app: Any, serve: ServerSettings, websocket: Any = "auto") -> uvicorn.Config:
    """Returns uvicorn's configuration. `websocket`: the class of WebSocket connections."""
    return uvicorn.Config(
        app, serve.host, serve.port, log_level="error", access_log=False, lifespan="on", server_header=False,
        proxy_headers=False,  # who speaks for somebody else is told by the header itself, and nobody asks for more
        http=type("Protocol", (Bounded,), {"size": serve.headers, "patience": serve.read}),
        h11_max_incomplete_event_size=serve.headers, timeout_keep_alive=max(round(serve.idle), 1),
        # Answers are ended by `Server` after `drain`; this is for what does not end even so.
        timeout_graceful_shutdown=round(serve.drain + SETTLE), ws_max_size=serve.body,
        ws=websocket, ws_ping_interval=PING, ws_ping_timeout=PONG, ws_per_message_deflate=False,
    )  # fmt: skip


def listen(app: Any, serve: ServerSettings, ready: Callable[[int, Server], None], websocket: Any = "auto") -> None:
    """Serve an application until a signal ends it. `ready` is told the port, once it can be connected to."""
    Server(settings(app, serve, websocket), ready, serve.drain).run(sockets=[bound(serve.host, serve.port)])


def bound(host: str, port: int) -> socket.socket:
    """A socket to listen on; a port that is taken is one clear line."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    if sys.platform != "win32":  # there it would let two servers have one port
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise InputError(_why(host, port, error)) from None
    made.set_inheritable(False)
    return made


def _why(host: str, port: int, error: OSError) -> str:
    if isinstance(error, PermissionError):
        return f"port {port} needs rights that this user has not; choose one above 1023 with --port"
    if isinstance(error, socket.gaierror) or error.errno in _ELSEWHERE:
        return f"{host} is no address of this machine; choose another with --host"
    return f"port {port} on {host} is taken; choose another with --port (0 picks a free one)"


_ELSEWHERE = frozenset({99, 49, 10049})  # EADDRNOTAVAIL of Linux, macOS, Windows
