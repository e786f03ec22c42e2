"""How many bytes of requests the gateway holds: one limit for each connection, one for all of them.

WebSockets have one budget, bodies over HTTP another. A WebSocket at its limit is not read from until a turn is over.
When all accounts of a budget together are over its limit, the one that holds most gives its bytes up. Nothing here
waits or writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.gateway.config import Serve

SCOPE_KEY = "penstock.websocket_bytes"
"""Where our own server puts the `ConnectionBytes` of a WebSocket, which count bytes from the moment they arrive."""
FRAMING = 64 * 1024  # bytes beside the largest message: frame headers, and what one read may bring of the next


class ByteBudget:
    """The bytes of all connections: WebSockets, or requests over HTTP. Whoever holds no more than `spared` goes on."""

    def __init__(self, limit: int, spared: int = -1) -> None:
        self.limit, self._spared = limit, spared
        self.used = 0
        self._connections: set[ConnectionBytes] = set()

    def connect(self, limit: int, largest: int) -> ConnectionBytes:
        """The account of a new connection. One message of the `largest` size always fits."""
        made = ConnectionBytes(self, max(limit, largest + FRAMING))
        self._connections.add(made)
        return made

    def disconnect(self, connection: ConnectionBytes) -> None:
        """Forget a connection."""
        self._connections.discard(connection)

    def change(self, more: int) -> None:
        """Count bytes that came (or, below 0, went). Raises nothing: a connection that must end is told so."""
        self.used += more
        while more > 0 and self.used > self.limit:
            before = self.used
            most = max(self._connections, key=_spare, default=None)
            if most is None or most.give_up is None or most.spare <= self._spared:
                return
            most.give_up()
            if self.used >= before:
                return


def _spare(connection: ConnectionBytes) -> int:
    return connection.spare if connection.give_up is not None else -1


class ConnectionBytes:
    """The bytes of one connection: of a message that is arriving, of messages that wait, of the one being answered.

    A request over HTTP is a connection with one message.

    `remembered` are bytes of earlier turns, which count among those of all connections only. `give_up` is called when
    all connections hold too much, and this one most; `resume` when it may be read from again; `lost` when the client
    has gone.
    """

    __slots__ = ("_budget", "_paused", "abandoned", "arriving", "give_up", "limit", "lost", "remembered", "resume",
                 "waiting", "working")  # fmt: skip

    def __init__(self, budget: ByteBudget, limit: int) -> None:
        self._budget = budget
        self.limit = limit
        self.arriving = self.waiting = self.working = self.remembered = 0
        self.give_up: Callable[[], None] | None = None
        self.resume: Callable[[], None] | None = None
        self.lost: Callable[[], None] | None = None
        self.abandoned = False  # nothing that it sends is wanted any more
        self._paused = False

    @property
    def spare(self) -> int:
        """Bytes that would be free if the connection were closed, or forgot what was said. A running turn goes on."""
        return self.arriving + self.waiting + self.remembered

    @property
    def full(self) -> bool:
        """Whether nothing more may be read now. A lone message may always come whole."""
        held = self.waiting + self.working
        return held > 0 and held + self.arriving >= self.limit

    def arrive(self, size: int) -> bool:
        """Bytes of a message that is not whole. False: read no more until `resume` is called."""
        if self.abandoned:
            return True
        self.arriving += size
        self._budget.change(size)
        self._paused = self.full
        return not self._paused

    def deliver(self, size: int) -> None:
        """A message is whole, and waits."""
        more = size - self.arriving
        self.arriving, self.waiting = 0, self.waiting + size
        self._budget.change(more)

    def begin(self, size: int) -> None:
        """A message that waited is being answered."""
        self.waiting -= size
        self.working += size

    def finish(self, size: int) -> None:
        """It is answered."""
        self.working -= size
        self._budget.change(-size)
        if self._paused and not self.full:
            self._paused = False
            if self.resume is not None:
                self.resume()

    def remember(self, size: int) -> None:
        """How many bytes of earlier turns are kept now."""
        more, self.remembered = size - self.remembered, size
        self._budget.change(more)

    def abandon(self) -> None:
        """The connection ends: what it has sent and nobody has looked at counts no more."""
        self.abandoned = True
        gone, self.arriving, self.waiting = self.arriving + self.waiting, 0, 0
        self._budget.change(-gone)

    def close(self) -> None:
        """The connection is over."""
        self._budget.disconnect(self)
        self._budget.change(-(self.arriving + self.waiting + self.working + self.remembered))
        self.arriving = self.waiting = self.working = self.remembered = 0
        lost, self.give_up, self.resume, self.lost = self.lost, None, None, None
        if lost is not None:
            lost()


UNASKED = 256 * 1024  # bytes that a client may send while nobody reads messages: a handshake, a close frame
LINGER = 2.0  # seconds that a client which was closed for holding too much has to read why
_Base: Any = object  # `websocket_protocol` adds the protocol that uvicorn chose


class CountedWebSocket(_Base):  # type: ignore[misc]
    """One connection. `budget`, `limit` and `largest` are set by `websocket_protocol`."""

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
        if self._bytes.give_up is None and self._bytes.arriving > UNASKED:  # the application has not begun, or is done
            self._bytes.abandon()
            self.transport.close()
        if self._bytes.abandoned:  # read on, so that the close frame arrives, but keep nothing
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
        """Uvicorn would close every WebSocket at the first signal.

        Where the application says that it closes its connections itself (`closes_websockets`), it is left to do so: a
        turn that is going on is given the same time as a stream.
        """
        if not (getattr(self.config.app, "closes_websockets", False) and self.handshake_complete):
            super().shutdown()  # pyright: ignore[reportUnknownMemberType]

    def _discard(self) -> None:
        """Free the half of a message that has arrived. Parser and connection hold each other, so nothing else would."""
        discard = getattr(getattr(getattr(self, "conn", None), "reader", None), "discard", None)
        if discard is not None:
            discard()

    def _resume(self) -> None:
        if not self.transport.is_closing():
            self.transport.resume_reading()


def websocket_protocol(app: Any, serve: Serve) -> Any:
    """The class for an application that has a budget; uvicorn's own choice for any other."""
    budget = getattr(getattr(app, "services", None), "websocket_bytes", None)
    try:
        from uvicorn.protocols.websockets.auto import AutoWebSocketsProtocol  # noqa: PLC0415 — an extra
    except ImportError as error:
        raise MissingExtra("uvicorn", "serve") from error
    if budget is None or AutoWebSocketsProtocol is None:
        return "auto"
    named = {"budget": budget, "limit": serve.websocket_bytes, "largest": serve.body}
    return type("WebSocketProtocol", (CountedWebSocket, AutoWebSocketsProtocol), named)
