"""What the store of limits has counted, and its clock, which a test moves by hand."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from penstock._gateway import limit_usage
from penstock._gateway.limits import DAY, MONTH, TOTAL, WEEK
from penstock._store.limit_store import LimitRule

if TYPE_CHECKING:
    import pytest

    from tests.support.gateway import Running

__all__ = ["DAY", "MONTH", "TOTAL", "WEEK", "StoppedClock", "poll_at_every_scrape", "reserved", "used"]


def reserved(running: Running, kind: str, key: str = "a") -> int:
    """What is reserved of a day's limit of a key: tokens, requests, or micro-dollars."""
    named: Any = kind
    rule = LimitRule(f"key:{key}", named, DAY, 10**12)
    found: list[int] = running.call(running.app.services.limits.store.usage([rule]))
    return found[0]


def used(running: Running, kind: str, key: str = "a") -> int:
    """What counts for a day's limit of a key once all turns are over."""
    running.settle()
    return reserved(running, kind, key)


class StoppedClock:
    """The clock of a gateway's limits. It goes on when it is told to."""

    def __init__(self, running: Running) -> None:
        self.now = float(round(time.time()))
        store: Any = running.app.services.limits.store
        store._clock = lambda: self.now


def poll_at_every_scrape(monkeypatch: pytest.MonkeyPatch) -> int:
    """Let metrics show limits as they are now. Returns how many limits have series of their own."""
    monkeypatch.setattr(limit_usage, "POLL_INTERVAL", 0.0)
    return limit_usage.MAX_METRIC_LIMITS
