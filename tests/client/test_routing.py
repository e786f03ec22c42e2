"""Who is asked: names, retries, fallbacks, circuits, budgets; and that every decision is written down with its reason."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from penstock.errors import AuthError, InvalidRequest, NotFound, Overloaded, RateLimited, ServerError, TooLarge
from penstock.events import Start
from penstock.request import Message, Request, Settings, Text
from penstock.testing import Reply, Upstream, play
from tests.support.each_case import each
from tests.support.routed_client import (
    BUSY,
    GOOD,
    Clock,
    asking,
    each_engine,
    events,
    good,
    quick,
    routed,
    run,
    staged,
    turn,
)

if TYPE_CHECKING:
    from penstock.testing import ReceivedRequest
    from tests.support.routed_client import RoutedClient


def models_of(names: str) -> Request:
    return Request(names, [Message("user", [Text("?")])], stream=True)


# ── retries and fallbacks ─────────────────────────────────────────────────────────────────────────


def test_the_next_provider_is_asked_and_the_record_says_why(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Any] = []

    async def scene() -> None:
        bad, good = Upstream(BUSY), Upstream(Reply.of("anthropic", play("text")))
        async with bad, good:
            way = routed(
                {"openai": bad, "anthropic": good},
                fallbacks={"openai/gpt-4o": ["anthropic/claude-x"]},
                how={"on_decision": seen.append},
            )
            reply = await way.open(asking(), options=quick())
            got = await events(reply)
            assert sum(isinstance(event, Start) for event in got) == 1
            assert (reply.provider, reply.model) == ("anthropic", "claude-x")
            assert [one.what for one in reply.record.decisions] == [
                "route", "retry", "retry", "give-up", "fallback", "route", "open",
            ]  # fmt: skip
            assert reply.record.tries == 4
            assert way.counts["fallback", "overloaded", "openai"] == 1
            assert (len(bad.requests), len(good.requests)) == (3, 1)

    with caplog.at_level("INFO", logger="penstock.routing"):
        run(scene)
    assert "fallback: claude-x at anthropic is next" in caplog.text
    assert [one.what for one in seen if one.what == "fallback"]


@staged
async def test_an_error_tells_of_all_who_were_asked() -> None:
    async with Upstream(BUSY) as bad, Upstream(Reply.error("anthropic", 401, "who?")) as worse:
        way = routed({"openai": bad, "anthropic": worse}, aliases={"any": ["openai/a", "anthropic/b"]}, retries=0)
        with pytest.raises(AuthError) as found:
            await way.open(models_of("any"), options=quick())
        assert [(one.provider, one.status) for one in found.value.attempts] == [("openai", 503)]


@staged
async def test_a_request_that_is_wrong_is_wrong_everywhere() -> None:
    async with Upstream(Reply.error("openai-chat", 400, "not like this")) as bad, Upstream(GOOD) as other:
        way = routed({"openai": bad, "groq": other}, aliases={"any": ["openai/a", "groq/b"]})
        with pytest.raises(InvalidRequest):
            await way.open(models_of("any"), options=quick())
        assert (len(bad.requests), len(other.requests)) == (1, 0)


def waiting(up: Upstream, waits: list[float], chance: float = 0.0, **config: Any) -> RoutedClient:
    """A client whose pauses are noted and take no time."""

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    return routed(up, how={"sleep": sleep, "chance": lambda: chance}, **config)


def test_a_wait_that_is_asked_for_is_kept() -> None:
    waits: list[float] = []

    async def scene() -> None:
        async with Upstream(Reply.rate_limit("openai-chat", retry_after=3), GOOD) as up:
            way = waiting(up, waits, 0.5)
            assert (await turn(await way.open(asking(), options=quick()))).text
            up.script(Reply.rate_limit("openai-chat", retry_after=600))
            with pytest.raises(RateLimited) as found:
                await way.open(asking(), options=quick())
            assert found.value.retry_after == 600
            assert found.value.attempts == []

    run(scene)
    assert len(waits) == 1
    assert 3 <= waits[0] < 3.5


@each("chance, expected", [(0.0, [0.25, 0.5, 1.0, 2.0, 4.0, 4.0]), (1.0, [0.5, 1, 2, 4, 8, 8])])
def test_waits_grow_and_vary(chance: float, expected: list[float]) -> None:
    waits: list[float] = []

    async def scene() -> None:
        async with Upstream(Reply.error("openai-chat", 500)) as up:
            way = waiting(up, waits, chance, retries=6, breaker={"failures": 100})
            with pytest.raises(ServerError):
                await way.open(asking(), options=quick(timeouts={"total": 500.0, "retry_wait": 100.0}))

    run(scene)
    assert waits == expected


def test_all_waits_together_have_a_limit() -> None:
    """At most `timeouts.retry_wait`: ten seconds where nothing else is said."""
    cases: list[tuple[int, dict[str, float], int]] = [
        (7, {}, 1),  # a second wait would make 14 s
        (3, {}, 2), (11, {}, 0), (7, {"retry_wait": 20}, 2), (7, {"retry_wait": 5}, 0),
    ]  # fmt: skip
    found: list[list[float]] = []

    async def scene() -> None:
        for seconds, limits, expected in cases:
            found.append([])
            async with Upstream(Reply.rate_limit("openai-chat", retry_after=seconds)) as up:
                way = waiting(up, found[-1])
                with pytest.raises(RateLimited) as caught:
                    await way.open(asking(), options=quick(timeouts={"total": 100.0, **limits}))
                assert caught.value.retry_after == seconds
                assert len(up.requests) == expected + 1

    run(scene)
    assert found == [[seconds] * count for seconds, _, count in cases]


@staged
async def test_no_retry_past_the_total() -> None:
    async with Upstream(Reply.rate_limit("openai-chat", retry_after=5)) as up:
        way = routed(up)
        begun = time.monotonic()
        with pytest.raises(RateLimited):
            await way.open(asking(), options=quick(timeouts={"total": 2}))
        assert time.monotonic() - begun < 2
        assert len(up.requests) == 1


@each_engine
@staged
async def test_a_field_that_we_added_is_done_without_where_it_is_refused(engine: str) -> None:
    no = Reply.error("openai-chat", 400, "Unrecognized request argument supplied: stream_options")
    async with Upstream(no, GOOD) as up:
        way = routed(up)
        reply = await way.open(asking(), engine=engine, options=quick())
        assert (await turn(reply)).text
        assert ["stream_options" in seen.json for seen in up.requests] == [True, False]
        assert way.counts["retry", "field", "openai"] == 1


@each("stream", [True, False])
@staged
async def test_a_conversation_that_is_refused_for_its_length_is_cut_and_sent_once_more(stream: bool) -> None:
    no = Reply.error("openai-chat", 400, "maximum context length is 8 tokens", code="context_length_exceeded")
    said = [Message("user" if n % 2 == 0 else "assistant", [Text(f"{n} " + "words " * 200)]) for n in range(21)]
    request = replace(asking(stream=stream), messages=said)
    async with Upstream(no, good("openai-chat", stream=stream)) as up:
        way = routed(up)
        reply = await way.open(request, options=quick(), context_management=True)
        assert (await turn(reply)).text
        counts = [len(seen.json["messages"]) for seen in up.requests]
        assert counts[0] == 21 > counts[1] >= 9
        assert up.requests[1].json["messages"][-1] == up.requests[0].json["messages"][-1]
        assert way.counts["retry", "context", "openai"] == 1
        assert reply.cleared is not None
        assert reply.cleared.turns == (21 - counts[1]) // 2
        assert [row.code for row in reply.diagnostics] == ["context-dropped"]


@staged
async def test_a_conversation_that_cannot_be_cut_or_may_not_be_is_refused() -> None:
    no = Reply.error("openai-chat", 400, "maximum context length is 8 tokens", code="context_length_exceeded")
    async with Upstream(no, no, no) as up:
        way = routed(up)
        for allowed in (True, False):
            with pytest.raises(TooLarge):
                await way.open(asking(), options=quick(), context_management=allowed)
        assert len(up.requests) == 2


@staged
async def test_strict_refuses_what_changes_the_result_and_the_next_provider_is_asked() -> None:
    settings = Settings(logprobs=True, seed=3, user="u")
    request = replace(asking("anthropic"), settings=settings)
    async with Upstream(GOOD) as up:
        with pytest.raises(InvalidRequest, match=r"anthropic cannot carry.*: seed, logprobs") as caught:
            await routed(up).open(request, options=quick(), strict=True)
        assert (caught.value.status, caught.value.code, up.requests) == (400, "unsupported_parameter", [])
        way = routed(up, fallbacks={"anthropic/claude-sonnet-4-5": ["openai/gpt-4o"]})
        reply = await way.open(request, options=quick(), strict=True)
        assert (await turn(reply)).text
        assert up.requests[0].json["logprobs"] is True


# ── circuits and budgets ──────────────────────────────────────────────────────────────────────────


class Circuit:
    """Requests to one upstream that fails or not, by a clock that the test sets."""

    def __init__(self, up: Upstream, **config: Any) -> None:
        self.up, self.clock = up, Clock()
        how = {"clock": self.clock, "sleep": self.clock.sleep}
        self.way = routed(up, how=how, **{"retries": 0, "breaker": {"failures": 2, "cool": 10}, **config})

    async def ask(self, reply: Reply, model: str = "openai/m", **options: Any) -> float | None:
        """Asks once. Returns for how long the circuit is open; 0 if the upstream was asked."""
        self.up.script(reply)
        try:
            await events(await self.way.open(models_of(model), options=quick(**options)))
        except Overloaded as error:
            return error.retry_after if error.code == "circuit-open" else 0
        except (ServerError, InvalidRequest):
            return 0
        return 0


@staged
async def test_without_an_alternative_a_circuit_begins_with_a_second() -> None:
    async with Upstream(BUSY) as up:
        circuit = Circuit(up)
        assert [await circuit.ask(BUSY) for _ in range(2)] == [0, 0]
        waits: list[float] = []
        for _ in range(6):
            waits.append(await circuit.ask(BUSY) or 0)
            circuit.clock.now += waits[-1]
            assert await circuit.ask(BUSY) == 0, "one request tries it"
        assert waits == [1, 2, 4, 8, 10, 10]
        circuit.clock.now += 10
        assert [await circuit.ask(reply) for reply in (GOOD, BUSY, GOOD)] == [0, 0, 0]


@staged
async def test_a_single_request_tries_an_open_circuit() -> None:
    async with Upstream(BUSY) as up:
        circuit = Circuit(up)
        for _ in range(2):
            await circuit.ask(BUSY)
        circuit.clock.now += 1
        up.script(GOOD.delayed(30))
        trying = asyncio.create_task(circuit.way.open(models_of("openai/m"), options=quick()))
        await up.wait_for_request(3)
        assert (await circuit.ask(GOOD) or 0) > 0, "one is trying"
        trying.cancel()
        await asyncio.gather(trying, return_exceptions=True)
        assert await circuit.ask(GOOD) == 0, "the one that tried was called off"
        assert await circuit.ask(GOOD) == 0


@staged
async def test_what_is_not_the_providers_fault_closes_a_circuit() -> None:
    async with Upstream(BUSY) as up:
        circuit = Circuit(up)
        wrong = Reply.error("openai-chat", 400, "not like this")
        assert [await circuit.ask(reply) for reply in (BUSY, wrong, BUSY, GOOD)] == [0, 0, 0, 0]


@staged
async def test_retries_have_a_budget() -> None:
    async with Upstream(BUSY) as up:
        circuit = Circuit(up, retries=1, breaker={"failures": 1000, "reserve": 2, "share": 0.5})
        for _ in range(3):
            await circuit.ask(BUSY)
        assert len(up.requests) == 5, "the third request is not sent again"
        for _ in range(2):
            await circuit.ask(GOOD)
        before = len(up.requests)
        for _ in range(2):
            await circuit.ask(BUSY)
        assert len(up.requests) - before == 3, "two answers allow one more"


@staged
async def test_an_open_circuit_is_not_asked_and_the_next_one_is() -> None:
    async with Upstream(BUSY) as bad, Upstream(GOOD) as good:
        way = routed(
            {"openai": bad, "groq": good}, retries=0, breaker={"failures": 2, "cool": 60},
            aliases={"any": ["openai/a", "groq/b"]},
        )  # fmt: skip
        for _ in range(4):
            reply = await way.open(models_of("any"), options=quick())
            assert reply.provider == "groq"
            await events(reply)
        assert len(bad.requests) == 2
        assert way.counts["skip", "circuit", "openai"] == 2
        with pytest.raises(Overloaded) as found:
            await way.open(models_of("openai/a"), options=quick())
        assert found.value.code == "circuit-open"
        assert 0 < (found.value.retry_after or 0) <= 1, "there is no other choice"
        assert "busy" in str(found.value), "the provider's own words"


@staged
async def test_a_bad_model_leaves_the_others_alone() -> None:
    def answer(seen: ReceivedRequest) -> Reply:
        return BUSY if seen.json["model"] == "bad" else GOOD

    async with Upstream(answer) as up:
        way = routed(up, retries=0, breaker={"failures": 2})
        for _ in range(2):
            with pytest.raises(Overloaded):
                await way.open(models_of("openai/bad"), options=quick())
        with pytest.raises(Overloaded) as found:
            await way.open(models_of("openai/bad"), options=quick())
        assert found.value.code == "circuit-open"
        await events(await way.open(models_of("openai/good"), options=quick()))
        mine = quick(key="another-caller-s-key")
        with pytest.raises(Overloaded) as found:
            await way.open(models_of("openai/bad"), options=mine)
        assert found.value.code != "circuit-open", "another credential is asked"
        assert "another-caller" not in str([one.why for one in way.decisions])


# ── operations ────────────────────────────────────────────────────────────────────────────────────


@staged
async def test_a_model_that_is_only_to_be_had_by_responses() -> None:
    async with Upstream(Reply.of("responses", play("text"))) as up:
        way = routed(up)
        reply = await way.open(asking(model="o3-pro"), options=quick())
        assert up.requests[0].path == "/v1/responses"
        assert reply.operation == "responses"
        assert any("only to be had by Responses" in line for line in reply.record.lines())
        assert (await turn(reply)).text


@staged
async def test_what_a_provider_has_no_place_for() -> None:
    async with Upstream(GOOD) as up:
        way = routed({"anthropic": up, "deepseek": up})
        reply = await way.open(models_of("deepseek/x"), "responses", options=quick())
        assert up.requests[0].path.endswith("/chat/completions")
        assert reply.operation == "chat"
        await events(reply)
        with pytest.raises(NotFound, match="anthropic has no rerank"):
            await way.rerank("anthropic/x", "what", ["one"], options=quick())
