"""Stores of limits that several processes share: budgets hold, killed processes free their slots, outages pass."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import pytest
import redis

from penstock._store import limit_delivery, redis_scripts, sqlite_limits
from penstock._store.limit_delivery import RENEW_INTERVAL
from penstock._store.limit_store import LEASE, RELEASED, Amounts, LimitRule, StoreUnavailable
from penstock._store.redis_limits import RedisLimitStore
from penstock._store.sqlite_limits import SqliteLimitStore
from penstock.errors import InputError
from tests.support.servers import RedisServer, free_port
from tests.wire.store.processes import start_python

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
    from pathlib import Path

    from penstock._store.limit_store import LimitStore

BUDGET = LimitRule("team:research", "cost", 0, 100)
SLOTS = LimitRule("key:ann", "concurrent", 0, 3)
ENOUGH = 60.0  # seconds: a test that takes longer has failed
HANG = 4.0  # seconds after which a store counts as away, on a busy machine
OPEN = """
import asyncio, sys
from pathlib import Path
from penstock._store.limit_delivery import LeaseKeeper
from penstock._store.limit_store import Amounts, LimitRule
from penstock._store.redis_limits import RedisLimitStore
from penstock._store.sqlite_limits import SqliteLimitStore
place, name = sys.argv[1:3]
store = RedisLimitStore(place, timeout=60) if ":" in place else SqliteLimitStore(Path(place), timeout=60)
budget, slots = LimitRule("team:research", "cost", 0, 100), LimitRule("key:ann", "concurrent", 0, 3)
"""
SPENDER = (
    OPEN
    + """
reserved, actual = int(sys.argv[3]), int(sys.argv[4])
async def request(number):
    if await store.reserve(f"{name}-{number}", [budget], Amounts(cost=reserved)) is not None:
        return 0
    await store.settle_reservation(f"{name}-{number}", Amounts(cost=actual))
    return 1
async def main():
    await store.usage([budget])
    print("ready")
    sys.stdin.readline()
    accepted = await asyncio.gather(*(request(number) for number in range(100)))
    await store.aclose()
    print(sum(accepted))
asyncio.run(main())
"""
)
HOLDER = (
    OPEN
    + """
async def main():
    renew = store.renew
    async def report(ids, lease):
        await renew(ids, lease)
        print("renewed")
    store.renew = report
    keeper = LeaseKeeper(store, lease=3.0, interval=0.3)
    assert await store.reserve(name, [budget, slots], Amounts(cost=30), 3.0) is None
    keeper.add(name)
    await asyncio.Event().wait()
asyncio.run(main())
"""
)


@pytest.fixture(scope="module")
def shared_server() -> Iterator[RedisServer]:
    with closing(RedisServer()) as server:
        server.start()
        yield server


@pytest.fixture
def server(shared_server: RedisServer) -> RedisServer:
    client: Any = redis.Redis(port=shared_server.port)
    with client:
        client.flushall()
    return shared_server


@pytest.fixture(params=["sqlite", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The file of a SQLite store, or the URL of a Redis."""
    if request.param == "sqlite":
        return str(tmp_path / "limits.sqlite")
    found: RedisServer = request.getfixturevalue("server")
    return found.url


def open_store(place: str, folder: Path) -> LimitStore:
    if place.startswith("redis:"):
        return RedisLimitStore(place, timeout=ENOUGH)
    return SqliteLimitStore(folder / "limits.sqlite", timeout=ENOUGH)


def run_steps(steps: Coroutine[Any, Any, None]) -> None:
    async def main() -> None:
        async with asyncio.timeout(ENOUGH):
            await steps

    asyncio.run(main())


async def wait_until(check: Callable[[], Awaitable[bool]]) -> None:
    """Asks again until it is true; a store that is away says nothing."""
    while True:
        with suppress(StoreUnavailable):
            if await check():
                return
        await asyncio.sleep(0.02)


# ── several processes ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("reserved", "actual"), [(1, 1), (5, 2)])
def test_300_parallel_reservations_of_3_processes_do_not_overspend(
    place: str, tmp_path: Path, reserved: int, actual: int
) -> None:
    workers = [start_python(SPENDER, place, f"w{number}", str(reserved), str(actual)) for number in range(3)]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    accepted = [int(worker.communicate(timeout=ENOUGH)[0]) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0, 0]

    async def steps() -> None:
        store = open_store(place, tmp_path)
        used = await store.usage([BUDGET])
        assert used == [sum(accepted) * actual]
        assert used[0] <= BUDGET.most
        if reserved == actual:
            assert sum(accepted) == BUDGET.most
        await store.aclose()

    run_steps(steps())


