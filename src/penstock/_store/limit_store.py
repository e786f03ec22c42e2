"""Usage limits that hold across requests: rules, reservations, the interface of their stores, and a store in memory.

A request reserves amounts before it is sent, and settles with the actual amounts after it. Stores count integers: cost
is in micro-dollars. A window slides. Requests of a window of up to a minute are counted one by one; everything else in
buckets of 1/60 of the window, which count whole until their last moment has left the window: never over the limit.

A reservation counts from the moment it was made. Settled with less, the difference is given back there; settled with
more, the difference counts from the settlement. A reservation that is never settled stays charged as reserved, and its
concurrency slot is free when its lease ends.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import msgspec

from penstock.errors import InputError, PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SECOND = 1_000_000  # microseconds: stores count time in them
BUCKETS = 60  # of a window
EXACT_WINDOW = 60  # seconds: requests of windows up to this are counted one by one
EXACT_MOST = 10_000  # a larger limit of requests is counted in buckets
MAX_AMOUNT = 10**12  # a larger amount of one request counts as this
MAX_REQUESTS = 1_000  # the same for `Amounts.requests`
MAX_MOST = 10**15
MAX_RULES = 64  # of one reservation
MAX_NAME = 512  # characters of a scope or an id
MAX_SCOPES = 10_000  # whose usage the store in memory remembers
MAX_RESERVATIONS = 100_000  # open at once in the store in memory
RESERVATION_SECONDS = 3600  # without a renewal: then a reservation is forgotten, and stays charged
TOTAL_SECONDS = 400 * 86_400  # without use: then usage without a window is forgotten
SLOT_WAIT = 1.0  # seconds to wait for a concurrency slot: nobody knows how long
LEASE = 8.0  # seconds that a concurrency slot outlives its process: documented
NEVER = math.inf


class StoreUnavailable(PenstockError):  # noqa: N818 — named like those of `penstock.errors`
    """A store cannot be reached or written at the moment. The message names the store and the reason, no secrets."""


class LimitRule(msgspec.Struct, frozen=True):
    """At most `most` of `kind` in `window` seconds. Usage belongs to scope, kind and window; `most` may change."""

    scope: str  # "org", "team:NAME", "key:NAME"
    kind: Literal["requests", "tokens", "cost", "concurrent"]
    window: int  # seconds; 0: no window, counted in total. Not used by "concurrent"
    most: int  # 0 allows nothing: leave out the rule where there is no limit


class Amounts(msgspec.Struct, frozen=True):
    """What a request uses. `cost` is in micro-dollars."""

    requests: int = 1
    tokens: int = 0
    cost: int = 0


RELEASED = Amounts(requests=0)
"""The amounts of a request that was not sent."""


class LimitRefusal(msgspec.Struct, frozen=True):
    """The rule that refuses a reservation; of several the one with the longest wait.

    `retry_after`: seconds until the rule allows it, at the latest. It is infinite (`NEVER`) where waiting does not
    help: the limit has no window, or the request asks for more than the whole limit.
    """

    rule: LimitRule
    used: int
    retry_after: float


class LimitStore(Protocol):
    """Counts usage for any number of requests at once.

    After `StoreUnavailable` it is unknown whether the reservation was made. A caller that goes on without it settles
    as usual: the amounts are then charged once the store is back. One that refuses settles with `RELEASED`.
    """

    @property
    def lost(self) -> int:
        """Settlements that were never delivered."""
        ...

    async def reserve(
        self, id: str, rules: Sequence[LimitRule], amounts: Amounts, lease: float = LEASE
    ) -> LimitRefusal | None:
        """Charges the amounts to all rules, or to none and returns the refusal. A known id is not charged again.

        A rule whose amount is 0 never refuses. Raises `StoreUnavailable` within about a second.
        """
        ...

    async def settle_reservation(self, id: str, amounts: Amounts) -> None:
        """Replaces the reserved amounts by the actual ones and frees the slot. An unknown or settled id does nothing.

        Does not raise: what cannot be delivered now is delivered later, or counted in `lost`.
        """
        ...

    async def renew(self, ids: Sequence[str], lease: float = LEASE) -> None:
        """Extends the leases of open reservations to `lease` seconds from now. May raise `StoreUnavailable`."""
        ...

    async def usage(self, rules: Sequence[LimitRule]) -> list[int]:
        """Returns what counts for each rule now, reservations included. May raise `StoreUnavailable`."""
        ...

    async def aclose(self) -> None:
        """Delivers what waits, if it can, and frees connections. The store may not be used afterwards."""
        ...


# ── how a rule is counted: the same in all stores ─────────────────────────────────────────────────


class Counting(NamedTuple):
    """How the usage of a rule is counted. Bucket n begins at n * width; it counts for `span` more buckets."""

    name: str  # of the counter, unique in a store
    width: int  # microseconds of a bucket; 0: no window
    span: int  # buckets of a window
    keep: int  # seconds: after this time without use nothing counts any more


@lru_cache(4096)
def counting_of(rule: LimitRule) -> Counting:
    """Returns how a rule is counted. Raises an `InputError` for a rule that cannot be."""
    if not (0 < len(rule.scope) <= MAX_NAME and 0 <= rule.most <= MAX_MOST and 0 <= rule.window <= TOTAL_SECONDS):
        raise InputError(
            f"limit rule {rule!r}: expected a scope of 1 to {MAX_NAME} characters, a limit from 0 to {MAX_MOST} and "
            f"a window from 0 to {TOTAL_SECONDS} seconds"
        )
    if rule.kind == "concurrent":
        return Counting(f"{rule.scope}|concurrent", 0, 0, RESERVATION_SECONDS)
    name = f"{rule.scope}|{rule.kind}|{rule.window}"
    if not rule.window:
        return Counting(name, 0, 0, TOTAL_SECONDS)
    size = rule.window * SECOND
    if rule.kind == "requests" and rule.window <= EXACT_WINDOW and rule.most <= EXACT_MOST:
        return Counting(f"{name}|exact", 1, size, rule.window + 1)
    width = -(-size // BUCKETS)
    return Counting(name, width, BUCKETS, (BUCKETS + 1) * width // SECOND + 1)


def check_reservation(id: str, rules: Sequence[LimitRule]) -> dict[Counting, LimitRule]:
    """Returns the rules by their counting; of two with the same counter only the stricter one."""
    if not 0 < len(id) <= MAX_NAME or len(rules) > MAX_RULES:
        raise InputError(f"reservation {id[:80]!r}: expected an id of 1 to {MAX_NAME} characters, {MAX_RULES} rules")
    found: dict[Counting, LimitRule] = {}
    for rule in rules:
        counting = counting_of(rule)
        other = found.get(counting)
        if other is None or rule.most < other.most:
            found[counting] = rule
    return found


def bound_amounts(amounts: Amounts) -> dict[str, int]:
    """Returns the amounts by kind, each from 0 to its bound: providers report usage, and may report anything."""
    return {
        "requests": min(max(amounts.requests, 0), MAX_REQUESTS),
        "tokens": min(max(amounts.tokens, 0), MAX_AMOUNT),
        "cost": min(max(amounts.cost, 0), MAX_AMOUNT),
        "concurrent": 1,
    }


def longest_wait(refusals: Sequence[LimitRefusal]) -> LimitRefusal | None:
    """Returns the refusal with the longest wait; of equal ones the first."""
    return max(refusals, key=lambda refusal: refusal.retry_after, default=None)


class WindowCounter:
    """The usage of one rule: its buckets in the order of time, and their sum."""

    __slots__ = ("buckets", "span", "total", "width")

    def __init__(self, counting: Counting) -> None:
        self.width, self.span = counting.width, counting.span
        self.buckets: OrderedDict[int, int] = OrderedDict()
        self.total = 0

    def advance(self, now: int) -> int:
        """Drops the buckets that have left the window. Returns the number of the current one.

        If the clock went back, the latest bucket stays the current one; if by more than the window, usage is dropped.
        """
        number, buckets = now // self.width if self.width else 0, self.buckets
        if not buckets:
            return number
        latest = next(reversed(buckets))
        if latest - number > self.span:
            buckets.clear()
            self.total = 0
            return number
        number = max(number, latest)
        while buckets and (oldest := next(iter(buckets))) < number - self.span:
            self.total -= buckets.pop(oldest)
        return number

    def add(self, number: int, amount: int) -> None:
        """Adds to a bucket. A negative amount only to one that still counts."""
        count = self.buckets.get(number, 0) + amount
        if count > 0:
            self.buckets[number] = count
            self.total += amount
        elif number in self.buckets:
            self.total -= self.buckets.pop(number)

    def seconds_until(self, amount: int, most: int, now: int) -> float:
        """Returns the seconds until an amount fits under a limit."""
        if amount > most or not self.width:
            return NEVER
        excess = self.total + amount - most
        for number, count in self.buckets.items():
            excess -= count
            if excess <= 0:
                return max((number + 1 + self.span) * self.width - now, 1) / SECOND
        return NEVER


# ── the store in memory ───────────────────────────────────────────────────────────────────────────


class ScopeUsage:
    """The usage of one scope. `open`: reservations that may still change it."""

    __slots__ = ("counters", "open", "slots")

    def __init__(self) -> None:
        self.counters: dict[str, WindowCounter] = {}
        self.slots: dict[str, int] = {}  # id → end of its lease
        self.open = 0

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
    """A `LimitStore` for one process. It forgets the scope that was idle longest; those with open requests stay.

    `clock`: seconds since the epoch.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.lost = 0
        self._clock = clock
        self._scopes: OrderedDict[str, ScopeUsage] = OrderedDict()  # the one idle longest first
        self._open: OrderedDict[str, OpenReservation] = OrderedDict()  # the one that expires first comes first

    async def reserve(
        self, id: str, rules: Sequence[LimitRule], amounts: Amounts, lease: float = LEASE
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
        """Returns the usage of a scope, as the one used last."""
        usage = self._scopes.get(scope)
        if usage is None:
            usage = self._scopes[scope] = ScopeUsage()
            if len(self._scopes) > MAX_SCOPES:
                idle = next((name for name, other in self._scopes.items() if not other.open and name != scope), None)
                if idle is not None:
                    del self._scopes[idle]
        self._scopes.move_to_end(scope)
        return usage

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
