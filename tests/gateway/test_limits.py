"""Limits of callers over a store with a clock that is moved by hand: rules, reservations, refusals and their words."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from penstock._gateway.callers import Caller, Refusal
from penstock._gateway.limit_stores import open_limit_store
from penstock._gateway.limits import (
    DAY,
    MONTH,
    CallerLimits,
    LimitSlot,
    UsageBound,
    rules_of,
)
from penstock._store.limit_store import RELEASED, Amounts, LimitRule, StoreUnavailable
from penstock._store.memory_limits import MemoryLimitStore
from penstock._store.sqlite_limits import SqliteLimitStore
from penstock.gateway import GatewayConfig

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from pathlib import Path

NOON = 20_000.5 * DAY


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


def table(most: int = 0, **more: Any) -> tuple[CallerLimits, Clock]:
    clock = Clock()
    return CallerLimits(MemoryLimitStore(clock), most, **more), clock


def caller(key: str = "k", **limits: Any) -> Caller:
    return Caller(key=key, limits={**limits})


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


async def enter(limits: CallerLimits, who: Caller, bound: UsageBound | None = None) -> LimitSlot:
    slot = limits.take_slot(who, "id")
    if slot.rules:
        try:
            await slot.reserve(bound or UsageBound())
        except BaseException:
            slot.release(RELEASED)
            raise
    return slot


async def refused(limits: CallerLimits, who: Caller, bound: UsageBound | None = None) -> Refusal:
    before = limits.open
    with pytest.raises(Refusal) as raised:
        await enter(limits, who, bound)
    assert limits.open == before
    return raised.value


def test_a_key_may_have_the_name_of_those_without_one() -> None:
    """`/admin/limits` looks for its usage under the name of the key."""
    keyed = Caller(key="anonymous", key_hash="sha256:00", limits={"day_requests": 1})
    assert {rule.scope for rule in rules_of(keyed)} == {"key:anonymous"}
    assert {rule.scope for rule in rules_of(Caller(limits={"day_requests": 1}))} == {"caller:anonymous"}


def test_without_limits_nothing_is_reserved() -> None:
    async def main() -> None:
        limits, _ = table()
        slot = await enter(limits, caller())
        assert (slot.rules, slot.id, slot.is_limited) == ((), "", False)
        slot.release(Amounts(1, 10**6))
        slot.release()  # twice is once
        assert limits.open == 0

    run(main())


def test_rules_are_of_the_organisation_the_team_and_the_key() -> None:
    who = Caller(
        key="k",
        team="t",
        limits={"requests": 1, "concurrent": 2},
        team_limits={"week_tokens": 3},
        organisation_limits={"month_cost": 0.5, "total_requests": 4},
    )
    assert rules_of(who) == (
        LimitRule("org", "cost", MONTH, 500_000),
        LimitRule("org", "requests", 0, 4),
        LimitRule("team:t", "tokens", 7 * DAY, 3),
        LimitRule("key:k", "concurrent", 0, 2),
        LimitRule("key:k", "requests", 60, 1),
    )


def test_requests_a_minute_are_exact_and_the_refusal_says_when() -> None:
    async def main() -> None:
        limits, clock = table()
        who = caller(requests=2)
        for _ in range(2):
            (await enter(limits, who)).release()
        error = await refused(limits, who)
        assert (error.status, error.fault.code) == (429, "rate_limit_exceeded")
        assert error.fault.message == "the key 'k' has used 2 of its 2 requests a minute; try again in 60 s"
        assert error.fault.retry_after is not None
        clock.now += error.fault.retry_after
        (await enter(limits, who)).release()
        (await enter(limits, caller("other", requests=2))).release()  # another key has its own

    run(main())


def test_requests_at_once() -> None:
    async def main() -> None:
        limits, _ = table()
        who = caller(concurrent=1)
        first = await enter(limits, who)
        assert "the key 'k' has 1 of its 1 requests at once open" in (await refused(limits, who)).fault.message
        first.release()
        (await enter(limits, who)).release()

    run(main())


def test_requests_of_all_callers() -> None:
    async def main() -> None:
        limits, _ = table(most=1)
        first = await enter(limits, caller("a"))
        assert (await refused(limits, caller("b"))).status == 503
        first.release()
        await enter(limits, caller("b"))

    run(main())


def test_what_a_request_may_use_is_reserved_and_what_it_did_not_use_is_given_back() -> None:
    async def main() -> None:
        limits, _ = table()
        who, bound = caller(day_cost=0.02), UsageBound(1000, 200, 9_000, 6_000)
        first = await enter(limits, who, bound)
        error = await refused(limits, who, bound)
        assert error.fault.message.startswith(
            "the key 'k' has used 0.015 of its 0.02 dollars a day, and this request may cost 0.015 "
            "(1000 input and 200 output tokens); try again in "
        )
        first.release(Amounts(1, 1100, 5_000))
        await enter(limits, who, bound)

    run(main())


def test_a_budget_below_one_cent_can_be_used() -> None:
    async def main() -> None:
        limits, _ = table()
        who = caller(day_cost=0.005)
        (await enter(limits, who, UsageBound(10, 10, 2_000, 2_000))).release(Amounts(1, 20, 4_000))
        assert (
            "has used 0.004 of its 0.005 dollars"
            in (await refused(limits, who, UsageBound(10, 10, 2_000, 0))).fault.message
        )

    run(main())


def test_a_request_that_asks_for_more_than_the_whole_limit_is_told_what_helps() -> None:
    async def main() -> None:
        limits, _ = table()
        error = await refused(limits, caller(tokens=100), UsageBound(90, 500))
        assert (error.status, error.fault.code, error.fault.retry_after) == (429, "insufficient_quota", None)
        assert error.fault.message.endswith(
            "has used 0 of its 100 tokens a minute, and this request may use 590 (90 input and 500 output); waiting "
            "does not help: set a lower output limit in the request, or `max_output` of the key"
        )
        spent = caller(total_requests=1)
        (await enter(limits, spent)).release()
        assert "1 of its 1 requests in total" in (await refused(limits, spent)).fault.message

    run(main())


def test_a_team_and_the_organisation_are_limited_together() -> None:
    async def main() -> None:
        limits, _ = table()
        one, two, other = (
            Caller(key=key, team=team, team_limits={"day_requests": 2}, organisation_limits={"day_requests": 3})
            for key, team in (("a", "x"), ("b", "x"), ("c", "y"))
        )
        (await enter(limits, one)).release()
        (await enter(limits, two)).release()
        assert "the team 'x' has used 2 of its 2 requests a day" in (await refused(limits, one)).fault.message
        (await enter(limits, other)).release()
        assert "the organisation has used 3 of its 3" in (await refused(limits, other)).fault.message

    run(main())


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_headers_say_what_is_left_of_the_tightest_rule(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        limits = CallerLimits(MemoryLimitStore() if kind == "memory" else SqliteLimitStore(tmp_path / "x", timeout=60))
        slot = await enter(limits, caller(requests=5, day_requests=3, tokens=100), UsageBound(20, 30))
        assert dict(slot.headers) == {
            b"x-ratelimit-limit-requests": b"3",
            b"x-ratelimit-remaining-requests": b"2",
            b"x-ratelimit-reset-requests": b"24h0m0s",
            b"x-ratelimit-limit-tokens": b"100",
            b"x-ratelimit-remaining-tokens": b"50",
            b"x-ratelimit-reset-tokens": b"1m0s",
        }
        slot.release()
        await limits.aclose()

    run(main())


def test_the_past_is_read_once_for_each_rule() -> None:
    asked: list[LimitRule] = []

    def read_past(rule: LimitRule) -> Sequence[tuple[float, int]]:
        asked.append(rule)
        return [(NOON - 7200, 2), (NOON - 3600, 2)]

    async def main() -> None:
        limits, clock = table(read_past=read_past)
        who = caller(day_requests=5, requests=10)
        (await enter(limits, who)).release()
        assert "has used 5 of its 5 requests a day" in (await refused(limits, who)).fault.message
        assert [rule.window for rule in asked] == [DAY]
        assert "has used 5 of its 4 requests a day" in (await refused(limits, caller(day_requests=4))).fault.message
        assert len(asked) == 1
        clock.now += DAY - 3600
        (await enter(limits, who)).release()

    run(main())


class AbsentStore(MemoryLimitStore):
    """A store that cannot be reached while `away`."""

    away = True

    async def reserve(self, *given: Any, **more: Any) -> Any:
        if self.away:
            raise StoreUnavailable("the store is away")
        return await super().reserve(*given, **more)


def test_an_outage_refuses_or_lets_in() -> None:
    async def main() -> None:
        limits = CallerLimits(AbsentStore(), outage="fail-closed")
        error = await refused(limits, caller(requests=1))
        assert (error.status, error.fault.code) == (503, "limits_unavailable")
        (await enter(limits, caller())).release()  # who has no limit does not need the store
        limits.outage = "fail-open"
        slot = await enter(limits, caller(requests=1))
        assert (limits.unchecked, len(slot.decisions)) == (1, 1)
        slot.release()
        assert limits.open == 0

    run(main())


def test_a_cancelled_reservation_frees_its_slot() -> None:
    class Stuck(MemoryLimitStore):
        async def reserve(self, *_: Any, **__: Any) -> Any:
            await asyncio.Event().wait()

    async def main() -> None:
        limits = CallerLimits(Stuck())
        task = asyncio.ensure_future(enter(limits, caller(requests=1)))
        await asyncio.sleep(0)
        assert limits.open == 1
        task.cancel()
        await asyncio.wait([task])
        assert limits.open == 0

    run(main())


def test_the_store_is_memory_unless_several_processes_count(tmp_path: Any) -> None:
    assert isinstance(open_limit_store(GatewayConfig(data=tmp_path)), MemoryLimitStore)
    shared = open_limit_store(GatewayConfig(data=tmp_path, stores={"limits": "sqlite"}))
    assert getattr(shared, "path", None) == tmp_path / "limits.sqlite"
    run(shared.aclose())
