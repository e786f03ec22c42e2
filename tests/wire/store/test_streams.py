"""Streams that are kept: in memory, in Redis for one gateway, in Redis between two. The same bytes, from any place.

Replicas that die or lose their Redis, and deletions, are in `tests/wire/gateway/test_resume_replicas.py`.
"""

from __future__ import annotations

import re
import socket
import threading
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING, Any

import pytest
import redis

from penstock.testing import Reply, play
from tests.support.client_requests import ASKING, post
from tests.support.gateway import answer, gateway
from tests.support.resumed_streams import begin, resume, slow
from tests.support.servers import HOST, free_port
from tests.support.stores import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.gateway import Running
    from tests.support.servers import RedisServer

KEEP = {"x-penstock-resume": "true"}
CLIENT, MODEL = "openai-chat", "openai-chat/text"
EVENT = re.compile(rb"\nid: ([0-9a-f]{32}-([0-9]+))\n\n")


class Pair:
    """The gateway that writes, and the one that reads: the same, or another one on the same Redis."""

    def __init__(self, kind: str, server: RedisServer, stack: ExitStack) -> None:
        self.kind, self._server, self._stack = kind, server, stack
        self.tables: dict[str, Any] = {}

    def open(self, *replies: Any, **tables: Any) -> tuple[Running, Running]:
        if self.kind != "memory":
            tables["stores"] = {"redis": self._server.url}
        writing, _ = self._stack.enter_context(gateway(*replies, **tables))
        if self.kind != "redis, other":
            return writing, writing
        reading, _ = self._stack.enter_context(gateway(*replies, **tables))
        return writing, reading


@pytest.fixture(params=["memory", "redis", "redis, other"])
def pair(request: pytest.FixtureRequest, redis_server: RedisServer) -> Iterator[Pair]:
    with ExitStack() as stack:
        yield Pair(request.param, redis_server, stack)


def stream(running: Running, **headers: str) -> bytes:
    path, body = ASKING[CLIENT](MODEL, True)
    reply = post(running.url + path, json=body, headers={**KEEP, **headers})
    assert reply.status_code == 200, reply.text
    return reply.content


def resumed(running: Running, event: str) -> bytes | int:
    """What follows an event; the status if there is no stream."""
    reply = resume(running.url, CLIENT, event)
    return reply.content if reply.status_code == 200 else reply.status_code


def test_readers_get_every_byte_once_from_any_position(pair: Pair) -> None:
    writing, reading = pair.open(answer)
    whole = stream(writing)
    events = [(found[1].decode(), found.end()) for found in EVENT.finditer(whole)]
    assert len(events) > 20
    until(lambda: resumed(reading, events[0][0]) == whole[events[0][1] :])
    wrong = [event for event, end in events[:: max(1, len(events) // 12)] if resumed(reading, event) != whole[end:]]
    assert wrong == []


def test_a_stream_that_runs_is_followed_to_its_end(pair: Pair) -> None:
    writing, reading = pair.open(slow)
    start, event = begin(writing.url, CLIENT, MODEL, {"x-penstock-resume": "background"})
    until(lambda: isinstance(resumed(reading, event), bytes))
    rest = resumed(reading, event)
    again = resumed(writing, event)
    assert rest == again
    assert isinstance(rest, bytes)
    assert b"data: [DONE]\nid: " in rest[-100:]
    assert b"error" not in start + rest


def test_a_stream_that_is_too_long_is_not_kept_and_the_oldest_make_room(pair: Pair) -> None:
    writing, reading = pair.open(answer, resume={"size": 100_000, "total": 60_000})
    streams = [stream(writing) for _ in range(12)]
    first, last = (EVENT.search(one) for one in (streams[0], streams[-1]))
    assert first is not None
    assert last is not None
    until(lambda: resumed(reading, last[1].decode()) == streams[-1][last.end() :])
    found = resumed(reading, first[1].decode())
    assert isinstance(found, int) if pair.kind == "memory" else found == streams[0][first.end() :]
    small, other = pair.open(answer, resume={"size": 500})
    event = EVENT.search(stream(small))
    assert event is not None
    assert resumed(other, event[1].decode()) == 410


def test_a_stream_is_gone_some_time_after_its_end(pair: Pair) -> None:
    writing, reading = pair.open(answer, resume={"keep": 1})
    event = EVENT.search(stream(writing))
    assert event is not None
    until(lambda: isinstance(resumed(reading, event[1].decode()), int))


# ── Redis ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_long_stream_is_uploaded_whole_before_the_gateway_is_closed(redis_server: RedisServer) -> None:
    events = play("text")
    words = [one for one in events if type(one).__name__ == "TextDelta"]
    place = events.index(words[0])
    long = Reply.of("openai-chat", [*events[:place], *(words * 40), *events[place + len(words) :]])
    stores = {"redis": redis_server.url}
    with gateway(long, stores=stores) as (writing, _):
        whole = stream(writing)
    assert len(whole) > 300_000
    event = EVENT.search(whole)
    assert event is not None
    with gateway(answer, stores=stores) as (reading, _):
        assert resumed(reading, event[1].decode()) == whole[event.end() :]


def test_a_turn_costs_few_commands(redis_server: RedisServer) -> None:
    """However many frames a stream has, it is uploaded a few times a second."""
    client: Any = redis.Redis(port=redis_server.port)
    with closing(client), gateway(answer, stores={"redis": redis_server.url}) as (writing, _):
        stream(writing)
        before = client.info("stats")["total_commands_processed"]
        frames = sum(len(EVENT.findall(stream(writing))) for _ in range(10))
        used = client.info("stats")["total_commands_processed"] - before
    assert frames > 300
    assert used <= 150, used


def test_a_background_response_begins_although_its_stream_cannot_be_uploaded() -> None:
    stores = {"redis": f"redis://{HOST}:{free_port()}/0"}
    with gateway(answer, stores=stores) as (running, _):
        for _ in range(2):
            body = {"model": MODEL, "input": "Hi.", "background": True}
            reply = post(f"{running.url}/v1/responses", json=body)
            assert reply.status_code == 200, reply.text
            assert reply.json()["status"] in ("queued", "in_progress", "completed")


def test_a_cache_that_hangs_is_asked_once() -> None:
    """It takes connections, and never answers."""
    received: list[bytes] = []

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=read, args=(connection,), daemon=True).start()

    def read(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            while data := connection.recv(65_536):
                received.append(data)

    with closing(socket.create_server((HOST, 0))) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        stores = {"redis": f"redis://{HOST}:{listener.getsockname()[1]}/0", "outage": "fail-open"}
        with gateway(answer, stores=stores, cache={"aliases": ["*"]}) as (running, _):
            path, body = ASKING[CLIENT](MODEL, False)
            replies = [post(running.url + path, json=body) for _ in range(3)]
        listener.shutdown(socket.SHUT_RDWR)
    assert [reply.status_code for reply in replies] == [200] * 3
    assert [reply.headers["x-penstock-cache"] for reply in replies] == ["miss"] * 3
