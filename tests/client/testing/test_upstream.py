"""The scripted upstream, asked by a real client: what it was told to do wrong is what the client meets."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import aiohttp
import httpx
import pytest

from penstock.errors import InputError
from penstock.testing import ReceivedRequest, Reply, Upstream, play, scripted
from tests.support.each_case import each
from tests.support.servers import free_port

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

GOOD = Reply.of("anthropic", play("text"))


def _with(reply: Any, work: Callable[[Upstream, aiohttp.ClientSession], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        async with Upstream(reply, **options) as up, aiohttp.ClientSession() as session:
            await work(up, session)

    asyncio.run(asyncio.wait_for(run(), 20))


async def _bytes(session: aiohttp.ClientSession, url: str) -> tuple[int, bytes, bool]:
    """Status, what came, and whether it came to its end."""
    got = b""
    async with session.post(url, json={"model": "tide-1"}) as answer:
        try:
            async for chunk in answer.content.iter_any():
                got += chunk
        except aiohttp.ClientError:
            return answer.status, got, False
        return answer.status, got, True


def test_a_stream_as_it_should_be() -> None:
    async def work(up: Upstream, session: aiohttp.ClientSession) -> None:
        assert await _bytes(session, f"{up.url}/v1/messages?beta=true") == (200, GOOD.data, True)
        seen = up.requests[0]
        assert (seen.method, seen.path, seen.query, seen.json) == (
            "POST",
            "/v1/messages",
            "beta=true",
            {"model": "tide-1"},
        )
        assert seen.headers["content-type"] == "application/json"
        assert not seen.disconnected.is_set()

    _with(GOOD, work)


@each("after", [0, 1, 100, -1])
def test_cut(after: int) -> None:
    async def work(up: Upstream, session: aiohttp.ClientSession) -> None:
        status, got, whole = await _bytes(session, up.url)
        assert (status, whole) == (200, False)
        assert got == GOOD.data[: after if after >= 0 else len(GOOD.data) + after]

    _with(GOOD.disconnect(after), work)


def test_no_answer_at_all() -> None:
    async def work(up: Upstream, session: aiohttp.ClientSession) -> None:
        with pytest.raises(aiohttp.ClientError):
            await session.post(up.url)
        assert len(up.requests) >= 1

    _with(Reply.no_response(), work)


def test_a_stall_is_seen_by_the_one_who_waits_and_leaving_by_the_one_who_stalls() -> None:
    async def work(up: Upstream, session: aiohttp.ClientSession) -> None:
        answer = await session.post(up.url)
        got = b""
        while len(got) < 100:
            got += await answer.content.readany()
        assert got == GOOD.data[:100]
        left = time.monotonic()
        answer.close()
        seen = up.requests[0]
        await asyncio.wait_for(seen.disconnected.wait(), 5)
        assert seen.disconnected_at >= left
        assert seen.sent == 100

    _with(GOOD.stall(100), work)


def test_a_stall_has_an_end() -> None:
    async def work(up: Upstream, session: aiohttp.ClientSession) -> None:
        assert await _bytes(session, up.url) == (200, b"", False)

    _with(GOOD.stall(), work, patience=0.05)


def test_garbage() -> None:
    async def work(up: Upstream, session: aiohttp.ClientSession) -> None:
        _, got, whole = await _bytes(session, up.url)
        assert whole
        assert got == GOOD.data[:50] + b"\xff#" + GOOD.data[50:]

    _with(GOOD.garbage(50, b"\xff#"), work)


def test_too_many_requests_then_an_answer() -> None:
    async def work(up: Upstream, session: aiohttp.ClientSession) -> None:
        up.script(Reply.rate_limit("openai-chat", retry_after=0.5), GOOD)
        async with session.post(up.url) as answer:
            assert (answer.status, answer.headers["retry-after"]) == (429, "0.5")
            assert (await answer.json())["error"]["message"] == "slow down"
        for _ in range(2):  # the last reply goes on
            assert (await _bytes(session, up.url))[0] == 200

    _with(Reply.no_response(), work)


@each("protocol", ["openai-chat", "anthropic", "responses", "gemini", "bedrock", "cohere", "ollama"])
def test_a_refusal_in_each_protocols_words(protocol: str) -> None:
    reply = Reply.error(protocol, 401, "who are you?")
    assert b"who are you?" in reply.data
    assert reply.status == 401


def test_slow_bytes_come_one_by_one() -> None:
    reply = Reply.body(b"abc").slow(0.001, size=1)
    assert list(reply.steps()) == [b"a", 0.001, b"b", 0.001, b"c"]

    async def work(up: Upstream, session: aiohttp.ClientSession) -> None:
        assert await _bytes(session, up.url) == (200, b"abc", True)

    _with(reply, work)


def test_a_reply_may_depend_on_the_request() -> None:
    async def answer(seen: ReceivedRequest) -> Reply:
        return Reply.body({"you asked": seen.json}).with_headers(x_request_id="r-1")

    async def work(up: Upstream, session: aiohttp.ClientSession) -> None:
        async with session.post(up.url, json=[1]) as got:
            assert await got.json() == {"you asked": [1]}
            assert got.headers["x-request-id"] == "r-1"
        assert (await up.wait_for_request(1)).json == [1]

    _with(answer, work)


def test_nothing_to_say_is_the_scripts_fault() -> None:
    async def run() -> None:
        async with Upstream() as up:
            with pytest.raises(InputError):
                await up._reply(ReceivedRequest("POST", "/", {}, b""))

    asyncio.run(run())


def test_for_code_that_is_not_asynchronous() -> None:
    with scripted(GOOD) as up:
        assert httpx.post(up.url, json={}).content == GOOD.data
        assert up.requests[0].json == {}


def test_the_port_can_be_chosen_and_a_reply_can_use_results() -> None:
    """A scripted provider behind a gateway: the gateway's configuration names its address."""

    def answer(request: ReceivedRequest) -> Reply:
        return Reply.text(f"It says {request.result_text}.") if request.results else Reply.calls([("read", {})])

    port = free_port()
    with scripted(answer, port=port) as up, up.sync_client() as client:
        assert up.url == f"http://127.0.0.1:{port}"
        run = client.run("anthropic/any", "Read.", tools=[read])
        assert run.output == "It says zebra."
    assert [request.result_text for request in up.requests] == ["", "zebra"]


def read() -> str:
    """Reads a word."""
    return "zebra"
