"""Limits of callers: organisation, team and key, over any number of gateway processes that share a store.

A request reserves the most that it may use before it is sent (`usage_bounds`), and settles with what it did use when it
has ended. Without limits nothing is reserved. While the store is away, `stores.outage` decides.
"""

from __future__ import annotations

import asyncio
import logging
import math
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Literal

import msgspec

from penstock._gateway.callers import ANONYMOUS, Caller, Refusal, make_refusal
from penstock._store.key_records import UNLIMITED, Limit
from penstock._store.limit_delivery import LeaseKeeper
from penstock._store.limit_store import (
    RELEASED,
    RESERVATION_SECONDS,
    Amounts,
    LimitRefusal,
    LimitRule,
    LimitStore,
    StoreUnavailable,
)
from penstock._store.memory_limits import MemoryLimitStore

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from penstock._gateway.endpoints import Headers

    ReadPast = Callable[[LimitRule], Sequence[tuple[float, int]]]

MINUTE, DAY, WEEK, MONTH, TOTAL = 60, 86_400, 7 * 86_400, 30 * 86_400, 0
MICRO = 1_000_000  # micro-dollars of a dollar
OUTAGE_RETRY = 1.0  # seconds after which a request may be sent again while the store is away
MAX_KNOWN_CALLERS = 1_000  # whose rules are cached
USAGE_BATCH = 200  # rules whose usage is read in one call of the store
_PERIODS = {MINUTE: "a minute", DAY: "a day", WEEK: "a week", MONTH: "a month", TOTAL: "in total"}
_WINDOWS = {"": MINUTE, "day_": DAY, "week_": WEEK, "month_": MONTH, "total_": TOTAL}
_HEADER_KINDS = ("requests", "tokens")  # as OpenAI names them
log = logging.getLogger("penstock.limits")


# ── rules ─────────────────────────────────────────────────────────────────────────────────────────


def rules_of(caller: Caller) -> tuple[LimitRule, ...]:
    """Return the rules that apply to a caller: of the organisation, of its team, of its key."""
    key, team, organisation = caller.limits, caller.team_limits, caller.organisation_limits
    if key is UNLIMITED and team is UNLIMITED and organisation is UNLIMITED:  # most callers: as fast as possible
        return ()
    # Usage is counted by gateway key. Callers without one are distinguished by their provider key.
    is_keyed = caller.key != ANONYMOUS or bool(caller.key_hash)  # a key may have that name
    scope = f"key:{caller.key}" if is_keyed else f"caller:{caller.tenant}"
    return (*scope_rules("org", organisation), *scope_rules(f"team:{caller.team}", team), *scope_rules(scope, key))


@lru_cache(4096)
def scope_rules(scope: str, limit: Limit) -> tuple[LimitRule, ...]:
    """Return the rules of the organisation, a team or a key."""
    rules: list[LimitRule] = []
    if limit.concurrent:
        rules.append(LimitRule(scope, "concurrent", 0, limit.concurrent))
    for prefix, window in _WINDOWS.items():
        if most := getattr(limit, f"{prefix}requests"):
            rules.append(LimitRule(scope, "requests", window, most))
        if most := getattr(limit, f"{prefix}tokens"):
            rules.append(LimitRule(scope, "tokens", window, most))
        if most := getattr(limit, f"{prefix}cost", 0.0):
            rules.append(LimitRule(scope, "cost", window, round(most * MICRO)))
    return tuple(rules)


def describe_scope(scope: str) -> str:
    """Return whom a rule limits, for a message."""
    kind, _, name = scope.partition(":")
    if kind == "org":
        return "the organisation"
    return "a caller without a key" if kind == "caller" else f"the {kind} {name!r}"


def describe_rule(rule: LimitRule) -> str:
    """Return a limit and its unit, for a message."""
    if rule.kind == "concurrent":
        return f"{rule.most} requests at once"
    unit = "dollars" if rule.kind == "cost" else rule.kind
    return f"{_format_amount(rule, rule.most)} {unit} {_PERIODS.get(rule.window, f'in {rule.window} s')}"


def _format_amount(rule: LimitRule, amount: int) -> str:
    return f"{amount / MICRO:.6f}".rstrip("0").rstrip(".") if rule.kind == "cost" else str(amount)


