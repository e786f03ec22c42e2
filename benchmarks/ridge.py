"""Weighted least squares with a prior and a floor, in plain Python: a few unknowns, hundreds or thousands of rows.

Solved by going round the unknowns one at a time, which keeps each at or above its floor. Leans on nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

ROUNDS, STILL = 400, 1e-5


class Row(NamedTuple):
    """What was seen, what it came to, how much it counts."""

    given: Sequence[float]
    total: float
    weight: float


class Belief(NamedTuple):
    """What an unknown is thought to be before any row was seen, how surely, and what it cannot be below."""

    value: float
    spread: float
    floor: float = 0.0


def solve(rows: Sequence[Row], beliefs: Sequence[Belief]) -> list[float]:
    """The unknowns that fit the rows best without leaving what was believed for nothing."""
    size = len(beliefs)
    gram = [[0.0] * size for _ in range(size)]
    right = [0.0] * size
    for row in rows:
        filled = [(place, value) for place, value in enumerate(row.given) if value]
        for place, value in filled:
            weighted = row.weight * value
            right[place] += weighted * row.total
            line = gram[place]
            for other, its in filled:
                line[other] += weighted * its
    for place, belief in enumerate(beliefs):
        sure = belief.spread**-2
        gram[place][place] += sure
        right[place] += sure * belief.value
    return _descend(gram, right, beliefs)


def _descend(gram: list[list[float]], right: list[float], beliefs: Sequence[Belief]) -> list[float]:
    found = [belief.value for belief in beliefs]
    for _ in range(ROUNDS):
        moved = 0.0
        for place, belief in enumerate(beliefs):
            line = gram[place]
            rest = right[place] - sum(map(float.__mul__, line, found)) + line[place] * found[place]
            value = max(belief.floor, rest / line[place])
            moved = max(moved, abs(value - found[place]) / (abs(value) + 1e-3))
            found[place] = value
        if moved < STILL:
            break
    return found
