"""An alias with several targets: when a target is left out, and what happens when it fails."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from penstock.errors import AuthError, InvalidRequest, Overloaded, RateLimited
from penstock.events import Fault
from penstock.request import Request
from penstock.testing import Reply
from tests.support.each_case import each
from tests.support.routed_client import BUSY, GOOD, LIMITED, ask, conversation, fleet, middle, quick, run, staged

if TYPE_CHECKING:
    from penstock.testing import ReceivedRequest
    from tests.support.routed_client import Fleet

LIMITED_SECONDS, MOST_SECONDS = 5.0, 3600.0  # of a limit without a time; of any limit

# ── cool-downs ────────────────────────────────────────────────────────────────────────────────────


@each("strategy", ["order", "weighted", "least-busy", "fastest"])
@staged
async def test_a_target_rests_as_long_as_it_asks_for(strategy: str) -> None:
    async with fleet(LIMITED, GOOD) as ups:
        client = ups.client(strategy, weights={"a": 1, "b": 0} if strategy == "weighted" else None, sticky=False)
        asked = ups.ups["a"].requests
        reply = await ask(client)
        while not asked:
            reply = await ask(client)
        assert reply.provider == "b"
        assert ups.clock.now == 1000.0  # nobody waited: another target could answer
        for _ in range(5):
            reply = await ask(client)
        assert len(asked) == 1
        skipped = next(one for one in reply.record.decisions if one.what == "skip")
        assert (skipped.code, skipped.provider) == ("cool-down", "a")
        assert skipped.why == "a/m cools down for another 20.0 s: rate-limit, it asked for 20 s"
        assert client.counts["skip", "cool-down", "a"] == 5
        ups.clock.now += 20.1
        ups.ups["a"].script(GOOD)
        while len(asked) == 1:
            await ask(client)


@each("strategy", ["order", "weighted"])
@staged
async def test_an_answer_that_says_nothing_is_left_cools_its_target_until_the_reset(strategy: str) -> None:
    spent = {"x_ratelimit_remaining_requests": "0", "x_ratelimit_reset_requests": "30s"}
    async with fleet(GOOD.with_headers(**spent), GOOD) as ups:
        client = ups.client(strategy, weights={"b": 0} if strategy == "weighted" else None, sticky=False)
        await ask(client)
        for _ in range(3):
            assert (await ask(client)).provider == "b"
        ups.ups["b"].script(BUSY)  # it is only a hint: as a last resort the target is asked
        reply = await ask(client)
        assert reply.provider == "a"
        last = [one for one in reply.record.decisions if one.what == "route"][-1]
        assert last.code == "cooling"
        assert "nothing was left of its rate limit" in last.why
        ups.ups["b"].script(GOOD)
        ups.clock.now += 31
        assert (await ask(client)).provider == "a"


@staged
async def test_a_limit_without_a_time_is_a_short_rest_and_a_long_one_is_bounded() -> None:
    async with fleet(Reply.rate_limit("openai-chat", retry_after=None), GOOD) as ups:
        client = ups.client(weights={"b": 0}, sticky=False)
        await ask(client)
        await ask(client)
        assert ups.counts["a"] == 1
        ups.clock.now += LIMITED_SECONDS + 0.1
        ups.ups["a"].script(Reply.rate_limit("openai-chat", retry_after=86_400))
        await ask(client)
        ups.ups["a"].script(GOOD)
        ups.clock.now += MOST_SECONDS - 1
        assert (await ask(client)).provider == "b"
        ups.clock.now += 2
        assert (await ask(client)).provider == "a"


@staged
async def test_a_callers_own_key_cools_down_alone() -> None:
    def by_key(request: ReceivedRequest) -> Reply:
        return LIMITED if "limited" in request.headers["authorization"] else GOOD

    async with fleet(by_key, GOOD) as ups:
        client = ups.client(weights={"b": 0}, sticky=False)
        assert (await ask(client, key="limited-caller")).provider == "b"
        assert (await ask(client, key="another-caller")).provider == "a"
        assert (await ask(client, key="limited-caller")).provider == "b"
        assert ups.counts["a"] == 2


def stamp(seconds: float) -> str:
    return datetime.fromtimestamp(time.time() + seconds, UTC).isoformat()


def exhausted_limits() -> dict[str, tuple[dict[str, str], float | None, float | None]]:
    """Headers; the seconds of rest after an answer; and after a 429. None: no rest, and the short one.

    Times are told from now.
    """
    now = time.time()
    return {
        "Chat": ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, 360, 360),
        "Chat, something left": ({"x-ratelimit-remaining-tokens": "9", "x-ratelimit-reset-tokens": "1s"}, None, None),
        "Groq": ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "7.66s"}, 7.66, 7.66),
        "Messages": (
            {"x-ratelimit-input-tokens-remaining": "0", "x-ratelimit-input-tokens-reset": stamp(600)}, 600, 600,
        ),
        "Messages, subscription": (
            {"x-ratelimit-unified-status": "rejected", "x-ratelimit-unified-reset": f"{now + 300:.0f}"}, 300, 300,
        ),
        "Messages, allowed": (
            {"x-ratelimit-unified-status": "allowed", "x-ratelimit-unified-reset": f"{now + 300:.0f}"}, None, None,
        ),
        "Azure, unknown": ({"x-ratelimit-remaining-tokens": "-1", "x-ratelimit-reset-tokens": "0"}, None, None),
        "Azure, reset alone": ({"x-rate-limit-reset-tokens": "55", "x-ratelimit-remaining-requests": "9"}, None, 55),
        "Cerebras": (
            {"x-ratelimit-remaining-tokens-minute": "0", "x-ratelimit-reset-tokens-minute": "12.5"}, 12.5, 12.5,
        ),
        "OpenRouter": ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{(now + 500) * 1000:.0f}"}, 500, 500),
        "the draft standard": ({"ratelimit-remaining": "0", "ratelimit-reset": "53"}, 53, 53),
        "the longest": (
            {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1s",
             "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "9s"}, 9, 9,
        ),
        "in the past": ({"ratelimit-remaining": "0", "ratelimit-reset": "1767225000"}, None, None),
        "nonsense": ({"ratelimit-remaining": "0", "ratelimit-reset": "soon"}, None, None),
        "no reset": ({"ratelimit-remaining": "0"}, None, None),
    }  # fmt: skip


def is_near(seconds: float | None, expected: float | None) -> bool:
    return (
        seconds == expected if seconds is None or expected is None else abs(seconds - expected) < 0.06 + expected / 10
    )


def test_when_an_exhausted_limit_resets() -> None:
    """The second request says how long the first target still rests. Those with a date lose what this run takes."""
    found: dict[str, list[float | None]] = {}
    limits = exhausted_limits()

    async def rest(ups: Fleet, reply: Reply) -> float | None:
        client = ups.client("order", sticky=False, config={"retries": 0})
        ups.ups["a"].script(reply)
        ups.ups["b"].script(GOOD)
        await ask(client)
        ups.script(GOOD, "a")
        ups.script(BUSY, "b")  # a target whose rest is only a guess is asked last
        with suppress(Overloaded):
            await ask(client)
        told = [re.search(r"a/m cools down for another ([0-9.]+) s", one.why) for one in client.decisions]
        return next((float(one[1]) for one in told if one), None)

    async def scene() -> None:
        async with fleet(GOOD, GOOD) as ups:
            for case, (headers, _, _) in limits.items():
                refused = Reply.error("openai-chat", 429, "slow down")
                found[case] = [await rest(ups, reply.with_headers(**headers)) for reply in (GOOD, refused)]

    run(scene)
    expected: dict[str, list[float | None]] = {
        case: [answered, refused or LIMITED_SECONDS] for case, (_, answered, refused) in limits.items()
    }
    wrong = {
        case: row
        for case, row in found.items()
        if not all(is_near(one, wanted) for one, wanted in zip(row, expected[case], strict=True))
    }
    assert wrong == {}


# ── failures ──────────────────────────────────────────────────────────────────────────────────────


@staged
async def test_the_others_are_asked_at_once_and_only_the_last_is_asked_again() -> None:
    async with fleet(BUSY, BUSY, BUSY) as ups:
        client = ups.client(weights={"a": 3, "b": 2, "c": 1}, sticky=False)
        ups.ups["c"].script(BUSY, GOOD)
        ups.ups["a"].script(BUSY, GOOD)
        ups.ups["b"].script(BUSY, GOOD)
        reply = await ask(client)
        assert sorted(ups.counts.values()) == [1, 1, 2]
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


@staged
async def test_nothing_changes_after_the_first_content() -> None:
    cut = GOOD.disconnect(after=middle(GOOD))
    async with fleet(cut, cut) as ups:
        client = ups.client()
        reply = await ask(client)
        assert isinstance(reply.end, Fault)
        assert sum(ups.counts.values()) == 1


@staged
async def test_a_request_that_is_wrong_is_not_sent_to_the_others() -> None:
    wrong = Reply.error("openai-chat", 400, "not like this")
    async with fleet(wrong, wrong) as ups:
        with pytest.raises(InvalidRequest, match="not like this"):
            await ask(ups.client())
        assert sum(ups.counts.values()) == 1


@staged
async def test_the_error_of_a_fleet_that_is_down_tells_of_all_targets() -> None:
    refused = Reply.error("openai-chat", 401, "no such key")
    async with fleet(refused, BUSY, Reply.rate_limit("openai-chat", retry_after=90)) as ups:
        client = ups.client(config={"retries": 0})
        with pytest.raises(RateLimited) as found:
            await ask(client)
        error = found.value
        assert error.message.startswith("no target of fast answered: ")
        for words in ("a/m: auth (401): no such key", "b/m: overloaded (503): busy", "c/m: rate-limit (429)"):
            assert words in error.message
        assert (error.status, error.retry_after, len(error.attempts)) == (429, 90, 3)


@staged
async def test_if_all_targets_cool_down_a_short_time_is_waited_and_a_long_one_is_an_error() -> None:
    async with fleet(LIMITED, Reply.rate_limit("openai-chat", retry_after=25)) as ups:
        client = ups.client(sticky=False)
        with pytest.raises(RateLimited):
            await ask(client)
        counts = ups.counts
        with pytest.raises(RateLimited) as found:  # the library waits for ten seconds at most
            await ask(client)
        assert ups.counts == counts  # nobody was asked
        assert found.value.code == "cool-down"
        assert found.value.retry_after == pytest.approx(20)
        assert found.value.message == (
            "all targets of fast cool down: a/m cools down for another 20.0 s: rate-limit, it asked for 20 s; "
            "b/m cools down for another 25.0 s: rate-limit, it asked for 25 s"
        )
        ups.clock.now += 15
        ups.ups["a"].script(GOOD)
        reply = await ask(client)
        assert reply.provider == "a"
        waited = next(one for one in reply.record.decisions if one.code == "cool-down" and one.what == "retry")
        assert waited.wait == pytest.approx(5, abs=0.2)


@staged
async def test_an_open_circuit_is_avoided_and_tried_again_later() -> None:
    async with fleet(BUSY, GOOD) as ups:
        client = ups.client(weights={"b": 0}, sticky=False, config={"breaker": {"failures": 2, "cool": 30}})
        for _ in range(5):
            assert (await ask(client)).provider == "b"
        assert ups.counts["a"] == 2
        ups.clock.now += 31
        ups.ups["a"].script(GOOD)
        assert (await ask(client)).provider == "a"
        assert (await ask(client)).provider == "a"


@staged
async def test_a_lone_error_of_a_list_stays_as_it_was() -> None:
    """A plain list is a fallback: the last error is raised, with the earlier ones in `attempts`."""
    async with fleet(BUSY, Reply.error("openai-chat", 401, "who?")) as ups:
        client = ups.client("order", config={"retries": 0})
        with pytest.raises(AuthError, match="who") as found:
            await ask(client)
        assert [one.status for one in found.value.attempts] == [503]
        with pytest.raises(Overloaded):
            await client.open(Request("a/m", conversation().messages), options=quick())