# ── reservations ──────────────────────────────────────────────────────────────────────────────────


class UsageBound(msgspec.Struct, frozen=True):
    """The most that a request may use: tokens, and micro-dollars for each part."""

    input: int = 0
    output: int = 0
    input_cost: int = 0
    output_cost: int = 0

    @property
    def amounts(self) -> Amounts:
        """The amounts to reserve."""
        return Amounts(1, self.input + self.output, self.input_cost + self.output_cost)


@dataclass(slots=True, eq=False)
class LimitSlot:
    """The place of a running request. `rules` limit it; `bound` is what it has reserved.

    `decisions` are lines for the journal, `headers` for the response. `release` frees it; a second call does nothing.
    """

    limits: CallerLimits
    caller: Caller
    rules: tuple[LimitRule, ...] = ()
    id: str = ""
    bound: UsageBound | None = None
    decisions: tuple[str, ...] = ()
    headers: Headers = ()
    kinds: frozenset[str] = frozenset()  # of the rules
    retry_ids: list[str] = field(default_factory=list[str])  # reservations of further attempts
    _left: bool = False

    @property
    def is_limited(self) -> bool:
        """Whether rules or an output limit apply to the request."""
        return bool(self.rules or self.caller.max_output)

    def counts(self, *kinds: str) -> bool:
        """Return whether one of these kinds is limited."""
        return not self.kinds.isdisjoint(kinds)

    async def reserve(self, bound: UsageBound) -> None:
        """Reserve the most that the request may use, or raise the refusal."""
        await self.limits.reserve(self, bound)

    async def reserve_retry(self) -> None:
        """Reserve the same once more, or raise the refusal: an earlier attempt may have been answered."""
        if self.bound is not None and self.counts("tokens", "cost"):
            await self.limits.reserve_retry(self, self.bound)

    def release(self, amounts: Amounts | None = None) -> None:
        """Free the slot, and settle with what the request has used."""
        if not self._left:
            self._left = True
            self.limits.release_slot(self, amounts or Amounts())


