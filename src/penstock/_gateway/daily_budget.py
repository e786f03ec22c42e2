"""A daily budget for the person whose program started the gateway, such as VS Code: dollars from midnight to midnight.

Unlike `limits.day_cost`, nothing is reserved: a request is refused once the cost of today's requests has reached the
budget, so the last one may exceed it. The cost is what the journal has for the key of PENSTOCK_GATEWAY_KEY. The program
can change the budget while the gateway runs, and lift it for one day.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from typing import TYPE_CHECKING, NamedTuple

from penstock._gateway.callers import Caller, Refusal, make_refusal
from penstock._gateway.journal import COUNT
from penstock._gateway.keys import STARTER_KEY_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock._gateway.journal import Journal

VARIABLE = "PENSTOCK_DAILY_BUDGET"  # dollars, from the program that starts the gateway
CODE = "daily_budget"
_CENTS = 0.1  # dollars: smaller amounts are shown with four digits
log = logging.getLogger("penstock.limits")


class Spending(NamedTuple):
    """Today's cost in dollars. `unpriced`: requests with tokens for which no price is known."""

    cost: float
    unpriced: int


def last_midnight(now: float) -> float:
    """Return the last local midnight, in seconds since the epoch."""
    day = time.localtime(now)
    return time.mktime((day.tm_year, day.tm_mon, day.tm_mday, 0, 0, 0, 0, 0, -1))


def format_dollars(amount: float) -> str:
    """Return an amount for a message: `$5`, `$4.10`, `$0.0042`."""
    if amount == int(amount):
        return f"${amount:.0f}"
    return f"${amount:.2f}" if amount >= _CENTS else f"${amount:.4f}".rstrip("0")


class DailyBudget:
    """The budget, and what is spent of it. `limit`: dollars a day; 0 is no limit."""

    def __init__(self, journal: Journal, env: Mapping[str, str], clock: Callable[[], float] = time.time) -> None:
        self.limit: float = _read_limit(env.get(VARIABLE, ""))
        self._lifted_day = ""
        self._journal, self._clock = journal, clock

    @property
    def today(self) -> str:
        """The local date, `2026-11-17`."""
        return time.strftime("%Y-%m-%d", time.localtime(self._clock()))

    @property
    def is_enforced(self) -> bool:
        """Whether costs are known. Without a journal they are not."""
        return self._journal.rows is not None

    @property
    def is_lifted(self) -> bool:
        """Whether the budget does not count today."""
        return self._lifted_day == self.today

    def change(self, limit: float, lifted_day: str) -> None:
        """Set the budget, and the day for which it is lifted. A day that is not today changes nothing."""
        self.limit, self._lifted_day = limit, lifted_day

    async def read_spending(self) -> Spending:
        """Return today's cost. Rows that wait to be written are included."""
        return await asyncio.to_thread(self._read_spending)

    def _read_spending(self) -> Spending:
        if self._journal.rows is None:
            return Spending(0.0, 0)
        self._journal.flush()
        total = self._journal.rows.total(since=last_midnight(self._clock()), without=COUNT, key=STARTER_KEY_NAME)
        return Spending(round(total.cost or 0.0, 9), total.unpriced)  # sums of floats differ in the last digits

    def applies_to(self, caller: Caller) -> bool:
        """Return whether the caller's requests must be checked."""
        return bool(self.limit) and caller.key == STARTER_KEY_NAME and self.is_enforced and not self.is_lifted

    async def check(self) -> None:
        """Raise the refusal if the budget is used up."""
        spent = (await self.read_spending()).cost
        if spent >= self.limit:
            raise self._refusal(spent)

    def _refusal(self, spent: float) -> Refusal:
        budget = f"today's budget of {format_dollars(self.limit)} is used up ({format_dollars(spent)} spent)"
        advice = "raise or lift it in the program that started this gateway, or wait until midnight"
        return make_refusal(429, "quota", f"{budget}: {advice}", code=CODE)


def _read_limit(text: str) -> float:
    try:
        limit = float(text or 0)
    except ValueError:
        limit = -1.0
    if math.isfinite(limit) and limit >= 0:
        return limit
    log.warning("%s is not a number of dollars; there is no daily budget", VARIABLE)
    return 0.0
