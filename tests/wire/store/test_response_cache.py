"""Caches of answers: bounds, expiry, several processes on one file."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from penstock.client import MemoryCache, SqliteCache
from penstock.errors import InputError
from tests.cli.command_runner import environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.stores import ResponseCache


MOST_WAL = 64 * 2**20  # bytes


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(params=["memory", "sqlite"])
def open_cache(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    opened: list[SqliteCache] = []

    def make(**more: Any) -> MemoryCache | SqliteCache:
        if request.param == "memory":
            return MemoryCache(**more)
        opened.append(SqliteCache(tmp_path / "answers.sqlite", **more))
        return opened[-1]

    yield make
    for cache in opened:
        cache.close()


def get(cache: ResponseCache, key: str, tenant: str = "") -> bytes | None:
    return asyncio.run(cache.get(tenant, key))


def put(cache: ResponseCache, key: str, value: bytes, tenant: str = "") -> None:
    asyncio.run(cache.put(tenant, key, value))
    if isinstance(cache, SqliteCache):
        assert cache.flush()


def test_a_row_is_found_until_it_expires(open_cache: Any) -> None:
    clock = Clock()
    cache = open_cache(ttl=60, clock=clock)
    assert get(cache, "k") is None
    put(cache, "k", b"one")
    put(cache, "k", b"two")
    assert get(cache, "k") == b"two"
    for _ in range(3):  # use does not prolong it: an answer is as old as it is
        clock.now += 19.9
        assert get(cache, "k") == b"two"
    clock.now += 0.4
    assert get(cache, "k") is None


def test_tenants_do_not_see_each_other(open_cache: Any) -> None:
    cache = open_cache()
    put(cache, "k", b"a", "a")
    assert get(cache, "k", "b") is None
    assert get(cache, "k") is None
    assert get(cache, "k", "a") == b"a"


def test_the_size_is_bounded(open_cache: Any) -> None:
    cache = open_cache(size=5_000, rows=10_000)
    for number in range(50):
        put(cache, f"k{number}", b"x" * 1_000)
    assert get(cache, "k49") is not None
    assert get(cache, "k0") is None
    assert len(cache) <= 5
    put(cache, "large", b"x" * 6_000)
    assert get(cache, "large") is None
    assert get(cache, "k49") is not None  # a row that cannot fit costs no other


def test_wrong_bounds(open_cache: Any) -> None:
    for wrong in ({"ttl": 0}, {"size": -1}, {"rows": 0}, {"ttl": float("nan")}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            open_cache(**wrong)


def test_a_file_outlives_its_process_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    with SqliteCache(path) as first:
        put(first, "k", b"kept")
    with SqliteCache(path) as second:
        assert get(second, "k") == b"kept"
    if sys.platform != "win32":
        assert path.stat().st_mode & 0o077 == 0


WRITER = """
import asyncio, sys
from penstock.client import SqliteCache
path, name, others = sys.argv[1], sys.argv[2], sys.argv[3].split(",")
async def main():
    with SqliteCache(path) as cache:
        for number in range(200):
            await cache.put("t", f"{name}{number}", name.encode() * 50)
        assert cache.flush()
        for other in others:  # each process finds what the others write, while all of them write
            async with asyncio.timeout(30):
                while await cache.get("t", f"{other}199") is None:
                    await asyncio.sleep(0.01)
        wrong = [one for one in others for n in range(200) if await cache.get("t", f"{one}{n}") != one.encode() * 50]
        assert not wrong, wrong
asyncio.run(main())
"""


def test_processes_share_a_file(tmp_path: Path) -> None:
    names = ["a", "b"]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "answers.sqlite"), name, ",".join(names)],
            env=environment(),
            stderr=subprocess.PIPE,
        )
        for name in names
    ]
    for process in running:
        _, problems = process.communicate(timeout=60)
        assert process.returncode == 0, problems.decode()


# ── processes ─────────────────────────────────────────────────────────────────────────────────────

FORKED = """
import asyncio, os, sys, warnings
from penstock.client import SqliteCache
warnings.simplefilter("ignore")
cache = SqliteCache(sys.argv[1])
asyncio.run(cache.put("t", "before", b"1"))
pid = os.fork()
if not pid:
    try:
        asyncio.run(cache.get("t", "other"))
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
for number in range(50):
    asyncio.run(cache.put("t", f"k{number}", b"x"))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_fork_leaves_the_file_to_its_parent_which_writes_all_although_it_ends_without_a_word(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    done = subprocess.run(
        [sys.executable, "-c", FORKED, str(path)], env=environment(), timeout=60, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert b"was opened before a fork" in done.stdout
    with SqliteCache(path) as cache:
        assert len(cache) == 51


def test_the_wal_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    with SqliteCache(path, size=2**30) as cache:
        for number in range(900):
            asyncio.run(cache.put("t", f"k{number}", bytes(100_000)))
        assert cache.flush()
        assert path.with_name(f"{path.name}-wal").stat().st_size < MOST_WAL
