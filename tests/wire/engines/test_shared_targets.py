"""Cool-downs and open circuits of one process, as others take them. The board is in memory; Redis has tests of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock._engines.deployments import MAX_COOL_DOWN
from penstock._engines.failure_policy import SILENT_SECONDS, BreakerPolicy, CircuitBreakers, CircuitKey
from penstock._engines.router import Router
from penstock._engines.shared_targets import SharedTargets, TargetNotice
from tests.wire.engines.fleet import GOOD, LIMITED, Clock, Fleet, ask
from tests.wire.engines.router_setup import run

if TYPE_CHECKING:
    from collections.abc import Callable

KEY = CircuitKey("a", "m")
POLICY = BreakerPolicy(failures=2, cool=30, first=1)


class Notice(NamedTuple):
    owner: str
    value: str
    seconds: float


class Board:
    """The notices of one process, by name."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.rows: dict[str, tuple[str, float]] = {}

    def publish(self, name: str, value: str, seconds: float) -> None:
        self.rows[name] = (value, self.clock.now + seconds)

    def withdraw(self, name: str) -> None:
        self.rows.pop(name, None)

    def notices(self, owner: str) -> list[Notice]:
        live = [(value, until - self.clock.now) for value, until in self.rows.values()]
        return [Notice(owner, value, left) for value, left in live if left > 0]


def always(router: Router) -> Callable[[], Router]:
    return lambda: router


class Pair:
    """Routers that hear of each other when `exchange` is called."""

    def __init__(self, *routers: Router, clock: Clock) -> None:
        self.boards = [Board(clock) for _ in routers]
        self.sides = [SharedTargets(*row) for row in zip(self.boards, map(always, routers), strict=True)]

    def exchange(self) -> None:
        for side, own in zip(self.sides, self.boards, strict=True):
            others = [(f"p{number}", board) for number, board in enumerate(self.boards) if board is not own]
            side.adopt([row for name, board in others for row in board.notices(name)])


def test_a_target_that_asked_one_process_to_wait_is_not_asked_by_another() -> None:
    async def scene() -> None:
        async with Fleet(LIMITED, GOOD) as fleet:
            one, other = (fleet.router(weights={"b": 0}, sticky=False) for _ in range(2))
            pair = Pair(one, other, clock=fleet.clock)
            await ask(one)
            pair.exchange()
            reply = await ask(other)
            assert (reply.provider, fleet.counts["a"]) == ("b", 1)
            skipped = next(row for row in reply.record.decisions if row.what == "skip")
            why = "a/m cools down for another 20.0 s: rate-limit, it asked for 20 s (another process was told)"
            assert (skipped.code, skipped.why) == ("cool-down", why)
            assert other.deployments.cooling_count() == 1
            fleet.clock.now += 20.1
            fleet.ups["a"].script(GOOD)
            assert (await ask(other)).provider == "a"

    run(scene)


def breakers(clock: Clock) -> tuple[Router, Router, Pair]:
    one, other = (Router({}, env={}, clock=clock) for _ in range(2))
    for router in (one, other):
        router.breakers = CircuitBreakers(clock, POLICY)
    return one, other, Pair(one, other, clock=clock)


def fail(router: Router, times: int = 2) -> None:
    for _ in range(times):
        router.breakers.record_failure(KEY, "server", "down")


def test_an_open_circuit_is_open_everywhere_until_it_closes() -> None:
    clock = Clock()
    one, other, pair = breakers(clock)
    fail(one)
    clock.now += 0.25
    pair.exchange()
    assert other.breakers.closed_for(KEY) == 0.75
    assert other.breakers.closed_for(KEY, alternative=True) == 29.75
    assert other.breakers.last_message(KEY) == "", "messages stay in their process"
    clock.now += 0.75
    assert one.breakers.closed_for(KEY) == 0.0, "one request is let through"
    fail(one, 1)
    pair.exchange()
    assert other.breakers.closed_for(KEY) == 2.0
    clock.now += 2
    assert one.breakers.closed_for(KEY) == 0.0
    one.breakers.record_success(KEY)
    pair.exchange()
    assert other.breakers.open_count() == 0
    assert other.breakers.closed_for(KEY) == 0.0


def test_a_process_that_alone_cannot_reach_a_provider_does_not_stop_the_others() -> None:
    clock = Clock()
    one, other, pair = breakers(clock)
    fail(one)
    pair.exchange()
    clock.now += 1
    assert other.breakers.closed_for(KEY) == 0.0
    other.breakers.record_success(KEY)
    for _ in range(3):  # one goes on failing: it is the same streak
        clock.now += 30
        assert one.breakers.closed_for(KEY) == 0.0
        fail(one, 1)
        pair.exchange()
        assert other.breakers.closed_for(KEY) == 0.0
    clock.now += 30
    assert one.breakers.closed_for(KEY) == 0.0
    one.breakers.record_success(KEY)
    pair.exchange()
    fail(one)
    pair.exchange()
    assert other.breakers.closed_for(KEY) == 1.0, "a new streak counts"


def test_failures_of_a_process_itself_stay_when_others_recover() -> None:
    clock = Clock()
    one, other, pair = breakers(clock)
    fail(one)
    fail(other)
    pair.exchange()
    clock.now += 1
    assert one.breakers.closed_for(KEY) == 0.0
    one.breakers.record_success(KEY)
    pair.exchange()
    assert (one.breakers.open_count(), other.breakers.open_count()) == (0, 1)


def test_a_silent_process_leaves_one_request_at_a_time() -> None:
    clock = Clock()
    one, other, pair = breakers(clock)
    fail(one)
    pair.exchange()
    clock.now += POLICY.cool + SILENT_SECONDS + 1
    pair.exchange()
    assert other.breakers.closed_for(KEY) == 0.0
    assert other.breakers.closed_for(KEY) > 0.0


def test_circuits_of_callers_own_keys_are_not_told() -> None:
    clock = Clock()
    one, _, pair = breakers(clock)
    for _ in range(2):
        one.breakers.record_failure(CircuitKey.of("a", "m", "sk-caller"), "server")
    assert pair.boards[0].rows == {}


def test_what_cannot_be_read_is_ignored_and_times_are_bounded() -> None:
    clock = Clock()
    one, _, pair = breakers(clock)
    notice = '{"kind":"cool-down","provider":"a","model":"m","seconds":1e12,"why":"","later":[1]}'
    rows = [Notice("x", value, 1e12) for value in ("", "{", "[]", '{"kind":"other"}', "\ufffd", notice)]
    pair.sides[0].adopt(rows)
    found = one.deployments.cool_down(KEY)
    assert found is not None
    assert found.until == clock.now + MAX_COOL_DOWN
    assert TargetNotice("circuit", "a", "m", 1.0).name == "circuit:a/m"
