"""Runs that are left, cancelled or aborted at every frame: the connection is closed, tools end, nothing leaks."""

from __future__ import annotations

import asyncio
import gc
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pytest

from penstock import events as ev
from penstock.client import Client, SyncClient, tool
from penstock.errors import InputError
from penstock.testing import Reply, Upstream, scripted
from tests.client.run_setup import KEY, PROVIDERS, call, finish, model_of, play_agent, reply, staged, text
from tests.support.each_case import each
from tests.support.run_streams import is_lawful

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.client import Run

LIMIT = 10.0
MODEL = model_of("chat")


async def look(city: str) -> str:
    """Looks."""
    return f"seen {city}"


FIRST = reply("chat", *text("Let me see."), call("look", '{"city":"Rome"}'))
SECOND = reply("chat", *text("It is warm there."))


def frames() -> Iterator[Any]:
    """Every frame of both answers: the one that stalls, and after how many bytes."""
    for step, answer in enumerate((FIRST, SECOND)):
        for size in (0, *accumulate(map(len, answer.chunks))):
            yield step, size


async def leave(run: Run[Any], waiting: asyncio.Task[Any]) -> None:
    """A task that reads is cancelled."""
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert run.end is None


async def abort(run: Run[Any], waiting: asyncio.Task[Any]) -> None:
    run.abort()
    found: list[ev.AnyEvent] = await asyncio.wait_for(waiting, LIMIT)
    assert is_lawful(found)
    assert found[-1] == run.end == ev.Fault("cancelled", "the run was aborted")
    assert not waiting.cancelled()
    assert await run is run  # an abort is no error


async def close(run: Run[Any], waiting: asyncio.Task[Any]) -> None:
    """Somebody else closes the run while it is read."""
    await run.aclose()
    await asyncio.wait_for(waiting, LIMIT)


ENDS = {"cancelled": leave, "aborted": abort, "closed": close}


async def collect(run: Run[Any]) -> list[ev.AnyEvent]:
    return [event async for event in run]


@each("end", ENDS)
@each("step, after", list(frames()))
def test_a_run_that_ends_at_any_frame_leaves_nothing(step: int, after: int, end: str) -> None:
    replies = [FIRST, SECOND]
    replies[step] = replies[step].stall(after)

    async def scene(up: Upstream, client: Client) -> None:
        run = client.run(MODEL, "?", tools=[look])
        waiting = asyncio.create_task(collect(run))
        request = await up.wait_for_request(step + 1)
        while request.sent < after:  # noqa: ASYNC110 — the upstream counts, it sets no event
            await asyncio.sleep(0)
        await ENDS[end](run, waiting)
        await asyncio.wait_for(request.disconnected.wait(), LIMIT)
        assert len(up.requests) == step + 1

    staged(scene, *replies)


@each("end", ENDS)
def test_tools_are_cancelled(end: str) -> None:
    async def scene(up: Upstream, client: Client) -> None:
        started, ended = asyncio.Event(), asyncio.Event()

        async def wait(city: str) -> str:
            """Waits."""
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return city

        run = client.run(MODEL, "?", tools=[wait])
        waiting = asyncio.create_task(collect(run))
        await asyncio.wait_for(started.wait(), LIMIT)
        await ENDS[end](run, waiting)
        await asyncio.wait_for(ended.wait(), LIMIT)
        assert len(up.requests) == 1

    staged(scene, reply("chat", call("wait", '{"city":"Rome"}')), SECOND)


@each("end", ENDS)
def test_an_approval_that_waits_is_cancelled(end: str) -> None:
    async def scene(_: Upstream, client: Client) -> None:
        asked, ended = asyncio.Event(), asyncio.Event()

        async def approve(_call: Any) -> bool:
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return True

        run = client.run(MODEL, "?", tools=[tool(needs_approval=True)(look)], approve=approve)
        waiting = asyncio.create_task(collect(run))
        await asyncio.wait_for(asked.wait(), LIMIT)
        await ENDS[end](run, waiting)
        await asyncio.wait_for(ended.wait(), LIMIT)

    staged(scene, FIRST, SECOND)


