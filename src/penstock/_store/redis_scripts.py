"""Calls Lua scripts of a Redis or Valkey server, one script for each atomic step."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._store.limit_store import StoreUnavailable
from penstock.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable

TIMEOUT = 1.0  # seconds for a call, the connection included
BATCH_DELAY = 0.005  # seconds that a call that is not immediate waits for another one to be sent with
_STEPS = 4  # of a timeout
# Answers of a server that cannot be used as it is. Within a script, Redis before 7 puts its own words before the code.
_NOT_USABLE = {
    "READONLY ": "it is a replica, which cannot be written (READONLY)",
    "LOADING ": "it is still loading its data (LOADING)",
    "MASTERDOWN ": "it is a replica without its primary (MASTERDOWN)",
    "CLUSTERDOWN ": "its cluster is down (CLUSTERDOWN)",
    "MOVED ": "it is a node of a cluster with the limits on another one: stores.redis must be a single server (MOVED)",
}
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


class ScriptCall:
    """A call of a script, and its result once it is there. `started`: at which step of the clock of timeouts."""

    __slots__ = ("argument", "repeated", "result", "script", "started")

    def __init__(self, script: LuaScript, argument: bytes, started: int) -> None:
        self.script, self.argument, self.started = script, argument, started
        self.result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.repeated = False  # sent a second time, because the connection was lost

    def refuse(self, reason: str) -> None:
        if not self.result.done():
            self.result.set_exception(StoreUnavailable(reason))


class ScriptConnection(asyncio.Protocol):
    """Sends calls over an open connection, and reads their results, which come in the same order.

    `unanswered`: the calls that were sent. `on_lost` is called once, when the connection is closed.
    """

    def __init__(self, transport: asyncio.Transport, name: str, on_lost: Callable[[ScriptConnection], None]) -> None:
        hiredis: Any = import_module("hiredis")  # an optional extra, with incomplete types
        self.unanswered: deque[ScriptCall] = deque()
        self._transport, self._name, self._on_lost = transport, name, on_lost
        self._pack: Callable[[tuple[Any, ...]], bytes] = hiredis.pack_command
        self._reader: Any = hiredis.Reader()
        self._broken, self._error = hiredis.HiredisError, hiredis.ReplyError
        transport.set_protocol(self)

    def send(self, calls: Iterable[ScriptCall], command: str = "EVALSHA") -> None:
        parts = list[bytes]()
        for call in calls:
            script = call.script.text if command == "EVAL" else call.script.digest
            parts.append(self._pack((command, script, 1, call.script.key, call.argument)))
            self.unanswered.append(call)
        self._transport.write(b"".join(parts))

    def close(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            self._reader.feed(data)
            while (found := self._reader.gets()) is not False:  # False: the answer is not complete
                self._set_result(self.unanswered.popleft(), found)
        except (self._broken, IndexError):  # not the protocol of Redis, or an answer that nobody asked for
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_lost(self)

    def _set_result(self, call: ScriptCall, found: Any) -> None:
        if isinstance(found, self._error):
            if str(found).startswith("NOSCRIPT"):
                self.send([call], "EVAL")
                return
            reason = next((text for code, text in _NOT_USABLE.items() if code in str(found)), "")
            call.refuse(f"{self._name} cannot be used: {reason or found}")
            if reason:  # the next connection may lead to another server
                self.close()
        elif not call.result.done():
            call.result.set_result(found)


class RedisScripts:
    """Calls scripts over one connection, in the order in which they are made, without waiting for earlier results.

    redis-py connects: addresses, TLS, passwords. It takes 100 µs for each call, so the calls go past it.
    """

    def __init__(self, url: str, timeout: float) -> None:
        self._timeout = timeout
        try:
            import_module("hiredis")  # as the extra has it: `ScriptConnection` needs it
            import redis.asyncio as library  # noqa: PLC0415 — an optional extra
            from redis import exceptions  # noqa: PLC0415 — as above
        except ImportError:
            raise MissingExtra("redis", "redis") from None
        self._errors = (exceptions.RedisError, OSError)
        scheme, colon, rest = url.partition(":")
        try:
            pools: Any = library.ConnectionPool
            pool = pools.from_url(scheme.replace("valkey", "redis") + colon + rest, protocol=2, socket_timeout=None)
        except ValueError:
            raise InputError("stores.redis: expected a URL like redis://host:6379/0 (rediss://, unix://)") from None
        self._redis: Any = pool.make_connection()
        address: dict[str, Any] = pool.connection_kwargs
        self.name = f"Redis at {address.get('path') or '{host}:{port}'.format_map({**_DEFAULTS, **address})}"
        self._waiting: list[ScriptCall] = []  # not sent yet
        self._connection: ScriptConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._send_is_due = False
        self._closed = False
        self._steps = 0  # of the clock of timeouts, which runs while there are calls
        self._clock: asyncio.TimerHandle | None = None

    def call(self, script: LuaScript, *values: object, immediate: bool = True) -> asyncio.Future[Any]:
        """Returns the result of a script, to be awaited. It may be `StoreUnavailable`.

        A call that is not `immediate` is sent with the next one, or after a short delay. An immediate one is sent at
        once if no call waits for its result; else with those that are made before the loop goes on.
        """
        loop, connection = asyncio.get_running_loop(), self._connection
        call = ScriptCall(script, _encode(values), self._steps)
        if self._closed:
            call.refuse(f"{self.name} cannot be used: it is closed")
            return call.result
        self._waiting.append(call)
        if immediate and connection is not None and not connection.unanswered:
            self._send()
        elif immediate and not self._send_is_due:
            self._send_is_due = True
            loop.call_soon(self._send)
        elif len(self._waiting) == 1 and not immediate:
            loop.call_later(BATCH_DELAY, self._send)
        if self._clock is None:
            self._clock = loop.call_later(self._timeout / _STEPS, self._count_step)
        return call.result

    async def aclose(self) -> None:
        """Waits for the results of all calls, and closes the connection. Further calls are refused."""
        self._closed = True
        self._send()
        if calls := self._unanswered():
            await asyncio.wait([call.result for call in calls])
        self._waiting = []  # calls that nobody waits for any more
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        if self._clock is not None:
            self._clock.cancel()
        await self._disconnect()

    def _send(self) -> None:
        self._send_is_due = False
        if not self._waiting:
            return
        if self._connection is not None:
            calls, self._waiting = self._waiting, []
            self._connection.send(calls)
        elif self._connecting is None:
            self._connecting = asyncio.get_running_loop().create_task(self._connect(), name="penstock-redis")

    async def _connect(self) -> None:
        try:
            await self._disconnect()
            await self._redis.connect()
        except self._errors as error:
            self._refuse_all(str(error))
        except asyncio.CancelledError:  # it took too long
            if not self._waiting:
                raise
        else:
            transport: asyncio.Transport = self._redis._writer.transport  # noqa: SLF001 — there is no other way to it
            self._connection = ScriptConnection(transport, self.name, self._on_lost)
        finally:
            self._connecting = None
        self._send()

    async def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        await self._redis.disconnect(nowait=True)

    def _on_lost(self, connection: ScriptConnection) -> None:
        """Sends the calls without an answer once more. They may run twice: all scripts may."""
        if connection is not self._connection:
            return
        self._connection = None
        for call in connection.unanswered:
            if call.repeated:
                call.refuse(f"{self.name} cannot be used: the connection was lost")
        again = [call for call in connection.unanswered if not call.repeated]
        for call in again:
            call.repeated = True
        self._waiting = [*again, *self._waiting]
        self._send()

    # ── timeouts ──────────────────────────────────────────────────────────────────────────────────

    def _count_step(self) -> None:
        """Refuses all calls if the oldest one is too old. While the event loop is blocked, no step is counted."""
        self._steps += 1
        self._clock = None
        calls = self._unanswered()
        if calls and self._steps - calls[0].started >= _STEPS:
            if self._connecting is not None:
                self._connecting.cancel()
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()
            self._refuse_all(f"no answer within {self._timeout:g} s", calls)
        elif calls:
            self._clock = asyncio.get_running_loop().call_later(self._timeout / _STEPS, self._count_step)

    def _unanswered(self) -> list[ScriptCall]:
        """Returns all calls without a result, the oldest first."""
        return [*(self._connection.unanswered if self._connection is not None else ()), *self._waiting]

    def _refuse_all(self, reason: str, calls: Iterable[ScriptCall] = ()) -> None:
        for call in (*calls, *self._waiting):
            call.refuse(f"{self.name} cannot be used: {reason}")
        self._waiting = []
