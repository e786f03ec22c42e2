r"""Searches a text as it is after JSON escapes of letters, digits and signs of keys are decoded: `sk\u002dant…`.

Most encoders write these characters as they are, but a client may escape any. Linear in the length of the text.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from penstock._lazy_patterns import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_START = "\\u00"
_SLASHES = 15  # before `u`: a text may be JSON in a string of JSON
_ESCAPE = lazy_pattern(r"\\u00(2[BbDdEeFf]|3[0-9Dd]|4[1-9A-Fa-f]|5[0-9AaFf]|6[1-9A-Fa-f]|7[0-9Aa])")


def find_unescaped(text: str, find: Callable[[str], Iterable[tuple[int, int]]]) -> list[tuple[int, int]]:
    """Returns the positions in the text of what `find` finds in the decoded one; none if there are no such escapes."""
    if _START not in text:
        return []
    pieces: list[str] = []
    places: list[int] = []  # of the decoded characters, in the decoded text
    ends: list[int] = []  # of their escapes, in the text
    end = size = 0
    for found in _ESCAPE.finditer(text):
        before = text[max(end, found.start() - _SLASHES) : found.start()]
        start = found.start() - len(before) + len(before.rstrip("\\"))
        pieces += (text[end:start], chr(int(found[1], 16)))
        size += start - end
        end = found.end()
        places.append(size)
        ends.append(end)
        size += 1
    if not places:
        return []
    pieces.append(text[end:])

    def position(place: int) -> int:
        before = bisect_left(places, place) - 1
        return ends[before] + place - places[before] - 1 if before >= 0 else place

    return [(position(first), position(last)) for first, last in find("".join(pieces))]
