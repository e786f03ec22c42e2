"""Calls Lua scripts of a Redis or Valkey server, one script for each atomic step."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from penstock._store.limit_store import StoreUnavailable
from penstock.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

TIMEOUT = 1.0  # seconds for a call, the connection included
MAX_BATCH = 200  # calls that are sent together
BATCH_DELAY = 0.005  # seconds that a call that is not immediate waits for another one to be sent with
_STEPS = 4  # of a timeout
_DEFAULTS = {"host": "localhost", "port": 6379}
_encode = msgspec.msgpack.Encoder().encode


@asynccontextmanager
async def timeout_while_running(seconds: float) -> AsyncGenerator[None]:
    """Raises `TimeoutError` after a time in which the event loop could have read an answer.

    While the loop is blocked, answers that have arrived wait to be read. So a block, however long, counts as one step
    of the timeout at most, and an answer that arrived meanwhile is read first.
    """
    loop, timers = asyncio.get_running_loop(), list[asyncio.TimerHandle]()

    def count_step(left: int) -> None:
        if left:
            timers.append(loop.call_later(seconds / _STEPS, count_step, left - 1))
        else:
            timeout.reschedule(loop.time())

    async with asyncio.timeout(None) as timeout:
        count_step(_STEPS)
        try:
            yield
        finally:
            timers[-1].cancel()


class LuaScript:
    """A script, its digest, by which a server knows it, and a key, which says where in a cluster it runs.

    It gets one argument, in MessagePack: redis-py takes long for many.
    """

    def __init__(self, text: str, key: str) -> None:
        self.text, self.key = text, key
        self.digest = hashlib.sha1(self.text.encode()).hexdigest()  # noqa: S324 — Redis names scripts so


class ScriptCall(NamedTuple):
    """A call of a script, and its result once it is there."""

    script: LuaScript
    argument: bytes
    result: asyncio.Future[Any]


def _find_packer(connection: Any) -> Callable[[tuple[Any, ...]], bytes]:
    """Returns what writes a command: hiredis if it is installed, else redis-py."""
    try:
        library: Any = import_module("hiredis")  # of an extra, with incomplete types
    except ImportError:
        return lambda command: b"".join(connection.pack_command(*command))
    pack: Callable[[tuple[Any, ...]], bytes] = library.pack_command
    return pack


class RedisScripts:
    """Calls scripts over one connection. Calls that come while others are under way wait, and are sent together.

    They run in the order in which they are made. redis-py's connection is used directly: its client takes twice the
    time for each call.
    """

    def __init__(self, url: str, timeout: float) -> None:
        self._timeout = timeout
        try:
            import redis.asyncio as library  # noqa: PLC0415 — an optional extra
            from redis import exceptions  # noqa: PLC0415 — as above
        except ImportError:
            raise MissingExtra("redis", "redis") from None
        self._refused, self._broken = exceptions.ResponseError, exceptions.ConnectionError
        self._errors = (exceptions.RedisError, OSError, TimeoutError)
        self._unknown_script = exceptions.NoScriptError
        scheme, colon, rest = url.partition(":")
        try:
            pools: Any = library.ConnectionPool
            pool = pools.from_url(scheme.replace("valkey", "redis") + colon + rest, protocol=2, socket_timeout=None)
        except ValueError:
            raise InputError("stores.redis: expected a URL like redis://host:6379/0 (rediss://, unix://)") from None
        self._connection: Any = pool.make_connection()
        self._pack: Callable[[tuple[Any, ...]], bytes] = _find_packer(self._connection)
        address: dict[str, Any] = pool.connection_kwargs
        self.name = f"Redis at {address.get('path') or '{host}:{port}'.format_map({**_DEFAULTS, **address})}"
        self._waiting: list[ScriptCall] = []
        self._task: asyncio.Task[None] | None = None

    async def call(self, script: LuaScript, *values: object, immediate: bool = True) -> Any:
        """Returns the result of a script. Raises `StoreUnavailable`.

        A call that is not `immediate` is sent with the next one, or after a short delay.
        """
        loop = asyncio.get_running_loop()
        call = ScriptCall(script, _encode(values), loop.create_future())
        self._waiting.append(call)
        if immediate:
            self._start()
        elif len(self._waiting) == 1:
            loop.call_later(BATCH_DELAY, self._start)
        return await call.result

    async def aclose(self) -> None:
        if (task := self._start()) is not None:
            await asyncio.wait([task])
        await self._connection.disconnect()

    def _start(self) -> asyncio.Task[None] | None:
        """Sends the calls that wait, if there are any. Returns the task that does so."""
        if self._task is None and self._waiting:
            self._task = asyncio.get_running_loop().create_task(self._send_all(), name="penstock-redis")
        return self._task

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
                await self._send(batch)
        finally:
            self._task = None

    async def _send(self, batch: list[ScriptCall]) -> None:
        try:
            async with timeout_while_running(self._timeout):
                results = await self._execute(batch)
        except self._errors as error:
            await self._connection.disconnect(nowait=True)
            self._refuse([*batch, *self._waiting], error)
            self._waiting = []
            return
        for call, found in zip(batch, results, strict=True):
            if isinstance(found, Exception):
                self._refuse([call], found)
            elif not call.result.done():
                call.result.set_result(found)

    async def _execute(self, batch: list[ScriptCall]) -> list[Any]:
        """Returns the results of calls, with errors in their places. Scripts that the server does not know are sent."""
        try:
            results = await self._exchange(batch, "EVALSHA")
        except self._broken:  # closed since the last call, perhaps. All scripts may run twice
            await self._connection.disconnect(nowait=True)
            results = await self._exchange(batch, "EVALSHA")
        unknown = [at for at, found in enumerate(results) if isinstance(found, self._unknown_script)]
        again = await self._exchange([batch[at] for at in unknown], "EVAL") if unknown else []
        for at, found in zip(unknown, again, strict=True):
            results[at] = found
        return results

    async def _exchange(self, batch: list[ScriptCall], command: str) -> list[Any]:
        scripts = [call.script.text if command == "EVAL" else call.script.digest for call in batch]
        commands = [
            (command, script, 1, call.script.key, call.argument) for script, call in zip(scripts, batch, strict=True)
        ]
        await self._connection.send_packed_command([*map(self._pack, commands)])  # connects, if needed
        return [await self._read() for _ in batch]

    async def _read(self) -> Any:
        try:
            return await self._connection.read_response()
        except self._refused as error:
            return error

    def _refuse(self, calls: Sequence[ScriptCall], error: Exception) -> None:
        reason = str(error) or f"no answer within {self._timeout:g} s"
        for call in calls:
            if not call.result.done():
                call.result.set_exception(StoreUnavailable(f"{self.name} cannot be used: {reason}"))
