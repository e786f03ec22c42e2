"""Redaction of the bytes of a stream, in any framing. The messages of an AWS event stream stay readable.

What is replaced there makes a message longer or shorter, so its length and its checksums are written anew. Damaged
messages stay damaged. The JSON inside the base64 of `InvokeModel` is searched, too. All work is linear.
"""

from __future__ import annotations

import binascii
import re
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from penstock._framing.aws_messages import (
    CHECKSUM,
    find_messages,
    has_length,
    split_headers,
    write_checksum,
    write_header,
    write_prelude,
)
from penstock._redaction import MARK, byte_spellings, find_secrets, redact_and_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock._framing.aws_messages import MessageSpan

_MARK = MARK.encode()
_CHUNK = b"\x00\x05chunk"  # the event type of `InvokeModel`, in the headers
_WRAPPED = re.compile(rb'"bytes"\s*+:\s*+"([A-Za-z0-9+/=]++)"')


class Edit(NamedTuple):
    """Bytes that are replaced by others. `is_positional`: by as many, and each stays where it is."""

    first: int
    last: int
    new: bytes
    is_positional: bool = False

    def move(self, distance: int) -> Edit:
        return self._replace(first=self.first + distance, last=self.last + distance)


def redact_chunks(
    chunks: list[tuple[float, bytes]], secrets: Iterable[str] = ()
) -> tuple[list[tuple[float, bytes]], int]:
    """Returns the chunks with a mark for each secret, and the number of secrets. Chunk boundaries stay."""
    edits, count = _find_edits(b"".join(data for _, data in chunks), tuple(secrets))
    if not count:
        return chunks, 0
    divided = _divide_edits(edits, [len(data) for _, data in chunks])
    return [(at, _apply_edits(data, own)) for (at, data), own in zip(chunks, divided, strict=True)], count


def redact_stream(data: bytes, secrets: Iterable[str] = ()) -> tuple[bytes, int]:
    """Returns a body of any framing without secrets, and their number; the same object if it has none."""
    known = tuple(secrets)
    if next(find_messages(data), None) is None:
        return redact_and_count(data, known)
    edits, count = _find_edits(data, known)
    return (_apply_edits(data, edits), count) if count else (data, 0)


def _find_edits(data: bytes, secrets: tuple[str, ...]) -> tuple[list[Edit], int]:
    """Returns what is replaced in a stream, in order, and how many secrets that removes."""
    known = _read_as_latin(secrets)
    regions = list(_split_regions(data))
    texts = [region.text for region in regions]
    spans = find_secrets(b"".join(texts).decode("latin-1"), known)
    headers = _HeaderRedactor(known)
    divided = _divide_edits([Edit(*span, _MARK) for span in spans], [len(text) for text in texts])
    edits: list[Edit] = []
    waiting: list[Edit] = []  # of the message that is read
    for region, own in zip(regions, divided, strict=True):
        waiting += region.place_edits(own)
        if region.message is None:
            edits += waiting
            waiting = []
        elif region.is_last:
            edits += _edit_message(data, region.message, headers, waiting)
            waiting = []
    return edits, len(spans) + headers.count


def _read_as_latin(secrets: tuple[str, ...]) -> list[str]:
    plain = (secret.encode("utf-8", "surrogateescape").decode("latin-1") for secret in secrets)
    return list(dict.fromkeys((*plain, *byte_spellings(secrets))))


# ── the texts of messages ─────────────────────────────────────────────────────────────────────────


class _Region(NamedTuple):
    """Bytes of a stream and the text that is searched in their place. `message`: None outside whole messages.

    `is_last`: the message has no more regions. `is_wrapped`: the bytes are the base64 of the text.
    """

    start: int
    end: int
    text: bytes
    message: MessageSpan | None = None
    is_last: bool = False
    is_wrapped: bool = False

    def place_edits(self, edits: list[Edit]) -> list[Edit]:
        """Returns edits of the text as edits of the stream."""
        if self.is_wrapped and edits:
            new = binascii.b2a_base64(_apply_edits(self.text, edits), newline=False)
            return [Edit(self.start, self.end, new, len(new) == self.end - self.start)]
        return [edit.move(self.start) for edit in edits]


def _split_regions(data: bytes) -> Iterator[_Region]:
    """Yields the payloads of messages, and everything that is no whole message."""
    end = 0
    for message in find_messages(data):
        end = min(message.stop, len(data))
        payload_end = min(message.stop - CHECKSUM, len(data))
        if message.payload_start > payload_end or _is_damaged(data, message):
            yield _Region(message.start, end, data[message.start : end])
        else:
            yield from _split_payload(data, message, payload_end)
    if end < len(data):
        yield _Region(end, len(data), data[end:])


