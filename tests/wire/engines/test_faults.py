"""The fault table: each fault, streaming or whole, before or after the first content, by each engine: what is promised.

Before the first content: tried again, then told as a typed error. After it: what came is kept, and a `Fault` ends it.
An answer that comes whole has no content before its last byte: whatever happens half way is before.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from penstock import errors
from penstock.events import Fault, Finish, Start, TextDelta
from penstock.testing import Reply, Upstream, play
from tests.support.routed_client import (
    AGAIN,
    VENDORS,
    asking,
    each_engine,
    events,
    good,
    middle,
    quick,
    routed,
    run,
    staged,
    turn,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


SHORT = {"first_byte": 1.0, "between_bytes": 1.0}  # for what stalls; the rest is given the time a busy machine needs


def half(protocol: str, stream: bool, spoil: Callable[[Reply, int], Reply]) -> Reply:
    reply = good(protocol, stream=stream)
    return spoil(reply, middle(reply))


# name → the reply, the error where nothing came before, whether it is asked again
BEFORE: dict[str, tuple[Callable[[str, bool], Reply], type[errors.ProviderError], bool]] = {
    "dropped": (lambda _p, _s: Reply.no_response(), errors.NetworkError, True),
    "429": (lambda p, _s: Reply.rate_limit(p, retry_after=1), errors.RateLimited, True),
    "500": (lambda p, _s: Reply.error(p, 500), errors.ServerError, True),
    "529": (lambda p, _s: Reply.error(p, 529), errors.Overloaded, True),
    "401": (lambda p, _s: Reply.error(p, 401, "no such key"), errors.AuthError, False),
    "400": (lambda p, _s: Reply.error(p, 400, "not like this"), errors.InvalidRequest, False),
    "stalled head": (lambda p, s: good(p, stream=s).delayed(30), errors.TimedOut, True),
    "stalled body": (lambda p, s: good(p, stream=s).stall(0), errors.TimedOut, True),
    "cut at once": (lambda p, s: good(p, stream=s).disconnect(0), errors.NetworkError, True),
    "empty": (lambda p, s: replace(good(p, stream=s), chunks=(b"",)), errors.BadAnswer, True),
    "cut half way": (lambda p, s: half(p, s, Reply.disconnect), errors.NetworkError, True),
    "stalled half way": (lambda p, s: half(p, s, Reply.stall), errors.TimedOut, True),
    "garbled half way": (lambda p, s: good(p, stream=s).garbage(1), errors.BadAnswer, True),
}


async def before(fault: str, engine: str, *, stream: bool) -> None:
    make, error, again = BEFORE[fault]
    protocol = VENDORS["openai"][0]
    async with Upstream(make(protocol, stream), good(protocol, stream=stream), patience=5) as up:
        way = routed(up)
        options = quick(timeouts=SHORT if "stalled" in fault else {})
        if again:
            got = await events(await way.open(asking(stream=stream), engine=engine, options=options))
            assert sum(isinstance(event, Start) for event in got) == 1
            assert got[-1].__class__.__name__ == "Finish"
            assert len(up.requests) == 2
            assert [errors.KINDS[one.code] for one in way.decisions if one.what == "retry"] == [error]
        up.script(make(protocol, stream))
        with pytest.raises(error) as found:
            await way.open(asking(stream=stream), engine=engine, options=options)
        assert type(found.value) is error
        assert (found.value.provider, found.value.model) == ("openai", "gpt-4o")
        assert len(found.value.attempts) == (2 if again else 0)


AFTER: dict[str, tuple[Callable[[Reply], Reply], str]] = {
    "cut": (lambda reply: reply.disconnect(middle(reply)), "network"),
    "stalled": (lambda reply: reply.stall(middle(reply)), "timeout"),
}


async def after(fault: str, engine: str, provider: str) -> None:
    """Never asked again: what came is kept, whole parts closed, and the fault says why it ended."""
    spoil, kind = AFTER[fault]
    async with Upstream(spoil(good(VENDORS[provider][0], stream=True)), patience=5) as up:
        reply = await routed(up).open(asking(provider), engine=engine, options=quick(timeouts=AGAIN))
        got = await events(reply)
        assert isinstance(got[-1], Fault)
        assert got[-1].kind == kind
        assert any(isinstance(event, TextDelta) for event in got)
        assert reply.end == got[-1]
        assert len(up.requests) == 1


@each_engine
def test_the_table_of_faults(engine: str) -> None:
    """One by one; those that wait for a limit, which takes its time, wait together."""
    cells: dict[str, Callable[[], Awaitable[None]]] = {}
    for fault in BEFORE:
        for stream in (False,) if "half way" in fault else (True, False):
            name = f"before: {fault}, {'stream' if stream else 'whole'}"
            cells[name] = partial(before, fault, engine, stream=stream)
    for fault in AFTER:
        for provider in VENDORS:
            cells[f"after: {fault}, {provider}"] = partial(after, fault, engine, provider)
    failed: dict[str, BaseException] = {}

    async def scene() -> None:
        waiting = {name for name in cells if "stalled" in name}
        for names in [*[[name] for name in cells if name not in waiting], [*waiting]]:
            results = await asyncio.gather(*(cells[name]() for name in names), return_exceptions=True)
            failed.update({name: one for name, one in zip(names, results, strict=True) if one is not None})

    run(scene)
    assert failed == {}


@each_engine
@pytest.mark.parametrize("provider", VENDORS)
@staged
async def test_an_error_in_the_stream_is_tried_again_before_content_and_kept_after_it(
    provider: str, engine: str
) -> None:
    protocol = VENDORS[provider][0]
    bad = Reply.of(protocol, [Start("x", "m"), Fault("overloaded", "busy", code="overloaded_error")])
    async with Upstream(bad, good(protocol, stream=True)) as up:
        way = routed(up)
        got = await events(await way.open(asking(provider), engine=engine, options=quick()))
        assert sum(isinstance(event, Start) for event in got) == 1
        assert len(up.requests) == 2
        up.script(bad)
        with pytest.raises(errors.Overloaded, match="busy"):
            await way.open(asking(provider), engine=engine, options=quick())
        asked = len(up.requests)
        up.script(Reply.of(protocol, play("error")))
        got = await events(await way.open(asking(provider), engine=engine, options=quick()))
        assert isinstance(got[-1], Fault)
        assert len(up.requests) == asked + 1


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("provider", VENDORS)
@staged
async def test_noise_in_a_stream_is_passed_over_and_told_of(provider: str, place: str) -> None:
    """Never a retry, whatever came before: what is no frame costs what it stands in, and a diagnostic says so."""
    protocol = VENDORS[provider][0]
    reply = good(protocol, stream=True)
    inside = reply.data.index(b"data: ", middle(reply)) + 12
    async with Upstream(reply.garbage(inside if place == "after" else 0)) as up:
        way = routed(up)
        answer = await way.open(asking(provider), options=quick())
        got = await turn(answer)
        assert got.finish is not None
        assert got.finish.reason == "stop"
        assert answer.diagnostics or place == "before"
        assert len(up.requests) == 1


@each_engine
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@staged
async def test_an_answer_that_is_a_web_page(stream: bool, engine: str) -> None:
    page = Reply.body(
        b"<html><head><title>Sign in to the hotel</title></head></html>", headers={"content-type": "text/html"}
    )
    async with Upstream(page) as up:
        way = routed(up, retries=0)
        with pytest.raises(errors.BadAnswer) as found:
            await way.open(asking(stream=stream), engine=engine, options=quick())
        if not stream and engine == "native":
            assert "Sign in to the hotel" in str(found.value)


@pytest.mark.parametrize("stream", [True, False], ids=["asked for a stream", "asked for a whole"])
@staged
async def test_the_other_form_than_was_asked_for_is_read_too(stream: bool) -> None:
    async with Upstream(good("openai-chat", stream=not stream)) as up:
        way = routed(up)
        got = await turn(await way.open(asking(stream=stream), options=quick()))
        assert got.text
        assert got.finish is not None


@staged
async def test_a_redirect_is_not_followed_with_a_key() -> None:
    moved = Reply.body(b"", status=308, headers={"location": "https://elsewhere.test/v1"})
    async with Upstream(moved) as up:
        way = routed(up)
        with pytest.raises(errors.NotFound, match=r"elsewhere\.test"):
            await way.open(asking(), options=quick())
        assert len(up.requests) == 1


@each_engine
@staged
async def test_nothing_listens(engine: str) -> None:
    async with Upstream(Reply.no_response()) as up:
        way = routed(up)
    with pytest.raises(errors.NetworkError) as found:
        await way.open(asking(), engine=engine, options=quick())
    assert len(found.value.attempts) == 2


@each_engine
@pytest.mark.parametrize(
    ("provider", "reason"), [("openai", b'"finish_reason":"stop"'), ("gemini", b'"finishReason":"STOP"')]
)
@staged
async def test_a_whole_answer_needs_no_reason_to_be_whole(provider: str, reason: bytes, engine: str) -> None:
    reply = good(VENDORS[provider][0], stream=False)
    assert reason in reply.data
    bare = replace(reply, chunks=(reply.data.replace(reason, reason.partition(b":")[0] + b":null"),))
    async with Upstream(bare) as up:
        answer = await routed(up).open(asking(provider, stream=False), engine=engine, options=quick())
        assert (await turn(answer)).parts
        assert isinstance(answer.end, Finish)
