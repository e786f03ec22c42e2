"""Gateways that share Redis: a cool-down and an open circuit of one are respected by the others."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from redis import Redis

from penstock.gateway import App
from penstock.testing import Reply, Upstream, play, scripted
from tests.support.client_requests import ask, metric
from tests.support.gateway import LIMIT, Running, answer, config
from tests.support.openresponses import until
from tests.support.servers import RedisServer

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from penstock.testing import ReceivedRequest

LIMITED = Reply.rate_limit("openai-chat", retry_after=300)
BUSY = Reply.error("openai-chat", 503, "the cluster is being upgraded")
INTERVAL = 0.5  # seconds between two calls of a gateway


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with closing(RedisServer()) as server:
        server.start()
        yield server


@contextmanager
def replicas(up: Upstream, server: RedisServer, count: int = 2) -> Generator[list[Running]]:
    """Gateways with an alias `fast`, whose first target is at the upstream of the test and whose second one answers."""
    tables: dict[str, Any] = {
        "serve": {"pace": 0.0}, "stores": {"redis": server.url},
        "aliases": {"fast": {"targets": ["openai-chat/text", "anthropic/text"]}},
        "breaker": {"failures": 2, "cool": 300, "first": 300},
    }  # fmt: skip
    with ExitStack() as stack:
        yield [stack.enter_context(Running(App(config(up.url, **tables), env={}))) for _ in range(count)]


def chats(up: Upstream) -> int:
    """The requests that the first target got."""
    return sum(seen.path.startswith("/openai-chat") for seen in up.requests)


def first_target(reply: Reply) -> Callable[[ReceivedRequest], Reply]:
    return lambda seen: reply if seen.path.startswith("/openai-chat") else answer(seen)


def test_a_cool_down_of_one_replica_is_respected_by_the_other(redis: RedisServer) -> None:
    with scripted(first_target(LIMITED)) as up, replicas(up, redis) as (one, other):
        assert ask(one.url, "openai-chat", "fast").status_code == 200
        until(lambda: metric(other.url, "cooling_targets") == 1)
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


def test_an_open_circuit_of_one_replica_is_open_in_the_others_until_it_closes(redis: RedisServer) -> None:
    """Also in one that begins later, and after Redis has lost all that it had."""
    gate, model = threading.Event(), "openai-chat/text"
    plain = Reply.of("openai-chat", play("text"), stream=False)
    held = HeldReply(plain.chunks, headers=plain.headers, gate=gate)
    with scripted(held) as up, replicas(up, redis) as (one, other), ThreadPoolExecutor() as pool:
        slow = pool.submit(ask, one.url, "openai-chat", model)
        until(lambda: chats(up) == 1)
        up.script(first_target(BUSY))
        for _ in range(2):
            assert ask(one.url, "openai-chat", model).status_code == 503
        until(lambda: metric(other.url, "circuits_open") == 1)
        refused = ask(other.url, "openai-chat", model)
        asked = chats(up)
        with closing(Redis(port=redis.port)) as client:
            client.flushall()
        with replicas(up, redis, 1) as (late,):
            until(lambda: metric(late.url, "circuits_open") == 1)
        with closing(Redis(port=redis.port)) as client:
            seconds: Any = client.ttl("{penstock-notices}:values")
        assert 0 < seconds <= 7200
        gate.set()
        assert slow.result(LIMIT).status_code == 200  # it began before, and shows that the provider answers
        until(lambda: metric(other.url, "circuits_open") == 0)
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
        assert metric(other.url, "circuits_open") == 0
        redis.start()
        until(lambda: metric(other.url, "circuits_open") == 1)


def test_turns_do_not_wait_for_redis(redis: RedisServer) -> None:
    def calls() -> int:
        with closing(Redis(port=redis.port)) as client:
            found: Any = client.info("commandstats")
        return sum(row["calls"] for name, row in found.items() if "eval" in name)

    with scripted(answer) as up, replicas(up, redis) as (one, _):
        until(lambda: calls() > 2)
        before, began = calls(), time.monotonic()
        for _ in range(60):
            assert ask(one.url, "openai-chat", "fast").status_code == 200
        made, seconds = calls() - before, time.monotonic() - began
    assert made <= 2 * (seconds / INTERVAL + 2), "two replicas, and one call of each in an interval"
