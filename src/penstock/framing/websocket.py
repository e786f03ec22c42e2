"""WebSocket messages: one message, one frame, both ways. The protocol under them belongs to whoever owns the socket."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import FrameTooLarge
from penstock.framing.frame import LIMIT, FailsLate, Frame, expand_frames

if TYPE_CHECKING:
    from collections.abc import Sequence


class WebSocketParser(FailsLate):
    """Messages to frames without names; an empty message is none. Here a chunk is a whole message."""

    __slots__ = ("_limit",)

    def __init__(self, *, limit: int = LIMIT) -> None:
        super().__init__()
        self._limit = limit

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

    def finish(self) -> list[Frame]:
        if self._late is not None:
            raise self._late
        return []


class WebSocketWriter:
    """Frames to messages, one each: the one writer that joins nothing, since a message is not to be merged."""

    __slots__ = ()

    def feed(self, frames: Sequence[Frame], /) -> list[bytes]:
        frames = expand_frames(frames)
        return [data for _, data in frames]

    def finish(self) -> list[bytes]:
        return []
