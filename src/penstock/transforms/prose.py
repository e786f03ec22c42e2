"""Where sentences end in Markdown that comes in pieces. Knows nothing of events; leans on nothing.

A sentence ends where its mark is followed by white space, and at the end of a line. Code, table rows and the number of
a list item end none: whatever is put there would be read as code, or not be shown.
"""

from __future__ import annotations

import re

_CLOSERS = "\"'”’»)\\]*_"  # noqa: RUF001
_END = re.compile(f"(?<![.!?…])[.!?…]++[{_CLOSERS}]*+(?=\\s)|[。！？]++[”’」』）]*+")  # noqa: RUF001
_ENDED = re.compile(f"[.!?…。！？][{_CLOSERS}」』）]*$")  # noqa: RUF001
_RESTED = re.compile(f"(?:[.!?…][{_CLOSERS}]*+\\s|[。！？][”’」』）]*+)\\s*+$")  # noqa: RUF001
_NUMBER = re.compile(r"[\s>]*\d+\.")
_FENCE = ("```", "~~~")
_KEPT = 48


class Prose:
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
