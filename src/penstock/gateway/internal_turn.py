"""A turn whose answer does not go to a client of HTTP: a WebSocket's, one in the background, one of the gateway's own.

The same `Turn`, with the same limits and the same row in the journal; only `send` and `receive` are somebody else's.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from penstock.gateway.turn import Turn
from penstock.http.disconnect import Gone
from penstock.http.response_writer import BODY, Outlet

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.gateway.endpoints import Door, Visit

    Send = Callable[[Any], Awaitable[None]]


async def run(door: Door, visit: Visit, send: Send, off: asyncio.Event | None = None, *, begun: bool = False) -> Turn:
    """A turn, until its end or until it is called off. `begun`: it is streamed from the first word, refusals too."""
    serve = visit.services.config.serve
    watched = off or asyncio.Event()

    async def receive() -> dict[str, Any]:
        await watched.wait()
        return {"type": "http.disconnect"}

    gone = Gone(receive)
    try:
        out = Outlet(send, gone, every=serve.ping if off is not None else 0, limit=serve.write)
        out.begun = begun
        turn = Turn(visit.services, door, visit, out)
        with visit.services.revocations.guard(visit.caller, gone.end_with):
            await turn.run(gone)
    finally:
        gone.close()
    return turn


class Caught:
    """An answer that is wanted whole, in place of a connection."""

    def __init__(self) -> None:
        self.status = 0
        self.body = b""

    async def send(self, message: Any) -> None:
        if message["type"] == BODY:
            self.body += message["body"]
        else:
            self.status = message["status"]
