"""Every wait has a timeout. If the caller leaves, the upstream connection closes at once, and nothing is read ahead.

No test here waits for less than a busy machine needs; how long leaving takes is measured by `python -m benchmarks cancel`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from penstock import errors
from penstock.events import Fault
from penstock.testing import Reply, Upstream
from tests.support.routed_client import (
    AGAIN,
    asking,
    each_engine,
    events,
    good,
    middle,
    quick,
    routed,
    staged,
    turn,
)

if TYPE_CHECKING:
    from penstock.testing import ReceivedRequest

SLOW: dict[str, tuple[dict[str, float], str]] = {
    "between": (AGAIN, "timeouts.between_bytes"),
    "total": ({"between_bytes": 10, "total": 1.5}, "timeouts.total"),
}


@each_engine
@pytest.mark.parametrize("limit", ["between", "total"])
@staged
async def test_a_limit_names_itself(limit: str, engine: str) -> None:
    limits, name = SLOW[limit]
    reply = good("openai-chat", stream=True)
    async with Upstream(reply.stall(middle(reply)), patience=5) as up:
        way = routed(up)
        got = await events(await way.open(asking(), engine=engine, options=quick(timeouts=limits)))
        assert isinstance(got[-1], Fault)
        assert got[-1].kind == "timeout"
        assert name in got[-1].message


@each_engine
@pytest.mark.parametrize("fault", ["stalled head", "stalled body"])
@staged
async def test_the_first_byte_has_a_limit_of_its_own(fault: str, engine: str) -> None:
    """A head is not an answer yet: what comes after it is waited for no longer than for the head."""
    reply = good("openai-chat", stream=True)
    async with Upstream(reply.delayed(30) if fault == "stalled head" else reply.stall(0), patience=5) as up:
        way = routed(up, retries=0)
        limits = {"first_byte": 0.3, "between_bytes": 20.0}
        with pytest.raises(errors.TimedOut, match=r"timeouts\.first_byte"):
            await way.open(asking(), engine=engine, options=quick(timeouts=limits))


@staged
async def test_a_slow_consumer_spends_none_of_the_limits() -> None:
    """The upstream has sent all: only the reader takes its time."""
    async with Upstream(good("openai-chat", stream=True)) as up:
        way = routed(up)
        limits = {"first_byte": 1.0, "between_bytes": 0.3}
        reply = await way.open(asking(), options=quick(timeouts=limits))
        await asyncio.wait_for(up.requests[0].finished.wait(), 5)
        await asyncio.sleep(1.2)
        got = await turn(reply)
        assert got.finish is not None


@each_engine
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@staged
async def test_a_slow_but_steady_answer_is_waited_for(stream: bool, engine: str) -> None:
    """Longer than any wait between two bytes may be."""
    reply = good("openai-chat", stream=stream)
    limits = {"between_bytes": 1.0}
    async with Upstream(reply.slow(0.05, max(1, len(reply.data) // 30))) as up:
        way = routed(up)
        got = await turn(await way.open(asking(stream=stream), engine=engine, options=quick(timeouts=limits)))
        assert got.finish is not None
        assert len(up.requests) == 1


# ── cancellation ──────────────────────────────────────────────────────────────────────────────────

GENEROUS = 5.0  # seconds; `python -m benchmarks cancel` measures how long it takes


async def left(seen: ReceivedRequest) -> None:
    """The upstream sees that nobody is there any more. Nothing else would end the answer for another while."""
    await asyncio.wait_for(seen.disconnected.wait(), GENEROUS)


@each_engine
@pytest.mark.parametrize("way_out", ["close", "cancel"])
@staged
async def test_leaving_closes_the_upstream(engine: str, way_out: str) -> None:
    reply = good("openai-chat", stream=True)
    begun = asyncio.Event()

    async def reading(answer: Any) -> None:
        async for _ in answer:
            begun.set()

    async with Upstream(reply.stall(middle(reply)), patience=4 * GENEROUS) as up:
        way = routed(up)
        answer = await way.open(asking(), engine=engine, options=quick(timeouts={"between_bytes": 20}))
        if way_out == "close":
            await answer.read()
            await answer.aclose()
        else:
            task = asyncio.ensure_future(reading(answer))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await left(up.requests[0])


@each_engine
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@staged
async def test_leaving_before_the_first_byte(engine: str, stream: bool) -> None:
    late = good("openai-chat", stream=stream).delayed(4 * GENEROUS)
    async with Upstream(late, patience=4 * GENEROUS) as up:
        way = routed(up)
        options = quick(timeouts={"first_byte": 20})
        task = asyncio.ensure_future(way.open(asking(stream=stream), engine=engine, options=options))
        seen = await up.wait_for_request()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await left(seen)


@each_engine
@staged
async def test_leaving_a_whole_answer_half_way(engine: str) -> None:
    reply = good("openai-chat", stream=False)
    async with Upstream(reply.stall(middle(reply)), patience=4 * GENEROUS) as up:
        way = routed(up)
        options = quick(timeouts={"first_byte": 20, "between_bytes": 20})
        task = asyncio.ensure_future(way.open(asking(stream=False), engine=engine, options=options))
        seen = await up.wait_for_request()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await left(seen)


@staged
async def test_an_upstream_is_not_read_faster_than_its_reader() -> None:
    """Back-pressure: of a large answer only what fits the buffers has left the server while nobody reads."""
    big = Reply((b"data: " + b"x" * 65536 + b"\n\n",) * 400, headers={"content-type": "text/event-stream"})
    start = b'data: {"choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n'
    whole = Reply((start, *big.chunks), headers=big.headers)
    async with Upstream(whole) as up:
        way = routed(up)
        reply = await way.open(asking(), options=quick())
        await asyncio.sleep(0.3)
        sent = up.requests[0].sent
        await asyncio.sleep(0.2)
        assert up.requests[0].sent == sent
        assert sent < len(whole.data)
        await reply.aclose()
