"""Circuit breakers, the retry budget, retry delays, missing endpoints, and which errors allow a retry or a fallback.

There is one circuit for each provider, model and credential. It opens after consecutive failures that are the
provider's fault, and lets a single request through after a while: after `cool` seconds if there is a fallback, else
after `first` seconds, doubled each time that request fails. The retry budget limits retries to a share of the requests,
so that retries do not overload a provider that recovers. Nothing here waits.

Many OpenAI-compatible servers have no `/responses`: `MissingEndpoints` remembers such servers.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from penstock._engines.emulation import UNSUPPORTED
from penstock._lenient_fields import as_object, get_object, get_text
from penstock._vendor_errors import HTTP, normalize_code

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engines.engine_interface import UpstreamRequest
    from penstock._providers.registry import Provider, Retry
    from penstock.errors import ProviderError

ALTERNATIVE_OPERATIONS: dict[str, str] = {"responses": "chat"}  # operation → the one to use if its endpoint is missing
MISSING_SECONDS = 3600.0  # seconds
_STATUSES = frozenset({404, 405})
# Error codes and types that add nothing to the status, unlike `model_not_found` and `previous_response_not_found`.
_BARE = frozenset({"", "notfound", "notfounderror", "methodnotallowed", "invalidrequesterror", "unknownurl"})
_MODEL = re.compile(r"(?i)\bmodels?\b")


def is_missing_endpoint(error: ProviderError) -> bool:
    """True if the server has no such endpoint, as opposed to no such model."""
    if error.status not in _STATUSES or normalize_code(error.code) not in _BARE or _MODEL.search(error.message):
        return False
    body = as_object(as_object((error.fault.extra or {}).get(HTTP)).get("body"))
    return get_text(get_object(body, "error"), "param") != "model"


class MissingEndpoints:
    """Endpoints that answered 404 or 405, by provider and URL. Forgotten after an hour: servers are upgraded."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[tuple[str, str, str], float] = {}

    def substitute(self, row: Provider, model: str, operation: str) -> str:
        """Returns the operation to use instead; empty if there is none."""
        other = ALTERNATIVE_OPERATIONS.get(operation, "")
        return other if other and row.endpoint(other, model) and not row.only_responses(model) else ""

    def known(self, row: Provider, operation: str) -> bool:
        """True if the provider is known to lack the operation."""
        return self._clock() < self._until.get((row.name, row.base_url, operation), 0.0)

    def learn(self, row: Provider, operation: str) -> None:
        self._until[row.name, row.base_url, operation] = self._clock() + MISSING_SECONDS

    def forget(self, row: Provider, operation: str) -> None:
        self._until.pop((row.name, row.base_url, operation), None)


PROVIDER_FAULTS = frozenset({"server", "overloaded", "timeout", "network", "truncated", "malformed"})
"""Kinds of failures that the provider or the network causes."""
# Kinds whose messages may be quoted: the others are penstock's, or may quote another client's answer.
_QUOTED = frozenset({"server", "overloaded"})
_QUOTE = 300  # characters
MAX_CIRCUITS = 1_000  # remembered at most: clients choose the names of models


class BreakerPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a circuit opens and for how long; how many retries: a share of the requests, and a reserve."""

    failures: int = 5
    cool: float = 30.0
    first: float = 1.0
    share: float = 0.2
    reserve: float = 10.0


class CircuitKey(NamedTuple):
    """Identifies a circuit. `credential` is the hash of a caller's own key; 0 is the configured key."""

    provider: str
    model: str = ""
    credential: int = 0

    @classmethod
    def of(cls, provider: str, model: str, key: str = "") -> CircuitKey:
        """Returns the circuit of a request. `key` is the caller's own key; only its hash is kept."""
        return cls(provider, model, hash(key) if key else 0)


class _Circuit(msgspec.Struct):
    """A circuit with failures, or whose retry budget is not full. Healthy circuits are not stored."""

    tokens: float
    failed: int = 0
    opened: int = 0  # how often in a row, without a success between
    opened_at: float = 0.0
    probing: bool = False  # the single request of an open circuit is under way
    last_message: str = ""  # the provider's last error message


