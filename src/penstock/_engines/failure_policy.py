"""Circuit breakers, the retry budget, retry delays, missing endpoints, and which errors allow a retry or a fallback.

There is one circuit for each provider, model and credential. It opens after consecutive failures that are the
provider's fault, and lets a single request through after a while: after `cool` seconds if there is a fallback, else
after `first` seconds, doubled each time that request fails. The retry budget limits retries to a share of the requests,
so that retries do not overload a provider that recovers. Nothing here waits. `TargetPublisher` tells other processes of
open circuits; theirs are adopted until a request of this process succeeds.

Many OpenAI-compatible servers have no `/responses`: `MissingEndpoints` remembers such servers.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from penstock._engines.emulation import UNSUPPORTED
from penstock._lazy_patterns import lazy_pattern
from penstock._lenient_fields import as_object, get_object, get_text
from penstock._vendor_errors import HTTP, normalize_code
from penstock.errors import ProviderError, provider_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock._engines.engine_interface import DecisionLog, UpstreamRequest
    from penstock._providers.registry import Provider, Retry

ALTERNATIVE_OPERATIONS: dict[str, str] = {"responses": "chat"}  # operation → the one to use if its endpoint is missing
MISSING_SECONDS = 3600.0  # seconds
_STATUSES = frozenset({404, 405})
# Error codes and types that add nothing to the status, unlike `model_not_found` and `previous_response_not_found`.
_BARE = frozenset({"", "notfound", "notfounderror", "methodnotallowed", "invalidrequesterror", "unknownurl"})
_MODEL = lazy_pattern(r"(?i)\bmodels?\b")


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
_MAX_SUMMARY = 2_000  # characters of an error about several targets
SILENT_SECONDS = 60.0  # that others hear of an open circuit beyond its time, if no request tries it
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


class SharedCircuit(NamedTuple):
    """A circuit that is open in another process. `streak` identifies openings without a success between."""

    streak: str
    opened: int  # how often in this streak
    age: float  # seconds since it opened last
    left: float  # seconds until the other process counts as silent


class TargetPublisher(Protocol):
    """Tells other processes about the targets of the configured keys. All methods return at once."""

    def publish_cool_down(self, key: CircuitKey, seconds: float, why: str, *, stated: bool) -> None:
        """Tells that a target is avoided for so many seconds. `stated`: it refused and gave the time."""
        ...

    def publish_circuit(self, key: CircuitKey, streak: int, opened: int, seconds: float) -> None:
        """Tells that a circuit has opened. The notice ends after so many seconds."""
        ...

    def withdraw_circuit(self, key: CircuitKey) -> None:
        """Tells that a circuit has closed."""
        ...


class _Circuit(msgspec.Struct):
    """A circuit with failures, or whose retry budget is not full. Healthy circuits are not stored."""

    tokens: float
    failed: int = 0
    opened: int = 0  # how often in a row, without a success between
    opened_at: float = 0.0
    probing: bool = False  # the single request of an open circuit is under way
    last_message: str = ""  # the provider's last error message
    streak: int = 0  # the number of the openings since the last success
    adopted: str = ""  # the streak of another process, if this process has seen no failure of its own
    adopted_until: float = 0.0  # until then the other process says so


class CircuitBreakers:
    """All circuits that had failures, at most `MAX_CIRCUITS`; the least recently used is dropped first."""

    def __init__(self, clock: Callable[[], float], policy: BreakerPolicy | None = None) -> None:
        self._clock = clock
        self._policy = policy or BreakerPolicy()
        self.shared: TargetPublisher | None = None
        self._circuits: OrderedDict[CircuitKey, _Circuit] = OrderedDict()
        self._streaks = 0
        self._others: Mapping[CircuitKey, Sequence[SharedCircuit]] = {}
        self._refuted: dict[CircuitKey, frozenset[str]] = {}  # streaks of others in spite of which a request succeeded

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

    def seconds_left(self, key: CircuitKey) -> float:
        """Returns as `closed_for` where there is a fallback, but allows no request."""
        circuit = self._circuits.get(key)
        if circuit is None or not circuit.opened:
            return 0.0
        left = circuit.opened_at + self._policy.cool - self._clock()
        return self._policy.cool if left <= 0 and circuit.probing else max(0.0, left)

    def last_message(self, key: CircuitKey) -> str:
        """Returns the provider's last error message, if any."""
        return self._circuits[key].last_message if key in self._circuits else ""

    def record_success(self, key: CircuitKey) -> None:
        """Closes the circuit and refills its retry budget."""
        circuit = self._circuits.get(key)
        if circuit is not None:
            self._note_closed(key, circuit)
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
                self._note_closed(key, circuit)
                circuit.failed = circuit.opened = 0
                circuit.probing = False
            return
        circuit = self._get_or_create(key)
        circuit.failed += 1
        circuit.last_message = message[:_QUOTE] if kind in _QUOTED else ""
        if circuit.probing or (circuit.failed >= self._policy.failures and not circuit.opened):
            self._open(key, circuit)
        circuit.probing = False

    def _open(self, key: CircuitKey, circuit: _Circuit) -> None:
        if not circuit.opened or circuit.adopted:
            self._streaks += 1
            circuit.streak, circuit.adopted = self._streaks, ""
        circuit.opened += 1
        circuit.opened_at = self._clock()
        if self.shared is not None and not key.credential:
            self.shared.publish_circuit(key, circuit.streak, circuit.opened, self._policy.cool + SILENT_SECONDS)

    def _note_closed(self, key: CircuitKey, circuit: _Circuit) -> None:
        """Tells the others that a circuit closes. What others have opened stays open for them, but not here."""
        if key in self._others:
            self._refuted[key] = frozenset(one.streak for one in self._others[key])
        if circuit.adopted:
            circuit.adopted = ""
        elif circuit.opened and self.shared is not None and not key.credential:
            self.shared.withdraw_circuit(key)

    def adopt(self, others: Mapping[CircuitKey, Sequence[SharedCircuit]]) -> None:
        """Opens the circuits that other processes have opened, and closes those that they have closed.

        A circuit that failures of this process opened stays as it is.
        """
        now, self._others = self._clock(), others
        self._refuted = {key: streaks for key, streaks in self._refuted.items() if key in others}
        for key, circuit in self._circuits.items():
            published = {one.streak for one in others.get(key, ())}
            if circuit.adopted and circuit.adopted not in published and now < circuit.adopted_until:
                circuit.failed = circuit.opened = 0
                circuit.probing, circuit.adopted = False, ""
        for key, found in others.items():
            refuted = self._refuted.get(key, frozenset())
            latest = min((one for one in found if one.streak not in refuted), key=lambda one: one.age, default=None)
            if latest is not None:
                self._adopt_circuit(self._get_or_create(key), latest, now)

    def _adopt_circuit(self, circuit: _Circuit, other: SharedCircuit, now: float) -> None:
        is_own = circuit.opened and not circuit.adopted
        if is_own or (circuit.adopted == other.streak and circuit.opened >= other.opened):
            return
        circuit.opened, circuit.opened_at = other.opened, now - other.age
        circuit.adopted, circuit.adopted_until = other.streak, now + other.left

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

    def route_begins(self, record: DecisionLog) -> None:
        """Called first. The router adds to the record, also if no provider answers."""
        ...

    def request_built(self, upstream: UpstreamRequest) -> None:
        """Called before each attempt. The request is not signed yet: headers may be added."""
        ...

    async def retry_waits(self, wait: RetryWait) -> None:
        """Called before a wait."""
        ...

    async def retry_begins(self, record: DecisionLog) -> None:
        """Called before each attempt but the first. May raise an error that ends the turn."""
        ...


