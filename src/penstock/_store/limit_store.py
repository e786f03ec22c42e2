"""Usage limits that hold across requests: rules, reservations, the interface of their stores.

A request reserves amounts before it is sent, and settles with the actual amounts after it. Stores count integers: cost
is in micro-dollars. A window slides. Requests of a window of up to a minute are counted one by one; everything else in
buckets of 1/60 of the window, which count whole until their last moment has left the window: never over the limit.

A reservation counts from the moment it was made. Settled with less, the difference is given back there; settled with
more, the difference counts from the settlement. A reservation that is never settled stays charged as reserved, and its
concurrency slot is free when its lease ends.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import msgspec

from penstock.errors import InputError, PenstockError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SECOND = 1_000_000  # microseconds: stores count time in them
BUCKETS = 60  # of a window
EXACT_WINDOW = 60  # seconds: requests of windows up to this are counted one by one
EXACT_MOST = 10_000  # a larger limit of requests is counted in buckets
MAX_AMOUNT = 10**12  # a larger amount of one request counts as this
MAX_REQUESTS = 1_000  # the same for `Amounts.requests`
MAX_MOST = 10**15
MAX_RULES = 64  # of one reservation
MAX_NAME = 512  # characters of a scope or an id
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
        self,
        id: str,
        rules: Sequence[LimitRule],
        amounts: Amounts,
        lease: float = LEASE,
        used: dict[LimitRule, int] | None = None,
    ) -> LimitRefusal | None:
        """Charges the amounts to all rules, or to none and returns the refusal. A known id is not charged again.

        `used` gets what then counts for each rule, this reservation included; of two rules with the same counter only
        for the stricter one. A rule whose amount is 0 never refuses. Raises `StoreUnavailable` within about a second.
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


def check_reservation(id: str, rules: Sequence[LimitRule]) -> Mapping[Counting, LimitRule]:
    """Returns the rules by their counting; of two with the same counter only the stricter one."""
    if not 0 < len(id) <= MAX_NAME or len(rules) > MAX_RULES:
        raise InputError(f"reservation {id[:80]!r}: expected an id of 1 to {MAX_NAME} characters, {MAX_RULES} rules")
    return _find_strictest(tuple(rules))


@lru_cache(4096)
def _find_strictest(rules: tuple[LimitRule, ...]) -> Mapping[Counting, LimitRule]:
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