class CallerLimits:
    """Reserves and settles for all requests of this process. `max_open`: open requests of all callers together.

    `outage`: what happens while the store is away. `read_past` returns the usage of a rule before it was first seen
    here, as pairs of time and amount; it may block.
    """

    def __init__(
        self,
        store: LimitStore,
        max_open: int = 0,
        *,
        outage: Literal["fail-closed", "fail-open"] = "fail-closed",
        read_past: ReadPast | None = None,
    ) -> None:
        self.store: LimitStore = store
        self.max_open: int = max_open
        self.outage: Literal["fail-closed", "fail-open"] = outage
        self.open: int = 0
        self.unchecked: int = 0  # requests that were let in while the store was away
        self._read_past = read_past
        self._seeded: set[tuple[str, str, int]] = set()  # scope, kind and window of rules
        self._seeding = asyncio.Lock()
        self._ids = count(1)
        self._rules: dict[int, tuple[Caller, tuple[LimitRule, ...], frozenset[str]]] = {}
        self._settlements: set[asyncio.Task[None]] = set()
        self._in_memory = isinstance(store, MemoryLimitStore)
        # Nobody outlives a store in memory: its leases need no frequent renewal.
        lease = {"lease": float(RESERVATION_SECONDS), "interval": RESERVATION_SECONDS / 6} if self._in_memory else {}
        self._leases = LeaseKeeper(store, **lease)

    def take_slot(self, caller: Caller, id: str = "") -> LimitSlot:
        """Take a slot for one request. Raises if too many requests are open."""
        if self.max_open and self.open >= self.max_open:
            raise make_refusal(503, "overloaded", f"{self.open} requests are open already", retry_after=1.0)
        self.open += 1
        rules, kinds = self._find_rules(caller)
        if not rules:
            return LimitSlot(self, caller)
        return LimitSlot(self, caller, rules, f"{id}.{next(self._ids)}", kinds=kinds)

    def _find_rules(self, caller: Caller) -> tuple[tuple[LimitRule, ...], frozenset[str]]:
        """Return the rules of a caller, and their kinds. Cached by identity: a key has one `Caller` for long."""
        found = self._rules.get(id(caller))
        if found is None or found[0] is not caller:
            if len(self._rules) >= MAX_KNOWN_CALLERS:
                self._rules.clear()
            rules = rules_of(caller)
            found = self._rules[id(caller)] = caller, rules, frozenset([rule.kind for rule in rules])
        return found[1:]

    async def reserve(self, slot: LimitSlot, bound: UsageBound) -> None:
        """Reserve for a slot that has rules, or raise the refusal. `bound` is set unless nothing was reserved."""
        used: dict[LimitRule, int] = {}
        try:
            await self._seed(slot.rules)
            refusal = await self.store.reserve(slot.id, slot.rules, bound.amounts, self._leases.lease, used)
        except StoreUnavailable as error:
            refusal = None
            if self.outage == "fail-closed":
                slot.bound = bound
                raise outage_refusal() from error
            self.unchecked += 1
            slot.decisions += ("limit: let in without a check, because the store of limits is away",)
        except BaseException:  # whether the reservation was made is unknown
            slot.bound = bound
            raise
        if refusal is not None:
            raise build_refusal(refusal, bound)
        slot.bound = bound
        self._leases.add(slot.id)
        slot.headers = _rate_headers(used)

    async def reserve_retry(self, slot: LimitSlot, bound: UsageBound) -> None:
        """Reserve the tokens and the cost of another attempt, or raise the refusal."""
        id = f"{slot.id}.{len(slot.retry_ids) + 1}"  # noqa: A001 — as stores call it
        rules = tuple([rule for rule in slot.rules if rule.kind in ("tokens", "cost")])
        slot.retry_ids.append(id)
        self._leases.add(id)
        try:
            refusal = await self.store.reserve(id, rules, bound.amounts, self._leases.lease)
        except StoreUnavailable as error:
            if self.outage == "fail-closed":
                raise outage_refusal() from error
        else:
            if refusal is not None:
                raise build_refusal(refusal, bound)

    def release_slot(self, slot: LimitSlot, amounts: Amounts) -> None:
        """Free a slot. The settlement is delivered by a task, because a turn may end while it is cancelled."""
        self.open -= 1
        if slot.bound is None:  # nothing was reserved
            return
        # The first reservation is settled with all attempts.
        self._settle_reservation(slot.id, amounts)
        for id in slot.retry_ids:  # noqa: A001 — as stores call it
            self._settle_reservation(id, RELEASED)

    def _settle_reservation(self, id: str, amounts: Amounts) -> None:
        self._leases.discard(id)
        settlement = self.store.settle_reservation(id, amounts)
        if self._in_memory:
            _finish_now(settlement)
            return
        task = asyncio.get_running_loop().create_task(settlement, name="penstock-settlement")
        self._settlements.add(task)
        task.add_done_callback(self._settlements.discard)

    async def usage(self, rules: Sequence[LimitRule]) -> list[int]:
        """Return what is used of each rule now, in few calls of the store."""
        used: list[int] = []
        for at in range(0, len(rules), USAGE_BATCH):
            part = tuple(rules[at : at + USAGE_BATCH])
            await self._seed(part)
            used += await self.store.usage(part)
        return used

    async def aclose(self) -> None:
        """Deliver what waits, and close the store."""
        if self._settlements:
            await asyncio.wait(self._settlements)
        await self._leases.aclose()
        await self.store.aclose()

    async def _seed(self, rules: tuple[LimitRule, ...]) -> None:
        """Charge what the journal knows of rules that are new to this process. Only for a store in memory."""
        store, read_past = self.store, self._read_past
        if read_past is None or not isinstance(store, MemoryLimitStore):
            return
        long = [(rule, (rule.scope, rule.kind, rule.window)) for rule in rules if _is_seeded(rule)]
        if self._seeded.issuperset([name for _, name in long]):
            return
        async with self._seeding:
            for rule, name in long:
                if name not in self._seeded:
                    for at, amount in await asyncio.to_thread(self._read_usage, read_past, rule):
                        store.add_usage(rule, amount, at)
                    self._seeded.add(name)

    def _read_usage(self, read_past: ReadPast, rule: LimitRule) -> Sequence[tuple[float, int]]:
        try:
            return read_past(rule)
        except Exception:  # requests are limited from now on all the same
            log.exception("the usage of %s before the start cannot be read from the journal", rule.scope)
            return ()


