"""A scripted upstream for code that is not asynchronous: the same server, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.testing.upstream import Upstream

if TYPE_CHECKING:
    import ssl
    from collections.abc import Generator

    from penstock.testing.upstream import Answer

_LIMIT = 30.0


@contextmanager
def scripted(*replies: Answer, tls: ssl.SSLContext | None = None) -> Generator[Upstream]:
    """An upstream for the length of a `with`."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def opened() -> Upstream:
        return await Upstream(*replies, tls=tls).__aenter__()

    up = asyncio.run_coroutine_threadsafe(opened(), loop).result(_LIMIT)
    try:
        yield up
    finally:
        asyncio.run_coroutine_threadsafe(up.__aexit__(), loop).result(_LIMIT)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_LIMIT)
        loop.close()
