"""The input of a call as it comes in pieces, and whether it is whole. Each piece is read once. Pure; no IO."""

from __future__ import annotations

import re

from penstock.jsontext import is_json

SHORT = 64  # characters of an input that is a number or a word, and is read as a whole
_SPACE = " \t\r\n"  # of JSON
_STEPS = {"{": 1, "[": 1, "}": -1, "]": -1}
_PLAIN = re.compile(r'[^"\[\]{}]*+')  # outside of strings, up to a mark
_QUOTED = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*', re.DOTALL)  # inside of a string, up to its end


class CallInput:
    """Pieces of JSON. `pieces` may be appended to from outside."""

    __slots__ = ("_depth", "_escape", "_quoted", "_read", "_whole", "pieces")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.clear()

    def clear(self) -> None:
        self.pieces.clear()
        self._read = 0  # pieces that were read
        self._depth = 0
        self._quoted = False  # inside of a string,
        self._escape = ""  # behind a backslash of it
        self._whole: bool | None = None  # once the outermost bracket is closed: whether all of it is JSON

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def is_whole(self) -> bool:
        """Whether what has come is JSON."""
        if not self._read and not self._begins_marked():
            return sum(map(len, self.pieces[:SHORT])) <= SHORT >= len(self.pieces) and is_json(self.text)
        unread = self._escape + "".join(self.pieces[self._read :])
        self._read, self._escape = len(self.pieces), ""
        at = 0
        while at < len(unread) and self._whole is not False:
            at = self._in_string(unread, at) if self._quoted else self._outside(unread, at)
        return bool(self._whole)

    def _begins_marked(self) -> bool:
        """Whether it begins as an object, a list or a string does."""
        first = next((piece for piece in self.pieces[:SHORT] if piece.strip(_SPACE)), "").lstrip(_SPACE)[:1]
        return first == '"' or first in _STEPS

    def _in_string(self, text: str, at: int) -> int:
        found = _QUOTED.match(text, at)
        at = found.end() if found is not None else at
        if text[at : at + 1] == '"':
            self._quoted = False
            if not self._depth:
                return self._end(text, at + 1)
        else:
            self._escape = text[at:]  # nothing, or a backslash that the next piece goes on from
        return at + 1

    def _outside(self, text: str, at: int) -> int:
        found = _PLAIN.match(text, at)
        stop = found.end() if found is not None else at
        mark = text[stop : stop + 1]
        if self._whole is not None:  # it was whole: no more than space may follow
            self._whole = self._whole and not mark and not text[at:stop].strip(_SPACE)
        elif mark == '"':
            self._quoted = True
        elif mark:
            self._depth += _STEPS[mark]
            if self._depth <= 0:
                return self._end(text, stop + 1)
        return stop + 1

    def _end(self, text: str, at: int) -> int:
        """The outermost value ends there: nothing but space may follow it."""
        self._whole = not text[at:].strip(_SPACE) and is_json(self.text)
        return len(text)
