"""What is used of limits now: of the organisation, of teams, of keys. For the admin API and for metrics.

The store of limits is asked, in few calls. Metrics show what the last poll found; a scrape never waits for the store.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Literal, NamedTuple

from penstock._gateway.limits import DAY, MICRO, MINUTE, MONTH, TOTAL, WEEK, CallerLimits, scope_rules
from penstock._store.limit_store import StoreUnavailable
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from penstock._gateway.config import GatewayConfig
    from penstock._gateway.keys import KeyRing
    from penstock._store.key_records import Limit
    from penstock._store.limit_store import LimitRule

    ScopeKind = Literal["organisation", "team", "key"]

MAX_METRIC_LIMITS = 1_000  # with series of their own: of the organisation, then of teams, then of keys
POLL_INTERVAL = 10.0  # seconds
_RANKS = {"organisation": 0, "team": 1, "key": 2}
_WINDOW_NAMES = {MINUTE: "minute", DAY: "day", WEEK: "week", MONTH: "month", TOTAL: "total"}
log = logging.getLogger("penstock.limits")


class LimitScope(NamedTuple):
    """Somebody who has limits, and their rules. The organisation has no name."""

    kind: ScopeKind
    name: str
    rules: tuple[LimitRule, ...]

    @property
    def sort_key(self) -> tuple[int, str]:
        """Where it stands in a list: the organisation, teams, keys, each by name."""
        return _RANKS[self.kind], self.name


def list_scopes(ring: KeyRing, config: GatewayConfig) -> Iterator[LimitScope]:
    """Yield everybody who has limits, in the order of `LimitScope.sort_key`."""
    records = ring.records
    yield from _scope("organisation", "", "org", ring.organisation.limits)
    for name, team in sorted({**records.teams, **config.teams}.items()):
        yield from _scope("team", name, f"team:{name}", team.limits)
    for name, key in sorted({**records.keys, **config.keys}.items()):
        yield from _scope("key", name, f"key:{name}", key.limits or config.limits)


def _scope(kind: ScopeKind, name: str, scope: str, limits: Limit | None) -> Iterator[LimitScope]:
    rules = scope_rules(scope, limits) if limits is not None else ()
    if rules:
        yield LimitScope(kind, name, rules)


def window_name(rule: LimitRule) -> str:
    """Return the window of a rule; empty for requests at once."""
    return "" if rule.kind == "concurrent" else _WINDOW_NAMES.get(rule.window, str(rule.window))


def amount_of(rule: LimitRule, counted: int) -> float:
    """Return an amount as it is shown: cost in dollars."""
    return counted / MICRO if rule.kind == "cost" else counted


class LimitGauges:
    """What is used of limits, for metrics. Polled at most every `POLL_INTERVAL` seconds, and only while it is read."""

    def __init__(
        self, limits: CallerLimits, scopes: Callable[[], Iterator[LimitScope]], redact: Callable[[str], str]
    ) -> None:
        self._limits, self._scopes, self._redact = limits, scopes, redact
        self._used: dict[tuple[str, ...], float] = {}
        self._most: dict[tuple[str, ...], float] = {}
        self.hidden: int = 0  # limits without series
        self._polled = -POLL_INTERVAL
        self._task: asyncio.Task[None] | None = None

    def used(self) -> Mapping[tuple[str, ...], float]:
        """Return what was used at the last poll. Begins another one if that was long ago."""
        self.refresh()
        return self._used

    def most(self) -> Mapping[tuple[str, ...], float]:
        """Return the limits at the last poll."""
        return self._most

    def refresh(self) -> None:
        """Poll in the background, if the last poll was long ago and a loop runs."""
        if time.monotonic() - self._polled < POLL_INTERVAL or (self._task is not None and not self._task.done()):
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        self._polled = time.monotonic()
        self._task = loop.create_task(self.poll(), name="penstock-limit-gauges")

    async def poll(self) -> None:
        """Ask the store. While it is away there are no values."""
        rows = [(scope, rule) for scope in self._scopes() for rule in scope.rules]
        shown = rows[:MAX_METRIC_LIMITS]
        self.hidden = len(rows) - len(shown)
        try:
            used = await self._limits.usage([rule for _, rule in shown])
        except StoreUnavailable as error:
            log.info("the usage of limits is not in the metrics: %s", error)
            self._used = self._most = {}
            return
        labels = [self._labels(scope, rule) for scope, rule in shown]
        self._used = {one: amount_of(rule, count) for one, (_, rule), count in zip(labels, shown, used, strict=True)}
        self._most = {one: amount_of(rule, rule.most) for one, (_, rule) in zip(labels, shown, strict=True)}

    async def aclose(self) -> None:
        """End a poll that is under way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _labels(self, scope: LimitScope, rule: LimitRule) -> tuple[str, ...]:
        return scope.kind, self._redact(scope.name), rule.kind, window_name(rule)


def cut_page(scopes: Sequence[LimitScope], limit: int, after: str) -> tuple[Sequence[LimitScope], str | None]:
    """Return one page, and the place of its last row if more follow. `after`: such a place, `team:research`."""
    kind, _, name = after.partition(":")
    if after and kind not in _RANKS:
        raise InputError("after: expected the `next` of a page")
    rest = [one for one in scopes if not after or one.sort_key > (_RANKS[kind], name)]
    last = rest[limit - 1] if len(rest) > limit else None
    return rest[:limit], f"{last.kind}:{last.name}" if last is not None else None
