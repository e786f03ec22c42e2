"""Limits under a clock that is moved by hand: who is let in, who must wait, and how long."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock._gateway.callers import Caller, Refusal
from penstock._gateway.config import Limit
from penstock._gateway.limits import DAY, MAX_CALLERS, CallerLimits
from penstock.events import Usage

NOON = 20_000 * DAY + DAY / 2


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


def table(most: int = 0) -> tuple[CallerLimits, Clock]:
    clock = Clock()
    return CallerLimits(clock, most), clock


def caller(key: str = "k", **limits: float) -> Caller:
    return Caller(key=key, limits=Limit(**limits))  # type: ignore[arg-type]


def refusal(limits: CallerLimits, who: Caller) -> tuple[int, float, str]:
    with pytest.raises(Refusal) as raised:
        limits.take_slot(who)
    fault = raised.value.fault
    assert fault.retry_after is not None
    return raised.value.status, fault.retry_after, fault.message


def test_without_limits_all_come_in() -> None:
    limits, _ = table()
    for _ in range(1000):
        limits.take_slot(caller()).release(Usage(input=10**6))
    assert limits.open == 0


def test_requests_a_minute() -> None:
    limits, clock = table()
    who = caller(requests=2)
    limits.take_slot(who).release()
    limits.take_slot(who).release()
    status, wait, said = refusal(limits, who)
    assert (status, wait) == (429, 30.0)
    assert "'k' has used its 2 requests a minute; try again in 30 s" in said
    clock.now += 30.0
    limits.take_slot(who).release()
    assert refusal(limits, who)[1] == 30.0
    limits.take_slot(caller("other", requests=2)).release()  # another key has its own


def test_tokens_may_be_overdrawn_once_and_must_be_earned_again() -> None:
    limits, clock = table()
    who = caller(tokens=100)
    limits.take_slot(who).release(Usage(input=200, output=50))
    status, wait, _ = refusal(limits, who)
    assert status == 429
    assert wait == pytest.approx(60 * 151 / 100)
    clock.now += wait
    limits.take_slot(who).release()


def test_so_many_at_once() -> None:
    limits, _ = table()
    who = caller(concurrent=1)
    first = limits.take_slot(who)
    assert refusal(limits, who)[0] == 429
    first.release()
    first.release()  # twice is once
    second = limits.take_slot(who)
    assert refusal(limits, who)[0] == 429
    second.release()


def test_so_many_of_all() -> None:
    limits, _ = table(most=1)
    first = limits.take_slot(caller("a"))
    assert refusal(limits, caller("b"))[0] == 503
    first.release()
    limits.take_slot(caller("b"))


@pytest.mark.parametrize("limit", [{"day_requests": 1}, {"day_tokens": 100}, {"day_cost": 0.5}])
def test_a_day_ends_at_midnight(limit: dict[str, Any]) -> None:
    limits, clock = table()
    who = caller(**limit)
    limits.take_slot(who).release(Usage(input=100), cost=0.6)
    status, wait, _ = refusal(limits, who)
    assert (status, wait) == (429, DAY / 2)
    clock.now += DAY / 2
    limits.take_slot(who).release()


def test_a_restart_forgives_nothing() -> None:
    limits, _ = table()
    limits.seed("k", requests=1, tokens=500, cost=2.0)
    for limit in ({"day_requests": 1}, {"day_tokens": 400}, {"day_cost": 1.0}):
        assert refusal(limits, caller(**limit))[0] == 429


def test_callers_with_keys_of_their_own_are_told_apart_and_bounded() -> None:
    limits, _ = table()
    one = Caller(tenant="anonymous:1", secret="x", limits=Limit(requests=1))
    limits.take_slot(one).release()
    limits.take_slot(Caller(tenant="anonymous:2", secret="y", limits=Limit(requests=1))).release()
    assert refusal(limits, one)[0] == 429
    kept = limits.take_slot(caller("stays"))
    for number in range(MAX_CALLERS + 10):
        limits.take_slot(caller(str(number))).release()
    assert len(limits._callers) == MAX_CALLERS
    kept.release()
    assert limits.open == 0


@given(st.lists(st.tuples(st.floats(0, 20), st.integers(0, 300)), max_size=60), st.integers(1, 10), st.integers(1, 500))
def test_nobody_gets_more_than_the_rate_and_the_wait_is_enough(
    steps: list[tuple[float, int]], requests: int, tokens: int
) -> None:
    limits, clock = table()
    who = caller(requests=requests, tokens=tokens)
    began = clock.now
    for came, (gone, used) in enumerate(steps, 1):
        clock.now += gone
        try:
            ticket = limits.take_slot(who)
        except Refusal as error:
            clock.now += error.fault.retry_after or 0.0
            ticket = limits.take_slot(who)  # whoever waits as long as told comes in
        ticket.release(Usage(input=used))
        assert came <= requests + requests * (clock.now - began) / 60 + 1e-6
