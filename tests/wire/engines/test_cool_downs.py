"""An alias with several targets: when a target is left out, and what happens when it fails."""

from __future__ import annotations

import gc
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from penstock._engines.deployments import LIMITED_SECONDS, MAX_COOL_DOWN, TargetRoute
from penstock._engines.engine_interface import DecisionLog
from penstock._http_errors import rate_limit_reset
from penstock._redaction import redact_headers
from penstock.errors import AuthError, InvalidRequest, Overloaded, ProviderError, RateLimited
from penstock.events import Fault
from penstock.request import Request
from penstock.testing import Reply
from tests.wire.engines.fleet import BUSY, GOOD, LIMITED, Fleet, ask, conversation
from tests.wire.engines.router_setup import middle, quick, run

if TYPE_CHECKING:
    from penstock.testing import ReceivedRequest


OURS = (TargetRoute, DecisionLog, Request, ProviderError)

# ── cool-downs ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("strategy", ["order", "weighted", "least-busy", "fastest"])
def test_a_target_rests_as_long_as_it_asks_for(strategy: str) -> None:
    async def scene() -> None:
        async with Fleet(LIMITED, GOOD) as fleet:
            router = fleet.router(strategy, weights={"a": 1, "b": 0} if strategy == "weighted" else None, sticky=False)
            asked = fleet.ups["a"].requests
            reply = await ask(router)
            while not asked:
                reply = await ask(router)
            assert reply.provider == "b"
            assert fleet.clock.now == 1000.0  # nobody waited: another target could answer
            for _ in range(5):
                reply = await ask(router)
            assert len(asked) == 1
            skipped = next(one for one in reply.record.decisions if one.what == "skip")
            assert (skipped.code, skipped.provider) == ("cool-down", "a")
            assert skipped.why == "a/m cools down for another 20.0 s: rate-limit, it asked for 20 s"
            assert router.counts["skip", "cool-down", "a"] == 5
            fleet.clock.now += 20.1
            fleet.ups["a"].script(GOOD)
            while len(asked) == 1:
                await ask(router)

    run(scene)


@pytest.mark.parametrize("strategy", ["order", "weighted"])
def test_an_answer_that_says_nothing_is_left_cools_its_target_until_the_reset(strategy: str) -> None:
    async def scene() -> None:
        spent = {"x_ratelimit_remaining_requests": "0", "x_ratelimit_reset_requests": "30s"}
        async with Fleet(GOOD.with_headers(**spent), GOOD) as fleet:
            router = fleet.router(strategy, weights={"b": 0} if strategy == "weighted" else None, sticky=False)
            await ask(router)
            for _ in range(3):
                assert (await ask(router)).provider == "b"
            fleet.ups["b"].script(BUSY)  # it is only a hint: as a last resort the target is asked
            reply = await ask(router)
            assert reply.provider == "a"
            last = [one for one in reply.record.decisions if one.what == "route"][-1]
            assert last.code == "cooling"
            assert "nothing was left of its rate limit" in last.why
            fleet.ups["b"].script(GOOD)
            fleet.clock.now += 31
            assert (await ask(router)).provider == "a"

    run(scene)


def test_a_limit_without_a_time_is_a_short_rest_and_a_long_one_is_bounded() -> None:
    async def scene() -> None:
        async with Fleet(Reply.rate_limit("openai-chat", retry_after=None), GOOD) as fleet:
            router = fleet.router(weights={"b": 0}, sticky=False)
            await ask(router)
            await ask(router)
            assert fleet.counts["a"] == 1
            fleet.clock.now += LIMITED_SECONDS + 0.1
            fleet.ups["a"].script(Reply.rate_limit("openai-chat", retry_after=86_400))
            await ask(router)
            fleet.ups["a"].script(GOOD)
            fleet.clock.now += MAX_COOL_DOWN - 1
            assert (await ask(router)).provider == "b"
            fleet.clock.now += 2
            assert (await ask(router)).provider == "a"

    run(scene)


def test_a_callers_own_key_cools_down_alone() -> None:
    async def scene() -> None:
        def by_key(request: ReceivedRequest) -> Reply:
            return LIMITED if "limited" in request.headers["authorization"] else GOOD

        async with Fleet(by_key, GOOD) as fleet:
            router = fleet.router(weights={"b": 0}, sticky=False)
            assert (await ask(router, key="limited-caller")).provider == "b"
            assert (await ask(router, key="another-caller")).provider == "a"
            assert (await ask(router, key="limited-caller")).provider == "b"
            assert fleet.counts["a"] == 2

    run(scene)


NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z
# headers → seconds after an answer, seconds after a 429
RESETS: dict[str, tuple[dict[str, str], float | None, float | None]] = {
    "Chat": ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, 360, 360),
    "Chat, something left": ({"x-ratelimit-remaining-tokens": "9", "x-ratelimit-reset-tokens": "1s"}, None, None),
    "Groq": ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "7.66s"}, 7.66, 7.66),
    "Messages": (
        {"x-ratelimit-input-tokens-remaining": "0", "x-ratelimit-input-tokens-reset": "2026-01-01T00:00:30Z"},
        30,
        30,
    ),
    "Messages, subscription": (
        {"x-ratelimit-unified-status": "rejected", "x-ratelimit-unified-reset": "1767225900"},
        300,
        300,
    ),
    "Messages, allowed": (
        {"x-ratelimit-unified-status": "allowed", "x-ratelimit-unified-reset": "1767225900"},
        None,
        None,
    ),
    "Azure, unknown": ({"x-ratelimit-remaining-tokens": "-1", "x-ratelimit-reset-tokens": "0"}, None, None),
    "Azure, reset alone": ({"x-rate-limit-reset-tokens": "55", "x-ratelimit-remaining-requests": "9"}, None, 55),
    "Cerebras": (
        {"x-ratelimit-remaining-tokens-minute": "0", "x-ratelimit-reset-tokens-minute": "12.5"},
        12.5,
        12.5,
    ),
    "OpenRouter": ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1767225605000"}, 5, 5),
    "the draft standard": ({"ratelimit-remaining": "0", "ratelimit-reset": "53"}, 53, 53),
    "the longest": (
        {
            "x-ratelimit-remaining-requests": "0",
            "x-ratelimit-reset-requests": "1s",
            "x-ratelimit-remaining-tokens": "0",
            "x-ratelimit-reset-tokens": "9s",
        },
        9,
        9,
    ),
    "in the past": ({"ratelimit-remaining": "0", "ratelimit-reset": "1767225000"}, None, None),
    "nonsense": ({"ratelimit-remaining": "0", "ratelimit-reset": "soon"}, None, None),
    "no reset": ({"ratelimit-remaining": "0"}, None, None),
}


@pytest.mark.parametrize("case", RESETS)
def test_when_an_exhausted_limit_resets(case: str) -> None:
    headers, answered, refused = RESETS[case]
    assert rate_limit_reset(headers, NOW) == answered
    assert rate_limit_reset(headers, NOW, refused=True) == refused


def test_limits_of_tokens_are_no_secrets() -> None:
    headers = {"x-ratelimit-remaining-tokens": "12", "x-session-token": "abc"}
    assert redact_headers(headers) == {"x-ratelimit-remaining-tokens": "12", "x-session-token": "[secret]"}


# ── failures ──────────────────────────────────────────────────────────────────────────────────────


def test_the_others_are_asked_at_once_and_only_the_last_is_asked_again() -> None:
    async def scene() -> None:
        async with Fleet(BUSY, BUSY, BUSY) as fleet:
            router = fleet.router(weights={"a": 3, "b": 2, "c": 1}, sticky=False)
            fleet.ups["c"].script(BUSY, GOOD)
            fleet.ups["a"].script(BUSY, GOOD)
            fleet.ups["b"].script(BUSY, GOOD)
            reply = await ask(router)
            assert sorted(fleet.counts.values()) == [1, 1, 2]
            assert [one.what for one in reply.record.decisions] == [
                "route",
                "give-up",
                "fallback",
                "route",
                "give-up",
                "fallback",
                "route",
                "retry",
                "open",
            ]

    run(scene)


def test_nothing_changes_after_the_first_content() -> None:
    async def scene() -> None:
        cut = GOOD.disconnect(after=middle(GOOD))
        async with Fleet(cut, cut) as fleet:
            router = fleet.router()
            reply = await ask(router)
            assert isinstance(reply.end, Fault)
            assert sum(fleet.counts.values()) == 1

    run(scene)