def _is_damaged(data: bytes, message: MessageSpan) -> bool:
    checked = message.stop - CHECKSUM
    is_whole = message.stop <= len(data)
    return is_whole and write_checksum(data[message.start : checked]) != data[checked : message.stop]


def _split_payload(data: bytes, message: MessageSpan, end: int) -> Iterator[_Region]:
    """Yields a payload; that of `InvokeModel` in three pieces, with the JSON inside its base64."""
    payload = data[message.payload_start : end]
    start = message.payload_start
    found = _WRAPPED.search(payload) if _CHUNK in data[message.headers_start : message.payload_start] else None
    if found is not None:
        try:
            inner = binascii.a2b_base64(found[1], strict_mode=True)
        except ValueError:
            pass
        else:
            first, last = found.span(1)
            yield _Region(start, start + first, payload[:first], message)
            yield _Region(start + first, start + last, inner, message, is_wrapped=True)
            payload, start = payload[last:], start + last
    yield _Region(start, end, payload, message, is_last=True)


class _HeaderRedactor:
    """Removes secrets from the values of headers. `count`: how many it has removed."""

    def __init__(self, known: list[str]) -> None:
        self._known = known
        self._cleaned: dict[bytes, tuple[bytes, int]] = {}  # few: most messages have the headers of others
        self.count = 0

    def clean(self, headers: bytes) -> bytes:
        """Returns headers without secrets. Damaged ones stay, with a mark for each secret."""
        cleaned, count = self._cleaned.get(headers) or self._cleaned.setdefault(headers, self._clean(headers))
        self.count += count
        return cleaned

    def _clean(self, headers: bytes) -> tuple[bytes, int]:
        try:
            fields = list(split_headers(headers))
        except ValueError:
            return self._replace(headers)
        written: list[bytes] = []
        found = 0
        for name, kind, value in fields:
            if has_length(kind):
                cleaned, count = self._replace(value)
                written.append(write_header(name, cleaned, kind))
                found += count
            else:
                written.append(bytes([len(name)]) + name + bytes([kind]) + value)
        return b"".join(written), found

    def _replace(self, value: bytes) -> tuple[bytes, int]:
        spans = find_secrets(value.decode("latin-1"), self._known)
        return _apply_edits(value, [Edit(*span, _MARK) for span in spans]), len(spans)


def _edit_message(data: bytes, message: MessageSpan, redactor: _HeaderRedactor, edits: list[Edit]) -> list[Edit]:
    """Adds the edits of its headers, lengths and checksums to those of the payload of a message."""
    headers = data[message.headers_start : message.payload_start]
    cleaned = redactor.clean(headers)
    if cleaned == headers and not edits:
        return []
    inner = [Edit(message.headers_start, message.payload_start, cleaned, len(cleaned) == len(headers)), *edits]
    growth = sum(len(edit.new) - (edit.last - edit.first) for edit in inner)
    prelude = write_prelude(message.stop - message.start + growth, len(cleaned))
    inner.insert(0, Edit(message.start, message.headers_start, prelude, is_positional=True))
    if message.stop > len(data):  # the stream was cut here
        return inner
    body_end = message.stop - CHECKSUM
    moved = [edit.move(-message.start) for edit in inner]
    checksum = write_checksum(_apply_edits(data[message.start : body_end], moved))
    return [*inner, Edit(body_end, message.stop, checksum, is_positional=True)]


# ── edits ─────────────────────────────────────────────────────────────────────────────────────────


def _divide_edits(edits: Sequence[Edit], sizes: Sequence[int]) -> Iterator[list[Edit]]:
    """Yields the edits of each piece of a whole whose pieces have these sizes.

    What is replaced across a border gets its mark in the piece where it begins. Positional edits (lengths and
    checksums) are divided at the border.
    """
    start = number = 0
    for size in sizes:
        end = start + size
        own: list[Edit] = []
        while number < len(edits) and edits[number].first < end:
            first, last, new, is_positional = edits[number]
            if is_positional:
                new = new[max(start - first, 0) : end - first]
            elif first < start:
                new = b""
            own.append(Edit(max(first - start, 0), min(last, end) - start, new))
            if last > end:
                break  # it continues in the next piece
            number += 1
        yield own
        start = end


def _apply_edits(data: bytes, edits: Sequence[Edit]) -> bytes:
    """Returns bytes with edits, in one pass."""
    if not edits:
        return data
    places = [0, *(edit.last for edit in edits)]
    pieces = chain.from_iterable(
        (data[place : edit.first], edit.new) for place, edit in zip(places, edits, strict=False)
    )
    return b"".join([*pieces, data[places[-1] :]])
