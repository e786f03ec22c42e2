"""Two gateways that share Redis: a cool-down and an open circuit of one are respected by the other."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from penstock._store.redis_notices import INTERVAL, MAX_NOTICES, ForeignNotice, RedisNotices
from penstock._store.redis_streams import connect_redis
from penstock.gateway import App
from penstock.testing import Reply, Upstream, play, scripted
from tests.gateway.test_metrics import figure
from tests.support.client_requests import ask, get
from tests.support.gateway import LIMIT, Running, answer, config
from tests.support.servers import RedisServer

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from penstock.testing import ReceivedRequest

LIMITED = Reply.rate_limit("openai-chat", retry_after=300)
BUSY = Reply.error("openai-chat", 503, "the cluster is being upgraded")


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    server = RedisServer()
    server.start()
    yield server
    server.close()


def connect(server: RedisServer) -> Any:
    client, _ = connect_redis(server.url)
    return client


@contextmanager
def replicas(up: Upstream, server: RedisServer) -> Generator[tuple[Running, Running]]:
    """Two gateways with an alias `fast`, whose first target is at the upstream of the test and whose second one answers."""
    made = config(up.url, serve={"pace": 0.0}, stores={"redis": server.url})
    targets = ("openai-chat/text", "anthropic/text")
    engine = replace(
        made.engine, aliases={"fast": {"targets": targets}}, breaker={"failures": 2, "cool": 300, "first": 300}
    )
    apps = [App(replace(made, engine=engine), env={}) for _ in range(2)]
    with Running(apps[0]) as one, Running(apps[1]) as other:
        yield one, other


def chats(up: Upstream) -> int:
    """The requests that the first target got."""
    return sum(seen.path.startswith("/openai-chat") for seen in up.requests)


def until(check: Callable[[], bool]) -> None:
    """Waits until something is so."""
    began = time.monotonic()
    while not check():
        assert time.monotonic() - began < LIMIT
        time.sleep(0.02)


def gauge(running: Running, name: str) -> float:
    return figure(get(f"{running.url}/metrics").content, f"penstock_{name}")


def first_target(reply: Reply) -> Callable[[ReceivedRequest], Reply]:
    return lambda seen: reply if seen.path.startswith("/openai-chat") else answer(seen)


def test_a_cool_down_of_one_replica_is_respected_by_the_other(redis: RedisServer) -> None:
    with scripted(first_target(LIMITED)) as up, replicas(up, redis) as (one, other):
        assert ask(one.url, "openai-chat", "fast").status_code == 200
        until(lambda: gauge(other, "cooling_targets") == 1)
        reply = ask(other.url, "openai-chat", "fast")
        decisions = other.rows()[0].decisions
    assert (reply.status_code, chats(up)) == (200, 1)
    assert "rate-limit, it asked for 300 s (another process was told)" in decisions


class HeldReply(Reply, frozen=True):
    """An answer that begins once the gate is open."""

    gate: Any = None

    def steps(self) -> Iterator[Any]:
        while not self.gate.is_set():
            yield 0.02
        yield from self.chunks


def test_an_open_circuit_of_one_replica_is_open_in_the_other_until_it_closes(redis: RedisServer) -> None:
    gate, model = threading.Event(), "openai-chat/text"
    plain = Reply.of("openai-chat", play("text"), stream=False)
    held = HeldReply(plain.chunks, headers=plain.headers, gate=gate)
    with scripted(held) as up, replicas(up, redis) as (one, other), ThreadPoolExecutor() as pool:
        slow = pool.submit(ask, one.url, "openai-chat", model)
        until(lambda: chats(up) == 1)
        up.script(first_target(BUSY))
        for _ in range(2):
            assert ask(one.url, "openai-chat", model).status_code == 503
        until(lambda: gauge(other, "circuits_open") == 1)
        refused = ask(other.url, "openai-chat", model)
        asked = chats(up)
        gate.set()
        assert slow.result(LIMIT).status_code == 200  # it began before, and shows that the provider answers
        until(lambda: gauge(other, "circuits_open") == 0)
        up.script(answer)
        assert ask(other.url, "openai-chat", model).status_code == 200
    assert (refused.status_code, refused.headers["x-penstock-refused-by"], asked) == (503, "gateway", 3)


def test_without_redis_each_replica_goes_on_alone_and_tells_later(redis: RedisServer) -> None:
    with scripted(answer) as up, replicas(up, redis) as (one, other):
        assert ask(one.url, "openai-chat", "fast").status_code == 200
        redis.kill()
        up.script(first_target(LIMITED))
        for running in (one, other, one, other):
            assert ask(running.url, "openai-chat", "fast").status_code == 200
        assert chats(up) == 3, "each has asked once"
        up.script(first_target(BUSY))
        for _ in range(2):
            assert ask(one.url, "openai-chat", "openai-chat/text").status_code == 503
        assert gauge(other, "circuits_open") == 0
        redis.start()
        until(lambda: gauge(other, "circuits_open") == 1)


def test_turns_do_not_wait_for_redis(redis: RedisServer) -> None:
    def calls() -> int:
        async def read() -> int:
            client = connect(redis)
            found = await client.info("commandstats")
            await client.aclose()
            return sum(row["calls"] for name, row in found.items() if "eval" in name)

        return asyncio.run(read())

    with scripted(answer) as up, replicas(up, redis) as (one, _):
        until(lambda: calls() > 2)
        before, began = calls(), time.monotonic()
        for _ in range(60):
            assert ask(one.url, "openai-chat", "fast").status_code == 200
        made, seconds = calls() - before, time.monotonic() - began
    assert made <= 2 * (seconds / INTERVAL + 2), "two replicas, and one call of each in an interval"


# ── the notices themselves ────────────────────────────────────────────────────────────────────────


class Listener:
    """The notices of the others, as one process heard of them last."""

    def __init__(self, server: RedisServer) -> None:
        self.rows: dict[str, str] = {}
        self.heard = asyncio.Event()
        self.notices = RedisNotices(server.url, interval=0.05)
        self.notices.on_change = self._take

    def _take(self, found: Sequence[ForeignNotice]) -> None:
        self.rows = {row.name: row.value for row in found}
        self.heard.set()

    async def wait(self, check: Callable[[dict[str, str]], bool]) -> None:
        async with asyncio.timeout(LIMIT):
            while not check(self.rows):
                self.heard.clear()
                await self.heard.wait()


def test_notices_are_replaced_withdrawn_end_and_are_sent_again(redis: RedisServer) -> None:
    async def scene() -> None:
        one, other = Listener(redis), Listener(redis)
        for side in (one, other):
            side.notices.start()
        one.notices.publish("a", "1", 60)
        one.notices.publish("b", "ü", 0.3)
        await other.wait(lambda rows: rows == {"a": "1", "b": "ü"})
        one.notices.publish("a", "2", 60)
        await other.wait(lambda rows: rows.get("a") == "2")
        await other.wait(lambda rows: rows == {"a": "2"})  # the short one has ended
        assert one.rows == {}, "nobody hears of one's own"
        client = connect(redis)
        await client.flushall()
        await other.wait(lambda rows: rows == {"a": "2"})
        one.notices.withdraw("a")
        await other.wait(lambda rows: rows == {})
        for number in range(MAX_NOTICES + 20):
            other.notices.publish(f"n{number}", "x", 100 + number)
        await one.wait(lambda rows: len(rows) == MAX_NOTICES)
        assert await client.zcard("{penstock-notices}:ends") == MAX_NOTICES
        assert 0 < await client.ttl("{penstock-notices}:values") <= 7200
        await client.aclose()
        for side in (one, other):
            await side.notices.aclose()

    asyncio.run(scene())
