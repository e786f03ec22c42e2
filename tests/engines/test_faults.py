"""The fault table: each fault, streaming or whole, before or after the first content, by each engine: what is promised.

Before the first content: tried again, then told as a typed error. After it: what came is kept, and a `Fault` ends it.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from penstock import errors
from penstock.events import Fault, Start, TextDelta
from penstock.replay import play
from penstock.testing import Reply, Upstream
from tests.engines.asking import ENGINES, VENDORS, asking, events, quick, router, turn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

LIMITS = {"first_byte": 0.3, "between_bytes": 0.3, "connect": 2.0, "total": 20.0}


def good(protocol: str, *, stream: bool) -> Reply:
    return Reply.of(protocol, play("text"), stream=stream)


def middle(reply: Reply) -> int:
    """Somewhere inside the words of the answer."""
    return len(reply.data) * 2 // 3


# name → the reply, the error where nothing came before, whether it is asked again
BEFORE: dict[str, tuple[Callable[[str, bool], Reply], type[errors.ProviderError], bool]] = {
    "dropped": (lambda _p, _s: Reply.nothing(), errors.NetworkError, True),
    "429": (lambda p, _s: Reply.limited(p, retry_after=1), errors.RateLimited, True),
    "500": (lambda p, _s: Reply.refusing(p, 500), errors.ServerError, True),
    "529": (lambda p, _s: Reply.refusing(p, 529), errors.Overloaded, True),
    "401": (lambda p, _s: Reply.refusing(p, 401, "no such key"), errors.AuthError, False),
    "400": (lambda p, _s: Reply.refusing(p, 400, "not like this"), errors.InvalidRequest, False),
    "stalled head": (lambda p, s: good(p, stream=s).late(30), errors.TimedOut, True),
    "stalled body": (lambda p, s: good(p, stream=s).stall(0), errors.TimedOut, True),
    "cut at once": (lambda p, s: good(p, stream=s).cut(0), errors.NetworkError, True),
}


def cells() -> Iterator[Any]:
    """All of the table; waiting for a limit takes its time, so most of those cells are slow ones."""
    for fault in BEFORE:
        for engine in ENGINES:
            for stream in (True, False):
                long = "stalled" in fault and not (stream and engine == "native")
                name = f"{fault}-{'stream' if stream else 'whole'}-{engine}"
                yield pytest.param(fault, stream, engine, id=name, marks=[pytest.mark.slow] if long else [])


@pytest.mark.row("P5", "I11")
@pytest.mark.parametrize(("fault", "stream", "engine"), list(cells()))
def test_before_the_first_content(fault: str, stream: bool, engine: str) -> None:
    make, error, again = BEFORE[fault]
    protocol = VENDORS["openai"][0]

    async def scene() -> None:
        async with Upstream(make(protocol, stream), good(protocol, stream=stream), patience=5) as up:
            way = router(up)
            options = quick(timeouts=LIMITS)
            if again:
                got = await events(await way.open(asking(stream=stream), engine=engine, options=options))
                assert sum(isinstance(event, Start) for event in got) == 1
                assert got[-1].__class__.__name__ == "Finish"
                assert len(up.seen) == 2
                assert way.counts["retry", _kind(error), "openai"] == 1
            up.script(make(protocol, stream))
            with pytest.raises(error) as found:
                await way.open(asking(stream=stream), engine=engine, options=options)
            assert type(found.value) is error
            assert (found.value.provider, found.value.model) == ("openai", "gpt-4o")
            assert len(found.value.attempts) == (2 if again else 0)
            await way.aclose()

    asyncio.run(scene())


def _kind(error: type[errors.ProviderError]) -> str:
    return next(kind for kind, known in errors.KINDS.items() if known is error)


AFTER: dict[str, tuple[Callable[[Reply], Reply], str]] = {
    "cut": (lambda reply: reply.cut(middle(reply)), "network"),
    "stalled": (lambda reply: reply.stall(middle(reply)), "timeout"),
}


@pytest.mark.row("P5", "I11")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("provider", VENDORS)
@pytest.mark.parametrize("fault", AFTER)
def test_after_the_first_content(fault: str, provider: str, engine: str) -> None:
    """Never asked again: what came is kept, whole parts closed, and the fault says why it ended."""
    spoil, kind = AFTER[fault]
    protocol = VENDORS[provider][0]

    async def scene() -> None:
        async with Upstream(spoil(good(protocol, stream=True)), patience=5) as up:
            way = router(up)
            reply = await way.open(asking(provider), engine=engine, options=quick(timeouts=LIMITS))
            got = await events(reply)
            assert isinstance(got[-1], Fault)
            assert got[-1].kind == kind
            assert any(isinstance(event, TextDelta) for event in got)
            assert reply.end == got[-1]
            assert len(up.seen) == 1
            await way.aclose()

    asyncio.run(scene())


@pytest.mark.row("P5", "I1")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("provider", VENDORS)
def test_an_error_in_the_stream_before_content_is_tried_again(provider: str, engine: str) -> None:
    protocol = VENDORS[provider][0]
    bad = Reply.of(protocol, [Start("x", "m"), Fault("overloaded", "busy", code="overloaded_error")])

    async def scene() -> None:
        async with Upstream(bad, good(protocol, stream=True)) as up:
            way = router(up)
            got = await events(await way.open(asking(provider), engine=engine, options=quick()))
            assert sum(isinstance(event, Start) for event in got) == 1
            assert len(up.seen) == 2
            up.script(bad)
            with pytest.raises(errors.Overloaded, match="busy"):
                await way.open(asking(provider), engine=engine, options=quick())
            await way.aclose()

    asyncio.run(scene())


@pytest.mark.row("I1")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("provider", VENDORS)
def test_an_error_in_the_stream_after_content_is_kept_in_it(provider: str, engine: str) -> None:
    protocol = VENDORS[provider][0]

    async def scene() -> None:
        async with Upstream(Reply.of(protocol, play("error"))) as up:
            way = router(up)
            got = await events(await way.open(asking(provider), engine=engine, options=quick()))
            assert isinstance(got[-1], Fault)
            assert len(up.seen) == 1
            await way.aclose()

    asyncio.run(scene())


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_an_answer_that_is_a_web_page(stream: bool) -> None:
    page = Reply.body(
        b"<html><head><title>Sign in to the hotel</title></head></html>", headers={"content-type": "text/html"}
    )

    async def scene() -> None:
        async with Upstream(page) as up:
            way = router(up, retries=0)
            with pytest.raises(errors.BadAnswer) as found:
                await way.open(asking(stream=stream), options=quick())
            if not stream:
                assert "Sign in to the hotel" in str(found.value)
            await way.aclose()

    asyncio.run(scene())


@pytest.mark.parametrize("stream", [True, False], ids=["asked for a stream", "asked for a whole"])
def test_the_other_form_than_was_asked_for_is_read_too(stream: bool) -> None:
    async def scene() -> None:
        async with Upstream(good("openai-chat", stream=not stream)) as up:
            way = router(up)
            got = await turn(await way.open(asking(stream=stream), options=quick()))
            assert got.text
            assert got.finish is not None
            await way.aclose()

    asyncio.run(scene())


def test_a_redirect_is_not_followed_with_a_key() -> None:
    moved = Reply.body(b"", status=308, headers={"location": "https://elsewhere.test/v1"})

    async def scene() -> None:
        async with Upstream(moved) as up:
            way = router(up)
            with pytest.raises(errors.NotFound, match=r"elsewhere\.test"):
                await way.open(asking(), options=quick())
            assert len(up.seen) == 1
            await way.aclose()

    asyncio.run(scene())


def test_nothing_listens() -> None:
    async def scene() -> None:
        async with Upstream(Reply.nothing()) as up:
            way = router(up)
        for engine in ENGINES:
            with pytest.raises(errors.NetworkError) as found:
                await way.open(asking(), engine=engine, options=quick())
            assert len(found.value.attempts) == 2
        await way.aclose()

    asyncio.run(scene())


# ── limits ────────────────────────────────────────────────────────────────────────────────────────

SLOW: dict[str, tuple[dict[str, float], str]] = {
    "between": ({**LIMITS, "between_bytes": 0.2}, "timeouts.between_bytes"),
    "total": ({**LIMITS, "between_bytes": 10, "first_byte": 10, "total": 0.5}, "timeouts.total"),
}


@pytest.mark.row("P3")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("limit", SLOW)
def test_a_limit_names_itself(limit: str, engine: str) -> None:
    limits, name = SLOW[limit]

    async def scene() -> None:
        reply = good("openai-chat", stream=True)
        async with Upstream(reply.stall(middle(reply)), patience=5) as up:
            way = router(up)
            got = await events(await way.open(asking(), engine=engine, options=quick(timeouts=limits)))
            assert isinstance(got[-1], Fault)
            assert got[-1].kind == "timeout"
            assert name in got[-1].message
            await way.aclose()

    asyncio.run(scene())


@pytest.mark.row("P3")
def test_a_slow_consumer_spends_none_of_the_limits() -> None:
    """The upstream has sent all: only the reader takes its time."""

    async def scene() -> None:
        async with Upstream(good("openai-chat", stream=True)) as up:
            way = router(up)
            limits = {**LIMITS, "first_byte": 0.3, "between_bytes": 0.1}
            reply = await way.open(asking(), options=quick(timeouts=limits))
            await asyncio.sleep(0.5)
            got = await turn(reply)
            assert got.finish is not None
            await way.aclose()

    asyncio.run(scene())


@pytest.mark.row("P3")
def test_a_slow_but_steady_stream_is_waited_for() -> None:
    async def scene() -> None:
        async with Upstream(good("openai-chat", stream=True).slow(0.01)) as up:
            way = router(up)
            limits = {**LIMITS, "first_byte": 1, "between_bytes": 0.3}
            got = await turn(await way.open(asking(), options=quick(timeouts=limits)))
            assert got.finish is not None
            await way.aclose()

    asyncio.run(scene())


# ── cancellation ──────────────────────────────────────────────────────────────────────────────────

PROMPT = 0.05  # seconds in which the upstream must see that nobody is there any more
TRIES = 5  # the machine may be busy with something else


async def promptly(scene: Callable[[], Awaitable[float]]) -> None:
    """The promise is about us, not about who else uses the machine: one try in time proves it."""
    took = [await scene()]
    while min(took) >= PROMPT and len(took) < TRIES:
        took.append(await scene())
    assert min(took) < PROMPT, took


@pytest.mark.row("I6")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("way_out", ["close", "cancel"])
def test_leaving_closes_the_upstream_at_once(engine: str, way_out: str) -> None:
    async def scene() -> float:
        reply = good("openai-chat", stream=True)
        async with Upstream(reply.stall(middle(reply)), patience=10) as up:
            way = router(up)
            answer = await way.open(asking(), engine=engine, options=quick())
            if way_out == "close":
                await answer.read()
                left = time.monotonic()
                await answer.aclose()
            else:
                task = asyncio.ensure_future(events(answer))
                await asyncio.sleep(0.05)
                left = time.monotonic()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            await asyncio.wait_for(up.seen[0].gone.wait(), 5)
            await way.aclose()
            return up.seen[0].gone_at - left

    asyncio.run(promptly(scene))


@pytest.mark.row("I7", "I8")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_leaving_before_the_first_byte(engine: str, stream: bool) -> None:
    async def scene() -> float:
        async with Upstream(good("openai-chat", stream=stream).late(10), patience=10) as up:
            way = router(up)
            task = asyncio.ensure_future(way.open(asking(stream=stream), engine=engine, options=quick()))
            seen = await up.asked()
            left = time.monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.wait_for(seen.gone.wait(), 5)
            await way.aclose()
            return seen.gone_at - left

    asyncio.run(promptly(scene))


def test_an_upstream_is_not_read_faster_than_its_reader() -> None:
    """Back-pressure: of a large answer only what fits the buffers has left the server while nobody reads."""
    big = Reply((b"data: " + b"x" * 65536 + b"\n\n",) * 400, headers={"content-type": "text/event-stream"})
    start = b'data: {"choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n'
    whole = Reply((start, *big.chunks), headers=big.headers)

    async def scene() -> None:
        async with Upstream(whole) as up:
            way = router(up)
            reply = await way.open(asking(), options=quick())
            await asyncio.sleep(0.3)
            sent = up.seen[0].sent
            await asyncio.sleep(0.2)
            assert up.seen[0].sent == sent
            assert sent < len(whole.data)
            await reply.aclose()
            await way.aclose()

    asyncio.run(scene())


def test_the_pieces_are_lists_and_bytes() -> None:
    """What a gateway reads: bytes and events of one read together, none for each event."""

    async def scene() -> None:
        async with Upstream(good("openai-chat", stream=True)) as up:
            way = router(up)
            reply = await way.open(asking(), options=quick())
            pairs: list[Any] = [pair async for pair in reply.pairs()]
            assert b"".join(chunk for chunk, _ in pairs) == good("openai-chat", stream=True).data
            assert sum(len(batch) for _, batch in pairs) > len(pairs)
            assert reply.usage is not None
            await way.aclose()

    asyncio.run(scene())