def _is_seeded(rule: LimitRule) -> bool:
    """Return whether the journal is asked for a rule. Callers with any provider key are too many to remember."""
    known = not rule.scope.startswith("caller:") or rule.scope == f"caller:{ANONYMOUS}"
    return known and rule.kind != "concurrent" and rule.window != MINUTE


def _rate_headers(used: Mapping[LimitRule, int]) -> Headers:
    """Return the headers of the rules with the least left, under the names of OpenAI.

    https://platform.openai.com/docs/guides/rate-limits#rate-limits-in-headers
    """
    result: list[tuple[bytes, bytes]] = []
    for kind in _HEADER_KINDS:
        left = [(max(rule.most - use, 0), rule) for rule, use in used.items() if rule.kind == kind]
        if left:
            least, rule = min(left, key=lambda one: one[0])
            limit, remaining, reset = _fixed_headers(rule)
            result += [limit, (remaining, str(least).encode()), *reset]
    return tuple(result)


@lru_cache(4096)
def _fixed_headers(rule: LimitRule) -> tuple[tuple[bytes, bytes], bytes, Headers]:
    """Return the header of a rule's limit, the name of the one of what is left, and the one of its window, if any.

    What is used now counts for a whole window: that is when the limit is full.
    """
    names = [f"x-ratelimit-{name}-{rule.kind}".encode() for name in ("limit", "remaining", "reset")]
    reset = ((names[2], _format_duration(rule.window).encode()),) if rule.window else ()
    return (names[0], str(rule.most).encode()), names[1], reset


def _format_duration(seconds: int) -> str:
    """`90` → `1m30s`."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{f'{hours}h' * bool(hours)}{f'{minutes}m' * bool(hours or minutes)}{rest}s"


def _finish_now(work: Coroutine[object, None, None]) -> None:
    """Run a coroutine that does not wait."""
    with suppress(StopIteration):
        work.send(None)
        work.close()


# ── refusals ──────────────────────────────────────────────────────────────────────────────────────


def build_refusal(refusal: LimitRefusal, bound: UsageBound) -> Refusal:
    """Return a 429 that says which limit of whom is reached, by how much, and when or how the request gets through."""
    rule, used, wait = refusal.rule, refusal.used, refusal.retry_after
    whom, limit = describe_scope(rule.scope), describe_rule(rule)
    if rule.kind == "concurrent":
        reason = f"{whom} has {used} of its {limit} open"
    else:
        reason = f"{whom} has used {_format_amount(rule, used)} of its {limit}{_describe_request(rule, bound)}"
    if math.isfinite(wait):
        reason = f"{reason}; try again in {max(wait, 1):.0f} s"
        return make_refusal(429, "rate-limit", reason, code="rate_limit_exceeded", retry_after=max(wait, 0.001))
    reason = f"{reason}; waiting does not help: {_advise(rule, bound)}"
    return make_refusal(429, "quota", reason, code="insufficient_quota")


def _describe_request(rule: LimitRule, bound: UsageBound) -> str:
    tokens = f"{bound.input} input and {bound.output} output"
    if rule.kind == "tokens":
        return f", and this request may use {bound.input + bound.output} ({tokens})"
    if rule.kind == "cost":
        most = _format_amount(rule, bound.input_cost + bound.output_cost)
        return f", and this request may cost {most} ({tokens} tokens)"
    return ""


def _advise(rule: LimitRule, bound: UsageBound) -> str:
    asked = bound.amounts.cost if rule.kind == "cost" else bound.amounts.tokens
    if rule.kind in ("tokens", "cost") and asked > rule.most and bound.output:
        return "set a lower output limit in the request, or `max_output` of the key"
    return "the limit must be raised"


def outage_refusal() -> Refusal:
    """Return a 503: the store of limits is away."""
    reason = "limits cannot be checked just now, because their store is away; send the request again"
    return make_refusal(503, "overloaded", reason, code="limits_unavailable", retry_after=OUTAGE_RETRY)
