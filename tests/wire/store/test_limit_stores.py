"""The stores of limits, all held to the same tests: memory, SQLite, and a real Redis."""

from __future__ import annotations

import asyncio
import math
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
import redis

from penstock._store import limit_store
from penstock._store.limit_delivery import LeaseKeeper
from penstock._store.limit_store import NEVER, RELEASED, Amounts, LimitRule
from penstock._store.memory_limits import MemoryLimitStore
from penstock._store.redis_limits import RedisLimitStore
from penstock._store.sqlite_limits import SqliteLimitStore
from penstock.errors import InputError
from tests.support.servers import RedisServer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from pathlib import Path

    from penstock._store.limit_store import LimitStore

KEY = LimitRule("key:ann", "requests", 60, 3)
TEAM = LimitRule("team:research", "tokens", 86_400, 100)
ORGANISATION = LimitRule("org", "cost", 0, 1_000)
RULES = (ORGANISATION, TEAM, KEY)


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.25

    def __call__(self) -> float:
        return self.now


class Scenario:
    """Runs a coroutine with a new store, whose clock is `clock`."""

    def __init__(self, make: Callable[[Clock], LimitStore], server: RedisServer | None = None) -> None:
        self.clock = Clock()
        self.server = server
        self._make = make

    def __call__(self, steps: Callable[[LimitStore], Awaitable[None]]) -> None:
        async def main() -> None:
            store = self._make(self.clock)
            try:
                await steps(store)
            finally:
                await store.aclose()

        asyncio.run(main())


def ask_redis(server: RedisServer, *words: str) -> Any:
    client: Any = redis.Redis(port=server.port)
    with client:
        return client.execute_command(*words)


@pytest.fixture(scope="module")
def redis_server() -> Iterator[RedisServer]:
    with closing(RedisServer()) as server:
        server.start()
        yield server


@pytest.fixture(params=["memory", "sqlite", "redis"])
def scenario(request: pytest.FixtureRequest, tmp_path: Path) -> Scenario:
    if request.param == "memory":
        return Scenario(MemoryLimitStore)
    if request.param == "sqlite":
        return Scenario(lambda clock: SqliteLimitStore(tmp_path / "limits.sqlite", clock, timeout=60))
    server: RedisServer = request.getfixturevalue("redis_server")
    ask_redis(server, "FLUSHALL")
    return Scenario(lambda clock: RedisLimitStore(server.url, clock=clock, timeout=60), server)


def test_a_reservation_is_charged_to_all_rules_or_to_none(scenario: Scenario) -> None:
    async def steps(store: LimitStore) -> None:
        assert await store.reserve("a", RULES, Amounts(tokens=60, cost=10)) is None
        assert await store.usage(RULES) == [10, 60, 1]
        refusal = await store.reserve("b", RULES, Amounts(tokens=41, cost=10))
        assert refusal is not None
        assert (refusal.rule, refusal.used) == (TEAM, 60)
        assert 86_400 < refusal.retry_after <= 86_400 + 1_440
        assert await store.usage(RULES) == [10, 60, 1]
        assert await store.reserve("b", RULES, Amounts(tokens=40, cost=990)) is None
        assert await store.usage(RULES) == [1_000, 100, 2]

    scenario(steps)


def test_a_reservation_says_what_then_counts(scenario: Scenario) -> None:
    async def steps(store: LimitStore) -> None:
        used: dict[LimitRule, int] = {}
        await store.reserve("a", RULES, Amounts(tokens=60, cost=10), used=used)
        assert [used[rule] for rule in RULES] == await store.usage(RULES)
        await store.reserve("b", RULES, Amounts(tokens=5, cost=1), used=used)
        assert [used[rule] for rule in RULES] == await store.usage(RULES)
        slots = LimitRule("key:ann", "concurrent", 0, 3)
        assert await store.reserve("c", [slots], Amounts(), used=used) is None
        assert used[slots] == 1
        used.clear()
        assert await store.reserve("d", RULES, Amounts(tokens=10_000), used=used) is not None
        assert used == {}

    scenario(steps)


