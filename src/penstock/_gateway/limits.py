"""Limits of callers: requests and tokens per minute, concurrent requests, and daily requests, tokens and cost.

Tokens are known only afterwards: a caller may exceed its limit once, and then waits until the usage has decayed.
The clock is a parameter. No IO.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from penstock._gateway.callers import ANONYMOUS, Caller, make_refusal
from penstock._gateway.config import Limit

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.events import Usage

MINUTE, DAY = 60.0, 86_400.0
MIN_REQUEST_COST = 0.01  # the budget that a request needs
TOLERANCE = 1e-6  # for rounding errors
UNLIMITED = Limit()
MAX_CALLERS = 10_000  # whose usage is remembered


class CallerUsage(msgspec.Struct):
    """The usage of one caller. `day` is the day number of the daily figures."""

    at: float
    day: int
    open: int = 0
    requests: float = 0.0  # of the last minute, decaying
    tokens: float = 0.0
    day_requests: int = 0
    day_tokens: int = 0
    cost: float = 0.0


@dataclass(slots=True, eq=False)
class LimitSlot:
    """A slot of a running request. `leave` frees it; a second call does nothing."""

    _limits: CallerLimits
    _spent: CallerUsage
    _left: bool = False

    def release(self, usage: Usage | None = None, cost: float = 0.0) -> None:
        if not self._left:
            self._left = True
            tokens = (usage.input or 0) + (usage.output or 0) if usage is not None else 0
            self._limits.release_slot(self._spent, tokens, cost)


class CallerLimits:
    """The usage of all callers. `clock`: seconds since the epoch. `most`: open requests of all callers together."""

    def __init__(self, clock: Callable[[], float], max_open: int = 0) -> None:
        self.max_open = max_open
        self.open: int = 0
        self._clock = clock
        self._callers: OrderedDict[str, CallerUsage] = OrderedDict()

    def seed(self, key: str, requests: int, tokens: int, cost: float) -> None:
        """Set what a key has used today, from the journal."""
        spent = self._usage_of(key)
        spent.day_requests, spent.day_tokens, spent.cost = requests, tokens, cost

    def take_slot(self, caller: Caller, model: str = "") -> LimitSlot:
        """Take a slot for one request, or raise a refusal with the time to wait."""
        if self.max_open and self.open >= self.max_open:
            raise make_refusal(503, "overloaded", f"{self.open} requests are open already", retry_after=1.0)
        # By gateway key. Callers without one are distinguished by their provider key.
        spent = self._usage_of(caller.tenant if caller.key == ANONYMOUS else caller.key)
        self._check(caller.limits, spent, caller.key)
        spent.open += 1
        spent.requests += 1
        spent.day_requests += 1
        self.open += 1
        return LimitSlot(self, spent)

    def release_slot(self, spent: CallerUsage, tokens: int, cost: float) -> None:
        spent.open -= 1
        self.open -= 1
        spent.tokens += tokens
        spent.day_tokens += tokens
        spent.cost += cost

    def _usage_of(self, name: str) -> CallerUsage:
        now = self._clock()
        spent = self._callers.get(name)
        if spent is None:
            spent = self._callers[name] = CallerUsage(now, int(now // DAY))
            self._drop_idle_caller()
        self._callers.move_to_end(name)
        if spent.day != int(now // DAY):
            spent.day, spent.day_requests, spent.day_tokens, spent.cost = int(now // DAY), 0, 0, 0.0
        return spent

    def _drop_idle_caller(self) -> None:
        """Drop the caller that was idle longest. Callers with open requests stay."""
        if len(self._callers) > MAX_CALLERS:
            idle = next((name for name, spent in self._callers.items() if not spent.open), None)
            if idle is not None:
                del self._callers[idle]

    def _check(self, limit: Limit, spent: CallerUsage, key: str) -> None:
        now = self._clock()
        if limit == UNLIMITED:
            spent.at = now
            return
        gone, spent.at = max(now - spent.at, 0.0), now
        spent.requests = max(spent.requests - gone * limit.requests / MINUTE, 0.0)
        spent.tokens = max(spent.tokens - gone * limit.tokens / MINUTE, 0.0)
        tomorrow = (spent.day + 1) * DAY - now
        requests, tokens = spent.requests + 1, spent.tokens + 1
        # Limit, usage with one more request, and seconds until that is allowed.
        rows = (
            ("requests at once", limit.concurrent, spent.open + 1, 1.0),
            ("requests a minute", limit.requests, requests, _seconds_until_allowed(requests, limit.requests)),
            ("tokens a minute", limit.tokens, tokens, _seconds_until_allowed(tokens, limit.tokens)),
            ("requests a day", limit.day_requests, spent.day_requests + 1, tomorrow),
            ("tokens a day", limit.day_tokens, spent.day_tokens + 1, tomorrow),
            ("dollars a day", limit.day_cost, spent.cost + MIN_REQUEST_COST, tomorrow),
        )
        over = [(wait, f"{most:g} {what}") for what, most, used, wait in rows if most and used > most + TOLERANCE]
        if over:
            wait, reason = max(over)
            reason = f"the key {key!r} has used its {reason}; try again in {max(wait, 1):.0f} s"
            raise make_refusal(429, "rate-limit", reason, code="rate_limit_exceeded", retry_after=max(wait, 0.001))


def _seconds_until_allowed(used: float, limit: int) -> float:
    return (used - limit) * MINUTE / limit if limit else 0.0
