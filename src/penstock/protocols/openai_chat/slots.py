"""Where a part goes in a stream that has no parts: its choice, its number among the calls, its place in the text."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock import events as ev


class Slot:
    """An open part. `call` is a call's number once it is announced; `cited` waits for the end of a text."""

    __slots__ = (
        "before",
        "call",
        "choice",
        "cited",
        "done",
        "head",
        "kind",
        "media",
        "number",
        "pieces",
        "size",
        "state",
        "waiting",
    )

    def __init__(self, kind: type[ev.Event], choice: int, waiting: ev.CallStart | None = None, media: str = "") -> None:
        self.kind = kind
        self.choice = choice
        self.call = -1
        self.waiting = waiting
        self.media = media
        self.pieces: list[str] = []
        self.size = 0
        self.number = 0  # of a thought among the thoughts
        self.state: dict[str, Any] = {}  # the field for state that was announced with a call; the id of a thought
        self.before = 0  # characters of the texts of its choice that had ended when it said its first words
        self.done = False
        self.cited: list[ev.Source] = []
        self.head: dict[str, Any] | None = None  # of a detail of reasoning, that each of its words is said with

    def grow(self, text: str) -> None:
        """More of a text was said."""
        self.size += len(text)


class Texts:
    """The texts of a turn, which readers see as one: what a citation of one of them spans there."""

    def __init__(self) -> None:
        self._slots: dict[int, Slot] = {}
        self._first: dict[int, Slot] = {}  # by choice
        self._sizes: Counter[int] = Counter()  # by choice: characters of texts that have ended

    def add(self, index: int, slot: Slot) -> None:
        self._slots[index] = slot
        self._first.setdefault(slot.choice, slot)

    def begin(self, slot: Slot) -> None:
        """A text says its first words."""
        slot.before = self._sizes[slot.choice]

    def end(self, slot: Slot) -> None:
        """A text (or a refusal, which says nothing here) is whole."""
        slot.done = True
        self._sizes[slot.choice] += slot.size

    def find(self, index: int | None) -> Slot | None:
        return None if index is None else self._slots.get(index)

    def first(self, slot: Slot) -> bool:
        """Whether no text of its choice came before."""
        return self._first[slot.choice] is slot

    def span(self, source: ev.Source) -> tuple[int, int]:
        """Nothing where it belongs to no text."""
        slot = self.find(source.of)
        if slot is None:
            return source.span or (0, 0)
        first, last = source.span or (0, slot.size)
        return slot.before + first, slot.before + last


def unsaid(details: list[dict[str, Any]], head: dict[str, Any]) -> list[dict[str, Any]]:
    """What details hold besides the words that were streamed: signatures, encrypted data."""
    rest = [{key: value for key, value in one.items() if key not in ("text", "summary")} for one in details]
    return [one for one in rest if not one.items() <= head.items()]
