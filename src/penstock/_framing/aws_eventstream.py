"""The AWS event stream: binary messages of headers, a payload and two checksums, as Bedrock sends them.

Reading needs botocore (the `aws` extra), which is loaded when a parser is created; writing needs only the standard
library. Payloads are not interpreted, except that the payloads of an inner stream are decoded from base64.
"""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._framing.aws_messages import PRELUDE, prelude_length, write_header, write_message
from penstock._framing.base import LIMIT, BaseParser, Frame, StatelessWriter, expand_frames
from penstock._framing.sse import SseParser, SseWriter
from penstock.errors import FrameTooLarge, FramingError, MissingExtra

if TYPE_CHECKING:
    from collections.abc import Sequence

_CHUNK = b"chunk"  # the event type of `InvokeModel` for all models


class EventStreamParser(BaseParser):
    """Chunks to frames: `(event type, payload)`.

    An exception is named by its `:exception-type`; an error, which has no payload, by its `:error-code`, with
    `{"message": …}` as its data. A `chunk` of another protocol's stream (Claude on Bedrock) gives the payload inside
    it, without a name. Broken framing raises `FramingError`; a message that is cut off by the end is ignored.
    """

    __slots__ = ("_buffer", "_buffered", "_need")

    def __init__(self, *, limit: int = LIMIT) -> None:
        super().__init__(limit=limit)
        self._buffered = bytearray()
        self._need = PRELUDE.size  # bytes that are needed for the next step
        try:
            from botocore.eventstream import EventStreamBuffer
        except ImportError as error:
            raise MissingExtra("botocore", "aws") from error
        self._buffer: Any = EventStreamBuffer()

    def feed(self, chunks: Sequence[bytes], /) -> list[Frame]:
        if self._late is not None:
            raise self._late
        self._buffered += b"".join(chunks)
        frames: list[Frame] = []
        try:
            while len(self._buffered) >= self._need:
                self._read_next(frames)
        except (FramingError, FrameTooLarge) as error:
            return self._fail(frames, error)
        return frames

    def _read_next(self, frames: list[Frame]) -> None:
        """Reads a prelude, which has the length of its message, or the whole message.

        botocore gets whole messages only: it would copy its buffer for every chunk.
        """
        if self._need == PRELUDE.size:
            length = prelude_length(bytes(self._buffered[: PRELUDE.size]))
            if length is None:
                raise FramingError("not an AWS event stream, or a damaged one: a message begins with a wrong checksum")
            if length > self._limit:
                raise FrameTooLarge(length, self._limit)
            self._need = length
        else:
            message = bytes(self._buffered[: self._need])
            del self._buffered[: self._need]
            self._need = PRELUDE.size
            frames.append(self._read_message(message))

    def _read_message(self, message: bytes) -> Frame:
        self._buffer.add_data(message)
        try:
            parsed = next(self._buffer)
        except Exception as error:  # for damaged messages botocore raises errors of its own, struct's and Python's
            raise FramingError(f"a damaged message in the AWS event stream: {error}") from error
        return _to_frame(parsed.headers, parsed.payload)


def _to_frame(headers: dict[str, Any], payload: bytes) -> Frame:
    kind = headers.get(":message-type")
    if kind == "error":
        fault = {"message": str(headers.get(":error-message", ""))}
        return str(headers.get(":error-code", "error")).encode(), msgspec.json.encode(fault)
    name = headers.get(":exception-type") if kind == "exception" else headers.get(":event-type")
    frame = str(name or "").encode(), payload
    return _unwrap_chunk(frame) if frame[0] == _CHUNK else frame


class EventStreamWriter(StatelessWriter):
    """Frames to chunks. A frame whose name ends in `Exception` is sent as one: all of Bedrock's are named so."""

    __slots__ = ()

    def feed(self, frames: Sequence[Frame], /) -> list[bytes]:
        frames = expand_frames(frames)
        return [b"".join([_write_message(name, data) for name, data in frames])] if frames else []


def _write_message(name: bytes, data: bytes) -> bytes:
    kind = b"exception" if name.endswith(b"Exception") else b"event"
    fields = {b":%b-type" % kind: name, b":content-type": b"application/json", b":message-type": kind}
    return write_message(b"".join([write_header(*field) for field in fields.items()]), data)


class _Chunk(msgspec.Struct, gc=False):
    inner: str = msgspec.field(name="bytes")


_read_chunk = msgspec.json.Decoder(_Chunk).decode


class BedrockChunks:
    """Frames to frames: a `chunk` of another protocol's stream becomes the payload inside it, as the parser makes it.

    For frames of other sources. All other frames, also exceptions and chunks without a payload, pass unchanged.
    """

    __slots__ = ()

    def feed(self, frames: Sequence[Frame], /) -> list[Frame]:
        return [_unwrap_chunk(frame) if frame[0] == _CHUNK else frame for frame in frames]

    def finish(self) -> list[Frame]:
        return []


def _unwrap_chunk(frame: Frame) -> Frame:
    try:
        return b"", binascii.a2b_base64(_read_chunk(frame[1]).inner)
    except (msgspec.DecodeError, ValueError):  # what msgspec and binascii raise
        return frame


_PART = b"PayloadPart"


class SageMakerParser:
    """Chunks to the frames of the stream inside."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, *, limit: int = LIMIT) -> None:
        self._outer = EventStreamParser(limit=limit)
        self._inner = SseParser(limit=limit)

    def feed(self, chunks: Sequence[bytes], /) -> list[Frame]:
        return [
            inner
            for frame in self._outer.feed(chunks)
            for inner in (self._inner.feed([frame[1]]) if frame[0] == _PART else [frame])
        ]

    def finish(self) -> list[Frame]:
        return [*self._outer.finish(), *self._inner.finish()]


class SageMakerWriter(StatelessWriter):
    """Frames to chunks: one part for each batch."""

    __slots__ = ("_inner", "_outer")

    def __init__(self) -> None:
        self._outer = EventStreamWriter()
        self._inner = SseWriter()

    def feed(self, frames: Sequence[Frame], /) -> list[bytes]:
        return self._outer.feed([(_PART, chunk) for chunk in self._inner.feed(expand_frames(frames))])
