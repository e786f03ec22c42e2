"""Ways to spoil a stream: frames dropped, doubled, swapped, cut off, spliced with another stream's, or garbled inside.

An order is a plain tuple of numbers, so that Hypothesis can shrink it; any numbers make sense for any stream.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.framing import Frame

Order = tuple[str, int, int]
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 10**25, "", "x", "{", "[DONE]", "\ud83d", [], {}, [None], [{}], {"type": "text"}, {"x": [1]},
)  # fmt: skip
GARBAGE: tuple[Frame, ...] = (
    (b"", b""), (b"", b"{"), (b"", b"null"), (b"", b"[]"), (b"", b"{}"), (b"", b'"x"'), (b"", b"[DONE]"), (b"error", b"oops"),
    (b"", b'{"type":"error"}'), (b"", b'{"error":{}}'), (b"", b"\xff\xfe"), (b"x", b'{"type":"never-heard-of"}'),
    (b"fooException", b'{"message":"no"}'), (b"", b'{"type":{},"index":[],"choices":3,"candidates":{}}'),
)  # fmt: skip


def drop(frames: list[Frame], a: int, _: int) -> None:
    del frames[a]


def double(frames: list[Frame], a: int, b: int) -> None:
    frames.insert(b, frames[a])


def swap(frames: list[Frame], a: int, b: int) -> None:
    frames[a], frames[b] = frames[b], frames[a]


def truncate(frames: list[Frame], a: int, _: int) -> None:
    del frames[a:]


def behead(frames: list[Frame], a: int, _: int) -> None:
    del frames[:a]


def litter(frames: list[Frame], a: int, b: int) -> None:
    frames.insert(a, GARBAGE[b % len(GARBAGE)])


def clip(frames: list[Frame], a: int, b: int) -> None:
    """A frame's data, cut off somewhere."""
    name, data = frames[a]
    frames[a] = name, data[: b % (len(data) + 1)]


def scratch(frames: list[Frame], a: int, b: int) -> None:
    """One byte of a frame's data, changed."""
    name, data = frames[a]
    if data:
        place = b % len(data)
        frames[a] = name, data[:place] + bytes([(data[place] + 1 + b) % 256]) + data[place + 1 :]


def rename(frames: list[Frame], a: int, b: int) -> None:
    frames[a] = frames[b][0], frames[a][1]


def garble(frames: list[Frame], a: int, b: int) -> None:
    """One value inside a payload, replaced by another of any kind, or taken out."""
    name, data = frames[a]
    try:
        payload = json.loads(data)
    except ValueError:
        return
    spots = list(_spots(payload))
    if spots:
        holder, key = spots[b % len(spots)]
        choice = (b // len(spots)) % (len(VALUES) + 1)
        if choice < len(VALUES):
            holder[key] = VALUES[choice]
        else:
            del holder[key]
        frames[a] = name, json.dumps(payload).encode()


def renumber(data: bytes, number: int) -> bytes:
    """Every whole number inside a payload, replaced by this one."""
    try:
        payload = [json.loads(data)]
    except ValueError:
        return data
    for holder, key in _spots(payload):
        if type(holder[key]) is int:
            holder[key] = number
    return json.dumps(payload[0]).encode()


def _spots(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a JSON value: the list or object, and the key there."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    found: list[tuple[Any, Any]] = [(value, key) for key in keys]
    return found + [spot for key in keys for spot in _spots(value[key])]


WAYS: dict[str, Callable[[list[Frame], int, int], None]] = {
    way.__name__: way for way in (drop, double, swap, truncate, behead, litter, clip, scratch, rename, garble)
}
# `garble` more often: it is the one that finds what nobody thought of.
ORDERS = st.lists(
    st.tuples(st.sampled_from([*WAYS, *["garble"] * 6]), st.integers(0, 10**4), st.integers(0, 10**4)),
    min_size=1,
    max_size=5,
)


def spoil(frames: Sequence[Frame], orders: Sequence[Order]) -> list[Frame]:
    """The frames after everything that was ordered was done to them."""
    spoilt = list(frames)
    for way, a, b in orders:
        if not spoilt:
            break
        count = len(spoilt)
        WAYS[way](spoilt, a % count, b % count if way in {"double", "swap", "rename"} else b)
    return spoilt


def splice(one: Sequence[Frame], other: Sequence[Frame], a: int, b: int) -> list[Frame]:
    """One stream up to somewhere, then another from somewhere on."""
    return [*one[: a % (len(one) + 1)], *other[b % (len(other) + 1) :]]