def test_a_request_that_is_wrong_is_not_sent_to_the_others() -> None:
    async def scene() -> None:
        wrong = Reply.error("openai-chat", 400, "not like this")
        async with Fleet(wrong, wrong) as fleet:
            with pytest.raises(InvalidRequest, match="not like this"):
                await ask(fleet.router())
            assert sum(fleet.counts.values()) == 1

    run(scene)


def test_the_error_of_a_fleet_that_is_down_tells_of_all_targets() -> None:
    async def scene() -> None:
        refused = Reply.error("openai-chat", 401, "no such key")
        async with Fleet(refused, BUSY, Reply.rate_limit("openai-chat", retry_after=90)) as fleet:
            router = fleet.router(config={"retries": 0})
            with pytest.raises(RateLimited) as found:
                await ask(router)
            error = found.value
            assert error.message.startswith("no target of fast answered: ")
            for words in ("a/m: auth (401): no such key", "b/m: overloaded (503): busy", "c/m: rate-limit (429)"):
                assert words in error.message
            assert (error.status, error.retry_after, len(error.attempts)) == (429, 90, 3)

    run(scene)


def test_if_all_targets_cool_down_a_short_time_is_waited_and_a_long_one_is_an_error() -> None:
    async def scene() -> None:
        async with Fleet(LIMITED, Reply.rate_limit("openai-chat", retry_after=25)) as fleet:
            router = fleet.router(sticky=False)
            with pytest.raises(RateLimited):
                await ask(router)
            counts = fleet.counts
            with pytest.raises(RateLimited) as found:  # the library waits for ten seconds at most
                await ask(router)
            assert fleet.counts == counts  # nobody was asked
            assert found.value.code == "cool-down"
            assert found.value.retry_after == pytest.approx(20)
            assert found.value.message == (
                "all targets of fast cool down: a/m cools down for another 20.0 s: rate-limit, it asked for 20 s; "
                "b/m cools down for another 25.0 s: rate-limit, it asked for 25 s"
            )
            fleet.clock.now += 15
            fleet.ups["a"].script(GOOD)
            reply = await ask(router)
            assert reply.provider == "a"
            waited = next(one for one in reply.record.decisions if one.code == "cool-down" and one.what == "retry")
            assert waited.wait == pytest.approx(5, abs=0.2)

    run(scene)


def test_an_open_circuit_is_avoided_and_tried_again_later() -> None:
    async def scene() -> None:
        async with Fleet(BUSY, GOOD) as fleet:
            router = fleet.router(weights={"b": 0}, sticky=False, config={"breaker": {"failures": 2, "cool": 30}})
            for _ in range(5):
                assert (await ask(router)).provider == "b"
            assert fleet.counts["a"] == 2
            fleet.clock.now += 31
            fleet.ups["a"].script(GOOD)
            assert (await ask(router)).provider == "a"
            assert (await ask(router)).provider == "a"

    run(scene)


def test_a_lone_error_of_a_list_stays_as_it_was() -> None:
    """A plain list is a fallback: the last error is raised, with the earlier ones in `attempts`."""

    async def scene() -> None:
        async with Fleet(BUSY, Reply.error("openai-chat", 401, "who?")) as fleet:
            router = fleet.router("order", config={"retries": 0})
            with pytest.raises(AuthError, match="who") as found:
                await ask(router)
            assert [one.status for one in found.value.attempts] == [503]
            with pytest.raises(Overloaded):
                await router.open(Request("a/m", conversation().messages), options=quick())

    run(scene)


def test_requests_that_fail_leave_no_reference_cycles() -> None:
    """An error that its own frame refers to would keep the whole request until the collector runs."""

    async def scene() -> None:
        async with Fleet(GOOD, BUSY) as fleet:
            router = fleet.router(sticky=False, config={"retries": 0, "breaker": {"failures": 1000}})

            async def rounds() -> None:
                for reply in (GOOD, BUSY, LIMITED):
                    fleet.ups["a"].script(reply)
                    fleet.ups["b"].script(BUSY if reply is GOOD else reply)
                    for _ in range(3):
                        with suppress(ProviderError):
                            await ask(router)
                    fleet.clock.now += 100

            await rounds()
            gc.collect()
            gc.disable()
            gc.set_debug(gc.DEBUG_SAVEALL)
            try:
                await rounds()
                gc.collect()
                left = Counter(type(one).__name__ for one in gc.garbage if isinstance(one, OURS))
            finally:
                gc.set_debug(0)
                gc.garbage.clear()
                gc.enable()
            assert left == {}

    run(scene)
