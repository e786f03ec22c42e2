"""Connections to upstream servers: our own HTTP/1.1 connections, and aiohttp for what they do not cover.

Our own connections cost a third of aiohttp's. They need httptools and serve plain URLs without a proxy; proxies, URLs
with a user or an international host name, and HEAD requests go through aiohttp. `UpstreamClient(direct=False)` uses
aiohttp for everything (`features.direct_http = false`). Idle connections are reused newest first, and closed when they
are too old or too many.
"""

from __future__ import annotations

import asyncio
import io
import select
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar
from urllib.parse import urlsplit

from penstock._http.connection import UpstreamConnection
from penstock._http.connection_timing import connect_timed
from penstock._http.header_fields import check_request, encode_request_head
from penstock._http.proxy_and_tls import load_tls_context, needs_tls, tls_context, tls_key
from penstock._http.response import UpstreamResponse
from penstock._http.transport_errors import connection_error, timeout_error
from penstock._redaction import redact
from penstock.errors import InputError, MissingExtra

if TYPE_CHECKING:
    import ssl
    from collections.abc import Hashable, Mapping

    from penstock._http.connection_timing import ConnectionTiming
    from penstock._http.request_options import RequestOptions, Timeouts

UrlParts: TypeAlias = tuple[str, int, bool, str, str]  # host, port, whether TLS, target, authority
Address: TypeAlias = tuple[object, ...]  # event loop, host, port, whether TLS, TLS context
IDEMPOTENT_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})  # may be sent twice
IDLE_SECONDS = 60.0
MAX_IDLE = 512  # connections to all addresses; beyond that the one idle longest is closed
_LARGE_BODY = 2**20  # bytes above which aiohttp wants a file
_MAX_SESSIONS = 64  # of aiohttp


class IdleConnection(Protocol):
    """What `IdleConnections` needs of a connection. `idle_since`: by the loop's clock."""

    idle_since: float

    def close(self) -> None: ...


C = TypeVar("C", bound=IdleConnection)


