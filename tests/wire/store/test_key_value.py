"""Key-value tables in SQLite and PostgreSQL: the same behaviour as the store in memory, also across a restart."""

from __future__ import annotations

import asyncio
import os
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock._store import key_value as module
from penstock._store.key_value import SqliteKeyValueTable, StoredResponses, StoredTurn
from penstock._store.postgres import PostgresDatabase
from penstock._store.postgres_stores import PostgresKeyValueTable
from penstock._store.sqlite import IN_MEMORY
from penstock._store.sqlite_writer import SqliteWriter
from penstock.stores import Bounds, MemoryStore, ReasoningStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


Writer: TypeAlias = SqliteWriter | PostgresDatabase
Table: TypeAlias = SqliteKeyValueTable | PostgresKeyValueTable


@pytest.fixture(scope="module", params=["memory", "file", "postgres"])
def writer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writer]:
    made: Writer
    if request.param == "postgres":
        made = PostgresDatabase(request.getfixturevalue("postgres").url)
    else:
        made = SqliteWriter(tmp_path_factory.mktemp("store") / "x.sqlite" if request.param == "file" else IN_MEMORY)
    yield made
    made.close()


TABLES = count()


def create_table(writer: Writer, clock: Clock, bounds: Bounds) -> Table:
    name = f"t{os.getpid()}_{next(TABLES)}"
    if isinstance(writer, SqliteWriter):
        return SqliteKeyValueTable(writer, name, clock, bounds)

    async def create(connection: Any) -> None:
        await connection.execute(f"CREATE TABLE {name} (LIKE responses INCLUDING ALL)")

    writer.transact(create)
    return PostgresKeyValueTable(writer, name, clock, bounds)


def store(writer: Writer, **bounds: Any) -> tuple[Table, Clock]:
    clock = Clock()
    return create_table(writer, clock, Bounds(**bounds)), clock


def test_it_is_a_reasoning_store(writer: Writer) -> None:
    kept: ReasoningStore = store(writer)[0]
    kept.put("t", {"a": b"1"})
    assert kept.get("t", ["a", "b"]) == {"a": b"1"}


def test_what_is_not_written_yet_is_found_and_what_is_too(writer: Writer) -> None:
    kept, _ = store(writer)
    kept.put("t", {"a": b"1", "b": b"2"})
    kept.put("t", {"a": b"3"})
    assert kept.get("t", ["a", "b"]) == {"a": b"3", "b": b"2"}
    writer.flush()
    assert kept._fresh == {}  # pyright: ignore[reportPrivateUsage]
    assert kept.get("t", ["a", "b"]) == {"a": b"3", "b": b"2"}
    assert asyncio.run(kept.aget("t", ["a", "b", "c"])) == {"a": b"3", "b": b"2"}
    kept.drop("t", ["a"])
    assert kept.get("t", ["a", "b"]) == {"b": b"2"}
    writer.flush()
    assert kept.get("t", ["a", "b"]) == {"b": b"2"}
    assert len(kept) == 1


def test_tenants_never_meet(writer: Writer) -> None:
    kept, _ = store(writer)
    for tenant in ("one", "two", "", "one\0x"):
        kept.put(tenant, {"a": tenant.encode()})
    writer.flush()
    assert [kept.get(tenant, ["a"]) for tenant in ("one", "two", "", "one\0x", "o")] == [
        {"a": b"one"}, {"a": b"two"}, {"a": b""}, {"a": b"one\0x"}, {},
    ]  # fmt: skip
    kept.drop("two", ["a"])
    assert kept.get("one", ["a"]) == {"a": b"one"}


def find_nothing(_tenant: str, _keys: Iterable[str]) -> dict[str, bytes]:
    """In place of `get`: another replica has not written its rows yet."""
    return dict.fromkeys((), b"")


def make_replicas(writer: Writer) -> tuple[Table, Table]:
    """Two views of one table, as two processes have them: neither knows what the other has not written yet."""
    one, _ = store(writer)
    other = object.__new__(type(one))
    other.__dict__.update(one.__dict__)
    other._fresh = {}  # pyright: ignore[reportPrivateUsage]
    return one, other


@pytest.mark.parametrize("is_written", [True, False])
def test_a_response_that_another_replica_has_deleted_is_not_stored_again(writer: Writer, *, is_written: bool) -> None:
    """Nor is one that its replica has not written at all when it is deleted."""
    one, other = make_replicas(writer)
    runs, deletes = (StoredResponses(rows, lambda: "minted") for rows in (one, other))
    item = {"type": "message", "id": "msg_1", "content": "secret"}
    ended = StoredTurn([], {"id": "resp_7", "status": "completed", "output": [item]})
    if is_written:
        runs.put("ann", StoredTurn([], {"id": "resp_7", "status": "queued", "output": []}), key="7")
        writer.flush()
    assert deletes.drop("bob", "resp_7") is False
    assert deletes.drop("ann", "resp_7", exists=True) is is_written
    writer.flush()
    runs.put("ann", ended, key="7")
    writer.flush()
    for seen in (runs, deletes):
        assert seen.get("ann", "resp_7") is None
        assert seen.past("ann", "resp_7") is None
        assert seen.items("ann", ["msg_1"]) == {}
        assert seen.drop("ann", "resp_7") is False
    assert set(one.get("ann", ["t:7", "i:msg_1"])) == set()
    runs.put("bob", ended, key="7")
    writer.flush()
    assert deletes.get("bob", "resp_7") == ended


