"""A store of limits in memory, for one process."""

from __future__ import annotations

import logging
import math
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from penstock._store.limit_store import (
    LEASE,
    MAX_MOST,
    NEVER,
    RESERVATION_SECONDS,
    SECOND,
    SLOT_WAIT,
    Amounts,
    Counting,
    LimitRefusal,
    LimitRule,
    StoreUnavailable,
    WindowCounter,
    bound_amounts,
    check_reservation,
    counting_of,
    longest_wait,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAX_SCOPES = 10_000  # callers without a key whose usage is remembered
MAX_RESERVATIONS = 100_000  # open at once
SWEEP_SECONDS = 1.0  # between two searches for callers whose usage counts no more
LOG_SECONDS = 60.0  # between two lines of the log that say the same
_CALLER = "caller:"  # how the scope of a caller without a key begins
log = logging.getLogger("penstock.store")


class ScopeUsage:
    """The usage of one scope. `open`: reservations that may still change it."""

    __slots__ = ("counters", "open", "slots")

    def __init__(self) -> None:
        self.counters: dict[str, WindowCounter] = {}
        self.slots: dict[str, int] = {}  # id → end of its lease
        self.open = 0

    def is_idle(self, now: int) -> bool:
        """Returns whether nothing counts any more."""
        for counter in self.counters.values():
            counter.advance(now)
        return not self.open and not any(counter.total for counter in self.counters.values())

    def count_slots(self, now: int, enough: int = 0) -> int:
        """Returns the slots in use. Expired ones are dropped only if there are more than enough."""
        if len(self.slots) > enough:
            for expired in [name for name, ends in self.slots.items() if ends <= now]:
                del self.slots[expired]
        return len(self.slots)


class OpenReservation(NamedTuple):
    """What a reservation has charged. `charges`: scope, counter (empty for a slot), kind, bucket, amount."""

    expires: int
    charges: list[tuple[str, str, str, int, int]]


class MemoryLimitStore:
    """A `LimitStore` for one process. `clock`: seconds since the epoch.

    It forgets a scope only when nothing in it counts any more. There are as many organisations, teams and keys as
    somebody has made; callers without a key can be any number, so beyond a bound new ones are refused.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.lost = 0
        self._clock = clock
        self._scopes: dict[str, ScopeUsage] = {}
        self._callers = 0  # scopes of callers without a key
        self._sweep_size = MAX_SCOPES  # number of scopes at which idle ones are looked for
        self._swept_at = self._logged_at = -math.inf
        self._open: OrderedDict[str, OpenReservation] = OrderedDict()  # the one that expires first comes first

    async def reserve(
        self,
        id: str,
        rules: Sequence[LimitRule],
        amounts: Amounts,
        lease: float = LEASE,
        used: dict[LimitRule, int] | None = None,
    ) -> LimitRefusal | None:
        if not rules:
            return None
        checked, asked, now = check_reservation(id, rules), bound_amounts(amounts), self._now()
        self._forget_expired(now)
        if id in self._open:
            return None
        refusals = [self._refusal(rule, counting, asked[rule.kind], now) for counting, rule in checked.items()]
        refusal = longest_wait([refusal for refusal in refusals if refusal is not None])
        if refusal is not None:
            return refusal
        self._make_room(rules, now)
        charges: list[tuple[str, str, str, int, int]] = []
        for counting, rule in checked.items():
            usage = self._scope(rule.scope)
            usage.open += 1
            if rule.kind == "concurrent":
                usage.slots[id] = now + int(lease * SECOND)
                charges.append((rule.scope, "", rule.kind, 0, 0))
                continue
            counter = self._counter(usage, counting)
            number = counter.advance(now)
            counter.add(number, asked[rule.kind])
            charges.append((rule.scope, counting.name, rule.kind, number, asked[rule.kind]))
        self._open[id] = OpenReservation(now + RESERVATION_SECONDS * SECOND, charges)
        if used is not None:
            used.update({rule: self._used(rule, counting, now) for counting, rule in checked.items()})
        return None

    async def settle_reservation(self, id: str, amounts: Amounts) -> None:
        actual, now = bound_amounts(amounts), self._now()
        self._forget_expired(now)
        reservation = self._open.pop(id, None)
        if reservation is None:
            return
        for scope, name, kind, number, reserved in reservation.charges:
            usage = self._close(scope, id)
            if name:
                counter, difference = usage.counters[name], actual[kind] - reserved
                current = counter.advance(now)
                counter.add(current if difference > 0 else number, difference)

    async def renew(self, ids: Sequence[str], lease: float = LEASE) -> None:
        now = self._now()
        self._forget_expired(now)
        for open_id in ids:
            reservation = self._open.pop(open_id, None)
            if reservation is not None:
                self._open[open_id] = reservation._replace(expires=now + RESERVATION_SECONDS * SECOND)
                for scope, name, *_ in reservation.charges:
                    if not name:
                        self._scopes[scope].slots[open_id] = now + int(lease * SECOND)

    async def usage(self, rules: Sequence[LimitRule]) -> list[int]:
        now = self._now()
        return [self._used(rule, counting_of(rule), now) for rule in rules]

    async def aclose(self) -> None:
        """Nothing waits and nothing is open."""

    def add_usage(self, rule: LimitRule, amount: int, at: float) -> None:
        """Charges an amount that was used at a time, without a check: what the journal knows, after a restart."""
        counting = counting_of(rule)
        if rule.kind != "concurrent" and amount > 0 and self._clock() - at < counting.keep:
            counter = self._counter(self._scope(rule.scope), counting)
            counter.add(int(at * SECOND) // counting.width if counting.width else 0, min(amount, MAX_MOST))
            counter.buckets = OrderedDict(sorted(counter.buckets.items()))

    def _now(self) -> int:
        return int(self._clock() * SECOND)

    def _scope(self, scope: str) -> ScopeUsage:
        """Returns the usage of a scope."""
        usage = self._scopes.get(scope)
        if usage is None:
            usage = self._scopes[scope] = ScopeUsage()
            self._callers += scope.startswith(_CALLER)
        return usage

    def _make_room(self, rules: Sequence[LimitRule], now: int) -> None:
        """Forgets idle scopes before new ones are made, if there are many. Raises if there are too many callers."""
        new = {rule.scope for rule in rules if rule.scope not in self._scopes}
        if not new:
            return
        is_full = self._callers >= MAX_SCOPES and any(scope.startswith(_CALLER) for scope in new)
        if len(self._scopes) >= self._sweep_size or (is_full and now - self._swept_at >= SWEEP_SECONDS * SECOND):
            self._swept_at = now
            self._scopes = {name: usage for name, usage in self._scopes.items() if not usage.is_idle(now)}
            self._callers = sum(name.startswith(_CALLER) for name in self._scopes)
            self._sweep_size = max(MAX_SCOPES, 2 * len(self._scopes))
        if is_full and self._callers >= MAX_SCOPES:
            reason = f"{self._callers} callers without a gateway key have used some of their limits: no room for more"
            if now - self._logged_at >= LOG_SECONDS * SECOND:
                self._logged_at = now
                log.error("%s", reason)
            raise StoreUnavailable(reason)

    def _counter(self, usage: ScopeUsage, counting: Counting) -> WindowCounter:
        counter = usage.counters.get(counting.name)
        if counter is None:
            counter = usage.counters[counting.name] = WindowCounter(counting)
        return counter

    def _used(self, rule: LimitRule, counting: Counting, now: int, enough: int = 0) -> int:
        usage = self._scopes.get(rule.scope)
        if usage is None:
            return 0
        if rule.kind == "concurrent":
            return usage.count_slots(now, enough)
        counter = usage.counters.get(counting.name)
        if counter is None:
            return 0
        counter.advance(now)
        return counter.total

    def _refusal(self, rule: LimitRule, counting: Counting, asked: int, now: int) -> LimitRefusal | None:
        used = self._used(rule, counting, now, enough=rule.most - 1)
        if not asked or used + asked <= rule.most:
            return None
        if rule.kind == "concurrent":
            return LimitRefusal(rule, used, SLOT_WAIT if rule.most else NEVER)
        usage = self._scopes.get(rule.scope)
        counter = usage.counters.get(counting.name) if usage is not None else None
        return LimitRefusal(rule, used, counter.seconds_until(asked, rule.most, now) if counter is not None else NEVER)

    def _close(self, scope: str, id: str) -> ScopeUsage:
        usage = self._scopes[scope]
        usage.open -= 1
        usage.slots.pop(id, None)
        return usage

    def _forget_expired(self, now: int) -> None:
        """Forgets reservations that nobody has renewed. They stay charged."""
        while self._open:
            oldest, reservation = next(iter(self._open.items()))
            if reservation.expires > now and len(self._open) < MAX_RESERVATIONS:
                return
            del self._open[oldest]
            for scope, *_ in reservation.charges:
                self._close(scope, oldest)
