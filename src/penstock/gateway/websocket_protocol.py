"""Uvicorn's WebSocket protocol, whichever it chose, with bytes counted as they arrive and time to drain at the end.

Uvicorn hands whole messages to the application, so the application alone could not limit what a thousand connections
send at once. A connection at its limit is not read from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.errors import MissingExtra
from penstock.gateway.byte_budget import SCOPE_KEY

if TYPE_CHECKING:
    from penstock.gateway.byte_budget import ByteBudget, ConnectionBytes
    from penstock.gateway.config import Serve

try:
    from uvicorn.protocols.websockets.auto import AutoWebSocketsProtocol
except ImportError as error:
    raise MissingExtra("uvicorn", "serve") from error

UNASKED = 256 * 1024  # bytes that a client may send while nobody reads messages: a handshake, a close frame
LINGER = 2.0  # seconds that a client which was closed for holding too much has to read why
_Base: Any = AutoWebSocketsProtocol or object


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
    if budget is None or AutoWebSocketsProtocol is None:
        return "auto"
    named = {"budget": budget, "limit": serve.websocket_bytes, "largest": serve.body}
    return type("WebSocketProtocol", (CountedWebSocket,), named)