def test_a_response_that_is_written_while_it_is_deleted_is_gone(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replica that deletes it does not know what the other one writes first."""
    one, other = make_replicas(writer)
    runs, deletes = (StoredResponses(rows, lambda: "minted") for rows in (one, other))
    item = {"type": "message", "id": "msg_1", "content": "secret"}
    assert deletes.get("ann", "resp_7") is None
    runs.put("ann", StoredTurn([], {"id": "resp_7", "output": [item]}), key="7")
    with monkeypatch.context() as patch:
        patch.setattr(other, "get", find_nothing)
        deletes.drop("ann", "resp_7", exists=True)
    writer.flush()
    assert runs.get("ann", "resp_7") is None
    assert runs.items("ann", ["msg_1"]) == {}
    assert "t:7" not in other.get("ann", ["t:7"])


def test_a_tombstone_of_this_process_counts_before_it_is_written(writer: Writer) -> None:
    kept, _ = store(writer)
    kept.put("t", {"g": b"1", "a": b"2"}, guard="g")
    kept.bury("t", "g", ["a"])
    kept.put("t", {"g": b"3", "a": b"4"}, guard="g")
    assert kept.get("t", ["a", "g"]) == {"g": module.TOMBSTONE}
    writer.flush()
    assert kept.get("t", ["a", "g"]) == {"g": module.TOMBSTONE}
    assert kept._fresh == {}  # pyright: ignore[reportPrivateUsage]


def test_many_keys_at_once(writer: Writer) -> None:
    kept, _ = store(writer)
    rows = {str(number): b"x" for number in range(1500)}
    kept.put("t", rows)
    writer.flush()
    assert kept.get("t", rows) == rows


def test_the_tenant_idle_longest_makes_room_for_all(writer: Writer) -> None:
    kept, clock = store(writer, total=40)
    for number, tenant in enumerate(("a", "b", "c")):
        clock.now += 100 * number
        kept.put(tenant, {"k": b"0123456789"})
    clock.now += 100
    writer.flush()
    kept.get("a", ["k"])
    kept.put("d", {"k": b"0123456789"})
    writer.flush()
    assert [tenant for tenant in "abcd" if kept.get(tenant, ["k"])] == ["a", "c", "d"]


def test_rows_grow_old(writer: Writer) -> None:
    kept, clock = store(writer, age=1000.0)
    kept.put("t", {"a": b"1", "b": b"2"})
    writer.flush()
    clock.now += 900
    assert kept.get("t", ["a"]) == {"a": b"1"}  # using it makes it young
    writer.flush()
    clock.now += 900
    assert kept.get("t", ["a", "b"]) == {"a": b"1"}
    kept.put("t", {"c": b"3"})
    assert len(kept) == 2


def test_a_restart_loses_nothing(tmp_path: Path) -> None:
    clock = Clock()
    first = SqliteWriter(tmp_path / "x.sqlite")
    SqliteKeyValueTable(first, "state", clock).put("t", {"a": b"\0\xff"})
    first.close()
    second = SqliteWriter(tmp_path / "x.sqlite")
    assert SqliteKeyValueTable(second, "state", clock).get("t", ["a"]) == {"a": b"\0\xff"}
    assert SqliteKeyValueTable(second, "other", clock).get("t", ["a"]) == {}
    second.close()


def test_a_closed_writer_hides_nothing_that_was_never_kept(tmp_path: Path) -> None:
    made = SqliteWriter(tmp_path / "x.sqlite")
    kept = SqliteKeyValueTable(made, "state", Clock())
    made.close()
    kept.put("t", {"a": b"1"})
    assert kept._fresh == {}  # pyright: ignore[reportPrivateUsage]


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("ab"), st.dictionaries(st.sampled_from("vwxyz"), st.binary(max_size=6), max_size=3)),
        st.tuples(st.just("get"), st.sampled_from("ab"), st.lists(st.sampled_from("vwxyz"), unique=True, max_size=3)),
    ),
    max_size=12,
)  # fmt: skip


@given(_STEPS, st.integers(1, 4), st.integers(1, 12))
def test_it_forgets_what_the_store_in_memory_forgets(
    writer: Writer, steps: list[tuple[str, str, Any]], rows: int, size: int
) -> None:
    clock = Clock()
    bounds = Bounds(rows=rows, size=size)
    memory, kept = MemoryStore(clock, bounds), create_table(writer, clock, bounds)
    for what, tenant, said in steps:
        clock.now += module.TOUCH_INTERVAL + 1  # so that each use counts
        if what == "put":
            # One at a time: rows that come together have no order of their own on disk.
            for key, value in said.items():
                clock.now += 1
                memory.put(tenant, {key: value})
                kept.put(tenant, {key: value})
        else:
            for key in said:
                clock.now += module.TOUCH_INTERVAL + 1
                memory.get(tenant, [key])
                kept.get(tenant, [key])
        writer.flush()
    for tenant in "ab":
        assert kept.get(tenant, "vwxyz") == memory.get(tenant, "vwxyz")
