"""Newline-delimited JSON and JSON arrays.

NDJSON: each line is a frame; a body that is one JSON document on many lines is one frame. Only the first line is
checked, because the decoder checks the rest. JSON array (Gemini without `alt=sse`): each element is a frame as soon as
it is complete. The parser follows brackets and strings and does not check that elements are valid JSON.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec

from penstock._framing.base import BOM, LIMIT, BaseParser, Frame, FrameRun, StatelessWriter, expand_frames
from penstock.errors import FrameTooLarge

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LF, _CR = b"\n\r"  # as numbers, which are searched faster
_validate = msgspec.json.Decoder(msgspec.Raw).decode


def _is_json(line: bytes) -> bool:
    try:
        _validate(line)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


class NdjsonParser(BaseParser):
    r"""Chunks to frames without names. Blank lines are skipped; a last line without its newline counts.

    If the first line is not JSON on its own, the body is held: it may be a document over several lines (for example an
    error body) or no JSON, and is returned as one frame at the end. It is released, line by line, once a later line
    begins with `{` and is JSON by itself: only the first lines were damaged. Not for a body that begins with `[`.

    Examples:
        >>> parser = NdjsonParser()
        >>> parser.feed([b'{"a":1}\n{"b"'])
        [(b'', b'{"a":1}')]
        >>> parser.feed([b":2}"]) + parser.finish()
        [(b'', b'{"b":2}')]
    """

    __slots__ = ("_held", "_held_size", "_lines", "_tail")

    def __init__(self, *, limit: int = LIMIT) -> None:
        super().__init__(limit=limit)
        self._tail = bytearray()  # the beginning of a line
        self._lines = False  # whether the body is known to be one value a line
        self._held: list[bytes] = []  # the lines so far, until that is known
        self._held_size = 0

    def feed(self, chunks: Sequence[bytes], /) -> list[Frame]:
        if self._late is not None:
            raise self._late
        text = b"".join(chunks)
        tail = self._tail
        end = text.rfind(b"\n") + 1
        frames: list[Frame] = []
        if end:
            whole = b"".join((tail, text[:end]))
            tail[:] = text[end:]
            lines = whole.split(b"\n")
            lines.pop()  # what follows the last newline: nothing
            frames = self._read_lines(lines) if len(whole) <= self._limit else self._read_bounded(lines)
        else:
            tail += text
        if len(tail) > self._limit and self._late is None:
            return self._fail(frames, FrameTooLarge(len(tail), self._limit))
        return frames

    def finish(self) -> list[Frame]:
        if self._late is not None:
            raise self._late
        frames = self._read_lines([bytes(self._tail)])
        body = b"\n".join(self._held).strip()
        self._tail.clear()
        self._held.clear()
        if not body:
            return frames
        if len(body) > self._limit:
            raise FrameTooLarge(len(body), self._limit)
        return [(b"", body)]

    @property
    def idle(self) -> bool:
        """True if no input is buffered, so that the next byte begins a line."""
        return not self._tail and self._lines and self._late is None

    @staticmethod
    def around(_: bytes) -> tuple[bytes, bytes]:
        """Returns the bytes before and after the data of a line."""
        return b"", b"\n"

    def _read_lines(self, lines: list[bytes]) -> list[Frame]:
        if not self._lines:
            lines = self._hold_lines(lines)
        return [(b"", line) for raw in lines if (line := raw.strip())]

    def _read_bounded(self, lines: list[bytes]) -> list[Frame]:
        for at, line in enumerate(lines):
            if len(line) > self._limit:
                return self._fail(self._read_lines(lines[:at]), FrameTooLarge(len(line), self._limit))
        return self._read_lines(lines)

    def _hold_lines(self, lines: list[bytes]) -> list[bytes]:
        """Holds lines until one shows that the body has one value per line. Returns the lines that are released."""
        held = self._held
        for at, raw in enumerate(lines):
            line = raw if held else raw.lstrip().removeprefix(BOM)
            if self._is_one_value(line):
                self._lines = True
                self._held = []
                return [*held, line, *lines[at + 1 :]]
            if held or line.strip():
                held.append(line)
                self._held_size += len(line) + 1
                if self._held_size > self._limit:
                    self._fail([], FrameTooLarge(self._held_size, self._limit))
        return []

    def _is_one_value(self, line: bytes) -> bool:
        if self._held and not (line.startswith(b"{") and not self._held[0].startswith(b"[")):
            return False
        return _is_json(line)


class NdjsonWriter(StatelessWriter):
    """Frames to chunks, a line for each; names have no place in it. Line ends inside the data become spaces.

    In JSON a raw line end is white space between tokens, so a document over several lines keeps its meaning.
    """

    __slots__ = ()

    def feed(self, frames: Sequence[Any], /) -> list[bytes]:
        if not frames:
            return []
        if FrameRun in map(type, frames):
            return [b"".join([_write_run(one) if type(one) is FrameRun else self.feed([one])[0] for one in frames])]
        lines = [data for _, data in frames]
        text = b"".join(lines)  # one look for line ends in all of it
        if _LF in text or _CR in text:
            lines = [b" ".join(data.splitlines()) for data in lines]
        return [b"\n".join([*lines, b""])]


def _write_run(run: FrameRun) -> bytes:
    around = run.before + run.after
    if _LF in around or _CR in around:
        return b"".join(NdjsonWriter().feed(run.frames()))
    head, tail = b'%b"' % run.before, b'"%b\n' % run.after
    return b"%b%b%b" % (head, (tail + head).join(run.words), tail)


# What can be skipped inside an element and between elements: anything but brackets (and commas), and strings without
# escapes. They match anywhere, if only nothing; the count bounds the memory that a repeated group takes.
_Skip: TypeAlias = "Callable[[bytearray, int], re.Match[bytes]]"
_skip_inside = cast("_Skip", re.compile(rb'[^"\[\]{}]*+(?:"[^"\\]*+"[^"\[\]{}]*+){0,99}').match)
_skip_between = cast("_Skip", re.compile(rb'[^"\[\]{},]*+(?:"[^"\\]*+"[^"\[\]{},]*+){0,99}').match)
_skip_blank = cast("_Skip", re.compile(rb"[ \t\r\n%b]*+" % BOM).match)  # no value begins with a byte of the mark

_QUOTE, _BACKSLASH, _COMMA = b'"\\,'
_OPEN_ARRAY, _OPEN_OBJECT, _CLOSE_ARRAY, _CLOSE_OBJECT = b"[{]}"


class JsonArrayParser(BaseParser):
    """Chunks to frames without names. An element cut off by the end of the body still counts.

    A body that is one object instead of an array (for example an error) is one frame.
    """

    __slots__ = ("_at", "_base", "_depth", "_quoted", "_start", "_text")

    def __init__(self, *, limit: int = LIMIT) -> None:
        super().__init__(limit=limit)
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
        self._add_element(frames, len(self._text))
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
        self._check_size(end)

    def _read_string(self) -> None:
        """Moves to the quote that ends the string: the first one without an odd number of backslashes before it."""
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
        """Moves from bracket to bracket until the element ends, a string with escapes begins, or the text ends."""
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
                    self._add_element(frames, at)
                    break
            elif char == _QUOTE:
                self._quoted = True
                break
        self._at, self._depth = at, depth

    def _read_between(self, frames: list[Frame]) -> None:
        """Moves to the next character that begins or ends an element."""
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
            self._add_element(frames, at, skip=1)
        elif text[at] == _CLOSE_ARRAY and self._base:
            self._add_element(frames, at, skip=1)
            self._base = self._depth = 0
        elif text[at] == _OPEN_ARRAY and not self._base:
            self._add_element(frames, at, skip=1)
            self._base = self._depth = 1
        elif text[at] in (_OPEN_OBJECT, _OPEN_ARRAY):
            self._depth += 1

    def _add_element(self, frames: list[Frame], end: int, skip: int = 0) -> None:
        """Adds the element that ends here, if there is one, and begins the next after `skip` characters."""
        self._check_size(end)
        element = bytes(self._text[self._start : end]).rstrip()
        if element:
            frames.append((b"", element))
        self._start = end + skip

    def _check_size(self, end: int) -> None:
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
