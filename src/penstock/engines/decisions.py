"""Decision records: what was decided on the way to an answer, and why. On the result, in the log, and counted."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from penstock.redaction import redact

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

# route: whom a name means · operation: what is asked in place of what · engine: the one that is used, where it is not
# the one wished for · retry: the same again · fallback: the next provider, or its next endpoint · skip: a provider that
# is not asked · give-up: the end of trying · open: an answer began
What: TypeAlias = Literal["route", "operation", "engine", "retry", "fallback", "skip", "give-up", "open"]
_LOUD = frozenset({"engine", "retry", "fallback", "skip", "give-up"})
log = logging.getLogger("penstock.routing")


class Decision(msgspec.Struct, frozen=True, omit_defaults=True):
    """One decision. `code` is a word to count by, `why` a sentence to read."""

    what: What
    code: str
    why: str
    provider: str = ""
    model: str = ""
    engine: str = ""
    wait: float = 0.0


class Record(msgspec.Struct, omit_defaults=True):
    """All decisions of one request, in order. `tries` is how often somebody was asked."""

    asked: str
    decisions: list[Decision] = []
    tries: int = 0

    def waited(self) -> float:
        """Seconds of all waits before retries."""
        return sum(one.wait for one in self.decisions)

    def lines(self) -> list[str]:
        """One line for each."""
        return [f"{one.what}: {one.why}" for one in self.decisions]


class Recorder:
    """Writes decisions where they belong."""

    def __init__(self, counts: Counter[tuple[str, str, str]], report: Callable[[Decision], None] | None = None) -> None:
        self._counts = counts
        self._report = report

    def note(self, record: Record, decision: Decision) -> None:
        if decision.what in _LOUD:  # what quotes an error; the rest is made of names alone
            decision = msgspec.structs.replace(decision, why=redact(decision.why))
        record.decisions.append(decision)
        self._counts[decision.what, decision.code, decision.provider] += 1
        level = logging.INFO if decision.what in _LOUD else logging.DEBUG
        if log.isEnabledFor(level):
            log.log(level, "%s %s: %s: %s", decision.provider or "-", record.asked, decision.what, decision.why)
        if self._report is not None:
            self._report(decision)
