"""The pauses of a gateway between two tries of a provider: each lasts until a test lets it go."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.support.gateway import Running


class Patience:
    """`waits`: how long each pause would be. `go`: set it, and none is made any more."""

    def __init__(self, running: Running) -> None:
        self.waits: list[float] = []
        self.go = threading.Event()
        router: Any = running.app.services.upstream.router
        router._sleep = self._sleep

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        while not self.go.is_set():  # noqa: ASYNC110 — another thread lets it go
            await asyncio.sleep(0.005)
