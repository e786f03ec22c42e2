"""Decision records: what the router decided and why. They are on the result, in the log, and counted."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from penstock._redaction import redact

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

# route: the provider that a name resolves to · operation: another operation is used · engine: another engine than the
# configured one is used · retry: the same provider again · fallback: the next provider or endpoint · skip: the circuit
# breaker is open · give-up: no more attempts · open: a response began
DecisionKind: TypeAlias = Literal["route", "operation", "engine", "retry", "fallback", "skip", "give-up", "open"]
_INFO_KINDS = frozenset({"engine", "retry", "fallback", "skip", "give-up"})
log = logging.getLogger("penstock.routing")


class Decision(msgspec.Struct, frozen=True, omit_defaults=True):
    """One decision. `code` is for metrics, `why` is a sentence for people."""

    what: DecisionKind
    code: str
    why: str
    provider: str = ""
    model: str = ""
    engine: str = ""
    wait: float = 0.0


class DecisionLog(msgspec.Struct, omit_defaults=True):
    """All decisions of one request, in order. `tries` counts the attempts."""

    asked: str
    decisions: list[Decision] = []
    tries: int = 0

    def total_wait(self) -> float:
        """Returns the seconds of all waits before retries."""
        return sum(one.wait for one in self.decisions)

    def lines(self) -> list[str]:
        """Returns one line for each decision."""
        return [f"{one.what}: {one.why}" for one in self.decisions]


class DecisionRecorder:
    """Adds decisions to the log of a request, to the counters and to the log file."""

    def __init__(self, counts: Counter[tuple[str, str, str]], report: Callable[[Decision], None] | None = None) -> None:
        self._counts = counts
        self._report = report

    def add(self, record: DecisionLog, decision: Decision) -> None:
        if decision.what in _INFO_KINDS:  # these quote errors, which may hold secrets; the others hold names only
            decision = msgspec.structs.replace(decision, why=redact(decision.why))
        record.decisions.append(decision)
        self._counts[decision.what, decision.code, decision.provider] += 1
        level = logging.INFO if decision.what in _INFO_KINDS else logging.DEBUG
        if log.isEnabledFor(level):
            log.log(level, "%s %s: %s: %s", decision.provider or "-", record.asked, decision.what, decision.why)
        if self._report is not None:
            self._report(decision)