def test_a_killed_process_frees_its_slot_and_stays_charged(place: str, tmp_path: Path) -> None:
    assert LEASE + RENEW_INTERVAL <= 10
    holder = start_python(HOLDER, place, "holder")
    assert holder.stdout is not None
    for _ in range(15):  # longer than the lease
        assert holder.stdout.readline() == "renewed\n"

    async def steps() -> None:
        store = open_store(place, tmp_path)
        assert await store.usage([BUDGET, SLOTS]) == [30, 1]
        holder.kill()
        holder.communicate()

        async def is_free() -> bool:
            return await store.usage([SLOTS]) == [0]

        await wait_until(is_free)
        assert await store.usage([BUDGET]) == [30]
        await store.aclose()

    run_steps(steps())


# ── outages ───────────────────────────────────────────────────────────────────────────────────────


async def check_outage(store: LimitStore, stop: Callable[[], None], start: Callable[[], None]) -> None:
    """Settlements wait for the store, and requests that went on without a reservation are charged."""
    for name in ("before", "twice"):
        assert await store.reserve(name, [BUDGET, SLOTS], Amounts(cost=30)) is None
    stop()
    for name in ("open", "closed", "another"):
        with pytest.raises(StoreUnavailable):
            await store.reserve(name, [BUDGET, SLOTS], Amounts(cost=10))
    with pytest.raises(StoreUnavailable):
        await store.usage([BUDGET])
    with pytest.raises(StoreUnavailable):
        await store.renew(["before"])
    await store.settle_reservation("before", Amounts(cost=7))
    await store.settle_reservation("twice", Amounts(cost=1))
    await store.settle_reservation("twice", Amounts(cost=20))
    await store.settle_reservation("unknown", Amounts(cost=50))
    await store.settle_reservation("open", Amounts(cost=4))  # the caller went on
    await store.settle_reservation("closed", RELEASED)  # the caller refused
    start()

    async def is_delivered() -> bool:
        return await store.usage([BUDGET, SLOTS]) == [12, 0]

    await wait_until(is_delivered)
    assert await store.reserve("after", [BUDGET], Amounts(cost=88)) is None
    assert store.lost == 0


def test_redis_may_be_restarted(server: RedisServer) -> None:
    async def steps() -> None:
        store = RedisLimitStore(server.url, timeout=ENOUGH)  # a closed port needs no timeout
        await check_outage(store, server.stop, server.start)
        await store.aclose()

    run_steps(steps())


def test_redis_may_hang(server: RedisServer) -> None:
    assert server.process is not None
    pid = server.process.pid

    async def steps() -> None:
        store = RedisLimitStore(server.url, timeout=HANG)
        await check_outage(store, lambda: os.kill(pid, signal.SIGSTOP), lambda: os.kill(pid, signal.SIGCONT))
        await store.aclose()

    run_steps(steps())


def test_a_blocked_event_loop_is_not_an_outage_of_redis(server: RedisServer) -> None:
    """An answer that arrives while the loop is blocked counts, however long the loop is blocked."""

    async def steps() -> None:
        store = RedisLimitStore(server.url, timeout=1.0)
        await wait_until(lambda: is_reserved(store, "first"))
        waiting = asyncio.create_task(store.reserve("second", [BUDGET], Amounts(cost=1)))
        for _ in range(4):
            await asyncio.sleep(0)  # it is sent
        with closing(redis.Redis(port=server.port)) as client:
            while not client.exists("{penstock-limits}:r:second"):
                time.sleep(0.01)  # noqa: ASYNC251 — the loop is blocked
        time.sleep(1.2)  # noqa: ASYNC251 — as above
        assert await waiting is None
        await store.aclose()

    run_steps(steps())


async def is_reserved(store: LimitStore, id: str) -> bool:
    return await store.reserve(id, [BUDGET], Amounts(cost=1)) is None


def test_a_sqlite_file_may_be_locked(tmp_path: Path) -> None:
    path = tmp_path / "limits.sqlite"

    async def steps() -> None:
        store = SqliteLimitStore(path, timeout=HANG)
        await store.usage([BUDGET])
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            await check_outage(store, lambda: execute(other, "BEGIN IMMEDIATE"), lambda: execute(other, "ROLLBACK"))
        await store.aclose()

    run_steps(steps())