class IdleConnections(Generic[C]):
    """The idle connections of one event loop, by address. Not thread-safe.

    One timer serves all of them. It keeps running for a while when nothing is idle: starting and stopping it for each
    request would cost more than everything else here.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float = 0.0, limit: int = 0) -> None:
        self._loop = loop
        self._seconds, self._limit = seconds or IDLE_SECONDS, limit or MAX_IDLE
        self._by_address: dict[Hashable, dict[C, None]] = {}
        self._oldest_first: dict[C, Hashable] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._oldest_first)

    def add(self, address: Hashable, connection: C) -> None:
        """Adds a connection that becomes idle now."""
        if len(self._oldest_first) >= self._limit:
            self._drop(next(iter(self._oldest_first)))
        connection.idle_since = self._loop.time()
        self._by_address.setdefault(address, {})[connection] = None
        self._oldest_first[connection] = address
        if self._timer is None:
            self._timer = self._loop.call_at(connection.idle_since + self._seconds, self._expire)

    def take(self, address: Hashable) -> C | None:
        """Removes and returns the connection to an address that became idle last. It may be closed by the server."""
        connections = self._by_address.get(address)
        if not connections:
            return None
        connection = next(reversed(connections))
        self.discard(connection)
        return connection

    def discard(self, connection: C) -> None:
        """Removes a connection if it is here."""
        address = self._oldest_first.pop(connection, None)
        if address is None:
            return
        connections = self._by_address[address]
        del connections[connection]
        if not connections:
            del self._by_address[address]

    def close(self) -> None:
        """Closes every connection."""
        for connection in list(self._oldest_first):
            self._drop(connection)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _drop(self, connection: C) -> None:
        self.discard(connection)
        connection.close()

    def _expire(self) -> None:
        self._timer = None
        newest_expired = self._loop.time() - self._seconds
        for connection in list(self._oldest_first):
            if connection.idle_since > newest_expired:
                self._timer = self._loop.call_at(connection.idle_since + self._seconds, self._expire)
                return
            self._drop(connection)


def load_httptools() -> Any:
    """Returns the module httptools, None if it is not installed."""
    try:
        return import_module("httptools")
    except ImportError:
        return None


@lru_cache(1000)
def split_url(url: str) -> UrlParts | None:
    """Returns the parts of a URL; None if only aiohttp can send a request to it."""
    parts = urlsplit(url)
    host = parts.hostname
    if parts.scheme not in {"http", "https"} or not host or "@" in parts.netloc or not url.isascii() or " " in url:
        return None
    secure = parts.scheme == "https"
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return host, parts.port or (443 if secure else 80), secure, target, parts.netloc


def _has_input(connection: UpstreamConnection) -> bool:
    """True if an idle connection is closed or has input: without a request, input can only be its end."""
    if connection.transport.is_closing():
        return True
    if connection.poller is None:
        socket = connection.transport.get_extra_info("socket")
        if socket is None:
            return False
        if not hasattr(select, "poll"):
            return bool(select.select([socket.fileno()], [], [], 0)[0])
        connection.poller = select.poll()
        connection.poller.register(socket.fileno(), select.POLLIN)
    return bool(connection.poller.poll(0))


class PreparedHead:
    """A request without its body, encoded and validated. It can be sent many times."""

    __slots__ = ("_head", "destination", "method")

    def __init__(self, method: str, parts: UrlParts, headers: Mapping[str, str], tls: ssl.SSLContext | None) -> None:
        host, port, secure, target, authority = parts
        self._head = encode_request_head(method, target, authority, headers)
        self.method: str = method
        self.destination: tuple[str, int, bool, ssl.SSLContext | None] = (host, port, secure, tls)

    def describe(self) -> tuple[str, dict[str, str]]:
        """Returns the URL and the headers, as they are sent."""
        first, *lines = self._head.decode("latin-1").split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines if line)
        scheme = "https" if self.destination[2] else "http"
        return f"{scheme}://{headers['host']}{first.split(' ')[1]}", headers

    def encode(self, body: bytes) -> bytes:
        """Returns the request with its body."""
        if body or self.method == "POST":
            return b"%bcontent-length: %d\r\n\r\n%b" % (self._head, len(body), body)
        return self._head + b"\r\n"


class DirectPool:
    """Our own connections. `idle_seconds` and `max_idle` limit the idle ones of each event loop."""

    def __init__(self, aiohttp: Any, *, idle_seconds: float = 0.0, max_idle: int = 0) -> None:
        self.aiohttp = aiohttp
        self.httptools = load_httptools()
        self._idle: dict[Any, IdleConnections[UpstreamConnection]] = {}  # by event loop
        self._idle_limits = (idle_seconds, max_idle)
        self._open: set[UpstreamConnection] = set()

    def prepare(
        self, method: str, url: str, headers: Mapping[str, str], tls: ssl.SSLContext | None
    ) -> PreparedHead | None:
        """Encodes a request without its body; None if only aiohttp can send it. `tls`: None for HTTP without TLS.

        httptools cannot be told that the response to HEAD has no body.
        """
        parts = split_url(url) if self.httptools is not None and method != "HEAD" else None
        return PreparedHead(method, parts, headers, tls) if parts is not None else None

    async def send(
        self,
        request: PreparedHead,
        body: bytes,
        *,
        connect: float,
        deadline: float,
        timing: ConnectionTiming | None = None,
    ) -> UpstreamConnection:
        """Sends a request and waits for the response's head: `connect` seconds to connect, `deadline` for all."""
        data, address = request.encode(body), (asyncio.get_running_loop(), *request.destination)
        connection = self._take_idle(address)
        if timing is not None:
            timing.reused = connection is not None
        while connection is not None:
            try:
                await connection.send_and_wait_for_head(data, deadline)
            except (self.aiohttp.ServerDisconnectedError, ConnectionError):
                if connection.last_read_at or (connection.request_sent and request.method not in IDEMPOTENT_METHODS):
                    raise
                connection = self._take_idle(address)  # the server closed it while idle: nobody read the request
            else:
                return connection
        host, port, secure, tls = request.destination
        async with asyncio.timeout_at(deadline):
            connection = await self._connect(address, host, port, tls if secure else None, connect, timing)
        await connection.send_and_wait_for_head(data, deadline)
        return connection

    def _take_idle(self, address: Address) -> UpstreamConnection | None:
        idle = self._idle.get(address[0])
        while idle is not None and (connection := idle.take(address)) is not None:
            if not connection.lost and not _has_input(connection):
                connection.reset()
                return connection
            connection.close()
        return None

    async def _connect(
        self,
        address: Address,
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
        seconds: float,
        timing: ConnectionTiming | None = None,
    ) -> UpstreamConnection:
        connection = UpstreamConnection(self, address)
        try:
            async with asyncio.timeout(seconds):
                if timing is None:
                    await connection.loop.create_connection(lambda: connection, host, port, ssl=tls)
                else:
                    await connect_timed(connection, host, port, tls, timing)
        except BaseException as error:
            # The loop does not always report the end of an aborted attempt. Transport and connection hold each other.
            connection.close()
            connection.connection_lost(None)
            connection.transport = None
            if isinstance(error, TimeoutError):
                raise self.aiohttp.ConnectionTimeoutError(f"no connection to {host} in time") from error
            raise
        self._open.add(connection)
        return connection

    def add_idle(self, address: Address, connection: UpstreamConnection) -> None:
        idle = self._idle.get(connection.loop)
        if idle is None:
            for loop in [loop for loop in self._idle if loop.is_closed()]:
                del self._idle[loop]
            idle = self._idle[connection.loop] = IdleConnections(connection.loop, *self._idle_limits)
        idle.add(address, connection)

    def discard(self, address: Address, connection: UpstreamConnection) -> None:
        self._open.discard(connection)
        idle = self._idle.get(address[0])
        if idle is not None:
            idle.discard(connection)

    @property
    def idle(self) -> int:
        """The number of idle connections."""
        return sum(len(idle) for idle in self._idle.values())

    def close(self) -> None:
        """Closes every connection."""
        for idle in self._idle.values():
            idle.close()
        self._idle.clear()
        for connection in list(self._open):
            connection.close()


