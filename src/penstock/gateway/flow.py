"""An answer that comes piece by piece and is no turn: a stored stream played again, one in the background followed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import msgspec

from penstock.gateway.outlet import BODY

if TYPE_CHECKING:
    from penstock.gateway.doors.door import Headers
    from penstock.gateway.outlet import Outlet


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
                await outlet.send({"type": BODY, "body": chunk, "more_body": True})
            await outlet.end(b"")
        finally:
            outlet.stop()
