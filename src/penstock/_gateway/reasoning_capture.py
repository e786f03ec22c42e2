"""Captures the events of a turn that the next request may need: all but text, of which only a hash is kept.

Consecutive deltas of one part become one delta, so a long answer takes no more memory than its reasoning.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from penstock import events as ev
from penstock._messages.foreign_state import ciphertexts_of
from penstock._messages.state import TextKey

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_BUFFERED = 64  # events that are buffered before they are compacted
MAX_CHARACTERS = 8 * 2**20  # of reasoning in a turn; a longer turn is not captured
_TEXT_DELTAS = frozenset({ev.TextDelta, ev.RefusalDelta})
_TEXT_STARTS = frozenset({ev.TextStart, ev.RefusalStart})


class ReasoningCapture:
    """The captured events of a turn. `add` is called for every read and must stay cheap.

    `text_key` hashes the texts of the first choice, in the order of its parts.
    """

    __slots__ = ("_buffered", "_events", "_last_text", "_other_choices", "_size", "full", "text_key")

    def __init__(self) -> None:
        self._buffered: list[ev.AnyEvent] = []
        self._events: list[ev.AnyEvent] = []
        self._size = 0
        self._last_text = -1  # index of the text part that began last
        self._other_choices: set[int] = set()  # indexes of text parts of other choices
        self.full: bool = False  # too long, or its texts are interleaved: nothing is captured
        self.text_key: TextKey = TextKey()

    def add(self, batch: Sequence[ev.AnyEvent]) -> None:
        self._buffered += batch
        if len(self._buffered) > MAX_BUFFERED:
            self._compact()

    def has(self, kinds: frozenset[type]) -> bool:
        """Return whether there is an event of these kinds."""
        return not (kinds.isdisjoint(map(type, self._buffered)) and kinds.isdisjoint(map(type, self._events)))

    def events(self) -> list[ev.AnyEvent]:
        """Return the events in order; none if the turn was too long. A text has only its first character."""
        self._compact()
        return self._events

    def _compact(self) -> None:
        buffered, self._buffered = self._buffered, []
        if self.full:
            return
        for (kind, index), run in groupby(buffered, _kind_and_index):
            events: list[Any] = list(run)
            if kind in _TEXT_DELTAS:
                self._hash_text(index, events)
            elif kind is ev.ReasoningDelta:
                text = "".join([event.text for event in events])
                self._size += len(text)
                self._events.append(ev.ReasoningDelta(index, text))
            else:
                self._events += events
                self._other_choices.update(event.index for event in events if kind in _TEXT_STARTS and event.choice)
        if self._size > MAX_CHARACTERS or self.full:
            self.full, self._events = True, []

    def _hash_text(self, index: int, events: list[Any]) -> None:
        """Hash more of a text. If an earlier text continues, the order of the hash is lost: the capture is dropped."""
        if index in self._other_choices:
            return
        if index > self._last_text:
            self._events.append(type(events[0])(index, events[0].text[:1]))
            self._last_text = index
        self.full = self.full or index < self._last_text
        for event in events:
            self.text_key.add(event.text)


class CiphertextCapture:
    """Captures only the encrypted content of an answer that is passed through unchanged."""

    __slots__ = ("found",)

    def __init__(self) -> None:
        self.found: list[str] = []

    def add(self, batch: Sequence[ev.AnyEvent]) -> None:
        self.found += ciphertexts_of(batch)


def _kind_and_index(event: ev.AnyEvent) -> tuple[type, int]:
    return type(event), getattr(event, "index", -1)
