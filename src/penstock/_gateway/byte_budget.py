"""Limits the bytes of requests that the gateway holds: for each connection, and for all together.

WebSockets have one budget, HTTP bodies another. A WebSocket at its limit is not read until a turn has ended.
When a budget is over its limit, the connection with the most bytes gives them up. Also has the uvicorn protocol that
counts bytes of WebSockets as they arrive: uvicorn passes only complete messages to the application.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._gateway.config import Serve

SCOPE_KEY = "penstock.websocket_bytes"
"""Where our own server puts the `ConnectionBytes` of a WebSocket, which count bytes from the moment they arrive."""
FRAMING_OVERHEAD = 64 * 1024  # bytes besides the largest message: frame headers, and the start of the next message


class ByteBudget:
    """The bytes of all connections. Connections with at most `spared` bytes never have to give up."""

    def __init__(self, limit: int, spared: int = -1) -> None:
        self.limit: int = limit
        self._protected = spared
        self.used: int = 0
        self._connections: set[ConnectionBytes] = set()

    def connect(self, limit: int, largest: int) -> ConnectionBytes:
        """Add a connection. One message of the `largest` size always fits."""
        result = ConnectionBytes(self, max(limit, largest + FRAMING_OVERHEAD))
        self._connections.add(result)
        return result

    def disconnect(self, connection: ConnectionBytes) -> None:
        """Remove a connection."""
        self._connections.discard(connection)

    def change(self, more: int) -> None:
        """Add bytes, or remove them if negative. If the budget is full, the largest connections give up."""
        self.used += more
        while more > 0 and self.used > self.limit:
            before = self.used
            most = max(self._connections, key=_releasable_bytes, default=None)
            if most is None or most.give_up is None or most.releasable <= self._protected:
                return
            most.give_up()
            if self.used >= before:
                return


def _releasable_bytes(connection: ConnectionBytes) -> int:
    return connection.releasable if connection.give_up is not None else -1


@dataclass(slots=True, eq=False)
class ConnectionBytes:
    """The bytes of one connection: of the arriving message, of waiting messages, and of the one being answered.

    An HTTP request is a connection with one message.

    `remembered` are bytes of earlier turns; they count only for all connections together. `give_up` is called when
    the budget is full and this connection holds most, `resume` when it may be read again, `lost` when the client
    has disconnected.
    """

    budget: ByteBudget
    limit: int
    arriving: int = 0
    waiting: int = 0
    working: int = 0
    remembered: int = 0
    give_up: Callable[[], None] | None = None
    resume: Callable[[], None] | None = None
    on_disconnect: Callable[[], None] | None = None
    abandoned: bool = False  # everything it sends is ignored
    _paused: bool = False

    @property
    def releasable(self) -> int:
        """Bytes that closing the connection would free. A running turn continues."""
        return self.arriving + self.waiting + self.remembered

    @property
    def is_full(self) -> bool:
        """Whether reading must stop. A single message may always arrive completely."""
        held = self.waiting + self.working
        return held > 0 and held + self.arriving >= self.limit

    def arrive(self, size: int) -> bool:
        """Count bytes of an incomplete message. Returns False if reading must stop until `resume` is called."""
        if self.abandoned:
            return True
        self.arriving += size
        self.budget.change(size)
        self._paused = self.is_full
        return not self._paused

    def deliver(self, size: int) -> None:
        """Count a complete message that waits."""
        more = size - self.arriving
        self.arriving, self.waiting = 0, self.waiting + size
        self.budget.change(more)

    def begin(self, size: int) -> None:
        """Count a waiting message as being answered."""
        self.waiting -= size
        self.working += size

    def finish(self, size: int) -> None:
        """Stop counting an answered message."""
        self.working -= size
        self.budget.change(-size)
        if self._paused and not self.is_full:
            self._paused = False
            if self.resume is not None:
                self.resume()

    def remember(self, size: int) -> None:
        """Set the bytes of earlier turns that are kept."""
        more, self.remembered = size - self.remembered, size
        self.budget.change(more)

    def abandon(self) -> None:
        """Stop counting unread bytes, because the connection ends."""
        self.abandoned = True
        gone, self.arriving, self.waiting = self.arriving + self.waiting, 0, 0
        self.budget.change(-gone)

    def close(self) -> None:
        """Remove the connection and its bytes."""
        self.budget.disconnect(self)
        self.budget.change(-(self.arriving + self.waiting + self.working + self.remembered))
        self.arriving = self.waiting = self.working = self.remembered = 0
        lost, self.give_up, self.resume, self.on_disconnect = self.on_disconnect, None, None, None
        if lost is not None:
            lost()


MAX_UNREAD = 256 * 1024  # bytes that may arrive before or after the application reads: a handshake, a close frame
LINGER = 2.0  # seconds that an abandoned client has to read the close frame
_Base: Any = object  # `websocket_protocol` adds the protocol that uvicorn chose


class CountedWebSocket(_Base):  # type: ignore[misc]
    """A WebSocket that counts its bytes. `websocket_protocol` sets `budget`, `limit` and `largest`."""

    budget: ByteBudget
    limit = 0
    largest = 0
    _bytes: ConnectionBytes

    def connection_made(self, transport: Any) -> None:
        self._bytes = self.budget.connect(self.limit, self.largest)
        self._bytes.resume = self._resume
        super().connection_made(transport)  # pyright: ignore[reportUnknownMemberType]

    def connection_lost(self, exc: Exception | None) -> None:
        self._bytes.close()
        super().connection_lost(exc)  # pyright: ignore[reportUnknownMemberType]
        self._discard()

    def data_received(self, data: bytes) -> None:
        more = self._bytes.arrive(len(data))
        if self._bytes.give_up is None and self._bytes.arriving > MAX_UNREAD:  # the application is not reading
            self._bytes.abandon()
            self.transport.close()
        if self._bytes.abandoned:  # keep reading so that the close frame arrives, but store nothing
            return
        super().data_received(data)  # pyright: ignore[reportUnknownMemberType]
        if not more and not self.transport.is_closing():
            self.transport.pause_reading()

    async def run_asgi(self) -> None:
        self.scope[SCOPE_KEY] = self._bytes
        await super().run_asgi()  # pyright: ignore[reportUnknownMemberType]
        if self._bytes.abandoned:
            self._discard()
            self.loop.call_later(LINGER, self.transport.close)

    def shutdown(self) -> None:
        """Do not close WebSockets at the first signal, as uvicorn would.

        An application that closes its own WebSockets (`closes_websockets`) gives a running turn the same time as a
        stream.
        """
        if not (getattr(self.config.app, "closes_websockets", False) and self.handshake_complete):
            super().shutdown()  # pyright: ignore[reportUnknownMemberType]

    def _discard(self) -> None:
        """Free an incomplete message. Parser and connection reference each other, so nothing else would free it."""
        discard = getattr(getattr(getattr(self, "conn", None), "reader", None), "discard", None)
        if discard is not None:
            discard()

    def _resume(self) -> None:
        """Read on, unless uvicorn has stopped reading too: it reads on itself once the application has received all."""
        if not (self.transport.is_closing() or self.read_paused):
            self.transport.resume_reading()


def websocket_protocol(app: Any, serve: Serve) -> Any:
    """Return the protocol class for an application with a budget; "auto" for any other."""
    budget = getattr(getattr(app, "services", None), "websocket_bytes", None)
    try:
        from uvicorn.protocols.websockets.auto import AutoWebSocketsProtocol  # noqa: PLC0415 — an extra
    except ImportError as error:
        raise MissingExtra("uvicorn", "serve") from error
    if budget is None or AutoWebSocketsProtocol is None:
        return "auto"
    named = {"budget": budget, "limit": serve.websocket_bytes, "largest": serve.body}
    bases: Any = (CountedWebSocket, AutoWebSocketsProtocol)
    return type("WebSocketProtocol", bases, named)