def test_a_tool_may_abort_its_run() -> None:
    async def scene(_: Upstream, client: Client) -> None:
        async def stop(city: str) -> str:
            """Stops."""
            run.abort()
            return city

        run = client.run(MODEL, "?", tools=[stop])
        found = await collect(run)
        assert found[-1] == ev.Fault("cancelled", "the run was aborted")

    staged(scene, reply("chat", call("stop", '{"city":"Rome"}')), SECOND)


def test_an_abort_between_two_events() -> None:
    async def scene(_: Upstream, client: Client) -> None:
        run = client.run(MODEL, "?", tools=[look])
        found: list[ev.AnyEvent] = []
        async for event in run:
            found.append(event)
            run.abort()
        assert is_lawful(found)
        assert found[-1] == ev.Fault("cancelled", "the run was aborted")

    staged(scene, FIRST, SECOND)


def test_a_response_that_is_closed_closes_the_run() -> None:
    """What a web framework does when the page goes away."""

    async def scene(up: Upstream, client: Client) -> None:
        chunks = client.run(MODEL, "?", tools=[look]).to("uistream")
        async for _ in chunks:
            break
        await chunks.aclose()
        await asyncio.wait_for(up.requests[0].disconnected.wait(), LIMIT)

    staged(scene, FIRST.stall(after=len(FIRST.data) // 2))


def test_a_page_is_told_of_the_abort() -> None:
    async def scene(_: Upstream, client: Client) -> None:
        run = client.run(MODEL, "?", tools=[look])
        data = b""
        async for chunk in run.to("uistream"):
            data += chunk
            run.abort()
        assert data.rstrip().endswith(b'data: {"type":"abort","reason":"the run was aborted"}')

    staged(scene, FIRST, SECOND)


def test_a_run_is_read_by_one_reader() -> None:
    async def scene(up: Upstream, client: Client) -> None:
        run = client.run(MODEL, "?", tools=[look])
        waiting = asyncio.create_task(collect(run))
        await up.wait_for_request()
        with pytest.raises(InputError, match="somebody else"):
            await finish(run)
        await leave(run, waiting)

    staged(scene, FIRST.stall(after=10))


def test_a_run_that_is_never_read_sends_nothing() -> None:
    async def scene(up: Upstream, client: Client) -> None:
        run = client.run(MODEL, "?", tools=[look])
        await run.aclose()
        del run
        gc.collect()
        assert up.requests == []

    staged(scene, FIRST)


# ── without await ─────────────────────────────────────────────────────────────────────────────────


def sync_client(up: Upstream) -> SyncClient:
    row, _, model = PROVIDERS["chat"]
    account = {"base_url": f"{up.url}/chat", "key": KEY, "models": [model], **row}
    return SyncClient({"providers": {"chat": account}, "retries": 0}, env={})


def test_a_sync_run_has_the_same_surface() -> None:
    with scripted(play_agent("chat")) as up, sync_client(up) as client:
        run = client.run(MODEL, "?", tools=[look])
        assert run.output == "look gave:\n\nseen penstock"
        assert (len(run.steps), run.pending, len(run.messages)) == (2, [], 4)
        assert run.usage is not None
        assert run.usage.input == 20
        assert run.cost is None or run.cost > 0
        assert run.wait() is run
        assert "".join(client.run(MODEL, "?", tools=[look]).text()) == "I will look. look gave:\n\nseen penstock"
        events = list(client.run(MODEL, "?", tools=[look]))
        assert isinstance(events[-1], ev.Finish)
        assert b"".join(client.run(MODEL, "?", tools=[look]).to("openai-chat")).endswith(b"data: [DONE]\n\n")


def test_a_sync_run_is_left_and_aborted() -> None:
    with scripted(FIRST.stall(after=len(FIRST.data) // 2)) as up, sync_client(up) as client:
        with client.run(MODEL, "?", tools=[look]) as run:
            for _ in run:
                break
        found: list[ev.AnyEvent] = []
        run = client.run(MODEL, "?", tools=[look])
        for event in run:
            found.append(event)
            run.abort()
        assert found[-1] == ev.Fault("cancelled", "the run was aborted")
        assert run.end == found[-1]


def test_errors_of_a_sync_run_are_raised() -> None:
    with scripted(Reply.error("openai-chat", 500)) as up, sync_client(up) as client:
        run = client.run(MODEL, "?", tools=[look])
        with pytest.raises(Exception, match="it failed"):
            _ = run.output
