"""`client.map`: order, limits, rate limits, errors, progress, cancellation."""

from __future__ import annotations

import asyncio
import io
import sys
from typing import TYPE_CHECKING, Any

import pytest

from penstock import events as ev
from penstock.client import Answer, Batch, BatchItem, BatchProgress, Client, MemoryCache, SyncClient
from penstock.errors import BudgetExceeded, InputError, InvalidRequest, RateLimited
from penstock.request import Message, Request, Text
from penstock.testing import Reply, Upstream, scripted
from tests.client.observed_client import MODEL, TURN, run
from tests.support.client_parts import LineProgress, RateGate, RichProgress, open_progress, set_bound
from tests.support.each_case import each
from tests.wire.engines.router_setup import quick, router

if TYPE_CHECKING:
    from collections.abc import Iterator


def say(text: str, request: Any) -> Reply:
    turn: list[ev.AnyEvent] = [*TURN[:2], ev.TextDelta(0, text), *TURN[4:]]
    return Reply.of("openai-chat", turn, stream=bool(request.json.get("stream")))


class Echo:
    """Answers with the question. Counts what runs at once, and holds the answers back until `release`."""

    def __init__(self, *, hold: int = 0, fail: str = "") -> None:
        self.running = self.most = 0
        self.hold, self.fail = hold, fail
        self.release = asyncio.Event()
        self.asked: list[str] = []

    async def __call__(self, request: Any) -> Reply:
        question = request.json["messages"][-1]["content"]
        self.asked.append(question)
        self.running += 1
        self.most = max(self.most, self.running)
        if self.running >= self.hold:
            self.release.set()
        await self.release.wait()
        self.running -= 1
        if question == self.fail:
            return Reply.error("openai-chat", 400, "no")
        return say(question, request)


def body(text: str) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": text}]}


def canonical(text: str) -> Request:
    return Request(MODEL, [Message("user", [Text(text=text)])])


@each("kind", ["questions", "bodies", "requests", "a generator"])
def test_results_are_in_order(kind: str) -> None:
    questions = [f"q{number}" for number in range(20)]
    requests: dict[str, Any] = {
        "questions": questions,
        "bodies": [body(text) for text in questions],
        "requests": [canonical(text) for text in questions],
        "a generator": (text for text in questions),
    }
    echo = Echo(hold=5)

    async def scene(up: Upstream, client: Client) -> None:
        model = "" if kind in {"bodies", "requests"} else MODEL
        answers = await client.map(requests[kind], model=model, concurrency=5)
        assert [answer.text for answer in answers] == questions
        assert echo.most == 5
        assert len(up.requests) == 20

    run(scene, echo)


def test_parameters_are_for_all() -> None:
    async def scene(up: Upstream, client: Client) -> None:
        await client.map(["a", "b"], model=MODEL, temperature=0.25)
        assert [one.json["temperature"] for one in up.requests] == [0.25, 0.25]

    run(scene, Echo())


def test_results_as_they_finish() -> None:
    first = asyncio.Event()

    async def reply(request: Any) -> Reply:
        question = request.json["messages"][-1]["content"]
        if question == "slow":
            await first.wait()
        return say(question, request)

    async def scene(_: Upstream, client: Client) -> None:
        seen: list[tuple[int, str]] = []
        async for item in client.map(["slow", "quick"], model=MODEL):
            assert isinstance(item, BatchItem)
            seen.append((item.index, item.result().text))
            first.set()
        assert seen == [(1, "quick"), (0, "slow")]

    run(scene, reply)


def test_an_error_ends_the_batch() -> None:
    echo = Echo(fail="q3")

    async def scene(_: Upstream, client: Client) -> None:
        with pytest.raises(InvalidRequest):
            await client.map([f"q{number}" for number in range(1000)], model=MODEL, concurrency=2)
        assert len(echo.asked) < 50

    run(scene, echo)


def test_errors_may_be_results() -> None:
    async def scene(_: Upstream, client: Client) -> None:
        results = await client.map(["q1", "q3", "q2"], model=MODEL, return_errors=True)
        assert [type(one) for one in results] == [Answer, InvalidRequest, Answer]
        items = [item async for item in client.map(["q3"], model=MODEL, return_errors=True)]
        assert items[0].answer is None
        with pytest.raises(InvalidRequest):
            items[0].result()

    run(scene, Echo(fail="q3"))


