"""Runs the gateway's application on uvicorn, with limits on what a connection may do before a request is complete.

A request line and its headers must arrive within a time and a size. At shutdown responses get `serve.drain` seconds to
end, then they end with an error in the client's protocol; the application closes after the last one. A second signal
skips the wait. Needs the extra `serve`.

The `ResponseChannel` works on the inside of uvicorn. It is used only with uvicorn versions that it is tested with and
whose classes have the attributes it needs; otherwise, or if `features.direct_send` is off, responses use ASGI's `send`.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from penstock._http.direct_response import CYCLE_ATTRIBUTES, SCOPE_KEY, ResponseChannel
from penstock._input_limits import MAX_PIPELINED
from penstock.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from penstock._http.server_tls import ServerCertificate

try:
    import uvicorn
    from uvicorn.protocols.http.auto import AutoHTTPProtocol
except ImportError as error:
    raise MissingExtra("uvicorn", "serve") from error

UVICORN_VERSIONS = ((0, 34), (0, 55))  # tested with the channel: from the first, below the second
WEBSOCKET_PING = 30.0  # seconds between two pings on a WebSocket
WEBSOCKET_PONG = 600.0  # seconds that a client may leave a ping unanswered: many read nothing while they run tools
GC_THRESHOLD = (10_000, 20, 20)  # new objects, then rounds, until the garbage collector runs
DRAIN_END_SECONDS = 5.0  # in which aborted responses must be written and their tasks must end
FORCED_EXIT_SECONDS = 1.0  # the same after a second signal
_HEAD_TIMEOUT = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_HEAD_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_PROTOCOL_ATTRIBUTES = frozenset({"cycle", "loop", "scope", "transport"})
_ADDRESS_NOT_AVAILABLE = frozenset({99, 49, 10049})  # EADDRNOTAVAIL of Linux, macOS, Windows
_Base: Any = AutoHTTPProtocol
log = logging.getLogger("penstock.gateway")


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


class BoundedHttpProtocol(_Base):  # type: ignore[misc]
    """Uvicorn's HTTP protocol with limits on the head of a request and on pipelined requests."""

    max_head = 64 * 1024
    head_timeout = 60.0
    uses_channel = True
    _head_bytes = 0  # of an incomplete head
    _timer: Any = None
    _last_cycle: Any = None  # of the last complete head
    _unanswered: tuple[Any, ...] = ()  # channels, or uvicorn's request cycles, of requests without a complete response

    def on_headers_complete(self) -> None:
        """Called by httptools only: other parsers get no channel.

        One read can hold thousands of small requests from an unknown caller. Clients of language models do not
        pipeline, so a few requests may wait; more end the connection.
        """
        if len(self._unanswered) > MAX_PIPELINED:
            self.transport.abort()  # an error response would be read as part of the current one
            raise ValueError("too many pipelined requests")  # stops the parser
        before = self.cycle
        super().on_headers_complete()  # pyright: ignore[reportUnknownMemberType]
        cycle = self.cycle
        if cycle is before:
            return
        if self.uses_channel:
            self.scope[SCOPE_KEY] = cycle.transport = channel = ResponseChannel(cycle, self.transport, self.loop)
            self._unanswered = (*self._drop_answered_channels(), channel)
        else:
            self._unanswered = (*[one for one in self._unanswered if not one.response_complete], cycle)

    def _drop_answered_channels(self) -> list[ResponseChannel]:
        for channel in self._unanswered:
            if channel.is_complete:
                channel.detach()
        return [channel for channel in self._unanswered if not channel.is_complete]

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)  # pyright: ignore[reportUnknownMemberType]
        self._timer = self.loop.call_later(self.head_timeout, self._on_head_timeout)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        for channel in self._unanswered if self.uses_channel else ():
            channel.connection_lost()
            channel.detach()  # the turn may run on for a moment, but has its own reference
        self._unanswered = ()
        super().connection_lost(exc)  # pyright: ignore[reportUnknownMemberType]

    def data_received(self, data: bytes) -> None:
        super().data_received(data)  # pyright: ignore[reportUnknownMemberType]
        if self.cycle is not self._last_cycle:  # a head is complete
            self._last_cycle, self._head_bytes = self.cycle, 0
            self._timer.cancel()
        elif self._last_cycle is None or self._last_cycle.response_complete:
            self._count_head_bytes(len(data))

    def _count_head_bytes(self, size: int) -> None:
        if self.transport.get_protocol() is not self:  # it is a WebSocket now
            self._timer.cancel()
            self.parser = None  # it refers back to this object and is not needed any more
            return
        if not self._head_bytes:
            self._timer.cancel()
            self._timer = self.loop.call_later(self.head_timeout, self._on_head_timeout)
        self._head_bytes += size
        if self._head_bytes > self.max_head:
            self._close(_HEAD_TOO_LARGE)

    def _on_head_timeout(self) -> None:
        self._close(_HEAD_TIMEOUT if self._head_bytes else b"")

    def _close(self, response: bytes) -> None:
        self._timer.cancel()
        if not self.transport.is_closing():
            self.transport.write(response)
            self.transport.close()