def test_of_several_refusals_the_longest_wait_counts(scenario: Scenario) -> None:
    async def steps(store: LimitStore) -> None:
        rules = (KEY, LimitRule("team:research", "requests", 3_600, 3))
        for number in range(3):
            assert await store.reserve(f"a{number}", rules, Amounts()) is None
        refusal = await store.reserve("b", rules, Amounts())
        assert refusal is not None
        assert refusal.rule == rules[1]
        refusal = await store.reserve("b", (*rules, LimitRule("org", "concurrent", 0, 0)), Amounts())
        assert refusal is not None
        assert (refusal.rule.scope, refusal.retry_after) == ("org", NEVER)

    scenario(steps)


def test_requests_of_a_minute_are_counted_one_by_one(scenario: Scenario) -> None:
    clock = scenario.clock

    async def steps(store: LimitStore) -> None:
        start = clock.now
        for number in range(3):
            clock.now = start + 10 * number
            assert await store.reserve(f"a{number}", [KEY], Amounts()) is None
        for number in range(3):
            clock.now = start + 60 + 10 * number - 0.001
            refusal = await store.reserve("early", [KEY], Amounts())
            assert refusal is not None
            assert refusal.used == 3
            assert 0 < refusal.retry_after < 0.0011
            clock.now += refusal.retry_after + 1e-6
            assert await store.reserve(f"b{number}", [KEY], Amounts()) is None

    scenario(steps)


def test_a_bucket_counts_until_all_of_it_has_left_the_window(scenario: Scenario) -> None:
    clock = scenario.clock

    async def steps(store: LimitStore) -> None:
        rule = LimitRule("key:ann", "tokens", 3_600, 100)  # buckets of a minute
        clock.now = clock.now // 60 * 60 + 1
        assert await store.reserve("a", [rule], Amounts(tokens=70)) is None
        clock.now += 58
        assert await store.reserve("b", [rule], Amounts(tokens=20)) is None
        clock.now += 3_600 - 1
        refusal = await store.reserve("c", [rule], Amounts(tokens=11))
        assert refusal is not None
        assert (refusal.used, round(refusal.retry_after, 3)) == (90, 2.0)
        clock.now += 2
        assert await store.reserve("c", [rule], Amounts(tokens=100)) is None
        assert await store.usage([rule]) == [100]

    scenario(steps)


def test_buckets_leave_the_window_one_by_one(scenario: Scenario) -> None:
    clock = scenario.clock

    async def steps(store: LimitStore) -> None:
        rule = LimitRule("key:ann", "tokens", 3_600, 100)
        start = clock.now = clock.now // 60 * 60
        for number in range(5):
            clock.now = start + 60 * number + 30
            assert await store.reserve(f"a{number}", [rule], Amounts(tokens=2**number)) is None
        for number in range(5):
            clock.now = start + 60 * (number + 61) - 0.001
            assert await store.usage([rule]) == [32 - 2**number]
            clock.now += 0.001
            assert await store.usage([rule]) == [32 - 2 ** (number + 1)]

    scenario(steps)


def test_settling_replaces_what_was_reserved(scenario: Scenario) -> None:
    async def steps(store: LimitStore) -> None:
        assert await store.reserve("less", RULES, Amounts(tokens=60, cost=500)) is None
        await store.settle_reservation("less", Amounts(tokens=25, cost=100))
        assert await store.usage(RULES) == [100, 25, 1]
        assert await store.reserve("more", RULES, Amounts(tokens=10, cost=10)) is None
        await store.settle_reservation("more", Amounts(tokens=90, cost=2_000))
        assert await store.usage(RULES) == [2_100, 115, 2]
        refusal = await store.reserve("next", RULES, Amounts(tokens=1, cost=1))
        assert refusal is not None
        assert (refusal.rule, refusal.used, refusal.retry_after) == (ORGANISATION, 2_100, NEVER)

    scenario(steps)


def test_a_request_that_was_not_sent_uses_nothing(scenario: Scenario) -> None:
    clock = scenario.clock

    async def steps(store: LimitStore) -> None:
        assert await store.reserve("a", RULES, Amounts(tokens=60, cost=500)) is None
        clock.now += 5
        await store.settle_reservation("a", RELEASED)
        assert await store.usage(RULES) == [0, 0, 0]

    scenario(steps)