class CircuitBreakers:
    """All circuits that had failures, at most `MAX_CIRCUITS`; the least recently used is dropped first."""

    def __init__(self, clock: Callable[[], float], policy: BreakerPolicy | None = None) -> None:
        self._clock = clock
        self._policy = policy or BreakerPolicy()
        self._circuits: OrderedDict[CircuitKey, _Circuit] = OrderedDict()

    def _get_or_create(self, key: CircuitKey) -> _Circuit:
        found = self._circuits.get(key)
        if found is None:
            found = self._circuits[key] = _Circuit(self._policy.reserve)
            if len(self._circuits) > MAX_CIRCUITS:
                self._circuits.popitem(last=False)
        else:
            self._circuits.move_to_end(key)
        return found

    def closed_for(self, key: CircuitKey, *, alternative: bool = False) -> float:
        """Returns the seconds until requests are allowed; 0 allows one, which then counts as the probe.

        `alternative`: there is a fallback.
        """
        circuit = self._circuits.get(key)
        if circuit is None or not circuit.opened:
            return 0.0
        period = self._period(circuit, alternative=alternative)
        left = circuit.opened_at + period - self._clock()
        if left > 0:
            return left
        if circuit.probing:
            return period
        circuit.probing = True
        return 0.0

    def last_message(self, key: CircuitKey) -> str:
        """Returns the provider's last error message, if any."""
        return self._circuits[key].last_message if key in self._circuits else ""

    def record_success(self, key: CircuitKey) -> None:
        """Closes the circuit and refills its retry budget."""
        circuit = self._circuits.get(key)
        if circuit is not None:
            tokens = circuit.tokens + self._policy.share
            if tokens >= self._policy.reserve:
                del self._circuits[key]
                return
            circuit.failed = circuit.opened = 0
            circuit.probing, circuit.tokens, circuit.last_message = False, tokens, ""

    def record_failure(self, key: CircuitKey, kind: str, message: str = "") -> None:
        """Counts a failure that the provider causes. Any other error shows that the provider answers."""
        if kind not in PROVIDER_FAULTS:
            if circuit := self._circuits.get(key):
                circuit.failed = circuit.opened = 0
                circuit.probing = False
            return
        circuit = self._get_or_create(key)
        circuit.failed += 1
        circuit.last_message = message[:_QUOTE] if kind in _QUOTED else ""
        if circuit.probing or (circuit.failed >= self._policy.failures and not circuit.opened):
            circuit.opened += 1
            circuit.opened_at = self._clock()
        circuit.probing = False

    def record_cancelled(self, key: CircuitKey) -> None:
        """Ends a cancelled request, which shows neither success nor failure."""
        if key in self._circuits:
            self._circuits[key].probing = False

    def take_retry(self, key: CircuitKey) -> bool:
        """Takes one retry out of the budget; False if it is empty."""
        circuit = self._get_or_create(key)
        if circuit.tokens < 1:
            return False
        circuit.tokens -= 1
        return True

    def open_count(self) -> int:
        """Returns the number of circuits that are not closed."""
        return sum(1 for circuit in self._circuits.values() if circuit.opened)

    def _period(self, circuit: _Circuit, *, alternative: bool) -> float:
        """Returns the seconds that the circuit stays open."""
        if alternative:
            return self._policy.cool
        return min(self._policy.cool, self._policy.first * 2.0 ** min(circuit.opened - 1, 30))


def describe_open_circuit(name: str, left: float, message: str) -> str:
    """Returns the error message for an open circuit, with the provider's last error."""
    quoted = f"; it said: {message}" if message else ""
    return f"{name} has failed too often: it is not asked for another {max(left, 0.1):.1f} s{quoted}"


FIRST_DELAY, MAX_DELAY = 0.5, 8.0  # seconds; a provider's retry-after may be longer
TRANSIENT_KINDS = frozenset({"rate-limit", "overloaded", "server", "timeout", "network", "truncated", "malformed"})
"""Kinds that a retry may solve."""
PERMANENT_KINDS = frozenset({"auth", "permission", "quota", "not-found", "too-large", "filter", "cancelled", "grammar"})
"""Kinds that a retry does not solve, whatever the status."""
FALLBACK_KINDS = TRANSIENT_KINDS | {"auth", "permission", "quota", "not-found", "other"}
"""Kinds that another provider may not have. An invalid request is invalid everywhere."""


class RetryWait(msgspec.Struct, frozen=True):
    """A pause before a retry: how long, after which kind of error, and the provider's title."""

    seconds: float
    kind: str
    provider: str


class RouteObserver(Protocol):
    """Is told what the router does for a turn."""

    def request_built(self, upstream: UpstreamRequest) -> None:
        """Called before each attempt. The request is not signed yet: headers may be added."""
        ...

    async def retry_waits(self, wait: RetryWait) -> None:
        """Called before a wait."""
        ...


def is_transient(error: ProviderError, policy: Retry) -> bool:
    """True if a retry may succeed."""
    if error.kind in PERMANENT_KINDS:
        return False
    return error.kind in TRANSIENT_KINDS or (error.status is not None and error.status in policy.statuses)


def may_fall_back(error: ProviderError) -> bool:
    """True if another provider may succeed."""
    return error.kind in FALLBACK_KINDS or error.code == UNSUPPORTED


def compute_retry_delay(error: ProviderError, tries: int, policy: Retry, chance: Callable[[], float]) -> float | None:
    """Returns the seconds to wait before the next attempt; None if the provider asks for longer than the policy allows.

    The provider's retry-after plus a little jitter; else exponential backoff with jitter in its upper half.
    """
    if error.retry_after is not None:
        if error.retry_after > policy.limit:
            return None
        return error.retry_after + chance() * min(0.25, 0.1 + error.retry_after / 10)
    full: float = min(MAX_DELAY, FIRST_DELAY * 2 ** (tries - 1))
    return full * (0.5 + chance() / 2)
