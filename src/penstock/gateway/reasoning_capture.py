"""What of a turn's events the next request may need: all but the words of its texts, of which only the key is kept.

More of one part in a row becomes one delta. So a long answer takes no more memory than its thoughts do.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from penstock import events as ev
from penstock.messages.foreign_state import ciphertexts_of
from penstock.messages.state import Said

if TYPE_CHECKING:
    from collections.abc import Sequence

FRESH = 64  # events that are kept as they came at most
MOST = 8 * 2**20  # characters of a turn; one that says more is not kept
_TEXTS = frozenset({ev.TextDelta, ev.RefusalDelta})
_STARTS = frozenset({ev.TextStart, ev.RefusalStart})


class Keeping:
    """A turn's events. `add` is on the way of every read, and costs next to nothing there.

    `said` is what the texts say, of the first choice, in the order of its parts.
    """

    __slots__ = ("_fresh", "_kept", "_last", "_others", "_size", "full", "said")

    def __init__(self) -> None:
        self._fresh: list[ev.AnyEvent] = []
        self._kept: list[ev.AnyEvent] = []
        self._size = 0
        self._last = -1  # the text that was spoken last
        self._others: set[int] = set()  # texts of other choices
        self.full = False  # it was too much, or too mixed, and is forgotten
        self.said = Said()

    def add(self, batch: Sequence[ev.AnyEvent]) -> None:
        self._fresh += batch
        if len(self._fresh) > FRESH:
            self._squeeze()

    def has(self, kinds: frozenset[type]) -> bool:
        """Whether there is an event of these kinds."""
        return not (kinds.isdisjoint(map(type, self._fresh)) and kinds.isdisjoint(map(type, self._kept)))

    def events(self) -> list[ev.AnyEvent]:
        """All of them, in order; none where they were too many. Of a text there is the first letter."""
        self._squeeze()
        return self._kept

    def _squeeze(self) -> None:
        fresh, self._fresh = self._fresh, []
        if self.full:
            return
        for (kind, index), run in groupby(fresh, _same):
            events: list[Any] = list(run)
            if kind in _TEXTS:
                self._spoken(index, events)
            elif kind is ev.ReasoningDelta:
                self._join(events)
            else:
                self._kept += events
                self._others.update(event.index for event in events if kind in _STARTS and event.choice)
        if self._size > MOST or self.full:
            self.full, self._kept = True, []

    def _spoken(self, index: int, events: list[Any]) -> None:
        """More of a text. One that goes on after another has begun would have to be kept as it is: it is not."""
        if index in self._others:
            return
        if index > self._last:
            self._kept.append(type(events[0])(index, events[0].text[:1]))
            self._last = index
        self.full = self.full or index < self._last
        for event in events:
            self.said.add(event.text)

    def _join(self, run: list[Any]) -> None:
        text = "".join([event.text for event in run])
        self._size += len(text)
        self._kept.append(type(run[0])(run[0].index, text))


class SealedContent:
    """The encrypted content of an answer that is handed on as it is. A `Keeping` that keeps nothing else."""

    __slots__ = ("found",)

    def __init__(self) -> None:
        self.found: list[str] = []

    def add(self, batch: Sequence[ev.AnyEvent]) -> None:
        self.found += ciphertexts_of(batch)


def _same(event: ev.AnyEvent) -> tuple[type, int]:
    return type(event), getattr(event, "index", -1)