def test_less_than_reserved_is_given_back_where_it_was_reserved(scenario: Scenario) -> None:
    clock = scenario.clock

    async def steps(store: LimitStore) -> None:
        rule = LimitRule("key:ann", "tokens", 60, 100)
        assert await store.reserve("a", [rule], Amounts(tokens=80)) is None
        clock.now += 90  # its bucket is gone
        assert await store.reserve("b", [rule], Amounts(tokens=30)) is None
        await store.settle_reservation("a", Amounts(tokens=10))
        assert await store.usage([rule]) == [30]
        assert await store.reserve("c", [rule], Amounts(tokens=10)) is None
        clock.now += 90
        await store.settle_reservation("c", Amounts(tokens=50))  # 40 more than reserved: they count from now on
        assert await store.usage([rule]) == [40]

    scenario(steps)


def test_a_second_settlement_and_an_unknown_id_do_nothing(scenario: Scenario) -> None:
    async def steps(store: LimitStore) -> None:
        assert await store.reserve("a", RULES, Amounts(tokens=10, cost=10)) is None
        await store.settle_reservation("a", Amounts(tokens=20, cost=20))
        await store.settle_reservation("a", Amounts(tokens=90, cost=90))
        await store.settle_reservation("nobody", Amounts(tokens=90, cost=90))
        await store.renew(["nobody", "a"])
        assert await store.usage(RULES) == [20, 20, 1]

    scenario(steps)


def test_a_known_id_is_not_charged_again(scenario: Scenario) -> None:
    async def steps(store: LimitStore) -> None:
        for _ in range(2):
            assert await store.reserve("a", RULES, Amounts(tokens=60, cost=10)) is None
        assert await store.usage(RULES) == [10, 60, 1]

    scenario(steps)


def test_a_rule_without_an_amount_does_not_refuse(scenario: Scenario) -> None:
    async def steps(store: LimitStore) -> None:
        assert await store.reserve("a", [ORGANISATION], Amounts(cost=1)) is None
        await store.settle_reservation("a", Amounts(cost=5_000))
        assert await store.reserve("free", [ORGANISATION], Amounts(cost=0)) is None
        assert await store.reserve("none", [], Amounts(cost=9)) is None
        await store.settle_reservation("none", Amounts(cost=9))
        assert await store.usage([ORGANISATION]) == [5_000]

    scenario(steps)


def test_slots_are_free_after_settlement_or_when_their_lease_ends(scenario: Scenario) -> None:
    clock = scenario.clock

    async def steps(store: LimitStore) -> None:
        rule = LimitRule("key:ann", "concurrent", 0, 2)
        assert await store.reserve("a", [rule], Amounts(), lease=8) is None
        assert await store.reserve("b", [rule, TEAM], Amounts(tokens=30), lease=8) is None
        refusal = await store.reserve("c", [rule], Amounts(), lease=8)
        assert refusal is not None
        assert (refusal.rule, refusal.used, refusal.retry_after) == (rule, 2, 1.0)
        await store.settle_reservation("a", Amounts())
        assert await store.reserve("c", [rule], Amounts(), lease=8) is None
        for _ in range(5):
            clock.now += 7
            await store.renew(["c"], 8)
        assert await store.usage([rule, TEAM]) == [1, 30]  # the lease of b has ended; what it reserved stays charged
        await store.renew(["b"], 8)  # it was only slow
        assert await store.usage([rule]) == [2]
        clock.now += 8
        assert await store.usage([rule]) == [0]
        await store.settle_reservation("b", Amounts(tokens=20))
        assert await store.usage([rule, TEAM]) == [0, 20]

    scenario(steps)


def test_the_limit_of_a_rule_may_change(scenario: Scenario) -> None:
    async def steps(store: LimitStore) -> None:
        assert await store.reserve("a", [TEAM], Amounts(tokens=100)) is None
        more = LimitRule(TEAM.scope, TEAM.kind, TEAM.window, 150)
        assert await store.reserve("b", [more, TEAM], Amounts(tokens=10)) is not None  # the stricter one of two
        assert await store.reserve("b", [more], Amounts(tokens=50)) is None
        assert await store.usage([TEAM]) == [150]

    scenario(steps)


