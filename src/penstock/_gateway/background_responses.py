"""Background responses: each is a turn in its own task, and clients may follow its stream.

The stream is written into the log of streams (`stream_resume`); when the turn has ended, the response is stored.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from penstock._framing.sse import KEEP_ALIVE
from penstock._http.response_writer import BODY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock._store.stream_log import LogWriter

MAX_RESPONSES = 200  # running at once
END_TIMEOUT = 1.0  # seconds for turns that were ended with an error
CANCEL_TIMEOUT = 5.0  # seconds for cancelled turns


class BackgroundResponse:
    """A running response. Setting `cancel_event` cancels it; `response` is its current state; `writer` its log."""

    def __init__(self, response: dict[str, Any]) -> None:
        self.response = response
        self.cancel_event: asyncio.Event = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self.writer: LogWriter | None = None

    async def send(self, message: Any) -> None:
        """Replace ASGI's `send`: write the chunks into the log. A response that is too long for it is cancelled."""
        data: bytes = message.get("body", b"") if message["type"] == BODY else b""
        if data and data != KEEP_ALIVE and self.writer is not None and not self.writer.append(data):
            self.cancel_event.set()

    def end(self) -> None:
        """Mark the stream as complete."""
        if self.writer is not None:
            self.writer.finish()


class BackgroundResponses:
    """All running responses, by tenant and id."""

    def __init__(self) -> None:
        self._live: dict[tuple[str, str], BackgroundResponse] = {}

    def __len__(self) -> int:
        return len(self._live)

    @property
    def is_full(self) -> bool:
        return len(self._live) >= MAX_RESPONSES

    def get(self, tenant: str, id: str) -> BackgroundResponse | None:
        return self._live.get((tenant, id))

    def start(
        self, tenant: str, live: BackgroundResponse, work: Callable[[BackgroundResponse], Awaitable[None]]
    ) -> None:
        """Start a response in a task."""
        key = (tenant, str(live.response["id"]))

        async def run() -> None:
            try:
                await work(live)
            finally:
                live.end()

        self._live[key] = live
        live.task = asyncio.get_running_loop().create_task(run())
        live.task.add_done_callback(lambda _: self._live.pop(key))

    async def cancel(self, tenant: str, id: str) -> bool:
        """Cancel a response and wait until it has ended. Returns whether it was running."""
        live = self.get(tenant, id)
        if live is None or live.task is None:
            return False
        live.cancel_event.set()
        await asyncio.wait([live.task], timeout=CANCEL_TIMEOUT)
        return True

    async def aclose(self) -> None:
        """Wait until ended turns have stored their responses, then cancel the others."""
        for timeout in (END_TIMEOUT, CANCEL_TIMEOUT):
            if tasks := [live.task for live in self._live.values() if live.task is not None]:
                await asyncio.wait(tasks, timeout=timeout)
            for live in self._live.values():
                live.cancel_event.set()