class UpstreamClient:
    """Sends requests over our own connections or aiohttp; with `direct=False` over aiohttp only."""

    def __init__(self, *, direct: bool = True) -> None:
        try:
            self._aiohttp: Any = import_module("aiohttp")
        except ImportError:
            raise MissingExtra("aiohttp", "client") from None
        self._url: Any = import_module("yarl").URL
        self._sessions: dict[tuple[object, ...], Any] = {}
        self._retired: list[Any] = []  # sessions that may still have responses in progress
        self._direct = DirectPool(self._aiohttp) if direct else None
        self._errors: tuple[type[Exception], ...] = (TimeoutError, self._aiohttp.ClientError, OSError, ValueError)

    def prepare(
        self, method: str, url: str, headers: Mapping[str, str], options: RequestOptions
    ) -> PreparedHead | None:
        """Encodes a request without its body, for `send_prepared`; None: use `send`."""
        if self._direct is None:
            return None
        return self._direct.prepare(method, url, headers, tls_context(options) if needs_tls(url, options) else None)

    async def send_prepared(
        self, request: PreparedHead, body: bytes, limits: Timeouts, timing: ConnectionTiming | None = None
    ) -> UpstreamResponse:
        """Sends a request over one of our own connections and waits for the response's head."""
        assert self._direct is not None  # noqa: S101 — it prepared the request
        loop = asyncio.get_running_loop()
        started = loop.time()
        deadline = started + min(limits.first_byte, limits.total)
        try:
            response = await self._direct.send(request, body, connect=limits.connect, deadline=deadline, timing=timing)
        except self._errors as error:
            raise self._typed_error(error, limits) from error
        return UpstreamResponse(response, limits, loop, started)

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, options: RequestOptions, proxy: str | None
    ) -> UpstreamResponse:
        """Sends a request over aiohttp and waits for the response's head."""
        await load_tls_context(options)
        loop, limits = asyncio.get_running_loop(), options.timeouts
        session = self._session(loop, options)
        check_request(method, url, headers)  # aiohttp only looks for line breaks
        started = loop.time()
        try:
            async with asyncio.timeout_at(started + min(limits.first_byte, limits.total)):
                response = await session.request(
                    method,
                    # Unchanged: yarl would decode '%3A' to ':' and so break a signed URL.
                    self._url(url, encoded=url.isascii() and " " not in url),
                    data=io.BytesIO(body) if len(body) > _LARGE_BODY else body or None,
                    headers=headers,
                    allow_redirects=False,
                    proxy=proxy,
                    # `UpstreamResponse` watches the other limits; it does not count the consumer's time.
                    timeout=self._aiohttp.ClientTimeout(total=None, sock_connect=limits.connect),
                )
        except self._errors as error:
            raise self._typed_error(error, limits, url) from error
        return UpstreamResponse(response, limits, loop, started)

    def _typed_error(self, error: Exception, limits: Timeouts, url: str = "") -> Exception:
        if isinstance(error, InputError):
            return error
        if isinstance(error, TimeoutError):
            return timeout_error(error, limits)
        if isinstance(error, self._aiohttp.InvalidURL | self._aiohttp.NonHttpUrlClientError):
            return InputError(f"{redact(url)!r} is no address to ask at")
        return connection_error(error)

    def _session(self, loop: asyncio.AbstractEventLoop, options: RequestOptions) -> Any:
        key = (loop, *tls_key(options))
        found = self._sessions.get(key)
        if found is None or found.closed:
            lib = self._aiohttp
            # No limit on connections: the callers limit how many streams run at once.
            connector = lib.TCPConnector(ssl=tls_context(options), limit=0, keepalive_timeout=IDLE_SECONDS)
            found = self._sessions[key] = lib.ClientSession(
                connector=connector,
                cookie_jar=lib.DummyCookieJar(),
                trust_env=False,
                max_line_size=65536,
                max_field_size=65536,
                skip_auto_headers=("User-Agent", "Accept-Encoding", "Accept", "Content-Type"),
            )
            while len(self._sessions) > _MAX_SESSIONS:
                self._retired.append(self._sessions.pop(next(iter(self._sessions))))
        return found

    async def aclose(self) -> None:
        """Closes every connection."""
        if self._direct is not None:
            self._direct.close()
        await asyncio.sleep(0)  # the loop calls `connection_lost` here
        sessions = [*self._sessions.values(), *self._retired]
        self._sessions, self._retired = {}, []
        for session in sessions:
            await session.close()
