"""The same bytes, cut otherwise: a stream must mean the same however the network cuts it."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def cut(data: bytes, *places: int) -> list[bytes]:
    """The data in pieces, cut at these places."""
    marks = [0, *sorted(place for place in set(places) if 0 < place < len(data)), len(data)]
    return [data[first:last] for first, last in pairwise(marks)] if data else []


def cuts(data: bytes, count: int = 10, *, seed: int = 0) -> Iterator[list[bytes]]:
    """Ways to cut: whole, byte by byte, in halves, then `count` at random (the same ones for the same seed)."""
    yield cut(data)
    yield cut(data, *range(1, len(data)))
    yield cut(data, len(data) // 2)
    dice = random.Random(seed)  # noqa: S311 — no secrets: the places of cuts
    for _ in range(count):
        yield cut(data, *(dice.randrange(1, max(len(data), 2)) for _ in range(dice.randrange(1, 20))))
