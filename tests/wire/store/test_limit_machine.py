"""The stores of limits against an exact model that keeps every charge: reservations, settlements, leases, in any order."""

from __future__ import annotations

import asyncio
import math
import tempfile
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from penstock._store.limit_store import RESERVATION_SECONDS, Amounts, LimitRule
from penstock._store.memory_limits import MemoryLimitStore
from penstock._store.redis_limits import RedisLimitStore
from penstock._store.sqlite_limits import SqliteLimitStore
from tests.support.servers import RedisServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock._store.limit_store import LimitStore

SECOND = 1_000_000
RULES = (
    LimitRule("org", "cost", 0, 60),
    LimitRule("org", "requests", 86_400, 14),
    LimitRule("team:a", "tokens", 3_600, 30),
    LimitRule("team:a", "concurrent", 0, 3),
    LimitRule("team:b", "cost", 7, 9),
    LimitRule("key:a", "requests", 60, 4),
    LimitRule("key:a", "tokens", 60, 20),
    LimitRule("key:b", "requests", 1, 2),
    LimitRule("key:b", "concurrent", 0, 1),
    LimitRule("key:b", "requests", 60, 10_001),
)
TIMES = st.one_of(
    st.integers(0, 3 * SECOND),
    st.integers(0, 100 * SECOND),
    st.sampled_from([SECOND, 60 * SECOND - 1, 60 * SECOND, 60 * SECOND + 1, 61 * SECOND, 3_600 * SECOND]),
)
AMOUNTS = st.builds(Amounts, requests=st.integers(0, 3), tokens=st.integers(0, 12), cost=st.integers(0, 12))
LISTS = st.lists(st.sampled_from(RULES), unique=True, max_size=6)
NUMBERS = st.integers(0, 20)


