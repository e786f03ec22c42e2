"""The events of a turn, as few as say the same: more of one part in a row becomes one delta, so that a long answer
costs what its text does. Leans on nothing but the events.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from penstock import events as ev

if TYPE_CHECKING:
    from collections.abc import Sequence

FRESH = 256  # events that are kept as they came at most
MOST = 8 * 2**20  # characters of a turn; one that says more is not kept
_TEXTS = frozenset({ev.TextDelta, ev.ReasoningDelta, ev.RefusalDelta})


class Keeping:
    """A turn's events. `add` is on the way of every read, and costs next to nothing there."""

    __slots__ = ("_fresh", "_kept", "_size", "full")

    def __init__(self) -> None:
        self._fresh: list[ev.AnyEvent] = []
        self._kept: list[ev.AnyEvent] = []
        self._size = 0
        self.full = False  # it was too much, and is forgotten

    def add(self, batch: Sequence[ev.AnyEvent]) -> None:
        self._fresh += batch
        if len(self._fresh) > FRESH:
            self._squeeze()

    def has(self, kinds: frozenset[type]) -> bool:
        """Whether there is an event of these kinds."""
        return not (kinds.isdisjoint(map(type, self._fresh)) and kinds.isdisjoint(map(type, self._kept)))

    def events(self) -> list[ev.AnyEvent]:
        """All of them, in order; none where they were too many."""
        self._squeeze()
        return self._kept

    def _squeeze(self) -> None:
        fresh, self._fresh = self._fresh, []
        if self.full:
            return
        for (kind, _), run in groupby(fresh, _same):
            if kind in _TEXTS:
                self._join(list(run))
            else:
                self._kept += run
        if self._size > MOST:
            self.full, self._kept = True, []

    def _join(self, run: list[Any]) -> None:
        text = "".join([event.text for event in run])
        self._size += len(text)
        self._kept.append(type(run[0])(run[0].index, text))


def _same(event: ev.AnyEvent) -> tuple[type, int]:
    return type(event), getattr(event, "index", -1)
