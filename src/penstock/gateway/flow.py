"""An answer that comes piece by piece and is no turn: a stored stream played again, one in the background followed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from penstock.gateway import refusing
from penstock.gateway.outlet import BODY

if TYPE_CHECKING:
    from penstock.events import Fault
    from penstock.gateway.doors.door import Headers
    from penstock.gateway.outlet import Outlet


LAST_WORDS = 0.5  # seconds that a client has to take the end of an answer that may not go on


class Flow(msgspec.Struct, frozen=True):
    """Chunks of server-sent events."""

    chunks: AsyncIterator[bytes]

    async def out(self, outlet: Outlet, headers: Headers) -> None:
        """Send all of it."""
        outlet.prepare("sse", headers)
        try:
            await outlet.begin()
            async for chunk in self.chunks:
                outlet.count += 1
                outlet.sent_at = outlet.clock()
                await outlet.send({"type": BODY, "body": chunk, "more_body": True})
            await outlet.end(b"")
        finally:
            outlet.stop()


async def end_with(outlet: Outlet, protocol: str, fault: Fault) -> int:
    """End an answer that may not go on: with a status if there is time for one, else with an event. Gives the status.

    A client that does not read is not waited for.
    """
    status, body, headers = refusing.refusal(protocol, fault)
    with suppress(TimeoutError, OSError):
        async with asyncio.timeout(LAST_WORDS):
            if outlet.begun:
                await outlet.end(b"event: error\ndata: %b\n\n" % body)
            else:
                await outlet.whole(status, body, headers)
    return status
