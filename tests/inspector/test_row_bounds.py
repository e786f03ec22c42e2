"""Row numbers that a key gets: they are read back, and tell nothing."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock._inspector.row_bounds import RowBounds

pytestmark = pytest.mark.row("V1")


@pytest.mark.slow
@given(st.integers(0, 2**52 - 1), st.text(max_size=20), st.text(max_size=20))
def test_row_bounds_are_read_back(number: int, tenant: str, secret: str) -> None:
    bounds = RowBounds(secret)
    encoded = bounds.encode(number, tenant)
    assert bounds.decode(encoded, tenant) == number
    assert 0 <= encoded < 2**52
    assert bounds.encode(number, None) == bounds.decode(number, None) == number


def test_neighbours_are_far_apart_and_differ_between_tenants() -> None:
    bounds = RowBounds("a secret")
    encoded = [bounds.encode(number, "anna") for number in range(1, 1_001)]
    assert sum(abs(one - other) < 2**40 for one, other in pairwise(encoded)) < 50
    assert encoded != sorted(encoded)
    assert bounds.encode(7, "anna") != bounds.encode(7, "ben") != RowBounds("another").encode(7, "ben")