def test_a_clock_that_goes_back_neither_forgives_nor_blocks(scenario: Scenario) -> None:
    clock = scenario.clock

    async def steps(store: LimitStore) -> None:
        rules = (KEY, LimitRule("team:research", "tokens", 3_600, 100))
        assert await store.reserve("a", rules, Amounts(tokens=50)) is None
        clock.now -= 30
        assert await store.reserve("b", rules, Amounts(tokens=40)) is None
        assert await store.usage(rules) == [2, 90]
        clock.now += 30 + 61
        assert await store.usage(rules) == [0, 90]
        clock.now -= 1_000_000  # a clock that was wrong
        assert await store.reserve("c", rules, Amounts(tokens=50)) is None
        assert await store.usage(rules) == [1, 50]

    scenario(steps)


def test_amounts_and_names_are_bounded(scenario: Scenario) -> None:
    async def steps(store: LimitStore) -> None:
        assert await store.reserve("a", [ORGANISATION], Amounts(cost=1)) is None
        await store.settle_reservation("a", Amounts(cost=2**60))
        assert await store.reserve("b", [TEAM], Amounts(tokens=5)) is None
        await store.settle_reservation("b", Amounts(tokens=-5))
        assert await store.usage([ORGANISATION, TEAM]) == [limit_store.MAX_AMOUNT, 0]
        with pytest.raises(InputError, match="an id of 1 to 512 characters"):
            await store.reserve("x" * 513, [TEAM], Amounts())
        with pytest.raises(InputError, match="a scope of 1 to 512 characters"):
            await store.reserve("c", [LimitRule("", "cost", 0, 1)], Amounts())
        with pytest.raises(InputError, match="a limit from 0"):
            await store.reserve("c", [LimitRule("org", "cost", 0, -1)], Amounts())

    scenario(steps)


def test_a_reservation_that_nobody_renews_is_forgotten_and_stays_charged(scenario: Scenario) -> None:
    clock = scenario.clock

    async def steps(store: LimitStore) -> None:
        assert await store.reserve("a", [ORGANISATION], Amounts(cost=10)) is None
        clock.now += limit_store.RESERVATION_SECONDS + 1
        if scenario.server is not None:  # the server's own clock decides
            assert 3_500 < ask_redis(scenario.server, "TTL", "{penstock-limits}:r:a") <= limit_store.RESERVATION_SECONDS
            ask_redis(scenario.server, "DEL", "{penstock-limits}:r:a")
        assert await store.reserve("b", [ORGANISATION], Amounts(cost=10)) is None
        await store.settle_reservation("a", RELEASED)
        assert await store.usage([ORGANISATION]) == [20]

    scenario(steps)


def test_the_keeper_renews_all_leases_in_one_call() -> None:
    async def main() -> None:
        calls: asyncio.Queue[tuple[str, ...]] = asyncio.Queue()

        class CountingStore(MemoryLimitStore):
            async def renew(self, ids: Sequence[str], lease: float = 8.0) -> None:
                await super().renew(ids, lease)
                await calls.put(tuple(ids))

        rule = LimitRule("key:ann", "concurrent", 0, 2)
        clock = Clock()
        store = CountingStore(clock)
        keeper = LeaseKeeper(store, interval=0.01)
        for name in "ab":
            assert await store.reserve(name, [rule], Amounts()) is None
            keeper.add(name)
        for _ in range(3):
            clock.now += 5
            while not calls.empty():
                calls.get_nowait()
            assert sorted(await calls.get()) == ["a", "b"]
        assert await store.usage([rule]) == [2]
        keeper.discard("a")
        await keeper.aclose()
        assert len(keeper) == 0

    asyncio.run(main())


def test_memory_takes_usage_that_was_counted_before() -> None:
    async def main() -> None:
        clock = Clock()
        store = MemoryLimitStore(clock)
        store.add_usage(TEAM, 30, clock.now - 100)
        store.add_usage(TEAM, 60, clock.now - 86_000)
        store.add_usage(TEAM, 30, clock.now - 100_000)  # out of the window
        refusal = await store.reserve("a", [TEAM], Amounts(tokens=11))
        assert refusal is not None
        assert refusal.used == 90
        assert math.isclose(refusal.retry_after, 400, abs_tol=1_440)

    asyncio.run(main())
