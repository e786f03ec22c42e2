"""The straight way: HTTP/1.1 over a connection of our own, for requests that need no proxy. A third of aiohttp's cost.

Leans on `connection`, and on httptools for parsing; where that is missing, or an address is odd, aiohttp does the same.
"""

from __future__ import annotations

import asyncio
import select
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar
from urllib.parse import urlsplit

from penstock.http.connection import Connection
from penstock.http.header_fields import encode_request_head

if TYPE_CHECKING:
    import ssl
    from collections.abc import Hashable, Mapping

Place: TypeAlias = tuple[str, int, bool, str, str]  # host, port, whether by TLS, what follows the host, its header
AGAIN = frozenset({"GET", "HEAD", "OPTIONS"})  # what may be sent twice: it changes nothing, and costs nothing


def parsing() -> Any:
    """httptools, where it is installed."""
    try:
        return import_module("httptools")
    except ImportError:
        return None


@lru_cache(1000)
def place_of(url: str) -> Place | None:
    """Where an address leads; None where aiohttp knows better."""
    parts = urlsplit(url)
    host = parts.hostname
    if parts.scheme not in {"http", "https"} or not host or "@" in parts.netloc or not url.isascii() or " " in url:
        return None
    secure = parts.scheme == "https"
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return host, parts.port or (443 if secure else 80), secure, target, parts.netloc


def _spoken(made: Connection) -> bool:
    """Whether an idle connection is closed, or has something to read: nobody asked, so it can only be its end."""
    if made.transport.is_closing():
        return True
    if made.poll is None:
        socket = made.transport.get_extra_info("socket")
        if socket is None:
            return False
        if not hasattr(select, "poll"):
            return bool(select.select([socket.fileno()], [], [], 0)[0])
        made.poll = select.poll()
        made.poll.register(socket.fileno(), select.POLLIN)
    return bool(made.poll.poll(0))


class Letter:
    """A request but for its body, ready to leave. The same letter may be sent with many."""

    __slots__ = ("_head", "at", "method")

    def __init__(self, method: str, place: Place, headers: Mapping[str, str], tls: ssl.SSLContext) -> None:
        host, port, secure, target, name = place
        self._head = encode_request_head(method, target, name, headers)
        self.method, self.at = method, (host, port, secure, tls)

    def data(self, body: bytes) -> bytes:
        """All of the request."""
        if body or self.method == "POST":
            return b"%bcontent-length: %d\r\n\r\n%b" % (self._head, len(body), body)
        return self._head + b"\r\n"


