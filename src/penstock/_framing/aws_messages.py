"""The messages of an AWS event stream as bytes: where each begins and ends, and how one is written with its checksums.

Needs only the standard library. Nothing in a message is interpreted.
"""

from __future__ import annotations

import binascii
import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

PRELUDE = struct.Struct(">III")
"""How a message begins: its length, the length of its headers, the checksum of these two."""

CHECKSUM = 4  # bytes at the end of a message
_STRING = 7  # the header type of a string
_VALUE_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}  # of header types with a fixed size
_BYTES = 6  # the header type of bytes
_UINT16 = 0xFFFF


class MessageSpan(NamedTuple):
    """Where a message is in a stream. `stop`: where it would end; that is behind the stream if the message is cut."""

    start: int
    payload_start: int
    stop: int

    @property
    def headers_start(self) -> int:
        return self.start + PRELUDE.size


def prelude_length(prelude: bytes) -> int | None:
    """Returns the length of the message that begins with these twelve bytes; None if they begin no message."""
    total, headers, checksum = PRELUDE.unpack(prelude)
    if binascii.crc32(prelude[:8]) != checksum or total < headers + PRELUDE.size + CHECKSUM:
        return None
    return int(total)


def find_messages(data: bytes) -> Iterator[MessageSpan]:
    """Yields where messages are, up to the first bytes that begin none. The last message may be cut."""
    start = 0
    while len(data) - start >= PRELUDE.size:
        prelude = data[start : start + PRELUDE.size]
        length = prelude_length(prelude)
        if length is None:
            return
        yield MessageSpan(start, start + PRELUDE.size + PRELUDE.unpack(prelude)[1], start + length)
        start += length


def split_messages(data: bytes) -> list[bytes]:
    """Divides an AWS event stream into its messages. Other data is one piece."""
    spans = [span for span in find_messages(data) if span.stop <= len(data)]
    end = spans[-1].stop if spans else 0
    return [*(data[span.start : span.stop] for span in spans), *([data[end:]] if end < len(data) else ())]


def write_prelude(total: int, headers: int) -> bytes:
    """Returns how a message begins that has this length, and headers of that length."""
    start = struct.pack(">II", total, headers)
    return start + struct.pack(">I", binascii.crc32(start))


def write_checksum(message: bytes) -> bytes:
    """Returns the checksum that follows these bytes of a message."""
    return struct.pack(">I", binascii.crc32(message))


def write_message(headers: bytes, payload: bytes) -> bytes:
    """Returns a whole message."""
    total = PRELUDE.size + len(headers) + len(payload) + CHECKSUM
    message = write_prelude(total, len(headers)) + headers + payload
    return message + write_checksum(message)


def write_header(name: bytes, value: bytes, kind: int = _STRING) -> bytes:
    """Returns a header whose value is a string or bytes. A value that is too long is cut."""
    value = value[:_UINT16]
    return struct.pack(">B", len(name)) + name + struct.pack(">BH", kind, len(value)) + value


def split_headers(headers: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    """Yields the name, the type and the value of each header. Raises `ValueError` if they are damaged."""
    place = 0
    while place < len(headers):
        kind_place = place + 1 + headers[place]
        name = headers[place + 1 : kind_place]
        start = kind_place + 1
        kind = headers[kind_place] if kind_place < len(headers) else -1
        if has_length(kind):
            size = int.from_bytes(headers[start : start + 2])
            start += 2
        else:
            size = _VALUE_SIZES.get(kind, -1)
        place = start + size
        if size < 0 or place > len(headers):
            raise ValueError("a damaged header")
        yield name, kind, headers[start:place]


def has_length(kind: int) -> bool:
    """True for the types of headers whose value may have any length: strings and bytes."""
    return kind in {_STRING, _BYTES}
