"""When not to ask: circuit breakers, and a budget of retries. One circuit for each provider, model and credential.

A circuit opens after failures in a row that are the provider's own, and lets a single request through once it has
cooled. Where somebody else can be asked it cools for `cool` seconds at once. Where nobody else can, it begins with
`first` seconds and doubles them each time the single request fails. The budget keeps retries from becoming the load
that they wait for to pass. The clock is given.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

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
