"""Where sentences end in Markdown that comes in pieces. Knows nothing of events; leans on nothing.

A sentence ends where its mark is followed by white space, and at the end of a line. Code, table rows and the number of
a list item end none: whatever is put there would be read as code, or not be shown.
"""

from __future__ import annotations

import re

_CLOSERS = "\"'”’»)\\]*_"
_END = re.compile(f"[.!?…]+[{_CLOSERS}]*(?=\\s)|[。！？]+[”’」』）]*")  # noqa: RUF001
_RESTED = re.compile(f"(?:[.!?…][{_CLOSERS}]*\\s|[。！？][”’」』）]*\\s*)\\s*$")  # noqa: RUF001
_NUMBER = re.compile(r"[\s>]*\d+\.$")
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

    @property
    def rested(self) -> str:
        """What would follow something put in right now: a space after a sentence, a paragraph's end between lines.

        Empty: a sentence is under way, and something must wait.
        """
        if self._code or not self._begun:
            return ""
        if not self._head.strip():
            return "\n\n"
        return " " if _RESTED.search(self._tail) and not self._quoted else ""

    @property
    def spaced(self) -> bool:
        """Whether the text so far ends in white space, or is empty."""
        return not self._tail or self._tail[-1].isspace()

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
        fence = self._head.lstrip().startswith(_FENCE)
        free = not (self._code or fence or self._row) and self._begun
        self._code ^= fence
        return free

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
        text = self._tail + segment
        return [
            end.end() - known
            for end in _END.finditer(text)
            if end.end() >= known and self._may_end(segment[: end.end() - known])
        ]

    def _may_end(self, said: str) -> bool:
        line = self._head + said if len(self._head) < _KEPT else ""
        return (self._ticks + said.count("`")) % 2 == 0 and not _NUMBER.match(line)

    def _grow(self, segment: str) -> None:
        if len(self._head) < _KEPT:
            self._head = (self._head + segment)[:_KEPT]
        self._tail = (self._tail + segment)[-_KEPT:]
        self._ticks += segment.count("`")
        self._begun = self._begun or bool(segment.strip())
