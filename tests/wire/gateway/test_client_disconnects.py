"""Clients that disconnect or read slowly: the upstream request is cancelled at any stage; other clients do not wait."""

from __future__ import annotations

import asyncio
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pytest

from penstock import events as ev
from penstock.gateway import App
from penstock.testing import Reply, encode_events, play
from tests.support.client_requests import ASKING, ask, knock
from tests.support.gateway import SERVERS, Running, gateway, read_config, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.testing import ReceivedRequest, Upstream


SCRIPT = play("tools", id="one", model="m", created=7)
NOTHING_SENT = 499  # the client left before the first byte


@pytest.fixture(scope="module", params=SERVERS)
def both(request: pytest.FixtureRequest) -> Iterator[tuple[Running, Upstream]]:
    with gateway(Reply.no_response(), plain=request.param) as found:
        yield found


def left(running: Running, seen: ReceivedRequest) -> int:
    """The upstream has noticed, and nothing is left of the turn. Return the HTTP status in the journal."""
    until(running, lambda: seen.disconnected.is_set() and running.settled())
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
    frames = encode_events(upstream, SCRIPT)
    for place in (0, *accumulate(len(chunk) for chunk in frames[:-3])):
        before = len(up.requests)
        up.script(Reply.of(upstream, SCRIPT).stall(after=place))
        with knock(running.url, "openai-chat", f"{upstream}/tools", stream=True) as rude:
            seen = wait_for_request(running, up, before)
            has_token = place > len(b"".join(frames[:3]))
            if has_token:
                assert rude.recv(10)
        status = left(running, seen)
        if place == 0 or has_token:
            assert status == (200 if has_token else NOTHING_SENT)


def test_a_client_that_leaves_before_its_whole_answer(both: tuple[Running, Upstream]) -> None:
    running, up = both
    up.script(Reply.of("openai-chat", SCRIPT, stream=False).delayed(20))
    for client in ASKING:
        before = len(up.requests)
        with knock(running.url, client, "openai-chat/text", stream=False):
            seen = wait_for_request(running, up, before)
        assert left(running, seen) == NOTHING_SENT, client


def test_nothing_is_asked_again_for_somebody_who_has_gone() -> None:
    with gateway(Reply.rate_limit("openai-chat", retry_after=20), retries=3) as (running, up):
        with knock(running.url, "openai-chat", "openai-chat/text", stream=True):
            wait_for_request(running, up, 0)
        running.settle()
        assert len(up.requests) == 1
        assert running.rows()[0].http == NOTHING_SENT


def _long(*texts: str) -> list[ev.AnyEvent]:
    deltas = [ev.TextDelta(0, text) for text in texts]
    return [ev.Start("one", "m", 7), ev.TextStart(0), *deltas, ev.TextEnd(0), ev.Usage(1, 1), ev.Finish("stop")]


@pytest.mark.parametrize("client", ["openai-chat", "anthropic"])
def test_a_slow_reader_holds_the_upstream_back_and_nobody_else(client: str) -> None:
    big = Reply.of("openai-chat", _long(*["x" * 1000] * 20_000))
    with gateway(big, serve={"ping": 0.05, "write": 0.5, "pace": 0.0}) as (running, up):
        with knock(running.url, client, "openai-chat/text", stream=True, receive_buffer=4096) as slow:
            seen = wait_for_request(running, up, 0)
            assert slow.recv(100)
            assert ask(running.url, "openai-chat", "replay/text").status_code == 200
            until(running, lambda: seen.finished.is_set() or seen.disconnected.is_set() or running.settled())
        assert seen.sent < len(big.data), "all of it was taken in although nobody read it"
        running.settle()
        assert sorted(row.status for row in running.rows()) == ["cancelled", "finish"]


@pytest.mark.parametrize("plain", SERVERS)
def test_a_client_that_does_not_read_the_end_is_given_up(*, plain: bool) -> None:
    """No keep-alive tells that it has stopped reading: only the end is left to send."""
    large = Reply.of("openai-chat", _long("x" * 12_000_000))
    with (
        gateway(large, serve={"write": 0.2, "pace": 0.0}, plain=plain) as (running, up),
        knock(running.url, "anthropic", "openai-chat/text", stream=True, receive_buffer=4096) as slow,
    ):
        wait_for_request(running, up, 0)
        assert slow.recv(100)
        running.settle()
        until(running, lambda: not any("RequestResponseCycle" in repr(task) for task in asyncio.all_tasks()))
        assert len(running.rows()) == 1


def test_the_application_can_be_mounted() -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    made = App(read_config(journal={"path": "off"}, state={"path": "memory"}), pace=0, env={})
    outer: Any = Starlette(routes=[Mount("/llm", made)])
    with Running(outer, plain=True) as running:
        assert ask(f"{running.url}/llm", "anthropic", "replay/text").status_code == 200
    asyncio.run(made.services.aclose())
