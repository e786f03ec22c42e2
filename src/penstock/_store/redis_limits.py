"""A store of limits in Redis or Valkey, for any number of machines. Each step is one Lua script, so it is atomic.

Time is the server's clock. All keys share one hash tag: on a cluster they are in one slot, because organisation, team
and key must be checked together. They have a time to live, and go away when nothing in them counts any more:

    {penstock-limits}:r:ID     a reservation: its charges (MessagePack), or "settled"
    {penstock-limits}:c:NAME   a counter: bucket → amount, their sum, the oldest and the latest bucket
    {penstock-limits}:b:NAME   the numbers of its buckets, in the order of time
    {penstock-limits}:s:NAME   concurrency slots: id, by the end of its lease
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from penstock._store.limit_delivery import SettlementQueue
from penstock._store.limit_store import (
    LEASE,
    NEVER,
    RESERVATION_SECONDS,
    SECOND,
    SLOT_WAIT,
    Amounts,
    LimitRefusal,
    LimitRule,
    StoreUnavailable,
    bound_amounts,
    check_reservation,
    counting_of,
    longest_wait,
)
from penstock._store.redis_scripts import TIMEOUT, LuaScript, RedisScripts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock._store.limit_delivery import Settlement
    from penstock._store.limit_store import Counting

RENEW_BATCH = 500  # ids in one script: the server does nothing else while a script runs
TAG = "{penstock-limits}:"
KINDS = ("concurrent", "requests", "tokens", "cost")  # their numbers are in the scripts

# ── the scripts ───────────────────────────────────────────────────────────────────────────────────
# Numbers stay below 2^53. `%.0f`: Lua writes large ones as 1.8e+15. A rule is a list: name, kind, width, span, keep,
# amount, limit. KEYS has one key, for the slot in a cluster: the names of the others are in a reservation, and have the
# same tag.

_COMMON = """
local TAG = '{penstock-limits}:'
local given = cmsgpack.unpack(ARGV[1])
local function text(number) return string.format('%.0f', number) end
local function read_clock(time)
  if time > 0 then return time end
  time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end
-- Drops what has left the window; returns the current bucket, the sum, and the bucket's count. As
-- `WindowCounter.advance`.
local function advance(rule, now)
  local counter, buckets, width, span = TAG .. 'c:' .. rule[1], TAG .. 'b:' .. rule[1], rule[3], rule[4]
  local number = width > 0 and (now - now % width) / width or 0
  local row = redis.call('HMGET', counter, 'sum', 'oldest', 'latest', text(number))
  local sum, count = tonumber(row[1] or 0), tonumber(row[4] or 0)
  if width == 0 or not row[3] then return number, sum, count end
  local latest = tonumber(row[3])
  if math.abs(latest - number) > span then
    redis.call('DEL', counter, buckets)
    return number, 0, 0
  end
  if latest > number then number, count = latest, tonumber(redis.call('HGET', counter, row[3]) or 0) end
  if tonumber(row[2]) < number - span then
    local first = '(' .. text(number - span)
    for _, old in ipairs(redis.call('ZRANGEBYSCORE', buckets, '-inf', first)) do
      sum = sum - tonumber(redis.call('HGET', counter, old) or 0)
      redis.call('HDEL', counter, old)
    end
    redis.call('ZREMRANGEBYSCORE', buckets, '-inf', first)
    local oldest = redis.call('ZRANGE', buckets, 0, 0)[1] or text(number)
    redis.call('HSET', counter, 'sum', text(sum), 'oldest', oldest)
  end
  return number, sum, count
end
-- Adds to a bucket. `sum` and `count` are those of the counter and of the bucket until now: each call of a command
-- takes longer than the command, so they are not read again.
local function add(rule, number, amount, sum, count)
  local counter, buckets, field = TAG .. 'c:' .. rule[1], TAG .. 'b:' .. rule[1], text(number)
  if amount > 0 and count > 0 then
    redis.call('HSET', counter, 'sum', text(sum + amount), field, text(count + amount))
  elseif amount > 0 then
    redis.call('HSET', counter, 'sum', text(sum + amount), field, text(amount), 'latest', field)
    redis.call('HSETNX', counter, 'oldest', field)
    redis.call('ZADD', buckets, field, field)
  elseif amount < 0 and count + amount > 0 then
    redis.call('HSET', counter, 'sum', text(sum + amount), field, text(count + amount))
  elseif amount < 0 and count > 0 then
    redis.call('HSET', counter, 'sum', text(sum - count))
    redis.call('HDEL', counter, field)
    redis.call('ZREM', buckets, field)
  end
  if amount > 0 and (count == 0 or rule[3] == 0) then
    redis.call('EXPIRE', counter, rule[5])
    redis.call('EXPIRE', buckets, rule[5])
  end
