"""Turns whose answer does not go to an HTTP client: WebSocket turns, background responses, the gateway's own requests.

They have the same limits and journal rows as other turns; only `send` and `receive` differ.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from penstock._gateway.turn import Turn
from penstock._http.disconnect import DisconnectWatch
from penstock._http.response_writer import BODY, ResponseWriter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock._gateway.endpoints import Endpoint, IncomingRequest

    Send = Callable[[Any], Awaitable[None]]


async def run_internal_turn(
    endpoint: Endpoint, incoming: IncomingRequest, send: Send, off: asyncio.Event | None = None, *, begun: bool = False
) -> Turn:
    """Run a turn until it ends or `off` is set. `begun`: errors are sent inside the stream from the start."""
    serve = incoming.services.config.serve
    watched = off or asyncio.Event()

    async def receive() -> dict[str, Any]:
        await watched.wait()
        return {"type": "http.disconnect"}

    gone = DisconnectWatch(receive)
    try:
        out = ResponseWriter(send, gone, keep_alive=serve.ping if off is not None else 0, stuck_limit=serve.write)
        out.started = begun
        turn = Turn(incoming.services, endpoint, incoming, out)
        with incoming.services.revocations.guard(incoming.caller, gone.cancel_with):
            await turn.run(gone)
    finally:
        gone.close()
    return turn


class ResponseCollector:
    """Replaces a connection and collects the status and body of an answer."""

    def __init__(self) -> None:
        self.status = 0
        self.body = b""

    async def send(self, message: Any) -> None:
        if message["type"] == BODY:
            self.body += message["body"]
        else:
            self.status = message["status"]