class GatewayServer(uvicorn.Server):
    """Reports its port when it listens, ends responses that take too long, and closes the application last."""

    def __init__(
        self, config: uvicorn.Config, on_ready: Callable[[int, GatewayServer], None], drain: float = 0.0
    ) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._drain = drain
        self._loop: asyncio.AbstractEventLoop | None = None
        self.second_signal_forces: bool = True  # a worker has a parent that tells it to
        self.certificate: ServerCertificate | None = None  # of a server with TLS

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal starts the shutdown; a second one, of either kind, forces it."""
        again = self.should_exit
        if again and not self.second_signal_forces:
            return
        super().handle_exit(sig, frame)
        if again:
            self.stop_now()

    def stop_now(self) -> None:
        """Stop without waiting for answers: they end with an error."""
        self.should_exit = self.force_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._call_app, "end_answers")

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self.certificate is not None:
            self.config.ssl = self.certificate.context
            self.certificate.watch()
        await super().startup(sockets)
        self._call_app("pause_watchdog")  # nothing is served while the following runs
        # Modules loaded so far stay: the collector need not scan them, and runs less often for a turn's garbage.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLD)
        if sockets and not self.should_exit:
            self._on_ready(sockets[0].getsockname()[1], self)
        if not self.should_exit:
            self._call_app("resume_watchdog")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        close_app = self.lifespan.shutdown
        loop = self._loop = asyncio.get_running_loop()
        self._call_app("stopping")  # clients that only listen are not waited for
        timer = loop.call_later(self._drain, self._call_app, "end_answers")

        async def close_app_last() -> None:
            """Aborted turns write their journal rows before the journal is closed."""
            await self._wait_for_tasks(DRAIN_END_SECONDS)
            await close_app()

        self.lifespan.shutdown = close_app_last
        await super().shutdown(sockets)
        timer.cancel()
        if self.certificate is not None:
            self.certificate.close()
        if self.force_exit:  # uvicorn does not close the application then
            await self._wait_for_tasks(FORCED_EXIT_SECONDS)
            with suppress(TimeoutError):
                await asyncio.wait_for(close_app(), FORCED_EXIT_SECONDS)

    def _call_app(self, name: str) -> None:
        """Calls a method of the application if it has one of that name."""
        method = getattr(self.config.app, name, None)
        if method is not None:
            method()

    async def _wait_for_tasks(self, seconds: float) -> None:
        tasks = set(self.server_state.tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)


def channel_problem(version: str = uvicorn.__version__, protocol: Any = AutoHTTPProtocol) -> str:
    """Returns why responses cannot use a channel with this uvicorn, empty if they can."""
    first, after = UVICORN_VERSIONS
    found = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if not first <= found < after:
        return f"uvicorn {version} is not one of the tested versions"
    cycle = getattr(sys.modules.get(protocol.__module__), "RequestResponseCycle", None)
    missing = (CYCLE_ATTRIBUTES - _assigned_names(cycle)) | (_PROTOCOL_ATTRIBUTES - _assigned_names(protocol))
    return f"uvicorn {version} has no {', '.join(sorted(missing))}" if missing else ""


def _assigned_names(cls: Any) -> set[str]:
    """The attribute names that occur in a class's `__init__`."""
    return set(getattr(getattr(getattr(cls, "__init__", None), "__code__", None), "co_names", ()))


