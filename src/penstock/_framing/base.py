"""The base of all framings: the frame, the two kinds of stage around it, the size limit and the late error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec

from penstock.errors import FrameTooLarge, PenstockError

if TYPE_CHECKING:
    from collections.abc import Sequence


Frame: TypeAlias = tuple[bytes, bytes]
"""One message as it travelled: `(name, data)`.

The name is the SSE event name or the AWS `:event-type`, `b""` where the framing has none. The data is what a decoder
reads; it stays bytes, which JSON decoders need. A frame is a plain tuple, because one call of a regular expression
returns many of them; an object for each frame would cost more than finding it.
"""

LIMIT = 64 * 1024 * 1024
"""The default size limit of one frame, in bytes: enough for inline images of providers."""

BOM = b"\xef\xbb\xbf"


class Parser(Protocol):
    """A stage from chunks to frames. How the bytes are cut into chunks never changes the frames."""

    def __init__(self, *, limit: int = LIMIT) -> None: ...

    def feed(self, chunks: Sequence[bytes], /) -> list[Frame]: ...

    def finish(self) -> list[Frame]: ...


class Writer(Protocol):
    """A stage from frames to chunks: one chunk for each batch, or none, so that one read makes one write."""

    def feed(self, frames: Sequence[Frame], /) -> list[bytes]: ...

    def finish(self) -> list[bytes]: ...


class StatelessWriter:
    """The base of writers that write nothing at the end."""

    __slots__ = ()

    def finish(self) -> list[bytes]:
        return []


class BaseParser:
    """The base of parsers: the size limit, and an error that is raised late.

    After an error `feed` returns the frames before it; the next call raises. Otherwise the frames that a failing
    stream still delivers would depend on how its bytes are cut.
    """

    __slots__ = ("_late", "_limit")

    def __init__(self, *, limit: int = LIMIT) -> None:
        self._late: PenstockError | None = None
        self._limit = limit

    def finish(self) -> list[Frame]:
        if self._late is not None:
            raise self._late
        return []

    def _fail(self, frames: list[Frame], error: PenstockError) -> list[Frame]:
        self._late = error
        if frames:
            return frames
        raise error


class FrameRun(msgspec.Struct, eq=False):
    """Frames that differ only in their text, to be written by one join."""

    name: bytes
    before: bytes
    words: list[bytes]
    after: bytes

    def frames(self) -> list[Frame]:
        """Returns the single frames."""
        name, before, after = self.name, self.before, self.after
        return [(name, b'%b"%b"%b' % (before, word, after)) for word in self.words]


def expand_frames(frames: Sequence[Any]) -> Sequence[Frame]:
    """Returns frames with single frames in place of runs."""
    if FrameRun not in map(type, frames):
        return frames
    return [frame for one in frames for frame in (one.frames() if type(one) is FrameRun else (one,))]


class WebSocketParser(BaseParser):
    """Messages to frames without names; an empty message is skipped. A chunk is a whole message."""

    __slots__ = ()

    def feed(self, messages: Sequence[bytes], /) -> list[Frame]:
        if self._late is not None:
            raise self._late
        frames: list[Frame] = []
        for message in messages:
            if len(message) > self._limit:
                return self._fail(frames, FrameTooLarge(len(message), self._limit))
            if message:
                frames.append((b"", message))
        return frames


class WebSocketWriter(StatelessWriter):
    """Frames to messages, one each. Unlike other writers it joins nothing, because a message must stay one."""

    __slots__ = ()

    def feed(self, frames: Sequence[Frame], /) -> list[bytes]:
        return [data for _, data in expand_frames(frames)]
