"""Shares the inspector's streams and worker threads among tenants, so that no tenant takes all of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar

from penstock._gateway.callers import make_refusal
from penstock._inspector import file_inspector
from penstock._inspector.file_inspector import MAX_WORKERS, WorkerSlots

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
RESERVED_STREAMS = 8  # for callers who see all turns, and for tenants without a stream
MAX_TENANT_WORKERS = MAX_WORKERS - 1  # at once; others of the tenant wait
current_tenant: ContextVar[str | None] = ContextVar("current_tenant", default=None)
"""Whose request is answered; None: the caller sees all turns."""


class StreamLimits:
    """Counts the open streams of a kind, `most` in all and `most_of_tenant` of one tenant.

    A caller who sees all turns has no tenant (None).
    """

    def __init__(self, most: int, most_of_tenant: int) -> None:
        self._most, self._most_of_tenant = most, most_of_tenant
        self._open: Counter[str | None] = Counter()

    def open_stream(self, tenant: str | None) -> Callable[[], None]:
        """Counts a stream. Returns the function that is called when it ends. Raises if there are too many."""
        count, total = self._open[tenant], self._open.total()
        if tenant is not None and count >= self._most_of_tenant:
            message = f"{count} pages with keys of this tenant are open already; close one, and try again"
            raise make_refusal(503, "overloaded", message, retry_after=5.0)
        if total >= self._most - (RESERVED_STREAMS if tenant is not None and count else 0):
            message = "too many pages are open already; try again later"
            raise make_refusal(503, "overloaded", message, retry_after=5.0)
        self._open[tenant] += 1
        waiting = [tenant]

        def close_stream() -> None:
            if waiting:
                self._open[waiting.pop()] -= 1
                self._open += Counter()  # forgets tenants without a stream

        return close_stream


class TenantWorkerSlots(WorkerSlots):
    """Worker threads of which a tenant takes all but one at most. Tenants wait for the rest in turn."""

    def __init__(self) -> None:
        super().__init__()
        self._rooms: dict[str, asyncio.Semaphore] = {}
        self._users: Counter[str] = Counter()  # of the rooms: those that work, and those that wait

    async def run(self, work: Callable[[], T], size: int = 0) -> T:
        """Returns the result of `work`, which is done for the current tenant."""
        tenant = current_tenant.get()
        if tenant is None:
            return await super().run(work, size)
        room = self._rooms.setdefault(tenant, asyncio.Semaphore(MAX_TENANT_WORKERS))
        self._users[tenant] += 1
        try:
            return await self._run_in_room(room, work, size)
        finally:
            self._users[tenant] -= 1
            if not self._users[tenant]:
                del self._users[tenant], self._rooms[tenant]

    async def _run_in_room(self, room: asyncio.Semaphore, work: Callable[[], T], size: int) -> T:
        try:
            async with asyncio.timeout(file_inspector.MAX_WAIT):
                await room.acquire()
        except TimeoutError:
            message = "the inspector has too much to do for this tenant just now"
            raise make_refusal(503, "overloaded", message, retry_after=5.0) from None
        try:
            return await super().run(work, size)
        finally:
            room.release()