def _http_protocol(serve: ServerSettings, *, direct_send: bool) -> Any:
    problem = channel_problem()
    if problem and direct_send and hasattr(AutoHTTPProtocol, "on_headers_complete"):  # without httptools it is normal
        log.warning("%s: responses use plain ASGI", problem)
    if _PROTOCOL_ATTRIBUTES - _assigned_names(AutoHTTPProtocol):
        log.warning("this uvicorn has an unknown HTTP protocol: request heads have no limits")
        return "auto"
    limits = {"max_head": serve.headers, "head_timeout": serve.read, "uses_channel": direct_send and not problem}
    return type("HttpProtocol", (BoundedHttpProtocol,), limits)


def uvicorn_config(
    app: Any, serve: ServerSettings, websocket: Any = "auto", *, direct_send: bool = True
) -> uvicorn.Config:
    """Returns uvicorn's configuration. `websocket`: the class of WebSocket connections."""
    return uvicorn.Config(
        app,
        serve.host,
        serve.port,
        log_level="error",
        access_log=False,
        lifespan="on",
        server_header=False,
        proxy_headers=False,  # the application reads the forwarding headers itself
        http=_http_protocol(serve, direct_send=direct_send),
        h11_max_incomplete_event_size=serve.headers,
        timeout_keep_alive=max(round(serve.idle), 1),
        # `GatewayServer` ends responses after `drain`; this limit is for what does not end even then.
        timeout_graceful_shutdown=round(serve.drain + DRAIN_END_SECONDS),
        ws=websocket,
        ws_max_size=serve.body,
        ws_ping_interval=WEBSOCKET_PING,
        ws_ping_timeout=WEBSOCKET_PONG,
        ws_per_message_deflate=False,
    )


def listen(
    app: Any,
    serve: ServerSettings,
    on_ready: Callable[[int, GatewayServer], None],
    websocket: Any = "auto",
    *,
    direct_send: bool = True,
    bound: socket.socket | None = None,
    certificate: ServerCertificate | None = None,
) -> None:
    """Serves an application until a signal ends it. Calls `on_ready` with the port when clients can connect.

    `bound`: a socket to listen on, instead of a new one. `certificate`: connections use TLS.
    """
    server = GatewayServer(uvicorn_config(app, serve, websocket, direct_send=direct_send), on_ready, serve.drain)
    server.certificate = certificate
    server.run(sockets=[bound or bind_socket(serve.host, serve.port)])


def bind_socket(host: str, port: int) -> socket.socket:
    """Returns a bound socket. Raises an error of one line if the port or address cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    if sys.platform != "win32":  # there it would let two servers share one port
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise InputError(_bind_error(host, port, error)) from None
    bound.set_inheritable(False)
    return bound


def _bind_error(host: str, port: int, error: OSError) -> str:
    if isinstance(error, PermissionError):
        return f"port {port} needs rights that this user has not; choose one above 1023 with --port"
    if isinstance(error, socket.gaierror) or error.errno in _ADDRESS_NOT_AVAILABLE:
        return f"{host} is no address of this machine; choose another with --host"
    return f"port {port} on {host} is taken; choose another with --port (0 picks a free one)"
