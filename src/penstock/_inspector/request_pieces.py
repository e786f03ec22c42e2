"""Splits the body of a request into pieces that later requests of the conversation repeat, and joins them again.

A piece is an element of an array (a message, a tool) or another long value. What is left is the template: the body with
a mark in place of each piece. Joined, they are the body again, byte for byte.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

MAX_PIECES = 10_000
LONG_VALUE = 256  # bytes: a longer value is a piece
_GROWING = frozenset({"messages", "input", "contents"})  # their elements come last: a conversation adds to them
_STATIC_MARK, _GROWING_MARK = b"\x01", b"\x02"  # JSON has no such bytes
_MARKS = re.compile(rb"[\x01\x02]")
_read_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode


class SplitRequest(NamedTuple):
    """A body in parts."""

    template: bytes
    pieces: list[bytes]


def split_request(body: bytes) -> SplitRequest:
    """Splits a body. One that is not a JSON object is one piece."""
    whole = SplitRequest(_STATIC_MARK, [body]) if body else SplitRequest(b"", [])
    if _MARKS.search(body):
        return whole
    try:
        found = _find_pieces(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return whole
    if len(found) > MAX_PIECES:
        return whole
    literals: list[bytes] = []
    place = 0
    for start, end, growing in found:
        literals += (body[place:start], _GROWING_MARK if growing else _STATIC_MARK)
        place = end
    template = b"".join([*literals, body[place:]])
    pieces = [body[start:end] for wanted in (False, True) for start, end, growing in found if growing is wanted]
    return SplitRequest(template, pieces)


def read_short_texts(template: bytes) -> bytes:
    """Returns the members of a template that have texts, as JSON: a short prompt, say. Empty if it has none.

    The model is left out: it is one of the turn's names.
    """
    try:
        members = _read_members(_MARKS.sub(b"null", template))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):  # not a JSON object
        return b""
    texts = {name: value for name, value in members.items() if name != "model" and bytes(value)[:1] in {b'"', b"{"}}
    return msgspec.json.encode(texts) if texts else b""


def _find_pieces(body: bytes) -> list[tuple[int, int, bool]]:
    """Returns the start and end of each piece, and whether the conversation adds to its array."""
    found: list[tuple[int, int, bool]] = []
    place = 0
    for name, value in _read_members(body).items():
        data = bytes(value)
        is_array, growing = data[:1] == b"[", name in _GROWING
        if not is_array and len(data) < LONG_VALUE:
            continue
        elements = [bytes(one) for one in _read_elements(data)] if is_array else [data]
        place = _position(body, data, place)
        for element in elements:
            start = _position(body, element, place)
            place = start + len(element)
            found.append((start, place, growing))
    return found


def _position(body: bytes, value: bytes, place: int) -> int:
    start = body.find(value, place)
    if start < 0:  # a member was given twice: the order is not that of the values
        raise msgspec.DecodeError("a member is repeated")
    return start


def join_request(template: bytes, pieces: list[bytes]) -> bytes:
    """Returns the body of a template and its pieces. Raises ValueError if there are not as many as it needs."""
    static = template.count(_STATIC_MARK)
    if len(pieces) != static + template.count(_GROWING_MARK):
        raise ValueError(f"{len(pieces)} pieces do not fit the template of the request")
    waiting = {_STATIC_MARK: iter(pieces[:static]), _GROWING_MARK: iter(pieces[static:])}
    return _MARKS.sub(lambda mark: next(waiting[mark[0]]), template)