def is_transient(error: ProviderError, policy: Retry) -> bool:
    """True if a retry may succeed."""
    if error.kind in PERMANENT_KINDS:
        return False
    return error.kind in TRANSIENT_KINDS or (error.status is not None and error.status in policy.statuses)


UNSURE_KINDS = frozenset({"cancelled", "timeout", "network", "truncated", "malformed"})
"""Kinds of failures after which a provider may have answered, and charged for it."""


def may_be_charged(error: ProviderError) -> bool:
    """True if the provider may have answered, although nothing of the answer arrived."""
    return error.reached and error.kind in UNSURE_KINDS


def may_fall_back(error: ProviderError) -> bool:
    """True if another provider may succeed."""
    return error.kind in FALLBACK_KINDS or error.code == UNSUPPORTED


# Of several failed targets, the error of the kind that stands first is raised: what passes by itself comes first.
_CLEAREST = "rate-limit overloaded timeout server network truncated malformed quota auth permission not-found".split()


def summarize_failures(name: str, errors: Sequence[ProviderError], skipped: Sequence[str]) -> ProviderError:
    """Returns one error for an alias none of whose targets answered. `skipped`: why others were not asked."""

    def rank(error: ProviderError) -> int:
        return _CLEAREST.index(error.kind) if error.kind in _CLEAREST else len(_CLEAREST)

    clearest = min(errors, key=rank)
    waits = [error.retry_after for error in errors if error.retry_after is not None]
    reasons = "; ".join(dict.fromkeys([*map(str, errors), *skipped]))
    fault = replace(
        clearest.fault,
        message=f"no target of {name} answered: {reasons}"[:_MAX_SUMMARY],
        retry_after=min(waits, default=None),
        extra=None,  # the vendor's body tells of one target alone
    )
    *earlier, last = errors
    return provider_error(
        fault, provider=clearest.provider, model=clearest.model, headers=clearest.headers, attempts=[*earlier, last]
    )


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
