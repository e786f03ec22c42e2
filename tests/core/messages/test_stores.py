"""The store in memory: tenants apart, bounded in every direction, and only as old as its clock says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.stores import Bounds, MemoryStore, ReasoningStore


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def store(**bounds: float) -> tuple[MemoryStore, Clock]:
    clock = Clock()
    return MemoryStore(clock, Bounds(**bounds)), clock  # type: ignore[arg-type]


def test_it_is_a_reasoning_store() -> None:
    kept: ReasoningStore = MemoryStore(Clock())
    kept.put("t", {"a": b"1"})
    assert kept.get("t", ["a", "b"]) == {"a": b"1"}


def test_tenants_never_meet() -> None:
    kept, _ = store()
    kept.put("one", {"a": b"1"})
    kept.put("two", {"a": b"2"})
    kept.put("", {"a": b"3"})
    assert [kept.get(tenant, ["a"]) for tenant in ("one", "two", "", "four")] == [
        {"a": b"1"},
        {"a": b"2"},
        {"a": b"3"},
        {},
    ]


def test_the_row_unused_longest_goes_first() -> None:
    kept, _ = store(rows=2)
    kept.put("t", {"a": b"1"})
    kept.put("t", {"b": b"2"})
    kept.get("t", ["a"])
    kept.put("t", {"c": b"3"})
    assert kept.get("t", ["a", "b", "c"]) == {"a": b"1", "c": b"3"}


def test_a_tenant_is_bounded_in_bytes() -> None:
    kept, _ = store(size=10)
    kept.put("t", {"a": b"1234", "b": b"1234"})
    kept.put("t", {"c": b"12"})
    assert kept.get("t", "abc") == {"b": b"1234", "c": b"12"}
    kept.put("t", {"d": b"far too long a row"})
    assert kept.get("t", "bcd") == {"b": b"1234", "c": b"12"}


def test_over_all_the_tenant_idle_longest_loses() -> None:
    kept, _ = store(total=10)
    kept.put("one", {"a": b"1234"})
    kept.put("two", {"b": b"1234"})
    kept.get("one", ["a"])
    kept.put("three", {"c": b"1234"})
    assert kept.get("two", ["b"]) == {}
    assert kept.get("one", ["a"]) == {"a": b"1234"}


def test_rows_grow_old_when_nobody_asks_for_them() -> None:
    kept, clock = store(age=10)
    kept.put("t", {"a": b"1", "b": b"2"})
    clock.now = 8
    assert kept.get("t", ["a"]) == {"a": b"1"}
    clock.now = 16
    assert kept.get("t", ["a", "b"]) == {"a": b"1"}
    clock.now = 27
    assert kept.get("t", ["a"]) == {}
    assert (len(kept), kept.size) == (0, 0)


STEPS = st.lists(
    st.tuples(st.sampled_from("xyz"), st.sampled_from("abcde"), st.binary(max_size=12), st.floats(0, 5)), max_size=60
)


@given(STEPS)
def test_the_bounds_hold_whatever_happens(steps: list[tuple[str, str, bytes, float]]) -> None:
    kept, clock = store(rows=3, size=20, total=40, age=30)
    for tenant, key, value, wait in steps:
        clock.now += wait
        if value:
            kept.put(tenant, {key: value})
        else:
            kept.get(tenant, [key])
        assert kept.size <= 40
        assert len(kept) <= 9
    held = [kept.get(tenant, "abcde") for tenant in "xyz"]
    assert all(len(rows) <= 3 for rows in held)
    sizes = [sum(len(key) + len(value) for key, value in rows.items()) for rows in held]
    assert max(sizes) <= 20
    assert (kept.size, len(kept)) == (sum(sizes), sum(map(len, held)))
