"""Hooks of a client: when they are called and with what, plain or async, and that a broken one breaks nothing."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

from penstock import events as ev
from penstock.client import CallReport, Client, MemoryCache, SyncClient
from penstock.errors import AuthError, BudgetExceeded, InputError, ProviderError
from penstock.request import Request
from penstock.testing import Reply, Upstream, scripted
from tests.client.observed_client import MODEL, STREAM, TURN, by_stream, run
from tests.support.each_case import each

if TYPE_CHECKING:
    from collections.abc import Callable


NAMES = ("on_request", "on_event", "on_finish", "on_decision")


class Listener:
    """Hooks that keep what they get. `how`: plain functions, async ones, or async ones that take a while."""

    def __init__(self, how: str = "plain") -> None:
        self.seen: list[tuple[str, Any]] = []
        self.how = how

    @property
    def hooks(self) -> dict[str, Callable[[Any], Any]]:
        return {name: self._hook(name) for name in NAMES}

    def _hook(self, name: str) -> Callable[[Any], Any]:
        def plain(value: Any) -> None:
            self.seen.append((name, value))

        async def later(value: Any) -> None:
            if self.how == "slow":
                await asyncio.sleep(0)
            self.seen.append((name, value))

        return plain if self.how == "plain" else later

    def of(self, name: str) -> list[Any]:
        return [value for one, value in self.seen if one == name]

    @property
    def report(self) -> CallReport:
        [report] = self.of("on_finish")
        assert isinstance(report, CallReport)
        return report


@each("stream", [True, False])
@each("how", ["plain", "async", "slow"])
def test_hooks_of_a_call(how: str, stream: bool) -> None:
    listener = Listener(how)

    async def scene(_: Upstream, client: Client) -> None:
        answer = await (client.chat_stream(MODEL, "?").turn() if stream else client.chat(MODEL, "?"))
        [request] = listener.of("on_request")
        assert isinstance(request, Request)
        assert (request.model, request.stream) == (MODEL, stream)
        events = listener.of("on_event")
        assert isinstance(events[0], ev.Start)
        assert isinstance(events[-1], ev.Finish)
        assert "".join(event.text for event in events if isinstance(event, ev.TextDelta)) == answer.text
        assert [one.what for one in listener.of("on_decision")] == ["route", "open"]
        report = listener.report
        assert report.request == request
        assert report.answer == answer
        assert report.error is None
        assert (report.provider, report.model, report.cached) == ("openai", "gpt-4o", False)
        assert (report.usage, report.cost, report.record) == (answer.usage, answer.cost, answer.record)
        assert report.first_token is not None
        assert 0 < report.first_token <= report.duration
        order = [name for name, _ in listener.seen]
        assert order[0] == "on_request"
        assert order.index("on_request") < order.index("on_event") < order.index("on_finish")

    run(scene, **listener.hooks)


FAILURES: dict[str, tuple[Any, str]] = {
    "refused": (Reply.error("openai-chat", 401), "auth"),
    "not reached": (Reply.no_response(), "network"),
    "broken": (STREAM.disconnect(after=STREAM.data.index(b"metres")), "truncated"),
}


@each("name", FAILURES)
def test_a_failure_is_reported(name: str) -> None:
    reply, kind = FAILURES[name]
    listener = Listener()

    async def scene(_: Upstream, client: Client) -> None:
        with pytest.raises(ProviderError):
            await client.chat_stream(MODEL, "?").turn()
        report = listener.report
        assert report.answer is None
        assert isinstance(report.error, ProviderError)
        assert report.error.kind in {kind, "network"}
        assert (report.provider, report.model) == ("openai", "gpt-4o")
        assert report.duration > 0

    run(scene, reply, **listener.hooks)


def test_other_ends_are_reported() -> None:
    listener = Listener()

    async def scene(up: Upstream, client: Client) -> None:
        up.script(STREAM.stall(after=STREAM.data.index(b"metres")))
        async with client.chat_stream(MODEL, "?") as stream:
            async for _ in stream:
                break
        first = listener.of("on_finish")[0]
        assert isinstance(first.error, ProviderError)
        assert (first.error.kind, first.answer) == ("cancelled", None)
        task = asyncio.create_task(client.chat_stream(MODEL, "?").turn())
        await up.wait_for_request(2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert listener.of("on_finish")[1].error is not None
        with pytest.raises(InputError):
            await client.chat("nobody/knows-this", "?")
        assert isinstance(listener.of("on_finish")[2].error, InputError)

    run(scene, STREAM, **listener.hooks)


def test_a_spent_budget_and_a_stored_answer_are_reported() -> None:
    listener = Listener()

    async def scene(_: Upstream, client: Client) -> None:
        await client.chat(MODEL, "?")
        await client.chat(MODEL, "?")
        with pytest.raises(BudgetExceeded):
            await client.chat(MODEL, "another")
        first, second, third = listener.of("on_finish")
        assert (first.cached, second.cached, second.cost) == (False, True, 0.0)
        assert isinstance(third.error, BudgetExceeded)
        assert len(listener.of("on_request")) == 3
        assert len([one for one in listener.of("on_event") if isinstance(one, ev.Finish)]) == 2

    run(scene, cache=MemoryCache(), budget=0.001, **listener.hooks)


@each("asynchronous", [False, True])
@each("name", NAMES)
def test_a_broken_hook_breaks_nothing(name: str, asynchronous: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.clear()

    def plain(_: Any) -> None:
        raise RuntimeError("the hook is broken")

    async def later(_: Any) -> None:
        raise RuntimeError("the hook is broken")

    async def scene(_: Upstream, client: Client) -> None:
        for _number in range(3):
            assert (await client.chat(MODEL, "?")).text == "12 metres"
        assert client.spending.total.calls == 3

    caplog.set_level(logging.INFO, "penstock.client")
    run(scene, **{name: later if asynchronous else plain})
    [said] = [one for one in caplog.records if one.name == "penstock.client"]
    assert said.levelno == logging.WARNING
    assert name in said.getMessage()
    assert said.exc_info is not None
    assert "the hook is broken" in str(said.exc_info[1])


def test_decisions_of_a_retry_are_heard_at_once() -> None:
    heard: list[str] = []

    async def scene(_: Upstream, client: Client) -> None:
        answer = await client.chat(MODEL, "?")
        assert heard == ["route", "retry", "open"]
        assert answer.record is not None
        assert [one.what for one in answer.record.decisions] == heard

    replies = (Reply.rate_limit("openai-chat", retry_after=0), by_stream())

    def hear(decision: Any) -> None:
        heard.append(decision.what)

    run(scene, *replies, on_decision=hear)


def test_a_closed_client_hears_nothing_of_its_router() -> None:
    """Two clients may share a router."""
    heard: list[str] = []

    async def scene(_: Upstream, client: Client) -> None:
        async with Client(router=client.router, on_decision=lambda one: heard.append(one.what)):
            await client.chat(MODEL, "?")
        assert heard == ["route", "open"]
        await client.chat(MODEL, "?")
        assert heard == ["route", "open"]

    run(scene)


def test_the_same_without_await() -> None:
    listener = Listener("slow")
    with scripted(STREAM, Reply.error("openai-chat", 401)) as up:
        config = {"providers": {"openai": {"base_url": f"{up.url}/v1", "key": "k"}}}
        hooks: Any = listener.hooks
        with SyncClient(config, env={}, **hooks) as client:
            assert "".join(client.chat_stream(MODEL, "?").text()) == "12 metres"
            with pytest.raises(AuthError):
                client.chat(MODEL, "?")
    assert [report.error is None for report in listener.of("on_finish")] == [True, False]
    assert len(listener.of("on_event")) >= len(TURN)
