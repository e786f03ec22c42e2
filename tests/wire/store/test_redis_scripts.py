"""Calls of Lua scripts over our own connection: order, lost connections, silent servers, answers that are none.

The server is a real Redis. A proxy before it loses connections, keeps answers back, or sends something else.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from typing import TYPE_CHECKING, Any

import pytest
from redis import Redis

from tests.support.limit_stores import (
    RETRY_INTERVAL,
    Amounts,
    LimitRule,
    LuaScript,
    RedisScripts,
    StoreUnavailable,
    no_batches,
    open_limits,
)
from tests.support.servers import HOST, RedisServer, free_port

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from pathlib import Path

LIMIT = 60.0  # seconds for a test
COUNT = LuaScript("local given = cmsgpack.unpack(ARGV[1])\nreturn {redis.call('INCR', 'calls'), given[1]}", "calls")
FAIL = LuaScript("return redis.error_reply('OOM no memory')", "calls")
ECHO = LuaScript("return cmsgpack.unpack(ARGV[1])[1]", "calls")


class Proxy:
    """Passes bytes on. `cut`: close the connection instead of so many further answers. `garbage`: is sent instead.

    While `flows` is not set, no answer is passed on.
    """

    def __init__(self, port: int) -> None:
        self.port, self._upstream = free_port(), port
        self.cut, self.garbage = 0, b""
        self.connections = 0
        self.flows = asyncio.Event()
        self.flows.set()
        self._served: list[asyncio.Task[None] | None] = []
        self.greeted = False  # the answers to what redis-py asks when it connects are never changed

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}/0"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._served.append(asyncio.current_task())
        up_reader, up_writer = await asyncio.open_connection(HOST, self._upstream)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._send(reader, up_writer))
                group.create_task(self._answer(up_reader, writer))
        except* ConnectionError:
            pass
        finally:
            writer.close()
            up_writer.close()

    async def aclose(self) -> None:
        await asyncio.gather(*filter(None, self._served))

    async def _send(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            self.greeted = b"EVAL" in data
            writer.write(data)
        raise ConnectionError

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if self.greeted:
                await self.flows.wait()
                if self.cut:
                    self.cut -= 1
                    raise ConnectionError
                data, self.garbage = self.garbage or data, b""
            writer.write(data)
        raise ConnectionError


@asynccontextmanager
async def opened(server: RedisServer, seconds: float = LIMIT) -> AsyncGenerator[tuple[Proxy, RedisScripts]]:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(LIMIT))
        proxy = Proxy(server.port)
        listener = await asyncio.start_server(proxy.serve, HOST, proxy.port)
        stack.callback(listener.close)
        stack.push_async_callback(proxy.aclose)
        scripts = RedisScripts(proxy.url, seconds)
        stack.push_async_callback(scripts.aclose)
        yield proxy, scripts


def test_calls_run_in_the_order_in_which_they_are_made(redis_server: RedisServer) -> None:
    async def main() -> None:
        async with opened(redis_server) as (proxy, scripts):
            await scripts.call(COUNT, 0)
            calls = [scripts.call(COUNT, number, immediate=number % 3 != 0) for number in range(300)]
            found = await asyncio.gather(*calls)
            assert [number for _, number in found] == list(range(300))
            assert [place for place, _ in found] == list(range(found[0][0], found[0][0] + 300))
            assert proxy.connections == 1

    asyncio.run(main())


@pytest.mark.parametrize("size", [0, 1, 65_535, 1_000_000])
def test_results_of_any_size(redis_server: RedisServer, size: int) -> None:
    async def main() -> None:
        async with opened(redis_server) as (_, scripts):
            text = "\r\n:1$"[:size] + "x" * max(size - 5, 0)
            assert await asyncio.gather(*[scripts.call(ECHO, text) for _ in range(3)]) == [text.encode()] * 3

    asyncio.run(main())


def test_a_call_that_may_wait_is_sent_soon(redis_server: RedisServer) -> None:
    async def main() -> None:
        async with opened(redis_server) as (_, scripts):
            assert await scripts.call(ECHO, "alone", immediate=False) == b"alone"

    asyncio.run(main())


def test_a_script_that_the_server_has_forgotten_is_sent(redis_server: RedisServer) -> None:
    async def main() -> None:
        async with opened(redis_server) as (_, scripts):
            flush = LuaScript("return redis.call('PING')", "calls")
            await scripts.call(flush)
            redis_server.stop()
            redis_server.start()
            found = await asyncio.gather(*[scripts.call(ECHO, number) for number in range(5)])
            assert found == list(range(5))

    asyncio.run(main())


def test_an_error_of_a_script_refuses_only_its_call(redis_server: RedisServer) -> None:
    async def main() -> None:
        async with opened(redis_server) as (proxy, scripts):
            failed, fine = scripts.call(FAIL), scripts.call(ECHO, 7)
            assert await fine == 7
            with pytest.raises(StoreUnavailable, match="OOM no memory") as raised:
                await failed
            assert f"{HOST}:{proxy.port}" in str(raised.value)
            assert proxy.connections == 1

    asyncio.run(main())


def test_calls_of_a_lost_connection_are_sent_once_more(redis_server: RedisServer) -> None:
    async def main() -> None:
        async with opened(redis_server) as (proxy, scripts):
            await scripts.call(ECHO, 0)
            proxy.cut = 1
            assert await asyncio.gather(*[scripts.call(ECHO, number) for number in range(5)]) == list(range(5))
            assert proxy.connections == 2
            proxy.cut = 2
            with pytest.raises(StoreUnavailable, match="the connection was lost"):
                await scripts.call(ECHO, 0)
            assert await scripts.call(ECHO, 1) == 1

    asyncio.run(main())


@pytest.mark.parametrize("garbage", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b":1\r\n:2\r\n:3\r\n", b"*-5\r\n"])
def test_an_answer_that_is_none_ends_the_connection(redis_server: RedisServer, garbage: bytes) -> None:
    async def main() -> None:
        async with opened(redis_server) as (proxy, scripts):
            await scripts.call(ECHO, 0)
            proxy.garbage = garbage
            await asyncio.wait([scripts.call(ECHO, 1)])
            assert await scripts.call(ECHO, 2) == 2
            assert proxy.connections == 2

    asyncio.run(main())


def test_a_silent_server_is_given_up_and_asked_again(redis_server: RedisServer) -> None:
    async def main() -> None:
        async with opened(redis_server, seconds=0.4) as (proxy, scripts):
            await scripts.call(ECHO, 0)
            proxy.flows.clear()
            calls = [scripts.call(ECHO, number) for number in range(3)]
            for call in calls:
                with pytest.raises(StoreUnavailable, match=r"no answer within 0\.4 s"):
                    await call
            proxy.flows.set()
            assert await scripts.call(ECHO, 1) == 1

    asyncio.run(main())


def test_a_server_that_never_greets_is_given_up() -> None:
    """It takes connections, and says nothing at all."""

    async def stay_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.read()
        writer.close()
        ended.release()

    ended = asyncio.Semaphore(0)

    async def main() -> None:
        async with asyncio.timeout(LIMIT):
            listener = await asyncio.start_server(stay_silent, HOST, 0)
            scripts = RedisScripts(f"redis://{HOST}:{listener.sockets[0].getsockname()[1]}/0", 0.3)
            for _ in range(2):
                with pytest.raises(StoreUnavailable, match="no answer within"):
                    await scripts.call(ECHO, 1)
            await scripts.aclose()
            for _ in range(2):
                await ended.acquire()
            listener.close()

    asyncio.run(main())


def test_an_answer_counts_that_came_while_the_event_loop_was_blocked(redis_server: RedisServer) -> None:
    async def main() -> None:
        async with opened(redis_server, seconds=0.5) as (_, scripts):
            scripts_of_server = RedisScripts(redis_server.url, 0.5)  # the proxy would be blocked, too
            await scripts_of_server.call(ECHO, 0)
            call = scripts_of_server.call(ECHO, 1)
            asyncio.get_running_loop().call_soon(time.sleep, 1.5)  # after the call is sent
            assert await call == 1
            await scripts_of_server.aclose()
            assert await scripts.call(ECHO, 2) == 2

    asyncio.run(main())


def test_nobody_waits_for_a_server_that_is_away() -> None:
    async def main() -> None:
        async with asyncio.timeout(LIMIT):
            scripts = RedisScripts(f"redis://{HOST}:{free_port()}/0", 5.0)
            with pytest.raises(StoreUnavailable, match="cannot be used"):
                await scripts.call(ECHO, 1)
            await scripts.aclose()

    asyncio.run(main())


def test_closing_waits_for_what_was_sent(redis_server: RedisServer) -> None:
    async def main() -> None:
        async with opened(redis_server) as (proxy, scripts):
            await scripts.call(ECHO, 0)
            proxy.flows.clear()
            calls = [scripts.call(ECHO, 1), scripts.call(ECHO, 2, immediate=False)]
            closing_task = asyncio.create_task(scripts.aclose())
            await asyncio.sleep(0)
            assert not closing_task.done()
            proxy.flows.set()
            await closing_task
            assert [call.result() for call in calls] == [1, 2]

    asyncio.run(main())


def test_closing_while_it_connects_leaves_no_connection() -> None:
    """A caller that stopped waiting is no reason to connect again, nor is one that comes after the end."""

    async def pause(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.release()
        with suppress(ConnectionError):
            await reader.read()
        writer.close()
        ended.release()

    connected, ended = asyncio.Semaphore(0), asyncio.Semaphore(0)

    async def main() -> None:
        async with asyncio.timeout(LIMIT):
            listener = await asyncio.start_server(pause, HOST, 0)
            scripts = RedisScripts(f"redis://{HOST}:{listener.sockets[0].getsockname()[1]}/0", LIMIT)
            call = scripts.call(ECHO, 1)
            await connected.acquire()
            call.cancel()
            await scripts.aclose()
            await ended.acquire()
            with pytest.raises(StoreUnavailable, match="is closed"):
                await scripts.call(ECHO, 2)
            assert [task.get_name() for task in asyncio.all_tasks() if task.get_name() == "penstock-redis"] == []
            listener.close()
            assert connected.locked(), "no second connection"

    asyncio.run(main())


def test_a_caller_that_is_cancelled_harms_no_other(redis_server: RedisServer) -> None:
    async def main() -> None:
        async with opened(redis_server) as (proxy, scripts):
            await scripts.call(ECHO, 0)
            proxy.flows.clear()
            first, second = scripts.call(ECHO, 1), scripts.call(ECHO, 2)
            await asyncio.sleep(0)
            first.cancel()
            proxy.flows.set()
            assert await second == 2

    asyncio.run(main())


# ── servers that cannot be used ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"-LOADING Redis is loading the dataset in memory", "still loading its data"),
        (b"-READONLY You can't write against a read only replica.", "a replica"),
        (b"-ERR Error running script (call to f_1): @user_script:1: -READONLY You can't write", "a replica"),
        (b"-MASTERDOWN Link with MASTER is down", "a replica without its primary"),
        (b"-CLUSTERDOWN Hash slot not served", "its cluster is down"),
        (b"-MOVED 3999 127.0.0.1:6381", "must be a single server"),
    ],
)
def test_a_server_that_cannot_be_used_is_left(redis_server: RedisServer, line: bytes, reason: str) -> None:
    """The next call makes a new connection: after a failover, the address may lead to another server."""

    async def check() -> None:
        async with opened(redis_server) as (proxy, scripts):
            assert await scripts.call(ECHO, "one") == b"one"
            proxy.garbage = line + b"\r\n"
            with pytest.raises(StoreUnavailable, match=reason):
                await scripts.call(ECHO, "two")
            assert await scripts.call(ECHO, "three") == b"three"
            assert proxy.connections == 2

    asyncio.run(check())


def test_a_store_that_cannot_be_written_stays_away(caplog: pytest.LogCaptureFixture) -> None:
    """It answers to reads. A store that seems to be back with each attempt would fill the log."""
    rule = LimitRule("key:a", "tokens", 60, 100)

    async def check(server: RedisServer) -> None:
        store = open_limits(server.url)
        admin: Any = Redis(port=server.port)
        admin.config_set("maxmemory", 1)
        with pytest.raises(StoreUnavailable, match="OOM"):
            await store.reserve("one", (rule,), Amounts(1, 5, 0))
        await asyncio.sleep(5 * RETRY_INTERVAL)
        assert not [row for row in caplog.records if "counted again" in row.getMessage()]
        admin.config_set("maxmemory", 0)
        async with asyncio.timeout(LIMIT):
            while not [row for row in caplog.records if "counted again" in row.getMessage()]:  # noqa: ASYNC110
                await asyncio.sleep(RETRY_INTERVAL)
        assert await store.reserve("two", (rule,), Amounts(1, 5, 0)) is None
        admin.close()
        await store.aclose()

    with closing(RedisServer()) as server:
        server.start()
        asyncio.run(check(server))


def test_the_settlement_of_the_only_request_is_sent_at_once(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among other requests it is sent with the next call."""
    no_batches(monkeypatch, 2 * LIMIT)
    rules = (LimitRule("key:settled", "tokens", 60, 100),)

    async def check() -> None:
        store = open_limits(redis_server.url)
        async with asyncio.timeout(LIMIT):
            assert await store.reserve("only", rules, Amounts(1, 5, 0)) is None
            await store.settle_reservation("only", Amounts(1, 7, 0))
            for id in ("first", "second"):  # noqa: A001 — as stores call it
                assert await store.reserve(id, rules, Amounts(1, 5, 0)) is None
            settled = asyncio.create_task(store.settle_reservation("first", Amounts(1, 8, 0)))
            await asyncio.sleep(0)
            assert await store.usage(rules) == [7 + 8 + 5]  # in the order of the calls
            await settled
            await store.settle_reservation("second", Amounts(1, 9, 0))
            assert await store.usage(rules) == [7 + 8 + 9]
        await store.aclose()

    asyncio.run(check())


