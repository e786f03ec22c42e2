"""Logs of running streams, all held to the same tests: memory, Redis in one process, Redis between two processes."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
import redis
import redis.asyncio

from penstock._store import redis_streams
from penstock._store.limit_store import StoreUnavailable
from penstock._store.redis_streams import RedisStreamLog
from penstock._store.stream_log import LogReader, LogWriter, MemoryStreamLog, StreamLog
from tests.support.servers import RedisServer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

WAIT = 10.0
SMALL = {"size": 1_000, "total": 2_500, "keep": 60.0}


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with closing(RedisServer()) as running:
        running.start()
        yield running


class Scenario:
    """Runs a coroutine with the log of the process that writes, and that of a process that reads."""

    def __init__(self, kind: str, server: RedisServer) -> None:
        self.kind, self._server = kind, server

    def make(self, **bounds: Any) -> StreamLog:
        return MemoryStreamLog(**bounds) if self.kind == "memory" else RedisStreamLog(self._server.url, **bounds)

    def __call__(self, steps: Callable[[StreamLog, StreamLog], Awaitable[None]], **bounds: Any) -> None:
        async def main() -> None:
            writing = self.make(**bounds)
            reading = self.make(**bounds) if self.kind == "redis-other" else writing
            try:
                await steps(writing, reading)
            finally:
                await writing.aclose()
                if reading is not writing:
                    await reading.aclose()

        asyncio.run(main())


@pytest.fixture(params=["memory", "redis", "redis-other"])
def scenario(request: pytest.FixtureRequest, server: RedisServer) -> Scenario:
    client: Any = redis.Redis(port=server.port)
    client.flushall()
    client.close()
    return Scenario(request.param, server)


async def opened(log: StreamLog, tenant: str = "ann", id: str = "one") -> LogReader:
    reader = await log.open(tenant, id)
    assert reader is not None
    return reader


async def read_all(reader: LogReader, position: int = 0) -> tuple[bytes, str]:
    """What follows a position up to the end, and how it ended."""
    data = b""
    while True:
        page = await reader.read(position, WAIT)
        data, position = data + page.data, page.position
        if page.state:
            return data, page.state


def write(log: StreamLog, id: str, *chunks: bytes, name: str = "") -> LogWriter:
    writer = log.begin("ann", id, b"head of " + id.encode(), name)
    for chunk in chunks:
        assert writer.append(chunk)
    return writer


def test_readers_get_every_byte_once_from_any_position(scenario: Scenario) -> None:
    chunks = [b"data: %d\n\n" % number * (number % 7 + 1) for number in range(300)]

    async def steps(writing: StreamLog, reading: StreamLog) -> None:
        writer = write(writing, "one", *chunks[:100])
        await writing.flush()
        early = asyncio.create_task(read_all(await opened(reading)))
        late = asyncio.create_task(read_all(await opened(reading), position=len(chunks[0])))
        for chunk in chunks[100:]:
            writer.append(chunk)
            await asyncio.sleep(0)
        writer.finish()
        whole = b"".join(chunks)
        assert await early == (whole, "finished")
        assert await late == (whole[len(chunks[0]) :], "finished")
        reader = await opened(reading)
        assert (reader.head, reader.state) == (b"head of one", "finished")
        for position in (0, 1, 500, len(whole) - 1, len(whole)):
            assert await read_all(reader, position) == (whole[position:], "finished")

    scenario(steps)


def test_a_reader_waits_for_more(scenario: Scenario) -> None:
    async def steps(writing: StreamLog, reading: StreamLog) -> None:
        writer = write(writing, "one", b"a")
        await writing.flush()
        reader = await opened(reading)
        assert (await reader.read(0, WAIT))[:2] == (b"a", 1)
        assert await reader.read(1, 0.01) == (b"", 1, "")
        waiting = asyncio.create_task(reader.read(1, WAIT))
        writer.append(b"b")
        assert (await waiting)[:2] == (b"b", 2)

    scenario(steps)


def test_streams_belong_to_a_tenant(scenario: Scenario) -> None:
    async def steps(writing: StreamLog, reading: StreamLog) -> None:
        write(writing, "one", b"a", name="chat/7")
        await writing.flush()
        assert await reading.open("bob", "one") is None
        assert await reading.find("bob", "chat/7") is None
        assert await reading.open("ann", "two") is None
        assert await reading.find("ann", "chat/7") == "one"

    scenario(steps)


def test_a_name_means_the_newest_stream(scenario: Scenario) -> None:
    async def steps(writing: StreamLog, reading: StreamLog) -> None:
        write(writing, "one", b"a", name="chat/8").finish()
        await writing.flush()
        write(writing, "two", b"b", name="chat/8")
        await writing.flush()
        assert await reading.find("ann", "chat/8") == "two"

    scenario(steps)


def test_a_name_means_the_newest_stream_of_all_processes(server: RedisServer) -> None:
    """Also where an older one still runs."""

    async def main() -> None:
        one, two = RedisStreamLog(server.url), RedisStreamLog(server.url)
        write(one, "older", b"a", name="chat/10")
        await one.flush()
        write(two, "newer", b"b", name="chat/10")
        await two.flush()
        assert [await log.find("ann", "chat/10") for log in (one, two)] == ["newer", "newer"]
        await one.aclose()
        await two.aclose()

    asyncio.run(main())


def test_a_deleted_stream_is_gone_everywhere_at_once(scenario: Scenario) -> None:
    async def steps(writing: StreamLog, reading: StreamLog) -> None:
        writers = {id: write(writing, id, b"a") for id in ("ended", "running", "kept")}  # noqa: A001
        writers["ended"].finish()
        await writing.flush()
        following = [asyncio.create_task(read_all(await opened(log, id="running"))) for log in (writing, reading)]
        await reading.drop("bob", "kept")
        assert await read_state(reading, "kept") == ""
        for id in ("ended", "running", "never"):  # noqa: A001
            await reading.drop("ann", id)
        # the process that writes hears of a running stream by a request to cancel it, before it is deleted
        logs = (writing, reading) if scenario.kind != "redis-other" else (reading,)
        assert [await read_state(log, "running") in {None, "deleted"} for log in logs] == [True] * len(logs)
        assert [await read_state(log, "ended") in {None, "deleted"} for log in (writing, reading)] == [True, True]
        assert await reading.open("ann", "never") is None
        assert (await following[1])[1] == "deleted"
        writers["running"].append(b"b")
        writers["running"].finish()
        await writing.flush()
        await following[0]
        assert [await read_state(log, "running") in {None, "deleted"} for log in (writing, reading)] == [True, True]

    scenario(steps)


async def read_state(log: StreamLog, id: str) -> str | None:
    """The state of a stream; None if there is none."""
    reader = await log.open("ann", id)
    return reader.state if reader is not None else None


def test_readers_end_when_the_log_is_closed() -> None:
    async def main() -> None:
        log = MemoryStreamLog()
        write(log, "one", b"a")
        following = asyncio.create_task(read_all(await opened(log)))
        await asyncio.sleep(0)
        await log.aclose()
        assert (await following)[1] == "lost"

    asyncio.run(main())


def test_a_long_stream_is_uploaded_whole_before_the_log_is_closed(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_streams, "MAX_PAGES", 2)

    async def main() -> None:
        writing, reading = RedisStreamLog(server.url), RedisStreamLog(server.url)
        write(writing, "long-one", *[b"x" * 70_000] * 9).finish()
        await writing.aclose()
        assert await read_all(await opened(reading, id="long-one")) == (b"x" * 630_000, "finished")
        await reading.aclose()

    asyncio.run(main())


def test_a_stream_that_is_too_long_is_dropped(scenario: Scenario) -> None:
    async def steps(writing: StreamLog, reading: StreamLog) -> None:
        writer = write(writing, "long", b"x" * 600)
        await writing.flush()
        reader = await opened(reading, id="long")
        assert (await reader.read(0, WAIT)).position == 600
        assert not writer.append(b"y" * 600)
        assert await read_all(reader, 600) == (b"", "overflow")
        assert await read_all(await opened(reading, id="long")) == (b"", "overflow")

    scenario(steps, **SMALL)


def test_the_oldest_streams_make_room(scenario: Scenario) -> None:
    async def steps(writing: StreamLog, reading: StreamLog) -> None:
        for id in ("one", "two", "three"):  # noqa: A001
            write(writing, id, b"x" * 900).finish()
            await writing.flush()
        if scenario.kind == "memory":
            assert await reading.open("ann", "one") is None
        else:  # what this process has dropped is still there
            assert await read_all(await opened(reading)) == (b"x" * 900, "finished")
        assert await read_all(await opened(reading, id="three")) == (b"x" * 900, "finished")

    scenario(steps, **SMALL)


def test_a_stream_is_gone_some_time_after_its_end(scenario: Scenario) -> None:
    async def steps(writing: StreamLog, reading: StreamLog) -> None:
        writer = write(writing, "brief", b"a", name="chat/9")
        await writing.flush()
        await asyncio.sleep(0.3)
        await opened(reading, id="brief")  # a stream that runs does not expire
        writer.finish()
        await writing.flush()
        async with asyncio.timeout(WAIT):
            while await reading.open("ann", "brief") is not None:  # noqa: ASYNC110 — an expiry has no event
                await asyncio.sleep(0.02)

    scenario(steps, keep=0.2)


def test_a_stream_is_cancelled_from_anywhere(scenario: Scenario) -> None:
    async def steps(writing: StreamLog, reading: StreamLog) -> None:
        writer, cancelled = write(writing, "one", b"a"), asyncio.Event()
        writer.when_cancelled(cancelled.set)
        await writing.flush()
        await reading.cancel("bob", "one")
        assert not cancelled.is_set()
        await reading.cancel("ann", "one")
        async with asyncio.timeout(WAIT):
            await cancelled.wait()

    scenario(steps)


def test_the_streams_of_a_dead_process_are_lost(server: RedisServer) -> None:
    """Its lease ends: the reader hears of it within ten seconds."""

    async def main() -> None:
        dead, reading = RedisStreamLog(server.url), RedisStreamLog(server.url)
        write(dead, "orphan", b"a")
        await dead.flush()
        reader = await opened(reading, id="orphan")
        task: Any = dead._task  # ends as a killed process does: without a word  # pyright: ignore[reportPrivateUsage]
        task.cancel()
        async with asyncio.timeout(10):
            assert await read_all(reader) == (b"a", "lost")
        assert (await opened(reading, id="orphan")).state == "lost"
        await dead.aclose()
        await reading.aclose()

    asyncio.run(main())


def test_while_redis_is_away_streams_go_on() -> None:
    async def main(away: RedisServer) -> None:
        writing, reading = RedisStreamLog(away.url), RedisStreamLog(away.url)
        writer = write(writing, "one", b"a")
        await writing.flush()
        away.stop()
        writer.append(b"b")
        assert (await (await opened(writing)).read(0, WAIT)).data == b"ab"
        with pytest.raises(StoreUnavailable, match="Redis"):
            await reading.open("ann", "one")
        away.start()
        writer.append(b"c")
        writer.finish()
        await writing.flush()
        assert await read_all(await opened(reading)) == (b"abc", "finished")
        await writing.aclose()
        await reading.aclose()

    with closing(RedisServer()) as away:
        away.start()
        asyncio.run(main(away))


def test_a_turn_costs_few_commands(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many frames a stream has, it is uploaded a few times a second."""
    monkeypatch.setattr(redis_streams, "UPLOAD_INTERVAL", 0.05)

    async def main() -> None:
        client: Any = redis.asyncio.Redis.from_url(server.url)  # pyright: ignore[reportUnknownMemberType]
        writing = RedisStreamLog(server.url)
        before = (await client.info("stats"))["total_commands_processed"]
        writers = [write(writing, f"s{number}") for number in range(10)]
        for _ in range(1_000):
            for writer in writers:
                writer.append(b"data: {}\n\n")
        for writer in writers:
            writer.finish()
        await writing.flush()
        used = (await client.info("stats"))["total_commands_processed"] - before
        assert used <= 10 * 8 + 10, used
        await writing.aclose()
        await client.aclose()

    asyncio.run(main())
