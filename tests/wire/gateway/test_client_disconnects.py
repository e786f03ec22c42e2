"""Clients that disconnect or read slowly: the upstream request is cancelled at any stage; other clients do not wait."""

from __future__ import annotations

import asyncio
import json
import socket
from itertools import accumulate
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from penstock import events as ev
from penstock.testing import Reply, encode_events, play
from tests.gateway.test_faults import settled, until
from tests.support.client_requests import ASKING, ask
from tests.support.gateway import SERVERS, gateway

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.testing import ReceivedRequest, Upstream
    from tests.support.gateway import Running


SCRIPT = play("tools", id="one", model="m", created=7)
NOTHING_SENT = 499  # the client left before the first byte
NOTICED = 5.0  # seconds; how much sooner it is, is measured in benchmarks


@pytest.fixture(scope="module", params=SERVERS)
def both(request: pytest.FixtureRequest) -> Iterator[tuple[Running, Upstream]]:
    with gateway(Reply.no_response(), plain=request.param) as found:
        yield found


def knock(base: str, client: str, model: str, *, stream: bool) -> socket.socket:
    """Send a request over a bare socket."""
    path, body = ASKING[client](model, stream)
    where, data = urlsplit(base), json.dumps(body).encode()
    made = socket.create_connection((where.hostname, where.port), timeout=10)
    made.sendall(f"POST {path} HTTP/1.1\r\nhost: {where.netloc}\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data)
    return made


def left(running: Running, seen: ReceivedRequest) -> int:
    """The upstream has noticed, and nothing is left of the turn. Return the HTTP status in the journal."""
    until(running, lambda: seen.disconnected.is_set() and settled(running))
    row = running.rows()[0]
    assert (row.status, row.fault) == ("cancelled", "cancelled")
    return int(row.http)


def wait_for_request(running: Running, up: Upstream, before: int) -> ReceivedRequest:
    """Returns the next request that the upstream gets, after so many."""
    until(running, lambda: len(up.requests) > before)
    return up.requests[before]


@pytest.mark.parametrize("upstream", ["openai-chat", "anthropic"])
def test_a_client_that_leaves_at_any_frame_ends_the_upstream(both: tuple[Running, Upstream], upstream: str) -> None:
    running, up = both
    for place in (0, *accumulate(len(chunk) for chunk in encode_events(upstream, SCRIPT)[:-3])):
        before = len(up.requests)
        up.script(Reply.of(upstream, SCRIPT).stall(after=place))
        with knock(running.url, "openai-chat", f"{upstream}/tools", stream=True) as rude:
            seen = wait_for_request(running, up, before)
            has_token = place > len(b"".join(encode_events(upstream, SCRIPT)[:3]))
            if has_token:
                assert rude.recv(10)
        status = left(running, seen)
        if place == 0 or has_token:
            assert status == (200 if has_token else NOTHING_SENT)


@pytest.mark.parametrize("client", list(ASKING))
def test_a_client_that_leaves_before_its_whole_answer(both: tuple[Running, Upstream], client: str) -> None:
    running, up = both
    before = len(up.requests)
    up.script(Reply.of("openai-chat", SCRIPT, stream=False).delayed(20))
    with knock(running.url, client, "openai-chat/text", stream=False):
        seen = wait_for_request(running, up, before)
    assert left(running, seen) == NOTHING_SENT


def test_a_client_that_leaves_while_asking_is_tried_again() -> None:
    """Nothing is asked again for somebody who has gone."""
    reply = Reply.rate_limit("openai-chat", retry_after=20)
    with gateway(reply) as (running, up):
        services = running.app.services
        router = services.upstream.router
        services.upstream.router = router.renewed(__import__("msgspec").structs.replace(router.config, retries=3))
        with knock(running.url, "openai-chat", "openai-chat/text", stream=True):
            wait_for_request(running, up, 0)
        until(running, lambda: settled(running) and services.limits.open == 0)
        assert len(up.requests) == 1
        assert running.rows()[0].http == NOTHING_SENT


def _long(count: int) -> list[Any]:
    text = "x" * 1000
    deltas = [ev.TextDelta(0, text) for _ in range(count)]
    return [ev.Start("one", "m", 7), ev.TextStart(0), *deltas, ev.TextEnd(0), ev.Usage(1, 1), ev.Finish("stop")]


@pytest.mark.parametrize("client", ["openai-chat", "anthropic"])
def test_a_slow_reader_holds_the_upstream_back_and_nobody_else(client: str) -> None:
    big = Reply.of("openai-chat", _long(20_000))
    with gateway(big, serve={"ping": 0.05, "write": 0.5, "pace": 0.0}) as (running, up):
        with knock(running.url, client, "openai-chat/text", stream=True) as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            seen = wait_for_request(running, up, 0)
            assert slow.recv(100)
            assert ask(running.url, "openai-chat", "replay/text").status_code == 200
            until(running, lambda: seen.finished.is_set() or seen.disconnected.is_set() or settled(running))
        assert seen.sent < len(big.data), "all of it was taken in although nobody read it"
        until(running, lambda: settled(running))
        assert sorted(row.status for row in running.rows()) == ["cancelled", "finish"]


def test_the_application_can_be_mounted() -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    from penstock.gateway import App, GatewayConfig
    from tests.support.gateway import Running

    made = App(GatewayConfig(journal={"path": "off"}, state={"path": "memory"}), pace=0, env={})
    outer: Any = Starlette(routes=[Mount("/llm", made)])
    with Running(outer, plain=True) as running:
        assert ask(f"{running.url}/llm", "anthropic", "replay/text").status_code == 200
    asyncio.run(made.services.aclose())
