"""When not to ask: circuit breakers, and a budget of retries. One circuit for each provider, model and credential.

A circuit opens after failures in a row that are the provider's own, and lets a single request through once it has
cooled. Where somebody else can be asked it cools for `cool` seconds at once. Where nobody else can, it begins with
`first` seconds and doubles them each time the single request fails. The budget keeps retries from becoming the load
that they wait for to pass. The clock is given.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from penstock.engines.emulation import UNSUPPORTED
from penstock.lenient_fields import as_object, get_object, get_text
from penstock.vendor_errors import HTTP, normalize_code

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engines.interface import Job
    from penstock.engines.model_resolution import Target
    from penstock.errors import ProviderError
    from penstock.providers.registry import Retry

BLAMED = frozenset({"server", "overloaded", "timeout", "network", "truncated", "malformed"})
"""Kinds of failures that are the provider's own, or of the way to it."""
# Messages of other kinds are ours, or may quote an answer to somebody else.
_QUOTED = frozenset({"server", "overloaded"})
_QUOTE = 300  # characters
CIRCUITS = 1_000  # remembered at most: clients choose the names of models


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a circuit opens, for how long, and how many retries there are: a share of the requests, and a reserve."""

    failures: int = 5
    cool: float = 30.0
    first: float = 1.0
    share: float = 0.2
    reserve: float = 10.0


class CircuitKey(NamedTuple):
    """What fails together. `credential` tells a caller's own key from others; 0 is the configured one."""

    provider: str
    model: str = ""
    credential: int = 0

    @classmethod
    def of(cls, provider: str, model: str, key: str = "") -> CircuitKey:
        """The circuit of a request. `key`: the caller's own, which is not kept."""
        return cls(provider, model, hash(key) if key else 0)


class _Circuit:
    """One that has failed, or whose budget is not full. One without trouble is not remembered."""

    __slots__ = ("failed", "opened", "quote", "since", "tokens", "trying")

    def __init__(self, tokens: float) -> None:
        self.failed = 0
        self.opened = 0  # how often in a row, without an answer between
        self.since = 0.0  # when it was opened last
        self.trying = False
        self.tokens = tokens
        self.quote = ""  # what the provider said last


class Breakers:
    """All circuits, as many as are in trouble. Those that were used least recently are forgotten first."""

    def __init__(self, clock: Callable[[], float], policy: Policy | None = None) -> None:
        self._clock = clock
        self._policy = policy or Policy()
        self._circuits: OrderedDict[CircuitKey, _Circuit] = OrderedDict()

    def _of(self, key: CircuitKey) -> _Circuit:
        found = self._circuits.get(key)
        if found is None:
            found = self._circuits[key] = _Circuit(self._policy.reserve)
            if len(self._circuits) > CIRCUITS:
                self._circuits.popitem(last=False)
        else:
            self._circuits.move_to_end(key)
        return found

    def closed_for(self, key: CircuitKey, *, alternative: bool = False) -> float:
        """Seconds that a provider must not be asked for; 0 where it may be, and the asking is then counted.

        `alternative`: somebody else can be asked in its place.
        """
        circuit = self._circuits.get(key)
        if circuit is None or not circuit.opened:
            return 0.0
        period = self._period(circuit, alternative=alternative)
        left = circuit.since + period - self._clock()
        if left > 0:
            return left
        if circuit.trying:
            return period
        circuit.trying = True  # one request finds out for all
        return 0.0

    def quote(self, key: CircuitKey) -> str:
        """What the provider said when it failed last, if it said anything."""
        circuit = self._circuits.get(key)
        return circuit.quote if circuit is not None else ""

    def good(self, key: CircuitKey) -> None:
        """It answered."""
        circuit = self._circuits.get(key)
        if circuit is not None:
            tokens = circuit.tokens + self._policy.share
            if tokens >= self._policy.reserve:
                del self._circuits[key]
                return
            circuit.failed = circuit.opened = 0
            circuit.trying, circuit.tokens, circuit.quote = False, tokens, ""

    def bad(self, key: CircuitKey, kind: str, message: str = "") -> None:
        """It failed; only what it is to blame for counts, and a no that is no failure proves that it is there."""
        if kind not in BLAMED:
            circuit = self._circuits.get(key)
            if circuit is not None:
                circuit.failed = circuit.opened = 0
                circuit.trying = False
            return
        circuit = self._of(key)
        circuit.failed += 1
        circuit.quote = message[:_QUOTE] if kind in _QUOTED else ""
        if circuit.trying or (circuit.failed >= self._policy.failures and not circuit.opened):
            circuit.opened += 1
            circuit.since = self._clock()
        circuit.trying = False

    def left(self, key: CircuitKey) -> None:
        """A request that was called off tells nothing."""
        circuit = self._circuits.get(key)
        if circuit is not None:
            circuit.trying = False

    def spend(self, key: CircuitKey) -> bool:
        """Take one retry out of the budget, if there is one."""
        circuit = self._of(key)
        if circuit.tokens < 1:
            return False
        circuit.tokens -= 1
        return True

    def state(self) -> dict[CircuitKey, str]:
        """The circuits in trouble, for those who look: `closed` after a few failures, `open`, or `trying` again."""
        now = self._clock()
        return {
            key: "closed" if not one.opened
            else "open" if one.since + self._period(one, alternative=False) > now
            else "trying"
            for key, one in self._circuits.items()
        }  # fmt: skip

    def open_count(self) -> int:
        """How many circuits are not closed."""
        return sum(1 for one in self._circuits.values() if one.opened)

    def _period(self, circuit: _Circuit, *, alternative: bool) -> float:
        """How long it cools."""
        if alternative:
            return self._policy.cool
        return min(self._policy.cool, self._policy.first * 2.0 ** min(circuit.opened - 1, 30))


