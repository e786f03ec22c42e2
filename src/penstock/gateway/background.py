"""Responses that are made while nobody waits: each is a turn in a task of its own, whose stream anybody may follow.

Leans on `inside` for the turn. What a task says is held in memory until it is over; after that the response is stored.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from penstock.http.response_writer import BODY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

MOST = 200  # that are made at once
HELD = 32 * 2**20  # bytes of one stream that are held; one that says more is called off
ENDED = 1.0  # seconds in which those that were ended with an error must be over
PATIENCE = 5.0  # seconds in which all must be over when the gateway closes


class Live:
    """A response that is being made. `off` calls it off; `response` is what is known of it."""

    def __init__(self, response: dict[str, Any]) -> None:
        self.response = response
        self.off = asyncio.Event()
        self.over = False
        self._chunks: list[bytes] = []
        self._size = 0
        self._news = asyncio.Condition()

    async def send(self, message: Any) -> None:
        """In place of a client's connection."""
        data: bytes = message.get("body", b"") if message["type"] == BODY else b""
        if data and not data.startswith(b":"):  # a sign of life is for those who listen now
            async with self._news:
                self._chunks.append(data)
                self._size += len(data)
                self._news.notify_all()
        if self._size > HELD:
            self.off.set()

    async def end(self) -> None:
        """No more will be said."""
        async with self._news:
            self.over = True
            self._news.notify_all()

    async def follow(self) -> AsyncIterator[bytes]:
        """All chunks, those that have been and those to come."""
        place = 0
        while True:
            async with self._news:
                await self._news.wait_for(lambda: self.over or len(self._chunks) > place)  # noqa: B023 — waited for here
                chunks = self._chunks[place:]
            if not chunks:
                return
            place += len(chunks)
            for chunk in chunks:
                yield chunk


class Background:
    """All that are being made, by tenant and id."""

    def __init__(self) -> None:
        self._live: dict[tuple[str, str], Live] = {}
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._live)

    @property
    def full(self) -> bool:
        return len(self._live) >= MOST

    def get(self, tenant: str, id: str) -> Live | None:
        return self._live.get((tenant, id))

    def start(self, tenant: str, live: Live, work: Callable[[Live], Awaitable[None]]) -> None:
        """Have a response made."""
        key = (tenant, str(live.response["id"]))

        async def made() -> None:
            try:
                await work(live)
            finally:
                await live.end()

        def done(_: asyncio.Task[None]) -> None:
            del self._live[key], self._tasks[key]

        self._live[key] = live
        task = self._tasks[key] = asyncio.get_running_loop().create_task(made())
        task.add_done_callback(done)

    async def cancel(self, tenant: str, id: str) -> bool:
        """Call one off, and wait until it is over. Whether there was one."""
        task, live = self._tasks.get((tenant, id)), self._live.get((tenant, id))
        if task is None or live is None:
            return False
        live.off.set()
        await asyncio.wait([task], timeout=PATIENCE)
        return True

    async def aclose(self) -> None:
        """Wait until those whose turn was ended have stored that, then call off the others."""
        tasks = list(self._tasks.values())
        if tasks:
            await asyncio.wait(tasks, timeout=ENDED)
        for live in self._live.values():
            live.off.set()
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=PATIENCE)
