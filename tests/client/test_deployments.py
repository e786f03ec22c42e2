"""An alias with several targets: how one is chosen, and what the configuration may say."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import InputError, InvalidRequest
from penstock.events import Fault
from penstock.gateway import Config
from penstock.testing import Reply, play
from tests.support.check_config import check_config
from tests.support.each_case import each
from tests.support.routed_client import (
    BUSY,
    GOOD,
    Clock,
    RoutedClient,
    ask,
    conversation,
    fleet,
    middle,
    quick,
    route_of,
    staged,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from penstock.testing import ReceivedRequest


def chi_square(counts: Mapping[str, int], weights: Mapping[str, float]) -> float:
    share = sum(counts.values()) / sum(weights.values())
    return sum((counts[name] - weight * share) ** 2 / (weight * share) for name, weight in weights.items())


CRITICAL = 13.8  # of three targets; exceeded by one random sample in a thousand
WEIGHTS = {"a": 5.0, "b": 3.0, "c": 2.0}


# ── weights ───────────────────────────────────────────────────────────────────────────────────────


@each("kind", ["equal", "not sticky", "different"])
@staged
async def test_requests_are_spread_by_weight(kind: str) -> None:
    """Equal requests, with and without stickiness, and different conversations."""
    async with fleet(GOOD, GOOD, GOOD) as ups:
        client = ups.client(weights=WEIGHTS, sticky=kind != "not sticky")
        for number in range(100):
            reply = await ask(client, conversation(f"Conversation {number}" if kind == "different" else "Equal"))
            code, why = route_of(reply)
            assert code == "weighted"
            assert why == f"fast: chosen by weight, {WEIGHTS[reply.provider]:g} of 10"
        assert sum(ups.counts.values()) == 100
        assert chi_square(ups.counts, WEIGHTS) < CRITICAL, ups.counts


@staged
async def test_the_same_seed_makes_the_same_choices() -> None:
    async with fleet(GOOD, GOOD, GOOD) as ups:
        chosen = [
            [(await ask(client)).provider for _ in range(20)]
            for client in (ups.client(seed=7), ups.client(seed=7), ups.client(seed=8))
        ]
        assert chosen[0] == chosen[1] != chosen[2]


@staged
async def test_a_target_of_weight_zero_is_the_last_resort() -> None:
    async with fleet(GOOD, GOOD) as ups:
        client = ups.client(weights={"a": 0})
        for _ in range(20):
            await ask(client)
        assert ups.counts == {"a": 0, "b": 20}
        ups.ups["b"].script(BUSY)
        assert (await ask(client)).provider == "a"


@staged
async def test_new_conversations_have_the_same_place_in_every_process() -> None:
    async with fleet(GOOD, GOOD, GOOD) as ups:
        texts = [f"Conversation {number}" for number in range(12)]
        one, other = ups.client(seed=1), ups.client(seed=2)
        places = [(await ask(one, conversation(text))).provider for text in texts]
        assert [(await ask(other, conversation(text, 1))).provider for text in texts] == places
        assert len(set(places)) == 3


# ── load ──────────────────────────────────────────────────────────────────────────────────────────


async def busy(client: RoutedClient) -> int:
    """How many requests are open, as the next choice tells. It is called off before it is sent."""
    reply = asyncio.create_task(client.open(conversation(), options=quick()))
    before = len(client.decisions)
    while len(client.decisions) == before:  # noqa: ASYNC110 — the choice is made in this task's first steps
        await asyncio.sleep(0)
    reply.cancel()
    await asyncio.gather(reply, return_exceptions=True)
    told = re.search(r"least busy with (\d+) open requests; ./m has (\d+)", client.decisions[before].why)
    assert told is not None
    return int(told[1]) + int(told[2])


@staged
async def test_the_least_busy_target_is_chosen_while_streams_are_open() -> None:
    held = GOOD.stall(after=middle(GOOD))
    async with fleet(held, held) as ups:
        client = ups.client("least-busy", sticky=False)
        replies = [await client.open(conversation(), options=quick()) for _ in range(6)]
        assert ups.counts == {"a": 3, "b": 3}
        for reply in replies:
            if reply.provider == "a":
                await reply.aclose()
        replies += [await client.open(conversation(), options=quick()) for _ in range(3)]
        assert ups.counts == {"a": 6, "b": 3}
        assert route_of(replies[-1]) == (
            "least-busy",
            "fast: least busy with 2 open requests; b/m has 3",
        )
        for reply in replies:
            await reply.aclose()
        assert await busy(client) == 0


@staged
async def test_open_requests_count_in_proportion_to_weights() -> None:
    held = GOOD.stall(after=middle(GOOD))
    async with fleet(held, held) as ups:
        client = ups.client("least-busy", weights={"a": 2, "b": 1}, sticky=False)
        replies = [await client.open(conversation(), options=quick()) for _ in range(6)]
        assert ups.counts == {"a": 4, "b": 2}
        for reply in replies:
            await reply.aclose()


@staged
async def test_every_end_of_a_request_frees_its_target() -> None:
    """The end of an answer, a fault within it, an error, a cancelled task, and an answer that nobody closes."""
    async with fleet(GOOD, GOOD) as ups:
        client = ups.client("least-busy", sticky=False)

        await ask(client)
        whole = conversation()
        whole.stream = False
        for up in ups.ups.values():
            up.script(Reply.of("openai-chat", play("text"), stream=False))
        await ask(client, whole)
        assert await busy(client) == 0
        for up in ups.ups.values():
            up.script(GOOD.disconnect(after=middle(GOOD)))
        assert isinstance((await ask(client)).end, Fault)
        for up in ups.ups.values():
            up.script(Reply.error("openai-chat", 400, "no"))
        with pytest.raises(InvalidRequest):
            await ask(client)
        assert await busy(client) == 0
        for up in ups.ups.values():
            up.script(GOOD.stall(after=0))
        task = asyncio.create_task(ask(client))
        received = [asyncio.create_task(up.wait_for_request(len(up.requests) + 1)) for up in ups.ups.values()]
        await asyncio.wait(received, return_when=asyncio.FIRST_COMPLETED)
        for waiting in received:
            waiting.cancel()
        assert await busy(client) == 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert await busy(client) == 0
        for up in ups.ups.values():
            up.script(GOOD.stall(after=middle(GOOD)))
        reply = await client.open(conversation(), options=quick())
        assert await busy(client) == 1
        await reply.aclose()
        assert await busy(client) == 0


# ── speed ─────────────────────────────────────────────────────────────────────────────────────────


def taking(clock: Clock, seconds: dict[str, float], name: str) -> Callable[[ReceivedRequest], Reply]:
    """An upstream whose first token takes so many seconds by the test's clock."""

    def answer(_: ReceivedRequest) -> Reply:
        clock.now += seconds[name]
        return GOOD

    return answer


