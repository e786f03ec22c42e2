"""Where a citation belongs: Gemini counts UTF-8 bytes over all of an answer's text, we code points of one part."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.parts import Part

Place: TypeAlias = tuple[int | None, tuple[int, int] | None]  # `of` and `span` of a source
NOWHERE: Place = (None, None)
_DRIFT = 64  # recorded offsets are wrong by up to a dozen bytes: the words are looked for from a little before


def width(char: str) -> int:
    """The UTF-8 bytes of a character."""
    code = ord(char)
    return 1 if code < 0x80 else 2 if code < 0x800 else 3 if code < 0x10000 else 4  # noqa: PLR2004


class Answer:
    """All text of one choice, over the parts that it came in."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = [(part.index, part.so_far) for part in parts]
        self._text = "".join(text for _, text in self._parts)
        self._ends = None if self._text.isascii() else list(accumulate(map(width, self._text)))
        self._bytes = len(self._text) if self._ends is None else self._ends[-1]

    def place(self, start: int | None, end: int | None, words: str = "") -> Place:
        """The part and code points of a stretch of bytes. `words` are its text, which is believed over the numbers."""
        start = start or 0
        if end is None or not 0 <= start < end:
            return NOWHERE
        first, last = self._chars(start), self._chars(end)
        if words and self._text[first:last] != words:
            first = self._find(words, start, first)
            last = first + len(words)
        elif end > self._bytes:
            return NOWHERE
        return NOWHERE if first < 0 else self._in_part(first, last)

    def _chars(self, offset: int) -> int:
        return offset if self._ends is None else bisect_left(self._ends, offset + 1)

    def _find(self, words: str, start: int, near: int) -> int:
        if self._text.startswith(words, start):
            return start  # the numbers were code points
        at = self._text.find(words, max(0, near - _DRIFT))
        return at if at >= 0 else self._text.find(words)

    def _in_part(self, first: int, last: int) -> Place:
        """A stretch that runs on into the next part is cited in the one where it begins."""
        for index, text in self._parts:
            if first < len(text):
                last = min(last, len(text))
                return index, None if (first, last) == (0, len(text)) else (first, last)
            first, last = first - len(text), last - len(text)
        return NOWHERE
