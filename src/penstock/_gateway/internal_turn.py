"""Turns without an HTTP client: WebSocket turns, background responses, the gateway's own requests.

Only their `send` and `receive` differ.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from penstock._gateway.turn import ActiveTurn
from penstock._http.response_writer import BODY, DisconnectWatch, ResponseWriter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock._gateway.endpoints import ClientEndpoint, IncomingRequest

    Send = Callable[[Any], Awaitable[None]]


async def run_internal_turn(
    endpoint: ClientEndpoint,
    incoming: IncomingRequest,
    send: Send,
    off: asyncio.Event | None = None,
    *,
    begun: bool = False,
) -> ActiveTurn:
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
        turn = ActiveTurn(incoming.services, endpoint, incoming, out)
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
