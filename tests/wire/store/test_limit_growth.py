"""Stores of limits do not grow for ever: what counts no more is removed."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
import redis

from penstock._store import memory_limits, sqlite_limits
from penstock._store.limit_store import Amounts, LimitRule, StoreUnavailable
from penstock._store.memory_limits import MemoryLimitStore
from penstock._store.redis_limits import RedisLimitStore
from penstock._store.sqlite_limits import SqliteLimitStore
from tests.support.servers import RedisServer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

DAY = 86_400
SLOTS = LimitRule("key:ann", "concurrent", 0, 3)


def test_memory_never_forgets_usage_that_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys and teams are as many as somebody has made: each of them is remembered while its usage counts."""
    monkeypatch.setattr(memory_limits, "MAX_SCOPES", 3)
    now = [1_000_000.0]

    async def main() -> None:
        store = MemoryLimitStore(lambda: now[0])
        rules = [LimitRule(f"key:{number}", "cost", 0 if number % 2 else DAY, 10) for number in range(50)]
        for rule in rules:
            assert await store.reserve(rule.scope, [rule], Amounts(cost=7)) is None
            await store.settle_reservation(rule.scope, Amounts(cost=7))
        assert await store.usage(rules) == [7] * 50
        for rule in rules:
            assert await store.reserve("more", [rule], Amounts(cost=4)) is not None
        now[0] += 2 * DAY
        for number in range(100):  # those of a day count no more, and are removed
            rule = LimitRule(f"team:{number}", "cost", DAY, 10)
            assert await store.reserve(rule.scope, [rule], Amounts(cost=7)) is None
        assert await store.usage(rules) == [0, 7] * 25
        assert len(store._scopes) == 125  # pyright: ignore[reportPrivateUsage]

    asyncio.run(main())


def test_memory_refuses_callers_that_it_cannot_count(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Anybody can be any number of callers without a gateway key. None of them makes others' usage forgotten."""
    monkeypatch.setattr(memory_limits, "MAX_SCOPES", 3)
    now = [1_000_000.0]

    async def main() -> None:
        store = MemoryLimitStore(lambda: now[0])
        rules = [LimitRule(f"caller:{number}", "requests", 60, 1) for number in range(50)]
        for rule in rules[:3]:
            assert await store.reserve(rule.scope, [rule], Amounts()) is None
        for rule in rules[3:]:
            with pytest.raises(StoreUnavailable, match="3 callers without a gateway key"):
                await store.reserve(rule.scope, [rule], Amounts())
        assert await store.reserve("key", [LimitRule("key:ann", "requests", 60, 1)], Amounts()) is None
        assert await store.usage(rules) == [1, 1, 1, *[0] * 47]
        await store.settle_reservation(rules[0].scope, Amounts())
        now[0] += 61  # the others are open
        assert await store.reserve("a", [rules[7]], Amounts()) is None
        with pytest.raises(StoreUnavailable):
            await store.reserve("b", [rules[8]], Amounts())

    asyncio.run(main())
    assert len(caplog.records) == 2  # once a minute


def test_every_key_in_redis_has_a_time_to_live() -> None:
    windows: Sequence[int] = (0, 1, 60, 86_400)
    rules = [LimitRule("org", kind, window, 50) for kind in ("requests", "tokens", "cost") for window in windows]

    async def steps(url: str) -> None:
        store = RedisLimitStore(url, timeout=60)
        for name in ("open", "less", "more"):
            assert await store.reserve(name, [*rules, SLOTS], Amounts(tokens=5, cost=5)) is None
        await store.settle_reservation("less", Amounts(tokens=1, cost=0))
        await store.settle_reservation("more", Amounts(requests=2, tokens=9, cost=9))
        await store.renew(["open"])
        await store.aclose()

    with closing(RedisServer()) as server:
        server.start()
        client: Any = redis.Redis(port=server.port)
        asyncio.run(steps(server.url))
        lives = {key: client.ttl(key) for key in client.keys("*")}
        client.close()
    assert lives
    assert all(0 <= seconds <= 400 * 86_400 for seconds in lives.values()), lives
    assert all(key.startswith(b"{penstock-limits}:") for key in lives)


def test_rows_in_sqlite_that_count_no_more_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_limits, "SWEEP_INTERVAL", -1.0)
    path, now = tmp_path / "limits.sqlite", [1_000_000.0]

    async def steps() -> None:
        store = SqliteLimitStore(path, lambda: now[0], timeout=60)
        for number in range(40):
            rules = [LimitRule(f"key:{number}", "requests", 60, 5), LimitRule(f"key:{number}", "tokens", 86_400, 5)]
            assert await store.reserve(f"a{number}", [*rules, SLOTS][: 2 + (number < 3)], Amounts(tokens=1)) is None
            if number % 2:
                await store.settle_reservation(f"a{number}", Amounts(tokens=2))
        now[0] += 200_000
        await store.usage([SLOTS])
        await store.aclose()

    asyncio.run(steps())
    with closing(sqlite3.connect(path)) as opened:
        for table in ("counters", "buckets", "reservations", "slots"):
            query = f"SELECT count(*) FROM limit_{table}"  # noqa: S608 — the names above
            assert opened.execute(query).fetchone() == (0,), table
