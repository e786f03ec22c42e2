"""Short-lived notices that processes leave for each other in Redis or Valkey, such as "this target cools down".

Each process has notices of its own, by name. A task sends what is new and reads what the others say, twice a second, in
one call of a script. It runs in the background: `publish` and `withdraw` return at once. Time is the server's clock.

    {penstock-notices}:values    process and name → the notice
    {penstock-notices}:ends      process and name, by the time of its end (milliseconds)
    {penstock-notices}:version   changes with every change; a process that has the version gets no notices
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from typing import TYPE_CHECKING, NamedTuple

from penstock._store.limit_store import StoreUnavailable
from penstock._store.redis_scripts import TIMEOUT, LuaScript, RedisScripts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TAG = "{penstock-notices}:"
INTERVAL = 0.5  # seconds between two calls
MAX_NOTICES = 1_000  # of all processes; beyond it those that end first are dropped
MAX_SECONDS = 3_600.0
_OWNER = 32  # characters of the id of a process
log = logging.getLogger("penstock.store")

# process, version that it has, notices (name, value, milliseconds), names to withdraw. Returns the version and, if it
# is another one, the notices: process and name, value, milliseconds left. Redis reads texts of MessagePack, no bytes.
_EXCHANGE = f"""
local VALUES, ENDS, VERSION = '{TAG}values', '{TAG}ends', '{TAG}version'
local given = cmsgpack.unpack(ARGV[1])
local owner, seen, notices, withdrawn = given[1], given[2], given[3], given[4]
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local changed = false
local function drop(field)
  if redis.call('ZREM', ENDS, field) == 1 then changed = true end
  redis.call('HDEL', VALUES, field)
end
for _, field in ipairs(redis.call('ZRANGEBYSCORE', ENDS, '-inf', string.format('%.0f', now))) do drop(field) end
for _, name in ipairs(withdrawn) do drop(owner .. name) end
for _, notice in ipairs(notices) do
  redis.call('HSET', VALUES, owner .. notice[1], notice[2])
  redis.call('ZADD', ENDS, string.format('%.0f', now + notice[3]), owner .. notice[1])
  changed = true
end
local excess = redis.call('ZCARD', ENDS) - {MAX_NOTICES}
if excess > 0 then
  for _, field in ipairs(redis.call('ZRANGE', ENDS, 0, excess - 1)) do drop(field) end
end
if changed then
  for _, key in ipairs({{VALUES, ENDS}}) do redis.call('EXPIRE', key, {int(2 * MAX_SECONDS)}) end
end
local version = redis.call('GET', VERSION)
if changed or not version then
  version = time[1] .. '.' .. time[2] .. owner
  redis.call('SET', VERSION, version)
end
if version == seen then return {{version}} end
local found = {{}}
local fields = redis.call('ZRANGE', ENDS, 0, -1, 'WITHSCORES')
for at = 1, #fields, 2 do
  local value = redis.call('HGET', VALUES, fields[at])
  if value then found[#found + 1] = {{fields[at], value, tonumber(fields[at + 1]) - now}} end
end
return {{version, found}}
"""
EXCHANGE = LuaScript(_EXCHANGE, f"{TAG}values")


class ForeignNotice(NamedTuple):
    """A notice of another process."""

    owner: str
    name: str
    value: str
    seconds: float  # until it ends


class _OwnNotice(NamedTuple):
    value: str
    until: float  # by the monotonic clock
    sent: bool


class RedisNotices:
    """The notices of this process and, each time that they change, of the others (`on_change`).

    While the server is away, nothing changes; notices that are still valid are sent when it is back.
    """

    def __init__(self, url: str, *, interval: float = INTERVAL, timeout: float = TIMEOUT) -> None:
        self.on_change: Callable[[Sequence[ForeignNotice]], None] = _ignore
        self._scripts, self._interval = RedisScripts(url, timeout), interval
        self._owner = uuid.uuid4().hex
        self._notices: dict[str, _OwnNotice] = {}
        self._withdrawn: set[str] = set()
        self._version = ""
        self._away = False
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to exchange notices, on the running loop."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="penstock-notices")

    def publish(self, name: str, value: str, seconds: float) -> None:
        """Leaves a notice for so many seconds. It replaces the last one of the name."""
        self._notices.pop(name, None)
        self._notices[name] = _OwnNotice(value, time.monotonic() + min(seconds, MAX_SECONDS), sent=False)
        self._withdrawn.discard(name)
        if len(self._notices) > MAX_NOTICES:
            self._notices.pop(next(iter(self._notices)))
        self._woken.set()

    def withdraw(self, name: str) -> None:
        """Takes a notice back."""
        if self._notices.pop(name, None) is not None:
            self._withdrawn.add(name)
            self._woken.set()

    async def aclose(self) -> None:
        """Stops. Notices of this process stay until they end."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._scripts.aclose()

    async def _run(self) -> None:
        while True:
            try:
                await self._exchange()
            except StoreUnavailable as error:
                if not self._away:
                    log.warning("%s; this process does not hear of others' cool-downs and circuits", error)
                self._away = True
                await asyncio.sleep(self._interval)
            else:
                self._away = False
                await self._pause()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._interval):
                await self._woken.wait()
        except TimeoutError:
            pass

    async def _exchange(self) -> None:
        self._woken.clear()
        now = time.monotonic()
        self._notices = {name: one for name, one in self._notices.items() if one.until > now}
        fresh = {name: one for name, one in self._notices.items() if not one.sent}
        rows = [(name, one.value, int((one.until - now) * 1000) + 1) for name, one in fresh.items()]
        withdrawn = list(self._withdrawn)
        version, *rest = await self._scripts.call(EXCHANGE, self._owner, self._version, rows, withdrawn)
        self._withdrawn.difference_update(withdrawn)
        for name, one in fresh.items():
            if self._notices.get(name) is one:
                self._notices[name] = one._replace(sent=True)
        self._version = version.decode()
        if rest:
            self._take(rest[0])

    def _take(self, rows: Sequence[tuple[bytes, bytes, int]]) -> None:
        """Takes what the server has. Own notices that it has lost are sent again."""
        found: list[ForeignNotice] = []
        own: set[str] = set()
        for field, value, left in rows:
            text = field.decode(errors="replace")
            owner, name = text[:_OWNER], text[_OWNER:]
            if owner == self._owner:
                own.add(name)
            else:
                found.append(ForeignNotice(owner, name, value.decode(errors="replace"), left / 1000))
        for name, one in self._notices.items():
            if one.sent and name not in own:
                self._notices[name] = one._replace(sent=False)
        self.on_change(found)


def _ignore(_: Sequence[ForeignNotice]) -> None:
    """Does nothing, as long as nobody listens."""
