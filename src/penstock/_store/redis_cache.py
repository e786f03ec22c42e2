"""A cache of whole answers in Redis or Valkey, which all replicas share. Bounded in time and in bytes."""

from __future__ import annotations

import time
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from penstock._store.redis_scripts import timeout_while_running
from penstock._store.redis_streams import connect_redis
from penstock._store.response_cache import DEFAULT_TTL, MEMORY_SIZE, VERSION, check_bounds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PREFIX = f"penstock:cache:{VERSION}:"
_INDEX, _TOTAL = f"{PREFIX}index", f"{PREFIX}size"
TIMEOUT = 1.0  # seconds for a command
AWAY_INTERVAL = 5.0  # seconds after an error in which the server is not asked
MAX_SHARE = 4  # an answer larger than a fourth of the cache is not stored
# Stores an answer, and drops those that have expired and then the oldest ones until all fit. A member of the index is
# the size and the key of an answer, its score the time at which it expires.
_PUT = """
local index, total, key, value = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local now, ttl, most = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local function forget(member)
  if redis.call('ZREM', index, member) == 1 then
    local colon = string.find(member, ':', 1, true)
    redis.call('DECRBY', total, tonumber(string.sub(member, 1, colon - 1)))
    return string.sub(member, colon + 1)
  end
end
for _, member in ipairs(redis.call('ZRANGEBYSCORE', index, '-inf', now, 'LIMIT', 0, 1000)) do forget(member) end
local before = redis.call('STRLEN', key)
if before > 0 then forget(before .. ':' .. key) end
redis.call('SET', key, value, 'PX', ttl)
redis.call('ZADD', index, now + ttl, #value .. ':' .. key)
local used = redis.call('INCRBY', total, #value)
while used > most do
  local oldest = redis.call('ZRANGE', index, 0, 0)[1]
  if not oldest then redis.call('SET', total, 0) break end
  redis.call('DEL', forget(oldest))
  used = tonumber(redis.call('GET', total))
end
redis.call('PEXPIRE', index, ttl)
redis.call('PEXPIRE', total, ttl)
return used
"""


class RedisCache:
    """A `ResponseCache` in Redis. `ttl` in seconds, `size` in bytes of all answers. The oldest answers go first."""

    def __init__(self, url: str, *, ttl: float = DEFAULT_TTL, size: int = MEMORY_SIZE) -> None:
        check_bounds(ttl, size, 1)
        self._client, _ = connect_redis(url)
        self._ttl, self._size = max(int(ttl * 1000), 1), size
        self._put: Any = self._client.register_script(_PUT)
        self._away_until = 0.0

    async def get(self, tenant: str, key: str, /) -> bytes | None:
        value: bytes | None = await self._call(lambda: self._client.get(_row_key(tenant, key)))
        return value

    async def put(self, tenant: str, key: str, value: bytes, /) -> None:
        if len(value) * MAX_SHARE <= self._size:
            keys = (_INDEX, _TOTAL, _row_key(tenant, key))
            args = (value, int(time.time() * 1000), self._ttl, self._size)
            await self._call(lambda: self._put(keys=keys, args=args))

    async def _call(self, command: Callable[[], Awaitable[Any]]) -> Any:
        """Returns the result of a command. For a while after an error the cache is empty, so that nobody waits."""
        if time.monotonic() < self._away_until:
            return None
        try:
            async with timeout_while_running(TIMEOUT):
                return await command()
        except Exception:
            self._away_until = time.monotonic() + AWAY_INTERVAL
            raise

    async def aclose(self) -> None:
        await self._client.aclose()


def _row_key(tenant: str, key: str) -> str:
    return PREFIX + sha256(f"{len(tenant)}:{tenant}:{key}".encode()).hexdigest()