end
local function count_slots(rule, now)
  redis.call('ZREMRANGEBYSCORE', TAG .. 's:' .. rule[1], '-inf', text(now))
  return redis.call('ZCARD', TAG .. 's:' .. rule[1])
end
local function take_slot(rule, id, ends)
  redis.call('ZADD', TAG .. 's:' .. rule[1], text(ends), id)
  redis.call('EXPIRE', TAG .. 's:' .. rule[1], rule[5])
end
"""

# id, time, lease, keep, rules. Returns the refusals: the number of the rule, its usage, the wait. Without any, what
# then counts for each rule: a number.
_RESERVE = """
local id, now, lease, keep, rules = given[1], read_clock(given[2]), given[3], given[4], given[5]
local record = TAG .. 'r:' .. id
if redis.call('EXISTS', record) == 1 then return {} end
local function wait_for(rule, used)
  local amount, most = rule[6], rule[7]
  if rule[2] == 0 then return most > 0 and -2 or -1 end
  if amount > most or rule[3] == 0 then return -1 end
  local excess = used + amount - most
  for _, number in ipairs(redis.call('ZRANGE', TAG .. 'b:' .. rule[1], 0, text(math.min(excess, 20000) - 1))) do
    excess = excess - tonumber(redis.call('HGET', TAG .. 'c:' .. rule[1], number) or 0)
    if excess <= 0 then return math.max((tonumber(number) + 1 + rule[4]) * rule[3] - now, 1) end
  end
  return -1
