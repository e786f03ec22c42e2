"""The stores that count limits, themselves: their clock, and calls that no request makes.

Whether they count exactly can only be seen with a clock that a test moves, and at limits, leases and orders of calls
that a gateway's own requests would take hours to come to.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock._store import limit_delivery, memory_limits, redis_scripts, sqlite_limits
from penstock._store.limit_delivery import RETRY_INTERVAL
from penstock._store.limit_store import MAX_AMOUNT, NEVER, RELEASED, Amounts, LimitRule, LimitStore, StoreUnavailable
from penstock._store.memory_limits import MemoryLimitStore
from penstock._store.redis_limits import RedisLimitStore
from penstock._store.redis_scripts import LuaScript, RedisScripts
from penstock._store.sqlite_limits import SqliteLimitStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

__all__ = [
    "MAX_AMOUNT", "NEVER", "RELEASED", "RESERVATION_SECONDS", "RETRY_INTERVAL", "Amounts", "LimitRule", "LimitStore",
    "LuaScript", "RedisScripts", "StoreUnavailable", "few_callers", "few_settlements", "no_batches", "open_limits",
    "sweep_at_once",
]  # fmt: skip
RESERVATION_SECONDS = 3600  # without a renewal: then a reservation is forgotten, and stays charged


def open_limits(place: str | Path = "", clock: Callable[[], float] = time.time, *, timeout: float = 60.0) -> LimitStore:
    """A store: in memory, in the file with this path, or in the Redis at this URL."""
    if not place:
        return MemoryLimitStore(clock)
    if isinstance(place, str):
        return RedisLimitStore(place, clock=clock if clock is not time.time else None, timeout=timeout)
    return SqliteLimitStore(place, clock, timeout=timeout)


def few_callers(patch: pytest.MonkeyPatch, most: int) -> None:
    """The store in memory knows so many callers without a key."""
    patch.setattr(memory_limits, "MAX_SCOPES", most)


def few_settlements(patch: pytest.MonkeyPatch, most: int) -> None:
    """So many settlements wait for a store that is away."""
    patch.setattr(limit_delivery, "MAX_SETTLEMENTS", most)


def sweep_at_once(patch: pytest.MonkeyPatch) -> None:
    """What counts no more is removed with the next call."""
    patch.setattr(sqlite_limits, "SWEEP_INTERVAL", -1.0)


def no_batches(patch: pytest.MonkeyPatch, seconds: float) -> None:
    """What may wait for the next call to Redis waits so long."""
    patch.setattr(redis_scripts, "BATCH_DELAY", seconds)
