"""Opens the store of limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._gateway.config import GatewayConfig, data_path
from penstock._store.memory_limits import MemoryLimitStore

if TYPE_CHECKING:
    from penstock._store.limit_store import LimitStore

FILE = "limits.sqlite"


def open_limit_store(config: GatewayConfig) -> LimitStore:
    """Return the store of a configuration: Redis, else SQLite for several processes, else memory."""
    if config.stores.redis:
        from penstock._store.redis_limits import RedisLimitStore  # noqa: PLC0415 — an extra

        return RedisLimitStore(config.stores.redis, timeout=config.stores.redis_timeout)
    choice = config.stores.limits
    shared = choice == "sqlite" or (choice == "auto" and config.serve.workers > 1)
    if not shared or config.data is None:
        return MemoryLimitStore()
    from penstock._store.sqlite_limits import SqliteLimitStore  # noqa: PLC0415 — only for several processes

    return SqliteLimitStore(data_path("", config.data, FILE))
