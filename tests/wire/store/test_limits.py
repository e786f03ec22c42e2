"""What limits count, exactly: against a model with every charge; also when their store is away, or restarted, or full.

Requests over HTTP that spend a budget together are in `tests/wire/gateway/test_replicas.py`.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
import sqlite3
import tempfile
import threading
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from penstock import events as ev
from penstock.errors import InputError
from penstock.testing import scripted
from tests.support import process
from tests.support.budget_requests import ask, chat, held_stream, key, open_stream, reply_to
from tests.support.limit_stores import (
    MAX_AMOUNT,
    NEVER,
    RELEASED,
    RESERVATION_SECONDS,
    Amounts,
    LimitRule,
    LimitStore,
    StoreUnavailable,
    few_callers,
    few_settlements,
    open_limits,
    sweep_at_once,
)
from tests.support.servers import RedisServer, free_port
from tests.support.stores import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence

ENOUGH = 60.0  # seconds: a test that takes longer has failed
HANG = 4.0  # seconds after which a store counts as away, on a busy machine
DAY = 86_400
BUDGET = LimitRule("team:research", "cost", 0, 100)
SLOTS = LimitRule("key:ann", "concurrent", 0, 3)


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.25

    def __call__(self) -> float:
        return self.now


def run_steps(steps: Coroutine[Any, Any, None]) -> None:
    async def main() -> None:
        async with asyncio.timeout(ENOUGH):
            await steps

    asyncio.run(main())


async def wait_until(check: Callable[[], Awaitable[bool]]) -> None:
    """Asks again until it is true; a store that is away says nothing."""
    while True:
        with suppress(StoreUnavailable):
            if await check():
                return
        await asyncio.sleep(0.02)


# ── the model ─────────────────────────────────────────────────────────────────────────────────────

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


def count_as_the_model(kind: str, server: RedisServer, examples: int) -> None:
    with tempfile.TemporaryDirectory() as folder, closing(redis.Redis(port=server.port)) as client:
        names = iter(range(10**6))

        def make(clock: Callable[[], float]) -> LimitStore:
            if kind == "redis":
                client.flushall()
                return open_limits(server.url, clock)
            return open_limits(Path(folder) / f"{next(names)}.sqlite" if kind == "sqlite" else "", clock)

        run_machine(make, examples, forgets=kind != "redis")


@pytest.mark.parametrize(("kind", "examples"), [("memory", 50), ("sqlite", 15), ("redis", 12)])
def test_a_store_counts_as_the_model(kind: str, examples: int, redis_server: RedisServer) -> None:
    count_as_the_model(kind, redis_server, examples)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["memory", "sqlite", "redis"])
def test_a_store_counts_as_the_model_at_length(kind: str, redis_server: RedisServer) -> None:
    count_as_the_model(kind, redis_server, 300)


# ── what the model does not say ───────────────────────────────────────────────────────────────────


@pytest.fixture(params=["memory", "sqlite", "redis"])
def limits(request: pytest.FixtureRequest, tmp_path: Path, redis_server: RedisServer) -> tuple[str | Path, RedisServer]:
    places: dict[str, str | Path] = {
        "memory": "", "sqlite": tmp_path / "limits.sqlite", "redis": redis_server.url,
    }  # fmt: skip
    return places[request.param], redis_server


def test_a_reservation_says_what_then_counts_and_the_longest_wait(limits: tuple[str | Path, RedisServer]) -> None:
    key_rule, team = LimitRule("key:ann", "requests", 60, 3), LimitRule("team:research", "requests", 3_600, 3)

    async def steps() -> None:
        store = open_limits(limits[0], Clock())
        used: dict[LimitRule, int] = {}
        for number in range(3):
            assert await store.reserve(f"a{number}", [key_rule, team, SLOTS], Amounts(), used=used) is None
            assert [used[rule] for rule in (key_rule, team, SLOTS)] == [number + 1] * 3
        used.clear()
        refusal = await store.reserve("b", [key_rule, team], Amounts(), used=used)
        assert refusal is not None
        assert (refusal.rule, used) == (team, {})
        refusal = await store.reserve("b", [key_rule, team, LimitRule("org", "concurrent", 0, 0)], Amounts())
        assert refusal is not None
        assert (refusal.rule.scope, refusal.retry_after) == ("org", NEVER)
        await store.aclose()

    run_steps(steps())


def test_a_clock_that_goes_back_neither_forgives_nor_blocks(limits: tuple[str | Path, RedisServer]) -> None:
    clock = Clock()

    async def steps() -> None:
        store = open_limits(limits[0], clock)
        rules = (LimitRule("key:ann", "requests", 60, 3), LimitRule("team:research", "tokens", 3_600, 100))
        assert await store.reserve("a", rules, Amounts(tokens=50)) is None
        clock.now -= 30
        assert await store.reserve("b", rules, Amounts(tokens=40)) is None
        assert await store.usage(rules) == [2, 90]
        clock.now += 30 + 61
        assert await store.usage(rules) == [0, 90]
        clock.now -= 1_000_000  # a clock that was wrong
        assert await store.reserve("c", rules, Amounts(tokens=50)) is None
        assert await store.usage(rules) == [1, 50]
        await store.aclose()

    run_steps(steps())


def test_amounts_and_names_are_bounded_and_a_limit_may_change(limits: tuple[str | Path, RedisServer]) -> None:
    org, team = LimitRule("org", "cost", 0, 1_000), LimitRule("team:research", "tokens", DAY, 100)

    async def steps() -> None:
        store = open_limits(limits[0], Clock())
        assert await store.reserve("a", [org], Amounts(cost=1)) is None
        await store.settle_reservation("a", Amounts(cost=2**60))
        assert await store.reserve("b", [team], Amounts(tokens=100)) is None
        more = LimitRule(team.scope, team.kind, team.window, 150)
        assert await store.reserve("c", [more, team], Amounts(tokens=10)) is not None, "the stricter one of two"
        assert await store.reserve("c", [more], Amounts(tokens=50)) is None
        await store.settle_reservation("c", Amounts(tokens=-5))
        assert await store.usage([org, team]) == [MAX_AMOUNT, 100]
        for name, rule_, words in (
            ("x" * 513, team, "an id of 1 to 512 characters"),
            ("c", LimitRule("", "cost", 0, 1), "a scope of 1 to 512 characters"),
            ("c", LimitRule("org", "cost", 0, -1), "a limit from 0"),
        ):
            with pytest.raises(InputError, match=words):
                await store.reserve(name, [rule_], Amounts())
        await store.aclose()

    run_steps(steps())


# ── growth ────────────────────────────────────────────────────────────────────────────────────────


def test_memory_never_forgets_usage_that_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys and teams are as many as somebody has made: each of them is remembered while its usage counts."""
    few_callers(monkeypatch, 3)
    now = [1_000_000.0]

    async def main() -> None:
        store = open_limits("", lambda: now[0])
        rules = [LimitRule(f"key:{number}", "cost", 0 if number % 2 else DAY, 10) for number in range(50)]
        for limit in rules:
            assert await store.reserve(limit.scope, [limit], Amounts(cost=7)) is None
            await store.settle_reservation(limit.scope, Amounts(cost=7))
        assert await store.usage(rules) == [7] * 50
        for limit in rules:
            assert await store.reserve("more", [limit], Amounts(cost=4)) is not None
        now[0] += 2 * DAY
        for number in range(100):  # those of a day count no more, and are removed
            limit = LimitRule(f"team:{number}", "cost", DAY, 10)
            assert await store.reserve(limit.scope, [limit], Amounts(cost=7)) is None
        assert await store.usage(rules) == [0, 7] * 25

    asyncio.run(main())


