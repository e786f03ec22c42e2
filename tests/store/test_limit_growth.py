"""Stores of limits do not grow for ever: what counts no more is removed."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
import redis

from penstock._store import limit_store, sqlite_limits
from penstock._store.limit_store import Amounts, LimitRule, MemoryLimitStore
from penstock._store.redis_limits import RedisLimitStore
from penstock._store.sqlite_limits import SqliteLimitStore
from tests.support.servers import RedisServer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = pytest.mark.row("Q2")
SLOTS = LimitRule("key:ann", "concurrent", 0, 3)


def test_memory_forgets_the_scope_that_was_idle_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit_store, "MAX_SCOPES", 3)

    async def main() -> None:
        store = MemoryLimitStore()
        rules = [LimitRule(f"key:{number}", "cost", 0, 10) for number in range(50)]
        assert await store.reserve("open", rules[:1], Amounts(cost=1)) is None
        for rule in rules[1:]:
            assert await store.reserve(rule.scope, [rule], Amounts(cost=1)) is None
            await store.settle_reservation(rule.scope, Amounts(cost=1))
        assert await store.usage(rules) == [1, *[0] * 47, 1, 1]

    asyncio.run(main())


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
