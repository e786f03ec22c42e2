"""Redis is away, or hangs: a request waits once at most, and not for each call."""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing

import pytest

from penstock._store import redis_cache, redis_streams
from penstock._store.redis_cache import RedisCache
from penstock._store.redis_streams import RedisStreamLog
from tests.support.servers import HOST, free_port

LIMIT = 60.0


def test_nobody_waits_for_streams_that_cannot_be_uploaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A background response begins all the same."""
    monkeypatch.setattr(redis_streams, "TIMEOUT", 10 * LIMIT)

    async def main() -> None:
        log = RedisStreamLog(f"redis://{HOST}:{free_port()}/0")
        async with asyncio.timeout(LIMIT):
            for name in ("first", "second"):
                log.begin("ann", name, b"head").append(b"data: 1\n\n")
                await log.flush()
        monkeypatch.setattr(redis_streams, "TIMEOUT", 0.1)
        await log.aclose()

    asyncio.run(main())


def test_a_cache_that_hangs_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_cache, "TIMEOUT", 0.2)
    monkeypatch.setattr(redis_cache, "AWAY_INTERVAL", 10 * LIMIT)

    async def main(port: int) -> None:
        cache = RedisCache(f"redis://{HOST}:{port}/0")
        async with asyncio.timeout(LIMIT):
            with pytest.raises(TimeoutError):
                await cache.get("ann", "key")
            monkeypatch.setattr(redis_cache, "TIMEOUT", 10 * LIMIT)
            assert await cache.get("ann", "key") is None
            await cache.put("ann", "key", b"value")
        await cache.aclose()

    with closing(socket.create_server((HOST, 0))) as server:  # it takes connections, and never answers
        asyncio.run(main(int(server.getsockname()[1])))
