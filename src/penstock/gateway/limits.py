"""How much a key may use: requests and tokens a minute, streams at once, requests, tokens and dollars a day.

Tokens are known only afterwards: a caller may overdraw once, and waits until what it used has been earned again.
The clock is given. Nothing here waits or writes.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from penstock.gateway.callers import ANONYMOUS, Caller, refused
from penstock.gateway.config import Limit

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.events import Usage

MINUTE, DAY = 60.0, 86_400.0
CENT = 0.01  # a request is not let in for less
NEARLY = 1e-6  # what a division may leave over
UNLIMITED = Limit()
CALLERS = 10_000  # remembered at once; those idle longest are forgotten


class Spent:
    """What one caller has used. `day` is the number of the day that the daily figures are of."""

    __slots__ = ("at", "cost", "day", "day_requests", "day_tokens", "open", "requests", "tokens")

    def __init__(self, now: float) -> None:
        self.open = 0
        self.at = now
        self.requests = self.tokens = 0.0  # used and not yet earned again
        self.day = int(now // DAY)
        self.day_requests = self.day_tokens = 0
        self.cost = 0.0


class Ticket:
    """A place at the table. Leave it exactly once, whatever happened; a second time does nothing."""

    __slots__ = ("_left", "_limits", "_spent")

    def __init__(self, limits: Limits, spent: Spent) -> None:
        self._limits, self._spent = limits, spent
        self._left = False

    def leave(self, usage: Usage | None = None, cost: float = 0.0) -> None:
        if not self._left:
            self._left = True
            self._limits.left(self._spent, (usage.input or 0) + (usage.output or 0) if usage is not None else 0, cost)


class Limits:
    """The limits of all callers. `clock`: seconds since the epoch. `most`: streams open at once, of all callers."""

    def __init__(self, clock: Callable[[], float], most: int = 0) -> None:
        self.most = most
        self.open = 0
        self._clock = clock
        self._callers: OrderedDict[str, Spent] = OrderedDict()

    def seed(self, key: str, requests: int, tokens: int, cost: float) -> None:
        """What a key has used today, from the journal: a restart forgives nothing."""
        spent = self._of(key)
        spent.day_requests, spent.day_tokens, spent.cost = requests, tokens, cost

    def enter(self, caller: Caller, model: str = "") -> Ticket:
        """A place for one request, or a `Refused` that says how long to wait."""
        if self.most and self.open >= self.most:
            raise refused(503, "overloaded", f"{self.open} requests are open already", retry_after=1.0)
        # By the key that was checked. Only callers without one are told apart by what they bring for the provider.
        spent = self._of(caller.tenant if caller.key == ANONYMOUS else caller.key)
        self._check(caller.limits, spent, caller.key)
        spent.open += 1
        spent.requests += 1
        spent.day_requests += 1
        self.open += 1
        return Ticket(self, spent)

    def left(self, spent: Spent, tokens: int, cost: float) -> None:
        spent.open -= 1
        self.open -= 1
        spent.tokens += tokens
        spent.day_tokens += tokens
        spent.cost += cost

    def _of(self, name: str) -> Spent:
        now = self._clock()
        spent = self._callers.get(name)
        if spent is None:
            spent = self._callers[name] = Spent(now)
            self._forget()
        self._callers.move_to_end(name)
        if spent.day != int(now // DAY):
            spent.day = int(now // DAY)
            spent.day_requests = spent.day_tokens = 0
            spent.cost = 0.0
        return spent

    def _forget(self) -> None:
        """The one idle longest makes room for the new one; whoever has a request open is never forgotten."""
        if len(self._callers) > CALLERS:
            idle = next((name for name, spent in self._callers.items() if not spent.open), None)
            if idle is not None:
                del self._callers[idle]

    def _check(self, limit: Limit, spent: Spent, key: str) -> None:
        now = self._clock()
        if limit == UNLIMITED:
            spent.at = now
            return
        gone, spent.at = max(now - spent.at, 0.0), now
        spent.requests = max(spent.requests - gone * limit.requests / MINUTE, 0.0)
        spent.tokens = max(spent.tokens - gone * limit.tokens / MINUTE, 0.0)
        tomorrow = (spent.day + 1) * DAY - now
        # What is used, how much of it is room enough for one more, and how long it takes until there is.
        rows = (
            ("requests at once", limit.concurrent, spent.open + 1, 1.0),
            ("requests a minute", limit.requests, spent.requests + 1, _wait(spent.requests + 1, limit.requests)),
            ("tokens a minute", limit.tokens, spent.tokens + 1, _wait(spent.tokens + 1, limit.tokens)),
            ("requests a day", limit.day_requests, spent.day_requests + 1, tomorrow),
            ("tokens a day", limit.day_tokens, spent.day_tokens + 1, tomorrow),
            ("dollars a day", limit.day_cost, spent.cost + CENT, tomorrow),
        )
        over = [(wait, f"{most:g} {what}") for what, most, used, wait in rows if most and used > most + NEARLY]
        if over:
            wait, said = max(over)
            said = f"the key {key!r} has used its {said}; try again in {max(wait, 1):.0f} s"
            raise refused(429, "rate-limit", said, code="rate_limit_exceeded", retry_after=max(wait, 0.001))


def _wait(used: float, limit: int) -> float:
    return (used - limit) * MINUTE / limit if limit else 0.0
