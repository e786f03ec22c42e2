"""The cost of each answer, the sums of a client, prices of your own, and the budget."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from penstock import events as ev
from penstock.client import Client, SyncClient
from penstock.errors import BudgetExceeded, InputError, PenstockError, ProviderError
from penstock.request import Turn
from penstock.testing import Reply, Upstream, scripted
from tests.client.observed_client import MODEL, STREAM, TURN, WHOLE, by_stream, run
from tests.support.each_case import each

if TYPE_CHECKING:
    from collections.abc import Callable

PRICE = 1000 * 2.5e-6 + 100 * 10e-6  # of gpt-4o


def test_an_answer_has_its_cost() -> None:
    async def scene(_: Upstream, client: Client) -> None:
        answer = await client.chat(MODEL, "How deep?")
        assert answer.cost == pytest.approx(PRICE)
        assert answer.cost is not None
        assert (answer.cost.input, answer.cost.output) == pytest.approx((0.0025, 0.001))
        assert not answer.cached
        stream = client.chat_stream(MODEL, "How deep?")
        assert stream.cost is None
        async for _event in stream:
            pass
        assert stream.cost == pytest.approx(PRICE)
        total, row = client.spending.total, client.spending.by_model["openai", "gpt-4o"]
        assert total == row
        assert (row.calls, row.input, row.output, row.unpriced) == (2, 2000, 200, 0)
        assert row.cost == pytest.approx(2 * PRICE)

    run(scene)


def test_an_answer_with_a_cost_can_be_written_and_read() -> None:
    async def scene(_: Upstream, client: Client) -> None:
        answer = await client.chat(MODEL, "How deep?")
        again = msgspec.json.decode(msgspec.json.encode(answer), type=type(answer))
        assert again.cost == answer.cost
        assert isinstance(answer, Turn)

    run(scene)


def test_unknown_prices_are_no_costs(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(_: Upstream, client: Client) -> None:
        for _number in range(3):
            assert (await client.chat("openai/never-heard-of", "?")).cost is None
        row = client.spending.by_model["openai", "never-heard-of"]
        assert (row.calls, row.unpriced, row.cost, row.input) == (3, 3, 0.0, 3000)

    run(scene)
    assert not caplog.records
    run(scene, budget=0.001)
    [said] = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert "openai/never-heard-of" in said.getMessage()


@each("name", ["my-model", "openai/my-model", "my-*", "openai/*"])
def test_prices_of_your_own(name: str) -> None:
    async def scene(_: Upstream, client: Client) -> None:
        assert (await client.chat("openai/my-model", "?")).cost == pytest.approx(0.0012)

    run(scene, prices={name: {"input": 1.0, "output": 2.0}})


def test_wrong_parameters_are_named() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"prices": {"m": {"inptu": 1.0}}}, "inptu"),
        ({"budget": -1.0}, "budget"),
        ({"budget": float("nan")}, "budget"),
        ({"cache": object()}, "ResponseCache"),
        ({"on_event": "print"}, "on_event"),
        ({"tracing": "all"}, "tracing"),
    ]
    for parameters, message in wrong:
        for kind in (Client, SyncClient):
            with pytest.raises(InputError, match=message):
                kind(**parameters)


def test_the_budget_is_refused_before_sending() -> None:
    async def scene(up: Upstream, client: Client) -> None:
        await client.chat(MODEL, "?")  # 0.0035
        await client.chat(MODEL, "?")  # 0.0070
        calls: list[Callable[[], Any]] = [
            lambda: client.chat(MODEL, "?"),
            lambda: client.chat_stream(MODEL, "?").turn(),
            lambda: client.embed("openai/text-embedding-3-small", "x"),
            lambda: client.responses(MODEL, "?"),
        ]
        for call in calls:
            with pytest.raises(BudgetExceeded, match=r"0\.007") as found:
                await call()
            assert found.value.budget == 0.006
            assert found.value.spent == pytest.approx(0.007)
            assert isinstance(found.value, PenstockError)
            assert not isinstance(found.value, ProviderError)
        assert len(up.requests) == 2
        assert client.spending.total.calls == 2

    run(scene, budget=0.006)


def test_a_budget_of_nothing_sends_nothing() -> None:
    async def scene(up: Upstream, client: Client) -> None:
        with pytest.raises(BudgetExceeded):
            await client.chat(MODEL, "?")
        assert not up.requests

    run(scene, budget=0.0)


def test_a_stream_that_is_left_early_counts_what_is_known() -> None:
    early: list[ev.AnyEvent] = [TURN[0], ev.Usage(1000, 1), *TURN[1:]]

    async def scene(_: Upstream, client: Client) -> None:
        async with client.chat_stream("anthropic/claude-sonnet-4-5", "?") as stream:
            async for event in stream:
                if isinstance(event, ev.TextDelta):
                    break
        row = client.spending.by_model["anthropic", "claude-sonnet-4-5"]
        assert (row.calls, row.broken, row.input) == (1, 1, 1000)
        assert row.cost > 0

    run(scene, Reply.of("anthropic", early).stall(after=-40))


def test_embeddings_count() -> None:
    body = {"data": [{"index": 0, "embedding": [0.5]}], "usage": {"prompt_tokens": 1_000_000}, "model": "m"}

    async def scene(_: Upstream, client: Client) -> None:
        found = await client.embed("openai/text-embedding-3-small", "x")
        assert found.cost == client.spending.total.cost == pytest.approx(0.02)
        found = await client.embed("openai/text-embedding-3-small", ["x", "y"], batch_size=1)
        assert found.cost == pytest.approx(0.04)
        assert client.spending.total.cost == pytest.approx(0.06)
        assert (await client.embed("openai/unheard-of", "x")).cost is None

    run(scene, Reply.body(body))


def test_the_same_without_await() -> None:
    with scripted(WHOLE, STREAM, by_stream()) as up:
        config = {"providers": {"openai": {"base_url": f"{up.url}/v1", "key": "k"}}}
        with SyncClient(config, env={}, budget=0.005) as client:
            assert client.chat(MODEL, "?").cost == pytest.approx(PRICE)
            stream = client.chat_stream(MODEL, "?")
            list(stream)
            assert stream.cost == pytest.approx(PRICE)
            assert not stream.cached
            with pytest.raises(BudgetExceeded):
                client.chat(MODEL, "?")
            assert client.spending.total.cost == pytest.approx(2 * PRICE)