def test_wrong_input() -> None:
    async def scene(_: Upstream, client: Client) -> None:
        wrong: list[tuple[Any, dict[str, Any], str]] = [
            ("a question", {}, "a list of requests"),
            (body("x"), {}, "a list of requests"),
            (5, {}, "a list of requests"),
            ([], {"concurrency": 0}, "concurrency"),
            ([], {"concurrency": True}, "concurrency"),
            ([], {"progress": "bar"}, "progress"),
        ]
        for requests, more, message in wrong:
            with pytest.raises(InputError, match=message):
                _batch = client.map(requests, model=MODEL, **more)
        assert await client.map([], model=MODEL) == []

        def broken() -> Iterator[str]:
            yield "a"
            raise RuntimeError("no more")

        with pytest.raises(RuntimeError, match="no more"):
            await client.map(broken(), model=MODEL, return_errors=True)
        batch = client.map(["a"], model=MODEL)
        await batch
        with pytest.raises(InputError, match="once"):
            await batch

    run(scene, Echo())


# ── rate limits ───────────────────────────────────────────────────────────────────────────────────


class Limited:
    """A provider that answers `limit` requests at once and refuses the others, as the vendors do."""

    def __init__(self, limit: int, retry_after: float | None) -> None:
        self.limit, self.retry_after = limit, retry_after
        self.running = self.refused = 0

    async def __call__(self, request: Any) -> Reply:
        if self.running >= self.limit:
            self.refused += 1
            return Reply.rate_limit("openai-chat", retry_after=self.retry_after)
        self.running += 1
        await asyncio.sleep(0.01)
        self.running -= 1
        return say(request.json["messages"][-1]["content"], request)


@each("retries", [0, 2])
def test_rate_limits_are_obeyed(retries: int) -> None:
    limited = Limited(2, 0.02)
    progress: list[BatchProgress] = []

    async def scene() -> None:
        async with Upstream(limited) as up:
            way = router({"openai": up}, retries=retries)
            async with Client(router=way, options=quick()) as client:
                questions = [f"q{number}" for number in range(40)]
                answers = await client.map(questions, model=MODEL, concurrency=16, progress=progress.append)
                assert [one.text for one in answers] == questions
                # Without adapting, 14 of each 16 would be refused, again and again.
                assert limited.refused < 60

    asyncio.run(scene())
    assert progress[-1].is_over
    assert progress[-1].done == 40


def test_the_wait_that_a_provider_asks_for() -> None:
    times: list[float] = []

    async def reply(request: Any) -> Reply:
        times.append(asyncio.get_running_loop().time())
        if len(times) == 1:
            return Reply.rate_limit("openai-chat", retry_after=0.3)
        return say("x", request)

    async def scene() -> None:
        async with Upstream(reply) as up, Client(router=router({"openai": up}, retries=0), options=quick()) as client:
            await client.map(["a", "b", "c"], model=MODEL, concurrency=1)

    asyncio.run(scene())
    assert len(times) == 4
    assert times[1] - times[0] >= 0.3


def test_a_wait_that_is_too_long_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(up: Upstream, client: Client) -> None:
        [result] = await client.map(["a"], model=MODEL, return_errors=True)
        assert isinstance(result, RateLimited)
        assert result.retry_after == 100_000
        set_bound(monkeypatch, "attempts of a batch", 3)
        before = len(up.requests)
        up.script(Reply.rate_limit("openai-chat", retry_after=0))
        with pytest.raises(RateLimited):
            await client.map(["a"], model=MODEL)
        assert len(up.requests) - before >= 3

    run(scene, Reply.rate_limit("openai-chat", retry_after=100_000))


def test_the_gate_halves_once_and_rises_again() -> None:
    now = [0.0]

    async def scene() -> None:
        gate = RateGate(8, lambda: now[0])
        epochs = [await gate.enter() for _ in range(8)]
        waiting = asyncio.create_task(gate.enter())
        await asyncio.sleep(0)
        assert not waiting.done()
        for epoch in epochs:  # eight requests ran together and were refused: that is one event
            gate.slow_down(epoch, 0.0)
            gate.leave()
        assert gate.limit == 4
        await waiting
        gate.leave()
        for _ in range(5):
            gate.speed_up()
        assert 5 <= gate.limit < 6
        for _ in range(100):
            gate.speed_up()
        assert gate.limit == 8
        for _ in range(10):
            gate.slow_down(gate.epoch, 0.0)
        assert gate.limit == 1

    asyncio.run(scene())


def test_a_model_that_is_limited_does_not_slow_others() -> None:
    async def reply(request: Any) -> Reply:
        if request.json["model"] == "limited" and len(seen) < 5:
            seen.append(1)
            return Reply.rate_limit("openai-chat", retry_after=0)
        return say(request.json["model"], request)

    seen: list[int] = []

    async def scene(_: Upstream, client: Client) -> None:
        requests = [{**body("x"), "model": f"openai/{name}"} for name in ("limited", "other") * 4]
        batch = client.map(requests, concurrency=4)
        await batch
        assert batch.limits["openai/other"] == 4
        assert batch.limits["openai/limited"] < 4

    run(scene, reply)


# ── cancellation ──────────────────────────────────────────────────────────────────────────────────


