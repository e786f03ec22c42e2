"""Who is asked: names, retries, fallbacks, circuits, budgets; and that every decision is written down with its reason."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from penstock._engines.failure_policy import (
    MAX_CIRCUITS,
    BreakerPolicy,
    CircuitBreakers,
    CircuitKey,
    compute_retry_delay,
)
from penstock._providers.registry import Retry
from penstock.errors import AuthError, InvalidRequest, NotFound, Overloaded, RateLimited, TooLarge, provider_error
from penstock.events import Fault, Start
from penstock.request import Message, Request, Settings, Text
from penstock.testing import Reply, Upstream, play
from tests.wire.engines.router_setup import asking, each_engine, events, good, quick, router, run, turn

if TYPE_CHECKING:
    from penstock._engines.engine_interface import Decision
    from penstock.testing import ReceivedRequest

GOOD = Reply.of("openai-chat", play("text"))
BUSY = Reply.error("openai-chat", 503, "busy")


def circuit_states(circuits: CircuitBreakers) -> dict[CircuitKey, str]:
    """The state of each stored circuit: `closed` after a few failures, `open`, or `trying`."""
    now = circuits._clock()  # pyright: ignore[reportPrivateUsage]

    def describe(circuit: Any) -> str:
        if not circuit.opened:
            return "closed"
        ends = circuit.opened_at + circuits._period(circuit, alternative=False)  # pyright: ignore[reportPrivateUsage]
        return "open" if ends > now else "trying"

    return {key: describe(circuit) for key, circuit in circuits._circuits.items()}  # pyright: ignore[reportPrivateUsage]


def models_of(names: str) -> Request:
    return Request(names, [Message("user", [Text("?")])], stream=True)


# ── retries and fallbacks ─────────────────────────────────────────────────────────────────────────


def test_the_next_provider_is_asked_and_the_record_says_why(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Decision] = []

    async def scene() -> None:
        bad, good = Upstream(BUSY), Upstream(Reply.of("anthropic", play("text")))
        async with bad, good:
            way = router({"openai": bad, "anthropic": good}, fallbacks={"openai/gpt-4o": ["anthropic/claude-x"]})
            way.add_observer(seen.append)
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


def test_an_error_tells_of_all_who_were_asked() -> None:
    async def scene() -> None:
        async with Upstream(BUSY) as bad, Upstream(Reply.error("anthropic", 401, "who?")) as worse:
            way = router({"openai": bad, "anthropic": worse}, aliases={"any": ["openai/a", "anthropic/b"]}, retries=0)
            with pytest.raises(AuthError) as found:
                await way.open(models_of("any"), options=quick())
            assert [(one.provider, one.status) for one in found.value.attempts] == [("openai", 503)]

    run(scene)


def test_a_request_that_is_wrong_is_wrong_everywhere() -> None:
    async def scene() -> None:
        async with Upstream(Reply.error("openai-chat", 400, "not like this")) as bad, Upstream(GOOD) as other:
            way = router({"openai": bad, "groq": other}, aliases={"any": ["openai/a", "groq/b"]})
            with pytest.raises(InvalidRequest):
                await way.open(models_of("any"), options=quick())
            assert (len(bad.requests), len(other.requests)) == (1, 0)

    run(scene)


def test_a_wait_that_is_asked_for_is_kept() -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def scene() -> None:
        async with Upstream(Reply.rate_limit("openai-chat", retry_after=3), GOOD) as up:
            way = router(up)
            way._sleep = sleep  # pyright: ignore[reportPrivateUsage]
            assert (await turn(await way.open(asking(), options=quick()))).text
            up.script(Reply.rate_limit("openai-chat", retry_after=600))
            with pytest.raises(RateLimited) as found:
                await way.open(asking(), options=quick())
            assert found.value.retry_after == 600
            assert found.value.attempts == []

    run(scene)
    assert len(waits) == 1
    assert 3 <= waits[0] < 3.5


def test_waits_grow_and_vary() -> None:
    error = provider_error(Fault("server", "x", 500))
    low = [compute_retry_delay(error, tries, Retry(), lambda: 0.0) for tries in range(1, 8)]
    high = [compute_retry_delay(error, tries, Retry(), lambda: 1.0) for tries in range(1, 8)]
    assert low == [0.25, 0.5, 1.0, 2.0, 4.0, 4.0, 4.0]
    assert high == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]


def test_no_retry_past_the_total() -> None:
    async def scene() -> None:
        async with Upstream(Reply.rate_limit("openai-chat", retry_after=5)) as up:
            way = router(up)
            begun = time.monotonic()
            with pytest.raises(RateLimited):
                await way.open(asking(), options=quick(timeouts={"total": 2}))
            assert time.monotonic() - begun < 2
            assert len(up.requests) == 1

    run(scene)


@each_engine
def test_a_field_that_we_added_is_done_without_where_it_is_refused(engine: str) -> None:
    no = Reply.error("openai-chat", 400, "Unrecognized request argument supplied: stream_options")

    async def scene() -> None:
        async with Upstream(no, GOOD) as up:
            way = router(up)
            reply = await way.open(asking(), engine=engine, options=quick())
            assert (await turn(reply)).text
            assert ["stream_options" in seen.json for seen in up.requests] == [True, False]
            assert way.counts["retry", "field", "openai"] == 1

    run(scene)


@pytest.mark.parametrize("stream", [True, False])
def test_a_conversation_that_is_refused_for_its_length_is_cut_and_sent_once_more(stream: bool) -> None:
    no = Reply.error("openai-chat", 400, "maximum context length is 8 tokens", code="context_length_exceeded")
    said = [Message("user" if n % 2 == 0 else "assistant", [Text(f"{n} " + "words " * 200)]) for n in range(21)]
    request = replace(asking(stream=stream), messages=said)

    async def scene() -> None:
        async with Upstream(no, good("openai-chat", stream=stream)) as up:
            way = router(up)
            reply = await way.open(request, options=quick(), convert={"context_management": True})
            assert (await turn(reply)).text
            counts = [len(seen.json["messages"]) for seen in up.requests]
            assert counts[0] == 21 > counts[1] >= 9
            assert up.requests[1].json["messages"][-1] == up.requests[0].json["messages"][-1]
            assert way.counts["retry", "context", "openai"] == 1
            assert reply.cleared is not None
            assert reply.cleared.turns == (21 - counts[1]) // 2
            assert [row.code for row in reply.diagnostics] == ["context-dropped"]

    run(scene)


def test_a_conversation_that_cannot_be_cut_or_may_not_be_is_refused() -> None:
    no = Reply.error("openai-chat", 400, "maximum context length is 8 tokens", code="context_length_exceeded")

    async def scene() -> None:
        async with Upstream(no, no, no) as up:
            way = router(up)
            for allowed in (True, False):
                with pytest.raises(TooLarge):
                    await way.open(asking(), options=quick(), convert={"context_management": allowed})
            assert len(up.requests) == 2

    run(scene)


def test_strict_refuses_what_changes_the_result_and_the_next_provider_is_asked() -> None:
    settings = Settings(logprobs=True, seed=3, user="u")
    request = replace(asking("anthropic"), settings=settings)

    async def scene() -> None:
        async with Upstream(GOOD) as up:
            with pytest.raises(InvalidRequest, match=r"anthropic cannot carry.*: seed, logprobs") as caught:
                await router(up).open(request, options=quick(), convert={"strict": True})
            assert (caught.value.status, caught.value.code, up.requests) == (400, "unsupported_parameter", [])
            way = router(up, fallbacks={"anthropic/claude-sonnet-4-5": ["openai/gpt-4o"]})
            reply = await way.open(request, options=quick(), convert={"strict": True})
            assert (await turn(reply)).text
            assert up.requests[0].json["logprobs"] is True

    run(scene)


# ── circuits and budgets ──────────────────────────────────────────────────────────────────────────


A, B = CircuitKey("a", "m"), CircuitKey("b", "m")


def test_a_circuit_opens_and_a_single_request_tries_it() -> None:
    now = [0.0]
    circuits = CircuitBreakers(lambda: now[0], BreakerPolicy(failures=2, cool=10))
    for _ in range(2):
        assert circuits.closed_for(A, alternative=True) == 0
        circuits.record_failure(A, "server")
    assert circuits.closed_for(A, alternative=True) == 10
    assert circuits.closed_for(B, alternative=True) == 0
    now[0] = 11
    assert circuits.closed_for(A, alternative=True) == 0
    assert circuits.closed_for(A, alternative=True) > 0, "one is trying"
    circuits.record_failure(A, "timeout")
    assert circuits.closed_for(A, alternative=True) == 10
    now[0] = 22
    assert circuits.closed_for(A, alternative=True) == 0
    circuits.record_cancelled(A)
    assert circuits.closed_for(A, alternative=True) == 0, "the one that tried was called off"
    assert circuit_states(circuits) == {A: "trying"}
    circuits.record_success(A)
    assert circuit_states(circuits) == {}


def test_without_an_alternative_a_circuit_begins_with_a_second() -> None:
    now = [0.0]
    circuits = CircuitBreakers(lambda: now[0], BreakerPolicy(failures=2, cool=10))
    circuits.record_failure(A, "server")
    circuits.record_failure(A, "server")
    waits: list[float] = []
    for _ in range(6):
        waits.append(circuits.closed_for(A))
        now[0] += waits[-1]
        assert circuits.closed_for(A) == 0
        circuits.record_failure(A, "server")
        circuits.record_failure(A, "server")  # a retry of the same request
    assert waits == [1, 2, 4, 8, 10, 10]
    circuits.record_success(A)
    assert circuits.closed_for(A) == 0


def test_requests_in_flight_do_not_keep_a_circuit_open() -> None:
    now = [0.0]
    circuits = CircuitBreakers(lambda: now[0], BreakerPolicy(failures=2))
    circuits.record_failure(A, "server")
    circuits.record_failure(A, "server")
    now[0] = 0.9
    circuits.record_failure(A, "server")
    now[0] = 1.0
    assert circuits.closed_for(A) == 0


def test_invented_models_cannot_fill_the_memory() -> None:
    circuits = CircuitBreakers(lambda: 0.0, BreakerPolicy(failures=1))
    for number in range(MAX_CIRCUITS + 500):
        circuits.record_failure(CircuitKey.of("a", str(number), key=f"k{number}"), "server")
    assert len(circuit_states(circuits)) == MAX_CIRCUITS
    for number in range(MAX_CIRCUITS + 500):
        circuits.record_success(CircuitKey("b", str(number)))
    assert len(circuit_states(circuits)) == MAX_CIRCUITS


def test_a_caller_s_own_key_has_its_own_circuit_and_is_not_kept() -> None:
    keys = {CircuitKey.of("a", "m"), CircuitKey.of("a", "m", "sk-one"), CircuitKey.of("a", "m", "sk-two")}
    assert len(keys) == 3
    assert "sk-" not in repr(keys)


def test_what_is_not_the_providers_fault_closes_a_circuit() -> None:
    circuits = CircuitBreakers(lambda: 0.0, BreakerPolicy(failures=2))
    circuits.record_failure(A, "server")
    circuits.record_failure(A, "invalid")
    circuits.record_failure(A, "server")
    assert circuits.closed_for(A) == 0


def test_retries_have_a_budget() -> None:
    circuits = CircuitBreakers(lambda: 0.0, BreakerPolicy(reserve=2, share=0.5))
    assert [circuits.take_retry(A) for _ in range(3)] == [True, True, False]
    circuits.record_success(A)
    circuits.record_success(A)
    assert [circuits.take_retry(A) for _ in range(2)] == [True, False]


def test_an_open_circuit_is_not_asked_and_the_next_one_is() -> None:
    async def scene() -> None:
        async with Upstream(BUSY) as bad, Upstream(GOOD) as good:
            way = router(
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

    run(scene)


def test_a_bad_model_leaves_the_others_alone() -> None:
    def answer(seen: ReceivedRequest) -> Reply:
        return BUSY if seen.json["model"] == "bad" else GOOD

    async def scene() -> None:
        async with Upstream(answer) as up:
            way = router(up, retries=0, breaker={"failures": 2})
            for _ in range(2):
                with pytest.raises(Overloaded):
                    await way.open(models_of("openai/bad"), options=quick())
            with pytest.raises(Overloaded) as found:
                await way.open(models_of("openai/bad"), options=quick())
            assert found.value.code == "circuit-open"
            await events(await way.open(models_of("openai/good"), options=quick()))
            mine = replace(quick(), key="another-caller-s-key")
            with pytest.raises(Overloaded) as found:
                await way.open(models_of("openai/bad"), options=mine)
            assert found.value.code != "circuit-open", "another credential is asked"
            assert set(circuit_states(way.breakers).values()) == {"open", "closed"}

    run(scene)


# ── operations ────────────────────────────────────────────────────────────────────────────────────


def test_a_model_that_is_only_to_be_had_by_responses() -> None:
    async def scene() -> None:
        async with Upstream(Reply.of("responses", play("text"))) as up:
            way = router(up)
            reply = await way.open(asking(model="o3-pro"), options=quick())
            assert up.requests[0].path == "/v1/responses"
            assert reply.operation == "responses"
            assert any("only to be had by Responses" in line for line in reply.record.lines())
            assert (await turn(reply)).text

    run(scene)


def test_what_a_provider_has_no_place_for() -> None:
    async def scene() -> None:
        async with Upstream(GOOD) as up:
            way = router({"anthropic": up, "deepseek": up})
            reply = await way.open(models_of("deepseek/x"), "responses", source="responses", options=quick())
            assert up.requests[0].path.endswith("/chat/completions")
            assert reply.operation == "chat"
            await events(reply)
            with pytest.raises(NotFound, match="anthropic has no rerank"):
                await way.fetch("anthropic/x", "rerank", lambda _t, _s: {}, options=quick())

    run(scene)
