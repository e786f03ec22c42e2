"""Keeps leases of open reservations alive, and settlements that a store could not take until it can."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from penstock._store.limit_store import LEASE, Amounts, LimitRule, LimitStore, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

RENEW_INTERVAL = 2.0  # seconds: a lease survives three renewals that fail
MAX_SETTLEMENTS = 10_000  # that wait for the store; beyond it the oldest are lost
RETRY_INTERVAL = 0.25  # seconds between two attempts to reach a store
DELIVERY_BATCH = 200  # settlements in one call
log = logging.getLogger("penstock.store")


class LeaseKeeper:
    """Renews the leases of all open reservations of this process in one call, as long as there are any.

    Add an id after its reservation, discard it before its settlement. Use it on one event loop.
    """

    def __init__(self, store: LimitStore, *, lease: float = LEASE, interval: float = RENEW_INTERVAL) -> None:
        self.lease = lease
        self._store, self._interval = store, interval
        self._ids: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, id: str) -> None:
        self._ids.add(id)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._renew(), name="penstock-leases")

    def discard(self, id: str) -> None:
        self._ids.discard(id)

    async def aclose(self) -> None:
        """Stops renewing: leases that are still open end by themselves."""
        self._ids.clear()
        await _cancel(self._task)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            if not self._ids:
                return
            with suppress(StoreUnavailable):  # the next attempt is in time: see RENEW_INTERVAL
                await self._store.renew(tuple(self._ids), self.lease)


class Settlement(NamedTuple):
    """A settlement that waits. `rules` are charged if the store does not know the id: see `LimitStore`."""

    id: str
    amounts: Amounts
    rules: tuple[LimitRule, ...] = ()


class SettlementQueue:
    """Settlements that wait for a store, and whether it is away. `lost` counts those that were dropped.

    `deliver` raises `StoreUnavailable` as long as the store is away; without settlements it only tries to reach it.
    """

    def __init__(self, name: str, deliver: Callable[[Sequence[Settlement]], Awaitable[None]]) -> None:
        self.lost = 0
        self.away: StoreUnavailable | None = None
        self._name, self._deliver = name, deliver
        self._waiting: OrderedDict[str, Settlement] = OrderedDict()
        self._unsure: OrderedDict[str, tuple[LimitRule, ...]] = OrderedDict()
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def check(self) -> None:
        """Raises at once while the store is away: nobody waits for a timeout that another call has seen."""
        if self.away is not None:
            raise StoreUnavailable(*self.away.args)

    def mark_away(self, error: StoreUnavailable) -> None:
        """Notes that the store is away, and tries to reach it until it is back."""
        if self.away is None:
            log.error("%s; trying again every %g s", error, RETRY_INTERVAL)
        self.away = error
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._retry(), name="penstock-settlements")

    def note_unsure(self, id: str, rules: Sequence[LimitRule]) -> None:
        """Notes a reservation that may not have been made: its settlement charges the rules itself."""
        self._unsure[id] = tuple(rules)
        if len(self._unsure) > MAX_SETTLEMENTS:
            self._unsure.popitem(last=False)

    def take(self, id: str, amounts: Amounts) -> Settlement:
        """Returns the settlement of a reservation."""
        return Settlement(id, amounts, self._unsure.pop(id, ()) if self._unsure else ())

    def add(self, settlement: Settlement) -> None:
        """Keeps a settlement until the store is back. The first one of an id counts."""
        self._waiting.setdefault(settlement.id, settlement)
        if len(self._waiting) > MAX_SETTLEMENTS:
            self._waiting.popitem(last=False)
            self.lost += 1

    async def flush(self) -> None:
        """Delivers what waits. Raises `StoreUnavailable` if the store is away."""
        while True:
            batch = list(self._waiting.values())[:DELIVERY_BATCH]
            await self._deliver(batch)
            for settlement in batch:
                self._waiting.pop(settlement.id, None)
            if not self._waiting:
                return

    async def aclose(self) -> None:
        """Tries once more to deliver what waits, and counts the rest as lost."""
        await _cancel(self._task)
        if self._waiting:
            with suppress(StoreUnavailable):
                await self.flush()
        if self._waiting:
            log.error("%s: %d settlements of limits were not delivered and are lost", self._name, len(self._waiting))
            self.lost += len(self._waiting)
            self._waiting.clear()

    async def _retry(self) -> None:
        while True:
            await asyncio.sleep(RETRY_INTERVAL)
            with suppress(StoreUnavailable):
                await self.flush()
                self.away = None
                log.warning("%s: limits are counted again", self._name)
                return


async def _cancel(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.wait([task])
