"""Correction factors of token counts, in a file and in PostgreSQL: no change is lost, tenants never meet, bounds."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.factor_stores import open_factors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from penstock.stores import FactorStore

SECONDS = 5.0  # after which a factor of another process is read again


@pytest.fixture(params=["file", "postgres"])
def factors(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., FactorStore]]:
    """Opens the same store each time it is called."""
    opened: list[Any] = []
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else ""

    def open_(**more: Any) -> FactorStore:
        store, owner = open_factors(url, tmp_path, **more)
        opened.append(owner)
        return store

    yield open_
    for one in opened:
        one.close()


def test_no_change_of_a_factor_is_lost(factors: Callable[..., FactorStore]) -> None:
    def learn() -> None:
        store = factors()
        for _ in range(25):
            store.update("t", "model", lambda old: str(int(old or b"0") + 1).encode())

    threads = [threading.Thread(target=learn) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert factors().get("t", ["model", "other"]) == {"model": b"100"}


def test_tenants_and_a_change_that_fails(factors: Callable[..., FactorStore]) -> None:
    store = factors()
    store.update("one", "k", lambda _: b"1")
    store.update("two\0", "k", lambda _: b"2")
    with pytest.raises(ZeroDivisionError):
        store.update("one", "k", lambda _: bytes(1 // 0))
    assert [store.get(tenant, ["k"]) for tenant in ("one", "two\0", "two")] == [{"k": b"1"}, {"k": b"2"}, {}]


def test_they_are_bounded_and_large_tenants_make_room(factors: Callable[..., FactorStore]) -> None:
    store = factors(rows=16)
    store.update("small", "k", lambda _: b"1")
    for number in range(40):
        store.update("large", f"k{number:02}", lambda _: b"1")
    stored = factors()
    assert stored.get("small", ["k"]) == {"k": b"1"}
    assert [*stored.get("large", [f"k{number:02}" for number in range(40)])] == [f"k{n:02}" for n in range(25, 40)]


def test_a_factor_is_read_again_after_some_seconds(postgres_url: str, tmp_path: Path) -> None:
    clock = [1000.0]
    (reader, one), (learner, two) = (open_factors(postgres_url, tmp_path, clock=lambda: clock[0]) for _ in range(2))
    assert reader.get("t", ["k"]) == {}
    learner.update("t", "k", lambda _: b"1")
    assert reader.get("t", ["k"]) == {}
    clock[0] += SECONDS
    assert reader.get("t", ["k"]) == {"k": b"1"}
    assert reader.update("t", "k", lambda old: (old or b"") + b"2") == b"12"
    clock[0] -= 100  # a clock that went back does not keep a factor for ever
    learner.update("t", "k", lambda _: b"3")
    assert reader.get("t", ["k"]) == {"k": b"3"}
    one.close()
    two.close()
