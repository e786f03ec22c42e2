"""The AWS event stream: binary messages of headers, a payload and two checksums, as Bedrock sends them.

Reading leans on botocore (the `aws` extra), loaded when a parser is made; writing needs the standard library alone.
Does not interpret payloads, but for taking an inner stream's payloads out of their base64.
"""

from __future__ import annotations

import binascii
import struct
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._framing.frame import LIMIT, BaseParser, Frame, StatelessWriter, expand_frames
from penstock._framing.sse import SseParser, SseWriter
from penstock.errors import FrameTooLarge, FramingError, MissingExtra

if TYPE_CHECKING:
    from collections.abc import Sequence

PRELUDE = struct.Struct(">III")
"""How a message begins: its length, the length of its headers, the checksum of these two."""

_STRING = 7  # the header type of a string
_CHUNK = b"chunk"  # the event type of `InvokeModel`, whatever the model


def prelude_length(prelude: bytes) -> int | None:
    """The length of the message that begins with these twelve bytes, or None if they begin none."""
    total, headers, checksum = PRELUDE.unpack(prelude)
    if binascii.crc32(prelude[:8]) != checksum or total < headers + PRELUDE.size + 4:
        return None
    return int(total)


class EventStreamParser(BaseParser):
    """Chunks to frames: `(event type, payload)`.

    An exception is named by its `:exception-type`; an error, which has no payload, by its `:error-code`, with
    `{"message": …}` as its data. A `chunk` of another protocol's stream (Claude on Bedrock) gives the payload inside
    it, without a name. Broken framing raises `FramingError`; a message cut off by the end is nothing.
    """

    __slots__ = ("_buffer", "_need", "_text")

    def __init__(self, *, limit: int = LIMIT) -> None:
        super().__init__(limit=limit)
        self._text = bytearray()
        self._need = PRELUDE.size  # how much text it takes to go on
        try:
            from botocore.eventstream import EventStreamBuffer
        except ImportError as error:
            raise MissingExtra("botocore", "aws") from error
        self._buffer: Any = EventStreamBuffer()

    def feed(self, chunks: Sequence[bytes], /) -> list[Frame]:
        if self._late is not None:
            raise self._late
        self._text += b"".join(chunks)
        frames: list[Frame] = []
        try:
            while len(self._text) >= self._need:
                self._step(frames)
        except (FramingError, FrameTooLarge) as error:
            return self._fail(frames, error)
        return frames

    def _step(self, frames: list[Frame]) -> None:
        """Read a prelude to learn how long the message is, or the whole message.

        botocore is given whole messages only: it would copy what it holds at every chunk.
        """
        if self._need == PRELUDE.size:
            length = prelude_length(bytes(self._text[: PRELUDE.size]))
            if length is None:
                raise FramingError("not an AWS event stream, or a damaged one: a message begins with a wrong checksum")
            if length > self._limit:
                raise FrameTooLarge(length, self._limit)
            self._need = length
        else:
            message = bytes(self._text[: self._need])
            del self._text[: self._need]
            self._need = PRELUDE.size
            frames.append(self._read(message))

    def _read(self, message: bytes) -> Frame:
        self._buffer.add_data(message)
        try:
            parsed = next(self._buffer)
        except Exception as error:  # of damage, botocore raises its own errors, struct's and Python's
            raise FramingError(f"a damaged message in the AWS event stream: {error}") from error
        return _to_frame(parsed.headers, parsed.payload)


def _to_frame(headers: dict[str, Any], payload: bytes) -> Frame:
    kind = headers.get(":message-type")
    if kind == "error":
        fault = {"message": str(headers.get(":error-message", ""))}
        return str(headers.get(":error-code", "error")).encode(), msgspec.json.encode(fault)
    name = headers.get(":exception-type") if kind == "exception" else headers.get(":event-type")
    frame = str(name or "").encode(), payload
    return _unwrap(frame) if frame[0] == _CHUNK else frame


class EventStreamWriter(StatelessWriter):
    """Frames to chunks. A frame whose name ends in `Exception` is sent as one: all of Bedrock's are named so."""

    __slots__ = ()

    def feed(self, frames: Sequence[Frame], /) -> list[bytes]:
        frames = expand_frames(frames)
        return [b"".join([_message(name, data) for name, data in frames])] if frames else []


def _message(name: bytes, data: bytes) -> bytes:
    kind = b"exception" if name.endswith(b"Exception") else b"event"
    fields = {b":%b-type" % kind: name, b":content-type": b"application/json", b":message-type": kind}
    headers = b"".join([_header(*field) for field in fields.items()])
    start = struct.pack(">II", PRELUDE.size + len(headers) + len(data) + 4, len(headers))
    start += struct.pack(">I", binascii.crc32(start))
    message = start + headers + data
    return message + struct.pack(">I", binascii.crc32(message))


def _header(name: bytes, value: bytes) -> bytes:
    return struct.pack(">B", len(name)) + name + struct.pack(">BH", _STRING, len(value)) + value


class _Chunk(msgspec.Struct, gc=False):
    inner: str = msgspec.field(name="bytes")


_read_chunk = msgspec.json.Decoder(_Chunk).decode


class BedrockChunks:
    """Frames to frames: a `chunk` of another protocol's stream becomes the payload inside it, as the parser makes it.

    For frames that came another way. All others, exceptions among them, go through as they are; so does a chunk that
    holds none.
    """

    __slots__ = ()

    def feed(self, frames: Sequence[Frame], /) -> list[Frame]:
        return [_unwrap(frame) if frame[0] == _CHUNK else frame for frame in frames]

    def finish(self) -> list[Frame]:
        return []


def _unwrap(frame: Frame) -> Frame:
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