async def nothing_runs(up: Upstream) -> None:
    """All requests that the upstream still answers have lost their client."""
    for request in up.requests:
        await asyncio.wait_for(request.finished.wait(), 5)
    left = {task for task in asyncio.all_tasks() if "Batch" in repr(task)}
    assert not left


def test_cancellation_leaves_nothing_running() -> None:
    async def scene(up: Upstream, client: Client) -> None:
        task = asyncio.ensure_future(client.map(["q"] * 100, model=MODEL, concurrency=4).results())
        await up.wait_for_request(4)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await nothing_runs(up)
        assert len(up.requests) == 4
        assert all(one.disconnected.is_set() for one in up.requests)

    run(scene, Echo(hold=1000))


async def fail(up: Upstream, batch: Batch) -> None:
    async with batch:
        async for _ in batch:
            await up.wait_for_request(4)
            raise ZeroDivisionError


@each("how", ["break", "async with", "an error of the reader"])
def test_leaving_the_loop_leaves_nothing_running(how: str) -> None:
    async def reply(request: Any) -> Reply:
        if request.json["messages"][-1]["content"] == "first":
            return say("x", request)
        await asyncio.sleep(30)
        raise AssertionError

    async def scene(up: Upstream, client: Client) -> None:
        batch = client.map(["first", *["q"] * 100], model=MODEL, concurrency=4)
        if how == "break":
            async for _ in batch:
                await up.wait_for_request(4)
                break
            await batch.aclose()
        elif how == "async with":
            async with batch:
                async for _ in batch:
                    await up.wait_for_request(4)
                    break
        else:
            with pytest.raises(ZeroDivisionError):
                await fail(up, batch)
        await nothing_runs(up)
        assert len(up.requests) <= 5

    run(scene, reply)


def test_a_slow_reader_holds_the_batch_back() -> None:
    """A million requests do not pile up behind a reader that takes its time."""
    taken: list[int] = []

    def questions() -> Iterator[str]:
        for number in range(1_000_000):
            taken.append(number)
            yield "q"

    async def scene(up: Upstream, client: Client) -> None:
        async with client.map(questions(), model=MODEL, concurrency=2) as batch:
            async for _ in batch:
                await up.wait_for_request(4)
                await asyncio.sleep(0.2)
                break
        assert len(taken) < 10

    run(scene, Echo())


# ── with the other operations ─────────────────────────────────────────────────────────────────────


def test_a_batch_within_a_budget() -> None:
    async def scene(up: Upstream, client: Client) -> None:
        results = await client.map(["q"] * 10, model=MODEL, concurrency=1, return_errors=True)
        assert [type(one) for one in results] == [Answer] * 2 + [BudgetExceeded] * 8
        assert len(up.requests) == 2

    run(scene, Echo(), budget=0.004)


def test_progress() -> None:
    seen: list[BatchProgress] = []
    lines = io.StringIO()

    async def scene(_: Upstream, client: Client) -> None:
        def note(progress: BatchProgress) -> None:
            seen.append(progress)
            LineProgress(lines)(progress)

        await client.map(["a", "a", "bad"], model=MODEL, concurrency=1, progress=note, return_errors=True)
        last = seen[-1]
        assert (last.total, last.done, last.failed, last.cached, last.is_over) == (3, 3, 1, 1, True)
        assert last.cost == pytest.approx(0.0035)

    run(scene, Echo(fail="bad"), cache=MemoryCache())
    assert lines.getvalue() == "3/3 done, 1 failed, 1 cached, $0.0035\n"


def test_lines_come_from_time_to_time() -> None:
    now, lines = [0.0], io.StringIO()
    show = LineProgress(lines, lambda: now[0])
    for done in range(1, 21):
        now[0] += 1
        show(BatchProgress(done=done))
    assert lines.getvalue().splitlines() == ["5 done", "10 done", "15 done", "20 done"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    show = open_progress(True, terminal)
    assert isinstance(show, RichProgress)
    show(BatchProgress(total=4, done=1))
    show(BatchProgress(total=4, done=4, is_over=True))
    assert "4/4 done" in terminal.getvalue()
    assert isinstance(open_progress(True, io.StringIO()), LineProgress)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert isinstance(open_progress(True, Terminal()), LineProgress)


def test_the_same_without_await(capsys: pytest.CaptureFixture[str]) -> None:
    def reply(request: Any) -> Reply:
        return say(request.json["messages"][-1]["content"], request)

    with scripted(reply) as up:
        config = {"providers": {"openai": {"base_url": f"{up.url}/v1", "key": "k"}}}
        with SyncClient(config, env={}) as client:
            answers = client.map(["a", "b"], model=MODEL, progress=True)
    assert [one.text for one in answers] == ["a", "b"]
    assert "2/2 done" in capsys.readouterr().err
