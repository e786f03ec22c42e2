"""A sample of a matrix: `make test` runs some of its pairs, `make nightly` runs the others, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable


def sample_pairs(pairs: Iterable[tuple[str, str]], one_of: int) -> list[Any]:
    """The pairs as parameters. One of so many runs in `make test`, and each name at least once on each side of a pair."""
    made, left, right = list[Any](), set[str](), set[str]()
    for number, (one, other) in enumerate(pairs):
        chosen = number % one_of == 0 or one not in left or other not in right
        if chosen:
            left.add(one)
            right.add(other)
        made.append(pytest.param(one, other, marks=() if chosen else pytest.mark.nightly))
    return made