def execute(database: sqlite3.Connection, statement: str) -> None:
    database.execute(statement)


def test_nobody_waits_longer_than_a_second() -> None:
    assert max(redis_scripts.TIMEOUT, sqlite_limits.TIMEOUT) <= 1


def test_a_sqlite_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    path = tmp_path / "limits.sqlite"
    path.write_bytes(b"no database" * 1_000)

    async def steps() -> None:
        store = SqliteLimitStore(path)
        with pytest.raises(StoreUnavailable, match=r"limits\.sqlite"):
            await store.reserve("a", [BUDGET], Amounts(cost=1))
        await store.aclose()

    run_steps(steps())


def test_settlements_that_wait_are_bounded_and_lost_ones_are_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(limit_delivery, "MAX_SETTLEMENTS", 3)

    async def steps() -> None:
        store = RedisLimitStore("redis://:s3cret@127.0.0.1:1")
        with pytest.raises(StoreUnavailable, match=r"Redis at 127\.0\.0\.1:1 cannot be used"):
            await store.reserve("a", [BUDGET], Amounts(cost=1))
        for number in range(5):
            await store.settle_reservation(f"a{number}", Amounts(cost=1))
        assert store.lost == 2
        await store.aclose()
        assert store.lost == 5

    run_steps(steps())
    assert "3 settlements of limits were not delivered and are lost" in caplog.text
    assert "s3cret" not in caplog.text


def test_a_url_that_is_none_is_refused_without_its_secrets() -> None:
    with pytest.raises(InputError, match=r"^stores\.redis: expected a URL") as refused:
        RedisLimitStore("http://:s3cret@127.0.0.1")
    assert "s3cret" not in str(refused.value)


# ── what Redis alone has ──────────────────────────────────────────────────────────────────────────


def test_scripts_are_sent_again_to_a_server_that_has_forgotten_them(server: RedisServer) -> None:
    client: Any = redis.Redis(port=server.port)

    async def steps() -> None:
        store = RedisLimitStore(server.url, timeout=ENOUGH)
        assert await store.reserve("a", [BUDGET], Amounts(cost=10)) is None
        client.script_flush()
        names = [f"b{number}" for number in range(20)]
        refusals = await asyncio.gather(*(store.reserve(name, [BUDGET], Amounts(cost=10)) for name in names))
        assert [refusal is None for refusal in refusals] == [True] * 9 + [False] * 11
        await store.aclose()

    with client:
        run_steps(steps())


def test_the_clock_of_the_server_counts_and_the_wait_is_enough(server: RedisServer) -> None:
    rule = LimitRule("key:ann", "requests", 1, 5)

    async def steps() -> None:
        store = RedisLimitStore(server.url, timeout=ENOUGH)
        refusals = await asyncio.gather(*(store.reserve(f"a{number}", [rule], Amounts()) for number in range(6)))
        assert refusals[:5] == [None] * 5
        refusal = refusals[5]
        assert refusal is not None
        assert 0 < refusal.retry_after <= 1.001
        await asyncio.sleep(refusal.retry_after)
        assert await store.reserve("b", [rule], Amounts()) is None
        await store.aclose()

    run_steps(steps())


class ClusterServer(RedisServer):
    """A cluster of one node. Its nodes talk on a second port, 10,000 above the first."""

    def __init__(self) -> None:
        super().__init__()
        while self.port + 10_000 > 65_535:
            self.port = free_port()

    def command(self) -> Sequence[str]:
        return (*super().command(), "--cluster-enabled", "yes")


def test_the_scripts_run_on_a_node_of_a_cluster() -> None:
    with closing(ClusterServer()) as server:
        server.start()
        client: Any = redis.Redis(port=server.port)

        async def steps() -> None:
            store = RedisLimitStore(server.url, timeout=ENOUGH)

            async def is_up() -> bool:
                return await store.usage([BUDGET]) == [0]

            await wait_until(is_up)
            assert await store.reserve("a", [BUDGET, SLOTS], Amounts(cost=60)) is None
            assert await store.reserve("b", [BUDGET, SLOTS], Amounts(cost=60)) is not None
            await store.renew(["a"])
            await store.settle_reservation("a", Amounts(cost=10))
            assert await store.usage([BUDGET, SLOTS]) == [10, 0]
            await store.aclose()

        with client:
            client.execute_command("CLUSTER ADDSLOTS", *range(16_384))
            run_steps(steps())
