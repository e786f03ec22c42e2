"""The fault table: each fault, streaming or whole, before or after the first content, by each engine: what is promised.

Before the first content: tried again, then told as a typed error. After it: what came is kept, and a `Fault` ends it.
An answer that comes whole has no content before its last byte: whatever happens half way is before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from penstock import errors
from penstock.events import Fault, Finish, Start, TextDelta
from penstock.testing import Reply, Upstream, play
from tests.wire.engines.router_setup import (
    AGAIN,
    ENGINES,
    VENDORS,
    asking,
    each_engine,
    events,
    good,
    middle,
    quick,
    router,
    run,
    turn,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


SHORT = {"first_byte": 0.5, "between_bytes": 0.5}  # for what stalls; the rest is given the time a busy machine needs


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


def cells() -> Iterator[Any]:
    """All of the table; waiting for a limit takes its time, and so do the SDKs: those cells are slow ones."""
    for fault in BEFORE:
        for engine in ENGINES:
            for stream in (False,) if "half way" in fault else (True, False):
                name = f"{fault}-{'stream' if stream else 'whole'}-{engine}"
                yield pytest.param(fault, stream, engine, id=name)


@pytest.mark.parametrize(("fault", "stream", "engine"), list(cells()))
def test_before_the_first_content(fault: str, stream: bool, engine: str) -> None:
    make, error, again = BEFORE[fault]
    protocol = VENDORS["openai"][0]

    async def scene() -> None:
        async with Upstream(make(protocol, stream), good(protocol, stream=stream), patience=5) as up:
            way = router(up)
            options = quick(timeouts=SHORT if "stalled" in fault else {})
            if again:
                got = await events(await way.open(asking(stream=stream), engine=engine, options=options))
                assert sum(isinstance(event, Start) for event in got) == 1
                assert got[-1].__class__.__name__ == "Finish"
                assert len(up.requests) == 2
                retried = [
                    code for (what, code, _), count in way.counts.items() if what == "retry" for _ in range(count)
                ]
                assert [errors.KINDS[code] for code in retried] == [error]
            up.script(make(protocol, stream))
            with pytest.raises(error) as found:
                await way.open(asking(stream=stream), engine=engine, options=options)
            assert type(found.value) is error
            assert (found.value.provider, found.value.model) == ("openai", "gpt-4o")
            assert len(found.value.attempts) == (2 if again else 0)

    run(scene)


AFTER: dict[str, tuple[Callable[[Reply], Reply], str]] = {
    "cut": (lambda reply: reply.disconnect(middle(reply)), "network"),
    "stalled": (lambda reply: reply.stall(middle(reply)), "timeout"),
}


def later() -> Iterator[Any]:
    for fault in AFTER:
        for provider in VENDORS:
            for engine in ENGINES:
                yield pytest.param(fault, provider, engine, id=f"{fault}-{provider}-{engine}")


@pytest.mark.parametrize(("fault", "provider", "engine"), list(later()))
def test_after_the_first_content(fault: str, provider: str, engine: str) -> None:
    """Never asked again: what came is kept, whole parts closed, and the fault says why it ended."""
    spoil, kind = AFTER[fault]
    protocol = VENDORS[provider][0]

    async def scene() -> None:
        async with Upstream(spoil(good(protocol, stream=True)), patience=5) as up:
            way = router(up)
            reply = await way.open(asking(provider), engine=engine, options=quick(timeouts=AGAIN))
            got = await events(reply)
            assert isinstance(got[-1], Fault)
            assert got[-1].kind == kind
            assert any(isinstance(event, TextDelta) for event in got)
            assert reply.end == got[-1]
            assert len(up.requests) == 1

    run(scene)


@each_engine
@pytest.mark.parametrize("provider", VENDORS)
def test_an_error_in_the_stream_before_content_is_tried_again(provider: str, engine: str) -> None:
    protocol = VENDORS[provider][0]
    bad = Reply.of(protocol, [Start("x", "m"), Fault("overloaded", "busy", code="overloaded_error")])

    async def scene() -> None:
        async with Upstream(bad, good(protocol, stream=True)) as up:
            way = router(up)
            got = await events(await way.open(asking(provider), engine=engine, options=quick()))
            assert sum(isinstance(event, Start) for event in got) == 1
            assert len(up.requests) == 2
            up.script(bad)
            with pytest.raises(errors.Overloaded, match="busy"):
                await way.open(asking(provider), engine=engine, options=quick())

    run(scene)


@each_engine
@pytest.mark.parametrize("provider", VENDORS)
def test_an_error_in_the_stream_after_content_is_kept_in_it(provider: str, engine: str) -> None:
    protocol = VENDORS[provider][0]

    async def scene() -> None:
        async with Upstream(Reply.of(protocol, play("error"))) as up:
            way = router(up)
            got = await events(await way.open(asking(provider), engine=engine, options=quick()))
            assert isinstance(got[-1], Fault)
            assert len(up.requests) == 1

    run(scene)


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("provider", VENDORS)
def test_noise_in_a_stream_is_passed_over_and_told_of(provider: str, place: str) -> None:
    """Never a retry, whatever came before: what is no frame costs what it stands in, and a diagnostic says so."""
    protocol = VENDORS[provider][0]

    async def scene() -> None:
        reply = good(protocol, stream=True)
        inside = reply.data.index(b"data: ", middle(reply)) + 12
        async with Upstream(reply.garbage(inside if place == "after" else 0)) as up:
            way = router(up)
            answer = await way.open(asking(provider), options=quick())
            got = await turn(answer)
            assert got.finish is not None
            assert got.finish.reason == "stop"
            assert answer.diagnostics or place == "before"
            assert len(up.requests) == 1

    run(scene)


@each_engine
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_an_answer_that_is_a_web_page(stream: bool, engine: str) -> None:
    page = Reply.body(
        b"<html><head><title>Sign in to the hotel</title></head></html>", headers={"content-type": "text/html"}
    )

    async def scene() -> None:
        async with Upstream(page) as up:
            way = router(up, retries=0)
            with pytest.raises(errors.BadAnswer) as found:
                await way.open(asking(stream=stream), engine=engine, options=quick())
            if not stream and engine == "native":
                assert "Sign in to the hotel" in str(found.value)

    run(scene)


@pytest.mark.parametrize("stream", [True, False], ids=["asked for a stream", "asked for a whole"])
def test_the_other_form_than_was_asked_for_is_read_too(stream: bool) -> None:
    async def scene() -> None:
        async with Upstream(good("openai-chat", stream=not stream)) as up:
            way = router(up)
            got = await turn(await way.open(asking(stream=stream), options=quick()))
            assert got.text
            assert got.finish is not None

    run(scene)


def test_a_redirect_is_not_followed_with_a_key() -> None:
    moved = Reply.body(b"", status=308, headers={"location": "https://elsewhere.test/v1"})

    async def scene() -> None:
        async with Upstream(moved) as up:
            way = router(up)
            with pytest.raises(errors.NotFound, match=r"elsewhere\.test"):
                await way.open(asking(), options=quick())
            assert len(up.requests) == 1

    run(scene)


@each_engine
def test_nothing_listens(engine: str) -> None:
    async def scene() -> None:
        async with Upstream(Reply.no_response()) as up:
            way = router(up)
        with pytest.raises(errors.NetworkError) as found:
            await way.open(asking(), engine=engine, options=quick())
        assert len(found.value.attempts) == 2

    run(scene)


@each_engine
@pytest.mark.parametrize(
    ("provider", "reason"), [("openai", b'"finish_reason":"stop"'), ("gemini", b'"finishReason":"STOP"')]
)
def test_a_whole_answer_needs_no_reason_to_be_whole(provider: str, reason: bytes, engine: str) -> None:
    reply = good(VENDORS[provider][0], stream=False)
    assert reason in reply.data
    bare = replace(reply, chunks=(reply.data.replace(reason, reason.partition(b":")[0] + b":null"),))

    async def scene() -> None:
        async with Upstream(bare) as up:
            answer = await router(up).open(asking(provider, stream=False), engine=engine, options=quick())
            assert (await turn(answer)).parts
            assert isinstance(answer.end, Finish)

    run(scene)
