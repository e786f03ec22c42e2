"""When not to ask: a circuit breaker for each provider, and a budget of retries.

A breaker opens after failures in a row that are the provider's own, and lets a single request through once it has
cooled. The budget keeps retries from becoming the load that they wait for to pass. The clock is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

BLAMED = frozenset({"server", "overloaded", "timeout", "network", "truncated", "malformed"})
"""Kinds of failures that are the provider's own, or of the way to it."""


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a circuit opens, for how long, and how many retries there are: a share of the requests, and a reserve."""

    failures: int = 5
    cool: float = 30.0
    share: float = 0.2
    reserve: float = 10.0


class _Circuit:
    __slots__ = ("failed", "tokens", "trying", "until")

    def __init__(self, tokens: float) -> None:
        self.failed = 0
        self.until = 0.0  # when it may be tried again, while it is open
        self.trying = False
        self.tokens = tokens


class Breakers:
    """The circuits of all providers."""

    def __init__(self, clock: Callable[[], float], policy: Policy | None = None) -> None:
        self._clock = clock
        self._policy = policy or Policy()
        self._circuits: dict[str, _Circuit] = {}

    def _of(self, name: str) -> _Circuit:
        found = self._circuits.get(name)
        if found is None:
            found = self._circuits[name] = _Circuit(self._policy.reserve)
        return found

    def closed_for(self, name: str) -> float:
        """Seconds that a provider must not be asked for; 0 where it may be, and the asking is then counted."""
        circuit = self._of(name)
        if circuit.failed < self._policy.failures:
            return 0.0
        left = circuit.until - self._clock()
        if left > 0:
            return left
        if circuit.trying:
            return self._policy.cool
        circuit.trying = True  # one request finds out for all
        return 0.0

    def good(self, name: str) -> None:
        """It answered."""
        circuit = self._of(name)
        circuit.failed, circuit.trying = 0, False
        circuit.tokens = min(self._policy.reserve, circuit.tokens + self._policy.share)

    def bad(self, name: str, kind: str) -> None:
        """It failed; only what it is to blame for counts, and a no that is no failure proves that it is there."""
        circuit = self._of(name)
        circuit.trying = False
        if kind not in BLAMED:
            circuit.failed = 0
            return
        circuit.failed += 1
        if circuit.failed >= self._policy.failures:
            circuit.until = self._clock() + self._policy.cool

    def left(self, name: str) -> None:
        """A request that was called off tells nothing."""
        self._of(name).trying = False

    def spend(self, name: str) -> bool:
        """Take one retry out of the budget, if there is one."""
        circuit = self._of(name)
        if circuit.tokens < 1:
            return False
        circuit.tokens -= 1
        return True

    def state(self) -> dict[str, str]:
        """Which circuits are open, for those who look."""
        now, limit = self._clock(), self._policy.failures
        return {
            name: "closed" if one.failed < limit else "open" if one.until > now else "trying"
            for name, one in self._circuits.items()
        }