end
local numbers, sums, counts, refusals, counted = {}, {}, {}, {}, {}
for at, rule in ipairs(rules) do
  if rule[2] == 0 then
    sums[at] = count_slots(rule, now)
  else
    numbers[at], sums[at], counts[at] = advance(rule, now)
  end
  local used = sums[at]
  counted[at] = used + rule[6]
  if rule[6] > 0 and counted[at] > rule[7] then refusals[#refusals + 1] = {at, used, wait_for(rule, used)} end
end
if #refusals > 0 then return refusals end
for at, rule in ipairs(rules) do
  if rule[2] == 0 then
    take_slot(rule, id, now + lease)
  else
    add(rule, numbers[at], rule[6], sums[at], counts[at])
  end
  rule[7] = numbers[at] or 0  -- a settlement needs the bucket, not the limit
end
redis.call('SET', record, cmsgpack.pack(rules), 'EX', keep)
return counted
"""

# id, time, keep, amounts by kind, the rules of a reservation that may not have been made.
_SETTLE = """
local id, now, keep, actual, rules = given[1], read_clock(given[2]), given[3], given[4], given[5]
local record = TAG .. 'r:' .. id
local found = redis.call('GET', record)
if found == 'settled' then return 0 end
if not found then
  for _, rule in ipairs(rules) do
    if rule[2] > 0 then
      local number, sum, count = advance(rule, now)
      add(rule, number, actual[rule[2]], sum, count)
    end
    redis.call('SET', record, 'settled', 'EX', keep)
  end
  return 0
end
redis.call('DEL', record)
for _, rule in ipairs(cmsgpack.unpack(found)) do
  if rule[2] == 0 then
    redis.call('ZREM', TAG .. 's:' .. rule[1], id)
  else
    local difference, number, sum, count = actual[rule[2]] - rule[6], advance(rule, now)
    if difference < 0 and rule[7] ~= number then
      number, count = rule[7], tonumber(redis.call('HGET', TAG .. 'c:' .. rule[1], text(rule[7])) or 0)
    end
    add(rule, number, difference, sum, count)
  end
end
return 1
"""

# time, lease, keep, ids
_RENEW = """
local ends, keep = read_clock(given[1]) + given[2], given[3]
for _, id in ipairs(given[4]) do
  local record = TAG .. 'r:' .. id
  local found = redis.call('GET', record)
  if found and found ~= 'settled' then
    redis.call('EXPIRE', record, keep)
    for _, rule in ipairs(cmsgpack.unpack(found)) do
      if rule[2] == 0 then take_slot(rule, id, ends) end
    end
  end
end
return 0
"""

# time, rules
_USAGE = """
local now, found = read_clock(given[1]), {}
for _, rule in ipairs(given[2]) do
  found[#found + 1] = rule[2] == 0 and count_slots(rule, now) or select(2, advance(rule, now))
end
return found
"""


# Whether the server can be written: a replica or a full server answers to reads alone.
PROBE = LuaScript("return redis.call('SET', KEYS[1] .. 'probe', '', 'EX', 10)", TAG)
RESERVE, SETTLE, RENEW, USAGE = (LuaScript(_COMMON + body, TAG) for body in (_RESERVE, _SETTLE, _RENEW, _USAGE))


class RedisLimitStore:
    """A `LimitStore` in Redis or Valkey. `clock` replaces the server's: for tests. `timeout`: seconds for a call.

    While the server is away, calls fail at once, and settlements wait.
    """

    def __init__(self, url: str, *, clock: Callable[[], float] | None = None, timeout: float = TIMEOUT) -> None:
        self._scripts = RedisScripts(url, timeout)
        self._clock = clock
        self._queue = SettlementQueue(self._scripts.name, self._deliver)
        self._open: set[str] = set()  # reservations of this process that are not settled

    @property
    def lost(self) -> int:
        return self._queue.lost

    async def reserve(
        self,
        id: str,
        rules: Sequence[LimitRule],
        amounts: Amounts,
        lease: float = LEASE,
        used: dict[LimitRule, int] | None = None,
    ) -> LimitRefusal | None:
        checked, asked = check_reservation(id, rules), bound_amounts(amounts)
        if not checked:
            return None
        values = [_rule_values(counting, rule, asked[rule.kind]) for counting, rule in checked.items()]
        try:
            found = await self._call(RESERVE, id, self._now(), int(lease * SECOND), RESERVATION_SECONDS, values)
        except StoreUnavailable:
            self._queue.note_unsure(id, list(checked.values()))
            raise
        if found and isinstance(found[0], int):
            self._open.add(id)
            if used is not None:
                used.update(zip(checked.values(), found, strict=True))
            return None
        return _read_refusal(list(checked.values()), found)

    async def settle_reservation(self, id: str, amounts: Amounts) -> None:
        settlement = self._queue.take(id, amounts)
        self._open.discard(id)
        try:
            self._queue.check()
            # Among other requests it is sent with the next call. After the only one it is sent now: the server would
            # run it before the next reservation, which has to wait for it.
            await self._deliver_one(settlement, immediate=not self._open)
        except StoreUnavailable as error:
            self._queue.add(settlement)
            self._queue.mark_away(error)

    async def renew(self, ids: Sequence[str], lease: float = LEASE) -> None:
        parts = [ids[at : at + RENEW_BATCH] for at in range(0, len(ids), RENEW_BATCH)]
        values = (self._now(), int(lease * SECOND), RESERVATION_SECONDS)
        await asyncio.gather(*(self._call(RENEW, *values, part) for part in parts))

    async def usage(self, rules: Sequence[LimitRule]) -> list[int]:
        values = [_rule_values(counting_of(rule), rule, 0) for rule in rules]
        return [int(used) for used in await self._call(USAGE, self._now(), values)]

    async def aclose(self) -> None:
        await self._queue.aclose()
        await self._scripts.aclose()

    async def _call(self, script: LuaScript, *values: object) -> Any:
        self._queue.check()
        try:
            return await self._scripts.call(script, *values)
        except StoreUnavailable as error:
            self._queue.mark_away(error)
            raise

    async def _deliver(self, settlements: Sequence[Settlement]) -> None:
        if not settlements:
            await self._scripts.call(PROBE)
        await asyncio.gather(*[self._deliver_one(settlement) for settlement in settlements])

    async def _deliver_one(self, settlement: Settlement, *, immediate: bool = True) -> None:
        actual = bound_amounts(settlement.amounts)
        amounts = [actual[kind] for kind in KINDS[1:]]
        rules = [_rule_values(counting_of(rule), rule, 0) for rule in settlement.rules]
        values = (settlement.id, self._now(), RESERVATION_SECONDS, amounts, rules)
        await self._scripts.call(SETTLE, *values, immediate=immediate)

    def _now(self) -> int:
        return int(self._clock() * SECOND) if self._clock is not None else 0


def _rule_values(counting: Counting, rule: LimitRule, amount: int) -> tuple[str | int, ...]:
    return (*counting[:1], KINDS.index(rule.kind), *counting[1:], amount, rule.most)


def _read_refusal(rules: Sequence[LimitRule], rows: Sequence[Sequence[int]]) -> LimitRefusal | None:
    """Returns the refusal with the longest wait. A wait of -1: for ever; -2: nobody knows."""
    waits = {-1: NEVER, -2: SLOT_WAIT}
    return longest_wait([LimitRefusal(rules[at - 1], used, waits.get(wait, wait / SECOND)) for at, used, wait in rows])
