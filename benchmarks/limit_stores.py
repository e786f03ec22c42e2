"""What a reservation and its settlement cost in each store of limits: memory, SQLite, Redis.

`python -m benchmarks.limit_stores`. Five rules of an organisation, a team and a key. CPU time is that of this process,
threads included; Redis runs beside it on the same machine, with its append-only file.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.timing import table
from penstock._store.limit_store import Amounts, LimitRule
from penstock._store.memory_limits import MemoryLimitStore
from penstock._store.redis_limits import RedisLimitStore
from penstock._store.sqlite_limits import SqliteLimitStore
from tests.support.servers import RedisServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._store.limit_store import LimitStore

PAIRS = 1_000
ROUNDS = 5
RULES = (
    LimitRule("org", "cost", 30 * 86_400, 10**14),
    LimitRule("team:research", "cost", 86_400, 10**14),
    LimitRule("key:ann", "requests", 60, 10_000),
    LimitRule("key:ann", "tokens", 60, 10**14),
    LimitRule("key:ann", "concurrent", 0, 1_000),
)


async def measure(store: LimitStore, parallel: int, name: str) -> tuple[float, float]:
    """Wall and CPU seconds of `PAIRS` reservations with their settlements."""
    ids = iter(range(PAIRS))

    async def work() -> None:
        for number in ids:
            assert await store.reserve(f"{name}-{number}", RULES, Amounts(tokens=1_000, cost=500)) is None
            await store.settle_reservation(f"{name}-{number}", Amounts(requests=0, tokens=300, cost=120))

    await store.usage(RULES)
    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(work() for _ in range(parallel)))
    return time.perf_counter() - wall, time.process_time() - cpu


async def measure_best(make: Callable[[], LimitStore], parallel: int) -> tuple[float, float]:
    rounds: list[tuple[float, float]] = []
    for number in range(ROUNDS):
        store = make()
        rounds.append(await measure(store, parallel, f"{parallel}-{number}"))
        await store.aclose()
    walls, cpus = zip(*rounds, strict=True)
    return min(walls), min(cpus)


def server_seconds(server: RedisServer) -> float:
    """CPU seconds that the server has used so far, where the system tells it (Linux)."""
    assert server.process is not None
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def main() -> None:
    rows: list[list[str]] = []
    with closing(RedisServer()) as server, tempfile.TemporaryDirectory() as folder:
        server.start()
        stores: dict[str, Callable[[], LimitStore]] = {
            "memory": MemoryLimitStore,
            "SQLite": lambda: SqliteLimitStore(Path(folder) / "limits.sqlite", timeout=60),
            "Redis": lambda: RedisLimitStore(server.url, timeout=60),
        }
        for name, make in stores.items():
            for parallel in (1, 50):
                wall, cpu = await measure_best(make, parallel)
                rows.append([name, str(parallel), f"{PAIRS / wall:,.0f}", f"{cpu / PAIRS * 1e6:.0f}"])
        pairs = 2 * ROUNDS * PAIRS
        server_cost = server_seconds(server) / pairs * 1e6
    print(table(["store", "at once", "pairs a second", "CPU µs a pair"], rows))
    print(f"\nThe Redis server itself: {server_cost:.0f} CPU µs a pair, over {pairs:,} pairs")


if __name__ == "__main__":
    asyncio.run(main())
