"""The web addresses that a text gives. Each of many sources is looked up without a search of the text. Pure; no IO."""

from __future__ import annotations

import re
from zlib import crc32

LONGEST = 2048  # characters of an address that are looked at
_NESTED = 4  # addresses inside an address that are looked at
_START = re.compile(r"https?://", re.IGNORECASE)
_MORE = re.compile(r"[\w/%#?&=~-]*+")  # what continues an address; before anything else it may end


class GivenAddresses:
    """Fed a text piece by piece. Addresses in whole words are known by length and checksum; the last word, which may go
    on, is searched each time.
    """

    def __init__(self) -> None:
        self._pieces: list[str] = []  # not looked at yet
        self._tail = ""  # the last word so far
        self._known: set[tuple[int, int]] = set()

    def add(self, text: str) -> None:
        self._pieces.append(text)

    def has(self, url: str) -> bool:
        """Whether the text so far gives that very address, and not only one that begins like it."""
        if self._pieces:
            self._look()
        return (len(url), _checksum(url)) in self._known or _mentions(self._tail, url)

    def _look(self) -> None:
        text = self._tail + "".join(self._pieces)
        self._pieces.clear()
        last = "" if text[-1:].isspace() else "".join(text.rsplit(maxsplit=1)[-1:])
        self._tail = last[-2 * LONGEST :]  # so long that an address that begins before it ends inside of it
        self._known |= addresses(text, len(text) - len(self._tail))


def _mentions(text: str, url: str) -> bool:
    at = text.find(url)
    while at >= 0:
        after = at + len(url)
        if _end(text, after, len(text)) == after:
            return True
        at = text.find(url, at + 1)
    return False


def addresses(text: str, stop: int) -> set[tuple[int, int]]:
    """The length and checksum of every address that begins before a place. One with a dot may also end before it."""
    made: set[tuple[int, int]] = set()
    end = nested = 0
    for found in _START.finditer(text, 0, stop):
        start = found.start()
        nested = nested + 1 if start < end else 0
        if nested <= _NESTED:
            end = max(end, _add_beginning_at(start, text, made))
    return made


def _add_beginning_at(start: int, text: str, made: set[tuple[int, int]]) -> int:
    """Add the addresses that begin there, and give the end of the longest."""
    limit = min(start + LONGEST, len(text))
    at, checksum = start, 0
    while at < limit:
        stop = _end(text, at, limit)
        checksum = _checksum(text[at:stop], checksum)
        made.add((stop - start, checksum))
        at = stop
        if at < limit:
            if text[at].isspace():
                break
            checksum = _checksum(text[at], checksum)
            at += 1
    return at


def _end(text: str, at: int, limit: int) -> int:
    found = _MORE.match(text, at, limit)
    return found.end() if found is not None else at


def _checksum(text: str, before: int = 0) -> int:
    return crc32(text.encode("utf-8", "replace"), before)
