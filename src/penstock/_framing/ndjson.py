"""Newline-delimited JSON: one line, one frame. A body that is one JSON document on many lines is one frame too.

Leans on msgspec to tell whether the first line is JSON on its own. Does not check the lines after it: that is the
decoder's work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock._framing.frame import BOM, LIMIT, DeferredFailure, Frame, FrameRun
from penstock.errors import FrameTooLarge

if TYPE_CHECKING:
    from collections.abc import Sequence

_LF, _CR = b"\n\r"  # as numbers, which are found faster
_validate = msgspec.json.Decoder(msgspec.Raw).decode


def _is_json(line: bytes) -> bool:
    try:
        _validate(line)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


class NdjsonParser(DeferredFailure):
    """Chunks to frames without names. Blank lines are skipped; a last line without its newline counts.

    If the first line is not JSON on its own, the body is held: it may be a document over several lines (an error body,
    say) or no JSON at all, and is given as one frame at the end. It is let go, line by line, once a later line begins
    with `{` and is JSON on its own: then only the first lines were damaged. Never for a body that begins with `[`.
    """

    __slots__ = ("_held", "_held_size", "_limit", "_lines", "_tail")

    def __init__(self, *, limit: int = LIMIT) -> None:
        super().__init__()
        self._limit = limit
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
            frames = self._take(lines) if len(whole) <= self._limit else self._take_bounded(lines)
        else:
            tail += text
        if len(tail) > self._limit and self._late is None:
            return self._fail(frames, FrameTooLarge(len(tail), self._limit))
        return frames

    def finish(self) -> list[Frame]:
        if self._late is not None:
            raise self._late
        frames = self._take([bytes(self._tail)])
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
        """Whether all that was fed has come out: what comes next begins a line."""
        return not self._tail and self._lines and self._late is None

    @staticmethod
    def around(_: bytes) -> tuple[bytes, bytes]:
        """What stands before and behind the data of a line."""
        return b"", b"\n"

    def _take(self, lines: list[bytes]) -> list[Frame]:
        if not self._lines:
            lines = self._hold(lines)
        return [(b"", line) for raw in lines if (line := raw.strip())]

    def _take_bounded(self, lines: list[bytes]) -> list[Frame]:
        for at, line in enumerate(lines):
            if len(line) > self._limit:
                return self._fail(self._take(lines[:at]), FrameTooLarge(len(line), self._limit))
        return self._take(lines)

    def _hold(self, lines: list[bytes]) -> list[bytes]:
        """Hold lines until one shows that the body has a value on each; give those that are then free to go."""
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


class NdjsonWriter:
    """Frames to chunks, a line for each; names have no place in it. Line ends inside the data become spaces.

    In JSON a raw line end is white space between tokens, so a document over several lines keeps its meaning.
    """

    __slots__ = ()

    def feed(self, frames: Sequence[Any], /) -> list[bytes]:
        if not frames:
            return []
        if FrameRun in map(type, frames):
            return [b"".join([_run(frame) if type(frame) is FrameRun else self.feed([frame])[0] for frame in frames])]
        lines = [data for _, data in frames]
        text = b"".join(lines)  # one look for line ends in all of it
        if _LF in text or _CR in text:
            lines = [b" ".join(data.splitlines()) for data in lines]
        return [b"\n".join([*lines, b""])]

    def finish(self) -> list[bytes]:
        return []


def _run(run: FrameRun) -> bytes:
    around = run.before + run.after
    if _LF in around or _CR in around:
        return b"".join(NdjsonWriter().feed(run.frames()))
    head, tail = b'%b"' % run.before, b'"%b\n' % run.after
    return b"%b%b%b" % (head, (tail + head).join(run.words), tail)
