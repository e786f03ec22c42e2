"""Where sentences end in Markdown that comes in pieces. Knows nothing of events; leans on nothing.

A sentence ends where its mark is followed by white space, and at the end of a line. Code, table rows and the number of
a list item end none: whatever is put there would be read as code, or not be shown.
"""

from __future__ import annotations

import re
from zlib import crc32

_CLOSERS = "\"'”’»)\\]*_"  # noqa: RUF001
_END = re.compile(f"(?<![.!?…])[.!?…]++[{_CLOSERS}]*+(?=\\s)|[。！？]++[”’」』）]*+")  # noqa: RUF001
_ENDED = re.compile(f"[.!?…。！？][{_CLOSERS}」』）]*$")  # noqa: RUF001
_RESTED = re.compile(f"(?:[.!?…][{_CLOSERS}]*+\\s|[。！？][”’」』）]*+)\\s*+$")  # noqa: RUF001
_NUMBER = re.compile(r"[\s>]*\d+\.")
_FENCE = ("```", "~~~")
_KEPT = 48


class SentenceFinder:
    """Reads a text on and tells where, in the piece just read, a sentence or a line ended."""

    def __init__(self) -> None:
        self._code = False  # inside a fence
        self._head = ""  # the beginning of the line, which tells what it is
        self._tail = ""  # the end of what was read of the line
        self._ticks = 0
        self._begun = False
        self._table = False  # the line before was a row: the next one would be taken for another

    @property
    def rested(self) -> str:
        """What would follow something put in right now: a space after a sentence, a paragraph's end between lines.

        Empty: a sentence is under way, and something must wait.
        """
        if self._code or not self._begun:
            return ""
        if not self._head.strip():
            return "" if self._table else "\n\n"
        return " " if _RESTED.search(self._tail) and not self._quoted else ""

    @property
    def ended(self) -> bool:
        """Whether the text so far ends with the mark of a sentence."""
        return not self._code and not self._quoted and bool(_ENDED.search(self._tail))

    @property
    def lead(self) -> str:
        """What must come first if something is put in right now, come what may."""
        if self._code or self._row or self._is_fence or (self._table and not self._head):
            return "\n\n"
        return "" if not self._tail or self._tail[-1].isspace() else " "

    def read(self, piece: str) -> list[int]:
        """The places in the piece where something may be put in, in order."""
        cuts: list[int] = []
        start = 0
        for number, segment in enumerate(piece.split("\n")):
            if number:
                if self._line_end():
                    cuts.append(start - 1)
                self._head = self._tail = ""
                self._ticks = 0
            cuts.extend([start + cut for cut in self._sentence_ends(segment)])
            self._grow(segment)
            start += len(segment) + 1
        return cuts

    def _line_end(self) -> bool:
        """Close the line. True if it may be added to; that of a fence must not."""
        free = bool(self._head.strip()) and not (self._code or self._is_fence or self._row)
        self._code ^= self._is_fence
        self._table = self._row
        return free

    @property
    def _is_fence(self) -> bool:
        return self._head.lstrip().startswith(_FENCE)

    @property
    def _row(self) -> bool:
        return self._head.lstrip().startswith("|")

    @property
    def _quoted(self) -> bool:
        """Inside a span of inline code."""
        return self._ticks % 2 == 1

    def _sentence_ends(self, segment: str) -> list[int]:
        if self._code or (self._head + segment).lstrip().startswith(("|", *_FENCE)):
            return []
        known = len(self._tail)
        ends: list[int] = []
        number, ticks, counted = self._number_end(segment), self._ticks, 0
        for mark in _END.finditer(self._tail + segment):
            end = mark.end() - known
            if end < 0:
                continue
            ticks += segment.count("`", counted, end)
            counted = end
            if ticks % 2 == 0 and end != number:
                ends.append(end)
        return ends

    def _number_end(self, segment: str) -> int:
        """Where the number of a list item ends in the segment; -1 if the line does not begin with one."""
        number = _NUMBER.match(self._head + segment) if len(self._head) < _KEPT else None
        return -1 if number is None else number.end() - len(self._head)

    def _grow(self, segment: str) -> None:
        if len(self._head) < _KEPT:
            self._head = (self._head + segment)[:_KEPT]
        self._tail = (self._tail + segment)[-_KEPT:]
        self._ticks += segment.count("`")
        self._begun = self._begun or bool(segment.strip())


LONGEST = 2048  # characters of an address that are looked at
_NESTED = 4  # addresses inside an address that are looked at
_START = re.compile(r"https?://", re.IGNORECASE)
_MORE = re.compile(r"[\w/%#?&=~-]*+")  # what continues an address; before anything else it may end


class AddressIndex:
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
        self._known |= find_addresses(text, len(text) - len(self._tail))


def _mentions(text: str, url: str) -> bool:
    at = text.find(url)
    while at >= 0:
        after = at + len(url)
        if _end(text, after, len(text)) == after:
            return True
        at = text.find(url, at + 1)
    return False


def find_addresses(text: str, stop: int) -> set[tuple[int, int]]:
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
