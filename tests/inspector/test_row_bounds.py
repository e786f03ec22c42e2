"""Row numbers that a key gets: they are read back, and tell nothing of others."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock._gateway.config import Key
from penstock._gateway.keys import hash_key
from penstock._inspector.row_bounds import RowBounds
from tests.gateway.client_requests import ask, get
from tests.inspector.conftest import inspected
from tests.inspector.event_feed import bearer, ended, watching

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


@pytest.mark.slow
def test_the_bound_of_a_tenant_does_not_change_when_others_make_turns() -> None:
    anna, ben = "pk-penstock-anna0123456789", "pk-penstock-ben00123456789"
    keys = {name: Key(hash=hash_key(key), inspect="own") for name, key in (("anna", anna), ("ben", ben))}
    with inspected(keys=keys) as gateway, watching(gateway.url, bearer(anna)), watching(gateway.url, bearer(ben)):

        def read_page(key: str, upto: int = 0) -> dict[str, Any]:
            found: dict[str, Any] = get(f"{gateway.url}/inspector/turns?upto={upto}", headers=bearer(key)).json()
            return found

        def make_turn(key: str) -> None:
            name = ask(gateway.url, "anthropic", "replay/text", headers=bearer(key)).headers["x-request-id"]
            ended(gateway, name)

        none = read_page(anna)["upto"]
        make_turn(ben)
        assert read_page(anna)["upto"] == none
        make_turn(anna)
        first = read_page(anna)
        make_turn(ben)
        assert read_page(anna)["upto"] == first["upto"] != none
        make_turn(anna)
        assert [row["id"] for row in read_page(anna, first["upto"])["rows"]] == [row["id"] for row in first["rows"]]
        assert len(read_page(anna)["rows"]) == 2