@pytest.mark.parametrize("form", ["redis://:{password}@{host}:{port}/0", "redis://bob:{password}@{host}:{port}/0"])
def test_a_wrong_password_is_told_and_not_shown(redis_server: RedisServer, form: str) -> None:
    async def check() -> None:
        url = form.format(password="wrong-pass-0123", host=HOST, port=redis_server.port)
        scripts = RedisScripts(url, LIMIT)
        with pytest.raises(
            StoreUnavailable, match=f"Redis at {HOST}:{redis_server.port} cannot be used: .*(?i:auth|pass)"
        ) as told:
            await scripts.call(ECHO, "one")
        assert "wrong-pass" not in repr(told.value)
        await scripts.aclose()

    asyncio.run(check())


def test_many_calls_at_once(redis_server: RedisServer) -> None:
    async def check() -> None:
        async with opened(redis_server) as (_, scripts):
            found = await asyncio.gather(*[scripts.call(ECHO, f"{number:0500}") for number in range(5_000)])
            assert [int(one) for one in found] == list(range(5_000))

    asyncio.run(check())


def test_a_socket_file(tmp_path: Path) -> None:
    class SocketServer(RedisServer):
        def command(self) -> Sequence[str]:
            return (*super().command(), "--unixsocket", str(tmp_path / "redis.sock"))

    async def check() -> None:
        scripts = RedisScripts(f"unix://{tmp_path}/redis.sock", LIMIT)
        assert scripts.name == f"Redis at {tmp_path}/redis.sock"
        assert await scripts.call(ECHO, "one") == b"one"
        await scripts.aclose()

    with closing(SocketServer()) as server:
        server.start()
        asyncio.run(check())
