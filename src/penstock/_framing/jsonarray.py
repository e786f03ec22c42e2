"""A JSON array that arrives bit by bit (Gemini without `alt=sse`): each element is a frame as soon as it is whole.

Leans on `re` and `find` to jump from bracket to bracket. Does not check that the elements are valid JSON: it follows
brackets and strings, and what makes no sense is given as a frame for the decoder to report.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias, cast

from penstock._framing.frame import BOM, LIMIT, DeferredFailure, Frame, expand_frames
from penstock.errors import FrameTooLarge

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# What can be skipped inside an element and between elements: anything but brackets (and commas), and strings without
# escapes. They match anywhere, if only nothing; the count bounds the memory that a repeated group takes.
_Skip: TypeAlias = "Callable[[bytearray, int], re.Match[bytes]]"
_skip_inside = cast("_Skip", re.compile(rb'[^"\[\]{}]*+(?:"[^"\\]*+"[^"\[\]{}]*+){0,99}').match)
_skip_between = cast("_Skip", re.compile(rb'[^"\[\]{},]*+(?:"[^"\\]*+"[^"\[\]{},]*+){0,99}').match)
_skip_blank = cast("_Skip", re.compile(rb"[ \t\r\n%b]*+" % BOM).match)  # no value begins with a byte of the mark

_QUOTE, _BACKSLASH, _COMMA = b'"\\,'
_OPEN_ARRAY, _OPEN_OBJECT, _CLOSE_ARRAY, _CLOSE_OBJECT = b"[{]}"


class JsonArrayParser(DeferredFailure):
    """Chunks to frames without names. An element cut off by the end of the body still counts.

    A body that is one object instead of an array (an error, say) is one frame.
    """

    __slots__ = ("_at", "_base", "_depth", "_limit", "_quoted", "_start", "_text")

    def __init__(self, *, limit: int = LIMIT) -> None:
        super().__init__()
        self._limit = limit
        self._text = bytearray()
        self._start = 0  # where the element begins in the text
        self._at = 0  # how far the text has been read
        self._depth = 0  # of the brackets open there
        self._base = 0  # the depth of an element: 1 in the array, 0 outside it
        self._quoted = False  # whether a string is open there

    def feed(self, chunks: Sequence[bytes], /) -> list[Frame]:
        if self._late is not None:
            raise self._late
        self._text += b"".join(chunks)
        frames: list[Frame] = []
        try:
            self._scan(frames)
        except FrameTooLarge as error:
            return self._fail(frames, error)
        del self._text[: self._start]
        self._at -= self._start
        self._start = 0
        return frames

    def finish(self) -> list[Frame]:
        if self._late is not None:
            raise self._late
        frames: list[Frame] = []
        self._give(frames, len(self._text))
        return frames

    def _scan(self, frames: list[Frame]) -> None:
        end = len(self._text)
        while self._at < end:
            if self._quoted:
                self._read_string()
            elif self._depth > self._base:
                self._read_inside(frames)
            else:
                self._read_between(frames)
        self._check(end)

    def _read_string(self) -> None:
        """Go to the quote that ends the string: the first one not behind an odd number of backslashes."""
        text = self._text
        quote = text.find(b'"', self._at)
        if quote < 0:
            self._at = len(text)
            return
        first = quote
        while text[first - 1] == _BACKSLASH:
            first -= 1
        self._quoted = (quote - first) % 2 == 1
        self._at = quote + 1

    def _read_inside(self, frames: list[Frame]) -> None:
        """Go from bracket to bracket until the element ends, a string has to be followed, or the text ends."""
        text, at, depth, base = self._text, self._at, self._depth, self._base
        end = len(text)
        while (at := _skip_inside(text, at).end()) < end:
            char = text[at]
            at += 1
            if char in (_OPEN_OBJECT, _OPEN_ARRAY):
                depth += 1
            elif char in (_CLOSE_OBJECT, _CLOSE_ARRAY):
                depth -= 1
                if depth == base:
                    self._give(frames, at)
                    break
            elif char == _QUOTE:
                self._quoted = True
                break
        self._at, self._depth = at, depth

    def _read_between(self, frames: list[Frame]) -> None:
        """Go to the next character that begins or ends something."""
        text = self._text
        if self._start == self._at:
            self._start = self._at = _skip_blank(text, self._at).end()
        at = _skip_between(text, self._at).end()
        self._at = at + 1
        if at == len(text):
            self._at = at
        elif text[at] == _QUOTE:
            self._quoted = True
        elif text[at] == _COMMA:
            self._give(frames, at, skip=1)
        elif text[at] == _CLOSE_ARRAY and self._base:
            self._give(frames, at, skip=1)
            self._base = self._depth = 0
        elif text[at] == _OPEN_ARRAY and not self._base:
            self._give(frames, at, skip=1)
            self._base = self._depth = 1
        elif text[at] in (_OPEN_OBJECT, _OPEN_ARRAY):
            self._depth += 1

    def _give(self, frames: list[Frame], end: int, skip: int = 0) -> None:
        """Give the element that ends here, if there is any, and begin another after what is to be skipped."""
        self._check(end)
        element = bytes(self._text[self._start : end]).rstrip()
        if element:
            frames.append((b"", element))
        self._start = end + skip

    def _check(self, end: int) -> None:
        if end - self._start > self._limit:
            raise FrameTooLarge(end - self._start, self._limit)


class JsonArrayWriter:
    """Frames to chunks: `[` before the first element, `,` between them, `]` at the end. Names have no place in it."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next = b"["  # what the next element is preceded by

    def feed(self, frames: Sequence[Frame], /) -> list[bytes]:
        frames = expand_frames(frames)
        if not frames:
            return []
        text = self._next + b",\n".join([data for _, data in frames])
        self._next = b",\n"
        return [text]

    def finish(self) -> list[bytes]:
        return [b"[]\n" if self._next == b"[" else b"]\n"]
