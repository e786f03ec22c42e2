"""Which streamed part a later event repeats. All of a part is repeated by `*.done`, by the end of its content part, by
the end of its item and by the final snapshot. Leans on nothing.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SEARCHED = 8  # parts that are compared, at most, for each that is repeated


class Repeats:
    """How one event repeats the parts of one kind in an item: which part each of its places means.

    The place it names may differ from the one that the deltas named: gpt-oss behind Bedrock streams at
    `content_index` 1 what its finished item has at position 0. So a part with the same words is meant, even if it has
    another number. No two places mean the same part: equal texts are several if they are repeated several times.
    """

    __slots__ = ("_free", "_meant", "_read", "_taken")

    def __init__(self) -> None:
        self._meant: dict[int, int] = {}  # place in the event → place of the part
        self._taken: set[int] = set()
        self._free: dict[int, None] = {}  # places of parts that this event did not repeat yet, in order
        self._read = 0  # places that were looked at

    def claim(self, place: int, streamed: Sequence[int], is_alike: Callable[[int], bool]) -> None:
        """Note the part that a place means, if one fits. `streamed` only ever grows."""
        if place in self._meant:
            return
        self._free.update(dict.fromkeys(one for one in streamed[self._read :] if one not in self._taken))
        self._read = len(streamed)
        meant = place if place in self._free and is_alike(place) else self._search(is_alike)
        if meant is not None:
            self._take(place, meant)

    def find(self, place: int, streamed: Sequence[int], is_alike: Callable[[int], bool]) -> int:
        """The place of the part that is meant; one of a new part where none fits."""
        self.claim(place, streamed, is_alike)
        if place not in self._meant:
            self._take(place, -1 - len(streamed) if place in self._taken else place)
        return self._meant[place]

    def _take(self, place: int, meant: int) -> None:
        self._meant[place] = meant
        self._taken.add(meant)
        self._free.pop(meant, None)

    def _search(self, is_alike: Callable[[int], bool]) -> int | None:
        return next((one for one in islice(self._free, _SEARCHED) if is_alike(one)), None)


def repeats(said: str, whole: str) -> bool:
    """Whether one text is the other, or how it begins."""
    said, whole = said.strip(), whole.strip()
    return bool(said and whole) and (whole.startswith(said) or said.startswith(whole))


def equals(said: str, whole: str) -> bool:
    """Whether both texts are the same, but for space around them."""
    return said.strip() == whole.strip()