def test_memory_refuses_callers_that_it_cannot_count(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Anybody can be any number of callers without a gateway key. None of them makes others' usage forgotten."""
    few_callers(monkeypatch, 3)
    now = [1_000_000.0]

    async def main() -> None:
        store = open_limits("", lambda: now[0])
        rules = [LimitRule(f"caller:{number}", "requests", 60, 1) for number in range(50)]
        for limit in rules[:3]:
            assert await store.reserve(limit.scope, [limit], Amounts()) is None
        for limit in rules[3:]:
            with pytest.raises(StoreUnavailable, match="3 callers without a gateway key"):
                await store.reserve(limit.scope, [limit], Amounts())
        assert await store.reserve("key", [LimitRule("key:ann", "requests", 60, 1)], Amounts()) is None
        assert await store.usage(rules) == [1, 1, 1, *[0] * 47]
        await store.settle_reservation(rules[0].scope, Amounts())
        now[0] += 61  # the others are open
        assert await store.reserve("a", [rules[7]], Amounts()) is None
        with pytest.raises(StoreUnavailable):
            await store.reserve("b", [rules[8]], Amounts())

    asyncio.run(main())
    assert len(caplog.records) == 2  # once a minute


def test_every_key_in_redis_has_a_time_to_live(redis_server: RedisServer) -> None:
    windows: Sequence[int] = (0, 1, 60, 86_400)
    rules = [LimitRule("org", kind, window, 50) for kind in ("requests", "tokens", "cost") for window in windows]

    async def steps(url: str) -> None:
        store = open_limits(url)
        for name in ("open", "less", "more"):
            assert await store.reserve(name, [*rules, SLOTS], Amounts(tokens=5, cost=5)) is None
        await store.settle_reservation("less", Amounts(tokens=1, cost=0))
        await store.settle_reservation("more", Amounts(requests=2, tokens=9, cost=9))
        await store.renew(["open"])
        await store.aclose()

    asyncio.run(steps(redis_server.url))
    client: Any = redis.Redis(port=redis_server.port)
    with closing(client):
        lives = {name: client.ttl(name) for name in client.keys("*")}
    assert lives
    assert all(0 <= seconds <= 400 * 86_400 for seconds in lives.values()), lives
    assert all(name.startswith(b"{penstock-limits}:") for name in lives)


def test_rows_in_sqlite_that_count_no_more_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep_at_once(monkeypatch)
    path, now = tmp_path / "limits.sqlite", [1_000_000.0]

    async def steps() -> None:
        store = open_limits(path, lambda: now[0])
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


def test_a_reservation_that_nobody_renews_is_forgotten_and_stays_charged(
    limits: tuple[str | Path, RedisServer],
) -> None:
    place, server = limits
    clock = Clock()

    async def steps() -> None:
        store = open_limits(place, clock)
        assert await store.reserve("a", [BUDGET], Amounts(cost=10)) is None
        clock.now += RESERVATION_SECONDS + 1
        if isinstance(place, str) and place:  # the server's own clock decides
            client: Any = redis.Redis(port=server.port)
            with closing(client):
                assert 3_500 < client.ttl("{penstock-limits}:r:a") <= RESERVATION_SECONDS
                client.delete("{penstock-limits}:r:a")
        assert await store.reserve("b", [BUDGET], Amounts(cost=10)) is None
        await store.settle_reservation("a", RELEASED)
        assert await store.usage([BUDGET]) == [20]
        await store.aclose()

    run_steps(steps())


# ── a gateway that is killed ──────────────────────────────────────────────────────────────────────

CONFIG = """
[serve]
pace = 0
[stores]
limits = "sqlite"
[journal]
path = "memory"
[providers.openai-chat]
base_url = "{url}/openai-chat"
key = "k"
like = "openai-compatible"
[keys.ann]
hash = "{hash}"
limits = {{ concurrent = 1, total_requests = 3 }}
"""


def test_a_killed_gateway_frees_its_slot_and_its_request_stays_charged(tmp_path: Path) -> None:
    gate = threading.Event()
    folders = [tmp_path / name for name in ("one", "two", "data")]
    for folder in folders:
        folder.mkdir()
    with scripted(held_stream(gate, ev.Usage(input=1, output=1))) as up:
        config = CONFIG.format(url=up.url, hash=key("ann")["ann"]["hash"])
        env = {"PENSTOCK_DATA": str(folders[2])}
        with process.gateway(folders[0], config, **env) as one, process.gateway(folders[1], config, **env) as two:
            with open_stream(one.base, "ann"):
                assert ask(two.base, "ann", chat()).status_code == 429
                one.stop(signal.SIGKILL)
            gate.set()
            up.script(lambda seen: reply_to(seen, ev.Usage(input=1, output=1)))
            until(lambda: ask(two.base, "ann", chat()).status_code == 200)
            assert [ask(two.base, "ann", chat()).status_code for _ in range(2)] == [200, 429], "three in total"


# ── outages ───────────────────────────────────────────────────────────────────────────────────────


async def check_outage(store: LimitStore, stop: Callable[[], None], start: Callable[[], None]) -> None:
    """Settlements wait for the store, and requests that went on without a reservation are charged."""
    for name in ("before", "twice"):
        assert await store.reserve(name, [BUDGET, SLOTS], Amounts(cost=30)) is None
    stop()
    for name in ("open", "closed", "another"):
        with pytest.raises(StoreUnavailable):
            await store.reserve(name, [BUDGET, SLOTS], Amounts(cost=10))
    with pytest.raises(StoreUnavailable):
        await store.usage([BUDGET])
    with pytest.raises(StoreUnavailable):
        await store.renew(["before"])
    await store.settle_reservation("before", Amounts(cost=7))
    await store.settle_reservation("twice", Amounts(cost=1))
    await store.settle_reservation("twice", Amounts(cost=20))
    await store.settle_reservation("unknown", Amounts(cost=50))
    await store.settle_reservation("open", Amounts(cost=4))  # the caller went on
    await store.settle_reservation("closed", RELEASED)  # the caller refused
    start()

    async def is_delivered() -> bool:
        return await store.usage([BUDGET, SLOTS]) == [12, 0]

    await wait_until(is_delivered)
    assert await store.reserve("after", [BUDGET], Amounts(cost=88)) is None
    assert store.lost == 0


def test_redis_may_be_restarted_or_hang(redis_server: RedisServer) -> None:
    async def steps() -> None:
        assert redis_server.process is not None
        pid = redis_server.process.pid
        store = open_limits(redis_server.url, timeout=HANG)
        await check_outage(store, lambda: os.kill(pid, signal.SIGSTOP), lambda: os.kill(pid, signal.SIGCONT))
        await store.aclose()
        store = open_limits(redis_server.url)  # a closed port needs no timeout
        await store.reserve("gone", [BUDGET], Amounts(cost=0))
        redis.Redis(port=redis_server.port).flushall()
        await check_outage(store, redis_server.stop, redis_server.start)
        await store.aclose()

    run_steps(steps())


def test_a_blocked_event_loop_is_not_an_outage_of_redis(redis_server: RedisServer) -> None:
    """An answer that arrives while the loop is blocked counts, however long the loop is blocked."""

    async def steps() -> None:
        store = open_limits(redis_server.url, timeout=1.0)
        assert await store.reserve("first", [BUDGET], Amounts(cost=1)) is None
        waiting = asyncio.create_task(store.reserve("second", [BUDGET], Amounts(cost=1)))
        for _ in range(4):
            await asyncio.sleep(0)  # it is sent
        with closing(redis.Redis(port=redis_server.port)) as client:
            while not client.exists("{penstock-limits}:r:second"):
                time.sleep(0.01)  # noqa: ASYNC251 — the loop is blocked
        time.sleep(1.2)  # noqa: ASYNC251 — as above
        assert await waiting is None
        await store.aclose()

    run_steps(steps())


def test_a_sqlite_file_may_be_locked_and_one_that_is_none_is_named(tmp_path: Path) -> None:
    path, broken = tmp_path / "limits.sqlite", tmp_path / "broken.sqlite"
    broken.write_bytes(b"no database" * 1_000)

    async def steps() -> None:
        store = open_limits(path, timeout=1.0)
        await store.usage([BUDGET])
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            await check_outage(store, lambda: _do(other, "BEGIN IMMEDIATE"), lambda: _do(other, "ROLLBACK"))
        await store.aclose()
        store = open_limits(broken)
        with pytest.raises(StoreUnavailable, match=r"broken\.sqlite"):
            await store.reserve("a", [BUDGET], Amounts(cost=1))
        await store.aclose()

    run_steps(steps())


def _do(database: sqlite3.Connection, statement: str) -> None:
    database.execute(statement)


def test_settlements_that_wait_are_bounded_and_lost_ones_are_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    few_settlements(monkeypatch, 3)

    async def steps() -> None:
        store = open_limits("redis://:s3cret@127.0.0.1:1")
        with pytest.raises(StoreUnavailable, match=r"Redis at 127\.0\.0\.1:1 cannot be used"):
            await store.reserve("a", [BUDGET], Amounts(cost=1))
        for number in range(5):
            await store.settle_reservation(f"a{number}", Amounts(cost=1))
        assert store.lost == 2
        await store.aclose()
        assert store.lost == 5

    run_steps(steps())
    assert "3 settlements of limits were not delivered and are lost" in caplog.text
    assert "s3cret" not in caplog.text
    with pytest.raises(InputError, match=r"^stores\.redis: expected a URL") as refused:
        open_limits("http://:s3cret@127.0.0.1")
    assert "s3cret" not in str(refused.value)


# ── what Redis alone has ──────────────────────────────────────────────────────────────────────────


def test_scripts_are_sent_again_and_the_clock_of_the_server_counts(redis_server: RedisServer) -> None:
    window = LimitRule("key:ann", "requests", 1, 5)

    async def steps() -> None:
        store = open_limits(redis_server.url)
        assert await store.reserve("a", [BUDGET], Amounts(cost=10)) is None
        with closing(redis.Redis(port=redis_server.port)) as client:
            client.script_flush()
        names = [f"b{number}" for number in range(20)]
        refusals = await asyncio.gather(*(store.reserve(name, [BUDGET], Amounts(cost=10)) for name in names))
        assert [refusal is None for refusal in refusals] == [True] * 9 + [False] * 11
        refusals = await asyncio.gather(*(store.reserve(f"c{number}", [window], Amounts()) for number in range(6)))
        assert refusals[:5] == [None] * 5
        refusal = refusals[5]
        assert refusal is not None
        assert 0 < refusal.retry_after <= 1.001
        await asyncio.sleep(refusal.retry_after)
        assert await store.reserve("d", [window], Amounts()) is None
        await store.aclose()

    run_steps(steps())


class ClusterServer(RedisServer):
    """A cluster of one node. Its nodes talk on a second port, 10,000 above the first."""

    def __init__(self) -> None:
        super().__init__()
        while self.port + 10_000 > 65_535:
            self.port = free_port()

    def command(self) -> Sequence[str]:
        return (*super().command(), "--cluster-enabled", "yes")


def test_the_scripts_run_on_a_node_of_a_cluster() -> None:
    with closing(ClusterServer()) as server:
        server.start()
        client: Any = redis.Redis(port=server.port)

        async def steps() -> None:
            store = open_limits(server.url)

            async def is_up() -> bool:
                return await store.usage([BUDGET]) == [0]

            await wait_until(is_up)
            assert await store.reserve("a", [BUDGET, SLOTS], Amounts(cost=60)) is None
            assert await store.reserve("b", [BUDGET, SLOTS], Amounts(cost=60)) is not None
            await store.renew(["a"])
            await store.settle_reservation("a", Amounts(cost=10))
            assert await store.usage([BUDGET, SLOTS]) == [10, 0]
            await store.aclose()

        with client:
            client.execute_command("CLUSTER ADDSLOTS", *range(16_384))
            run_steps(steps())