@staged
async def test_the_fastest_target_is_chosen_and_others_are_measured_again() -> None:
    clock, seconds = Clock(), {"a": 0.5, "b": 0.2, "c": 0.9}
    async with fleet(*(taking(clock, seconds, name) for name in "abc"), clock=clock) as ups:
        client = ups.client("fastest", sticky=False, seed=5)
        first = [await ask(client) for _ in range(3)]
        assert {reply.provider for reply in first} == {"a", "b", "c"}  # each is measured once
        assert {route_of(reply)[0] for reply in first} == {"explore"}
        replies = [await ask(client) for _ in range(60)]
        codes = Counter(route_of(reply)[0] for reply in replies)
        assert 1 <= codes["explore"] <= 15
        assert all(reply.provider == "b" for reply in replies if route_of(reply)[0] == "fastest")
        assert ("fastest", "fast: fastest, first token after 0.20 s on average") in map(route_of, replies)
        seconds["b"] = 3.0  # it becomes slow: the mean follows, and another one is chosen
        later = [await ask(client) for _ in range(20)]
        assert later[-1].provider != "b"


@staged
async def test_a_measurement_is_forgotten_after_a_while() -> None:
    clock, seconds = Clock(), {"a": 0.5, "b": 0.2}
    async with fleet(*(taking(clock, seconds, name) for name in "ab"), clock=clock) as ups:
        client = ups.client("fastest", sticky=False, chance=lambda: 0.5)
        for _ in range(4):
            await ask(client)
        assert ups.counts == {"a": 1, "b": 3}
        clock.now += 301
        assert {(await ask(client)).provider for _ in range(2)} == {"a", "b"}


# ── configuration ─────────────────────────────────────────────────────────────────────────────────

PROVIDERS = {name: {"base_url": "http://127.0.0.1:9/v1"} for name in "abc"}


def table(*targets: Any, **more: Any) -> dict[str, Any]:
    return {"targets": list(targets), "strategy": "weighted", **more}


REFUSED: dict[str, dict[str, Any]] = {
    "aliases.fast: targets: expected at least one model, found none": table(),
    "aliases.fast: targets: expected weights of at least 0, found -1": table({"model": "a/m", "weight": -1}),
    "aliases.fast: targets: all weights are 0": table({"model": "a/m", "weight": 0}),
    "Invalid enum value 'random'": table("a/m", strategy="random"),
    "unknown field `stick`": table("a/m", stick=True),
}
# a word of what is told → an alias that has no effect; "": it has
TOLD: dict[str, dict[str, Any]] = {
    "": table("a/m", "b/m"),
    "aliases.fast: 'd/m' means no model": table("a/m", "d/m"),
    "aliases.fast.targets: 'a/m' is named twice": table("a/m", "a/m"),
    "aliases.fast.strategy: there is one target": table("a/m"),
    "aliases.fast.targets: weights have no": table({"model": "a/m", "weight": 2}, "b/m", strategy="fastest"),
}


def test_an_alias_that_cannot_work_is_refused_or_reported(tmp_path: Path) -> None:
    wrong: list[str] = []
    for words, alias in REFUSED.items():
        try:
            Config.read({"providers": PROVIDERS, "aliases": {"fast": alias}})
            wrong.append(f"{words}: it was taken")
        except InputError as error:
            wrong += [] if words in str(error) else [f"{words}: {error}"]
    for words, alias in TOLD.items():
        told = check_config(tmp_path, {"providers": PROVIDERS, "aliases": {"fast": alias}})
        if len(told) != bool(words) or (told and words not in told[0]):
            wrong.append(f"{words or 'nothing'}: {told}")
    assert wrong == []


def test_names_of_an_alias_are_resolved_as_in_a_list() -> None:
    client = RoutedClient(
        {
            "providers": PROVIDERS,
            "aliases": {
                "fast": table({"model": "short", "weight": 3}, "b/m"),
                "short": "a/m",
                "wide": ["fast", "c/m"],
                "any-*": table("a/*", "b/*"),
                "deep": table("wide", "c/m"),
            },
            "fallbacks": {"fast": ["c/last"]},
        }
    )
    assert client.targets("fast") == [("a m", 3, "fast"), ("b m", 1, "fast"), ("c last", 1, "")]
    assert client.targets("wide") == [("a m", 3, "fast"), ("b m", 1, "fast"), ("c last", 1, ""), ("c m", 1, "")]
    assert client.targets("any-x") == [("a x", 1, "any-*"), ("b x", 1, "any-*")]
    with pytest.raises(InputError, match=r"aliases\.deep: 'wide' leads to several models"):
        client.targets("deep")