class Direct:
    """The connections. There is no `letter` where the straight way is not for an address.

    `idle_seconds` and `max_idle`: how long and how many unused connections are kept, in each event loop.
    """

    def __init__(self, web: Any, *, idle_seconds: float = 0.0, max_idle: int = 0) -> None:
        self.web = web
        self.tools = parsing()
        self._idle: dict[Any, IdleConnections[Connection]] = {}  # by event loop
        self._idle_limits = (idle_seconds, max_idle)
        self._open: set[Connection] = set()

    def letter(self, method: str, url: str, headers: Mapping[str, str], tls: ssl.SSLContext) -> Letter | None:
        """A request but for its body; None where the straight way is not for its address."""
        place = place_of(url) if self.tools is not None else None
        return Letter(method, place, headers, tls) if place is not None else None

    async def send(self, letter: Letter, body: bytes, *, connect: float, until: float) -> Connection:
        """Ask, and wait for the head of the answer: `connect` seconds for a connection, until then for all."""
        data, at = letter.data(body), (asyncio.get_running_loop(), *letter.at)
        made = self._used(at)
        while made is not None:
            try:
                await made.ask(data, until)
            except (self.web.ServerDisconnectedError, ConnectionError):
                if made.heard or (made.sent and letter.method not in AGAIN):
                    raise
                made = self._used(at)  # it was closed while nobody used it: the request has met no one
            else:
                return made
        host, port, secure, tls = letter.at
        async with asyncio.timeout_at(until):
            made = await self._connected(at, host, port, tls if secure else None, connect)
        await made.ask(data, until)
        return made

    def _used(self, at: tuple[object, ...]) -> Connection | None:
        idle = self._idle.get(at[0])
        made = idle.take(at) if idle is not None else None
        while made is not None:
            if not made.lost and not _spoken(made):
                made.begin()
                return made
            made.close()
            made = idle.take(at) if idle is not None else None
        return None

    async def _connected(
        self, at: tuple[object, ...], host: str, port: int, tls: ssl.SSLContext | None, limit: float
    ) -> Connection:
        loop = asyncio.get_running_loop()
        made = Connection(self, at)
        try:
            async with asyncio.timeout(limit):
                await loop.create_connection(lambda: made, host, port, ssl=tls)
        except BaseException as error:
            # What is given up while it is made is not always told so; and it and its transport hold each other.
            made.close()
            made.connection_lost(None)
            made.transport = None
            if isinstance(error, TimeoutError):
                raise self.web.ConnectionTimeoutError(f"no connection to {host} in time") from error
            raise
        self._open.add(made)
        return made

    def put(self, at: tuple[object, ...], made: Connection) -> None:
        idle = self._idle.get(made.loop)
        if idle is None:
            for loop in [loop for loop in self._idle if loop.is_closed()]:
                del self._idle[loop]
            idle = self._idle[made.loop] = IdleConnections(made.loop, *self._idle_limits)
        idle.add(at, made)

    def forget(self, at: tuple[object, ...], made: Connection) -> None:
        self._open.discard(made)
        idle = self._idle.get(at[0])
        if idle is not None:
            idle.discard(made)

    @property
    def busy(self) -> int:
        """Connections that an answer comes over."""
        return len(self._open) - self.idle

    @property
    def idle(self) -> int:
        """Connections that are kept for the next request."""
        return sum(len(idle) for idle in self._idle.values())

    def close(self) -> None:
        """Drop every connection."""
        for idle in self._idle.values():
            idle.close()
        self._idle.clear()
        for made in list(self._open):
            made.close()


IDLE_SECONDS = 60.0
MAX_IDLE = 512  # over all addresses; beyond that the one idle longest is closed


class IdleConnection(Protocol):
    """What is asked of a connection here. `since`: when it became idle, by the loop's clock."""

    since: float

    def close(self) -> None: ...


C = TypeVar("C", bound=IdleConnection)


class IdleConnections(Generic[C]):
    """The idle connections by address. Not for threads: everything happens in the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float = 0.0, limit: int = 0) -> None:
        self._loop = loop
        self._seconds, self._limit = seconds or IDLE_SECONDS, limit or MAX_IDLE
        self._by_address: dict[Hashable, dict[C, None]] = {}
        self._oldest_first: dict[C, Hashable] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._oldest_first)

    @property
    def has_timer(self) -> bool:
        return self._timer is not None

    def add(self, address: Hashable, connection: C) -> None:
        """Keep a connection that has become idle now."""
        if len(self._oldest_first) >= self._limit:
            self._drop(next(iter(self._oldest_first)))
        connection.since = self._loop.time()
        self._by_address.setdefault(address, {})[connection] = None
        self._oldest_first[connection] = address
        if self._timer is None:
            self._timer = self._loop.call_at(connection.since + self._seconds, self._expire)

    def take(self, address: Hashable) -> C | None:
        """The connection to an address that became idle last. The caller finds out whether it still works."""
        found = self._by_address.get(address)
        if not found:
            return None
        connection = next(reversed(found))
        self.discard(connection)
        return connection

    def discard(self, connection: C) -> None:
        """Forget a connection, if it is here."""
        address = self._oldest_first.pop(connection, None)
        if address is None:
            return
        found = self._by_address[address]
        del found[connection]
        if not found:
            del self._by_address[address]

    def close(self) -> None:
        """Close every connection."""
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
        oldest_that_stays = self._loop.time() - self._seconds
        for connection in list(self._oldest_first):
            if connection.since > oldest_that_stays:
                self._timer = self._loop.call_at(connection.since + self._seconds, self._expire)
                return
            self._drop(connection)
