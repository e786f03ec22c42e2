"""Server-sent events inside an AWS event stream, as SageMaker sends what the container behind it says.

Leans on both framings. A part of the inner stream may end anywhere; exceptions of the outer one stay frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.framing.eventstream import EventStreamParser, EventStreamWriter
from penstock.framing.frame import LIMIT, Frame, expand_frames
from penstock.framing.sse import SseParser, SseWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

_PART = b"PayloadPart"


class PayloadParser:
    """Chunks to the frames of the stream inside."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, *, limit: int = LIMIT) -> None:
        self._outer = EventStreamParser(limit=limit)
        self._inner = SseParser(limit=limit)

    def feed(self, chunks: Sequence[bytes], /) -> list[Frame]:
        return [inner for frame in self._outer.feed(chunks) for inner in self._taken(frame)]

    def finish(self) -> list[Frame]:
        return [*(inner for frame in self._outer.finish() for inner in self._taken(frame)), *self._inner.finish()]

    def _taken(self, frame: Frame) -> list[Frame]:
        return self._inner.feed([frame[1]]) if frame[0] == _PART else [frame]


class PayloadWriter:
    """Frames to chunks: one part for each batch."""

    __slots__ = ("_inner", "_outer")

    def __init__(self) -> None:
        self._outer = EventStreamWriter()
        self._inner = SseWriter()

    def feed(self, frames: Sequence[Frame], /) -> list[bytes]:
        frames = expand_frames(frames)
        return self._outer.feed([(_PART, chunk) for chunk in self._inner.feed(frames)])

    def finish(self) -> list[bytes]:
        return self._outer.feed([(_PART, chunk) for chunk in self._inner.finish()])
