"""Background responses: each is a turn in its own task, and clients may follow its stream.

The stream is held in memory until the turn has ended; then the response is stored.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from penstock._http.response_writer import BODY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

MAX_RESPONSES = 200  # running at once
MAX_BYTES = 32 * 2**20  # of one stream; a longer one is cancelled
END_TIMEOUT = 1.0  # seconds for turns that were ended with an error
CANCEL_TIMEOUT = 5.0  # seconds for cancelled turns


class BackgroundResponse:
    """A running response. Setting `cancel_event` cancels it; `response` is its current state."""

    def __init__(self, response: dict[str, Any]) -> None:
        self.response = response
        self.cancel_event: asyncio.Event = asyncio.Event()
        self.ended: bool = False
        self.task: asyncio.Task[None] | None = None
        self._chunks: list[bytes] = []
        self._size = 0
        self._changed = asyncio.Condition()

    async def send(self, message: Any) -> None:
        """Replace ASGI's `send`: hold the chunks."""
        data: bytes = message.get("body", b"") if message["type"] == BODY else b""
        if data and not data.startswith(b":"):  # keep-alives are not stored
            async with self._changed:
                self._chunks.append(data)
                self._size += len(data)
                self._changed.notify_all()
        if self._size > MAX_BYTES:
            self.cancel_event.set()

    async def end(self) -> None:
        """Mark the stream as complete."""
        async with self._changed:
            self.ended = True
            self._changed.notify_all()

    async def follow(self) -> AsyncIterator[bytes]:
        """Yield all chunks, past and future."""
        position = 0
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: self.ended or len(self._chunks) > position)  # noqa: B023 — waited for here
                chunks = self._chunks[position:]
            if not chunks:
                return
            position += len(chunks)
            for chunk in chunks:
                yield chunk


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
                await live.end()

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