@dataclass
class ModelCharge:
    """An amount that counts from `at`, in microseconds, to `ends`."""

    rule: LimitRule
    amount: int
    at: int
    ends: float = field(init=False)

    def __post_init__(self) -> None:
        if not self.rule.window:
            self.ends = math.inf
        elif self.rule.kind == "requests" and self.rule.window <= 60 and self.rule.most <= 10_000:
            self.ends = self.at + 1 + self.rule.window * SECOND
        else:
            width = math.ceil(self.rule.window * SECOND / 60)
            self.ends = (self.at // width + 61) * width
            assert self.ends >= self.at + self.rule.window * SECOND


@dataclass
class ModelReservation:
    rules: list[LimitRule]
    charges: list[ModelCharge]
    lease_ends: int
    renewed: int


class LimitMachine(RuleBasedStateMachine):
    """`forgets`: the store's clock is the test's, also for reservations that nobody renews."""

    def __init__(self, make: Callable[[Callable[[], float]], LimitStore], *, forgets: bool) -> None:
        super().__init__()
        self.seconds, self.forgets = 1_000_000.0, forgets
        self.runner = asyncio.Runner()
        self.store = make(lambda: self.seconds)
        self.charges: list[ModelCharge] = []
        self.open: dict[str, ModelReservation] = {}
        self.count = 0

    @property
    def now(self) -> int:
        return int(self.seconds * SECOND)

    # ── the model ─────────────────────────────────────────────────────────────────────────────────

    def used(self, limit: LimitRule, at: float) -> int:
        if limit.kind == "concurrent":
            return sum(limit in found.rules and found.lease_ends > at for found in self.open.values())
        return sum(charge.amount for charge in self.charges if charge.rule == limit and charge.ends > at)

    def wait(self, limit: LimitRule, asked: int) -> float:
        """Seconds until an amount fits: the first end of a charge after which it does."""
        if limit.kind == "concurrent":
            return 1.0
        ends = sorted({charge.ends for charge in self.charges if charge.rule == limit and charge.ends > self.now})
        fits = (end for end in ends if math.isfinite(end) and self.used(limit, end) + asked <= limit.most)
        return (next(fits, math.inf) - self.now) / SECOND

    def forget(self) -> None:
        if self.forgets:
            oldest = self.now - RESERVATION_SECONDS * SECOND
            self.open = {name: found for name, found in self.open.items() if found.renewed > oldest}

    # ── steps ─────────────────────────────────────────────────────────────────────────────────────

    @rule(time=TIMES)
    def let_time_pass(self, time: int) -> None:
        self.seconds += time / SECOND
        self.forget()

    @rule(rules=LISTS, amounts=AMOUNTS)
    def reserve(self, rules: list[LimitRule], amounts: Amounts) -> None:
        self.count += 1
        refusal = self.runner.run(self.store.reserve(f"id-{self.count}", rules, amounts, lease=8))
        asked = {limit: 1 if limit.kind == "concurrent" else int(getattr(amounts, limit.kind)) for limit in rules}
        over = [limit for limit in rules if asked[limit] and self.used(limit, self.now) + asked[limit] > limit.most]
        if over:
            assert refusal is not None
            expected = max(over, key=lambda limit: self.wait(limit, asked[limit]))
            assert (refusal.rule, refusal.used) == (expected, self.used(expected, self.now))
            assert refusal.retry_after == pytest.approx(self.wait(expected, asked[expected]), abs=2e-6)
            return
        assert refusal is None
        charges = [ModelCharge(limit, asked[limit], self.now) for limit in rules if limit.kind != "concurrent"]
        self.charges += charges
        if rules:
            self.open[f"id-{self.count}"] = ModelReservation(rules, charges, self.now + 8 * SECOND, self.now)

    @rule(rules=LISTS, amounts=AMOUNTS, time=TIMES, actual=AMOUNTS)
    def run_turn(self, rules: list[LimitRule], amounts: Amounts, time: int, actual: Amounts) -> None:
        self.reserve(rules, amounts)
        self.let_time_pass(time)
        self.settle(self.count, actual)

    @rule(number=NUMBERS, amounts=AMOUNTS)
    def settle(self, number: int, amounts: Amounts) -> None:
        """An open reservation, mostly; also one that was refused, settled before or never made."""
        name = f"id-{number}" if number > 8 or not self.open else sorted(self.open)[number % len(self.open)]
        self.runner.run(self.store.settle_reservation(name, amounts))
        found = self.open.pop(name, None)
        for charge in found.charges if found is not None else ():
            more = int(getattr(amounts, charge.rule.kind)) - charge.amount
            if more > 0:
                self.charges.append(ModelCharge(charge.rule, more, self.now))
            else:
                charge.amount += more

    @precondition(lambda self: self.open)
    @rule(number=NUMBERS, amounts=AMOUNTS)
    def reserve_again(self, number: int, amounts: Amounts) -> None:
        name = sorted(self.open)[number % len(self.open)]
        assert self.runner.run(self.store.reserve(name, RULES, amounts, lease=8)) is None

    @rule(numbers=st.sets(NUMBERS))
    def renew(self, numbers: Iterable[int]) -> None:
        names = {f"id-{number}" for number in numbers} | set(sorted(self.open)[1::2])
        self.runner.run(self.store.renew(sorted(names), 8))
        for name in names & self.open.keys():
            self.open[name].lease_ends = self.now + 8 * SECOND
            self.open[name].renewed = self.now

    @rule()
    def compare_usage(self) -> None:
        assert self.runner.run(self.store.usage(RULES)) == [self.used(limit, self.now) for limit in RULES]

    def teardown(self) -> None:
        try:
            self.compare_usage()
        finally:
            self.runner.run(self.store.aclose())
            self.runner.close()


def run_machine(make: Callable[[Callable[[], float]], LimitStore], examples: int, *, forgets: bool = True) -> None:
    bounds = settings(max_examples=examples, stateful_step_count=40, deadline=None)

    class BoundMachine(LimitMachine):
        def __init__(self) -> None:
            super().__init__(make, forgets=forgets)

    run_state_machine_as_test(BoundMachine, settings=bounds)


def test_memory_counts_as_the_model() -> None:
    run_machine(MemoryLimitStore, 150)


def test_sqlite_counts_as_the_model() -> None:
    with tempfile.TemporaryDirectory() as folder:
        names = iter(range(10**6))
        run_machine(lambda clock: SqliteLimitStore(Path(folder) / f"{next(names)}.sqlite", clock, timeout=60), 40)


def test_redis_counts_as_the_model() -> None:
    with closing(RedisServer()) as server:
        server.start()
        client: Any = redis.Redis(port=server.port)

        def make(clock: Callable[[], float]) -> LimitStore:
            client.flushall()
            return RedisLimitStore(server.url, clock=clock, timeout=60)

        with client:
            run_machine(make, 40, forgets=False)