def circuit_message(name: str, left: float, quote: str) -> str:
    """What a caller is told who meets an open circuit, with the provider's own words."""
    said = f"; it said: {quote}" if quote else ""
    return f"{name} has failed too often: it is not asked for another {max(left, 0.1):.1f} s{said}"


BASE, MOST = 0.5, 8.0  # seconds of the first wait, and of any that nobody asked for
PASSING = frozenset({"rate-limit", "overloaded", "server", "timeout", "network", "truncated", "malformed"})
"""Kinds that may have passed when asked again."""
LASTING = frozenset({"auth", "permission", "quota", "not-found", "too-large", "filter", "cancelled", "grammar"})
"""Kinds that asking again does not change, whatever the status."""
ELSEWHERE = PASSING | {"auth", "permission", "quota", "not-found", "other"}
"""Kinds that somebody else may not have. What is wrong with the request is wrong everywhere."""


class Wait(msgspec.Struct, frozen=True):
    """A pause before a provider is asked again: how long, after which kind of no, and what the provider is called."""

    seconds: float
    kind: str
    provider: str


class Watch(Protocol):
    """Who is told how a turn comes about, while it does."""

    def chosen(self, job: Job) -> None:
        """This is going to be asked, unless another is asked after it. It is not signed yet: headers may be added."""
        ...

    async def waits(self, wait: Wait) -> None:
        """Nothing happens for a while."""
        ...


def passing(error: ProviderError, policy: Retry) -> bool:
    """Whether it may be gone the next time."""
    if error.kind in LASTING:
        return False
    return error.kind in PASSING or (error.status is not None and error.status in policy.statuses)


def elsewhere(error: ProviderError) -> bool:
    """Whether the next provider may do better."""
    return error.kind in ELSEWHERE or error.code == UNSUPPORTED


def pause(error: ProviderError, tries: int, policy: Retry, chance: Callable[[], float]) -> float | None:
    """Seconds to wait before the next try; None where it asks for more patience than there is.

    As long as it says, and a little more; else twice as long each time, anywhere in the upper half of that.
    """
    if error.retry_after is not None:
        if error.retry_after > policy.limit:
            return None
        return error.retry_after + chance() * min(0.25, 0.1 + error.retry_after / 10)
    full: float = min(MOST, BASE * 2 ** (tries - 1))
    return full * (0.5 + chance() / 2)


SUBSTITUTES: dict[str, str] = {"responses": "chat"}  # an operation, and what is asked in its place
REMEMBERED = 3600.0  # seconds
_STATUSES = frozenset({404, 405})
# Codes and types that say no more than the status. `model_not_found` and `previous_response_not_found` say more.
_BARE = frozenset({"", "notfound", "notfounderror", "methodnotallowed", "invalidrequesterror", "unknownurl"})
_MODEL = re.compile(r"(?i)\bmodels?\b")


def is_missing_endpoint(error: ProviderError) -> bool:
    """Whether a server has nothing at an address, as opposed to no such model."""
    if error.status not in _STATUSES or normalize_code(error.code) not in _BARE or _MODEL.search(error.message):
        return False
    body = as_object(as_object((error.fault.extra or {}).get(HTTP)).get("body"))
    return get_text(get_object(body, "error"), "param") != "model"


class MissingEndpoints:
    """What was learned, by provider and address."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[tuple[str, str, str], float] = {}

    def substitute(self, target: Target, operation: str) -> str:
        """What can be asked in place of an operation; nothing where there is nothing."""
        other = SUBSTITUTES.get(operation, "")
        row, model = target.provider, target.model
        return other if other and row.endpoint(other, model) and not row.only_responses(model) else ""

    def known(self, target: Target, operation: str) -> bool:
        """Whether the provider is known to lack an operation."""
        return self._clock() < self._until.get(_key(target, operation), 0.0)

    def learn(self, target: Target, operation: str) -> None:
        self._until[_key(target, operation)] = self._clock() + REMEMBERED

    def forget(self, target: Target, operation: str) -> None:
        self._until.pop(_key(target, operation), None)


def _key(target: Target, operation: str) -> tuple[str, str, str]:
    return target.provider.name, target.provider.base_url, operation
