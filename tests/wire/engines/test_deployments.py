"""An alias with several targets: how one is chosen, and what the configuration may say."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any, cast

import pytest

from penstock._engines.config_problems import find_problems
from penstock._engines.model_resolution import resolve_targets
from penstock.errors import InputError, InvalidRequest
from penstock.events import Fault
from penstock.gateway import Config
from penstock.testing import Reply, play
from tests.wire.engines.fleet import BUSY, GOOD, Clock, Fleet, ask, conversation, route_of
from tests.wire.engines.router_setup import middle, quick, run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.testing import ReceivedRequest


def chi_square(counts: Mapping[str, int], weights: Mapping[str, float]) -> float:
    share = sum(counts.values()) / sum(weights.values())
    return sum((counts[name] - weight * share) ** 2 / (weight * share) for name, weight in weights.items())


CRITICAL = 13.8  # of three targets; exceeded by one random sample in a thousand
WEIGHTS = {"a": 5.0, "b": 3.0, "c": 2.0}


# ── weights ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["equal", "not sticky", "different"])
def test_requests_are_spread_by_weight(kind: str) -> None:
    """Equal requests, with and without stickiness, and different conversations."""

    async def scene() -> None:
        async with Fleet(GOOD, GOOD, GOOD) as fleet:
            router = fleet.router(weights=WEIGHTS, sticky=kind != "not sticky")
            for number in range(200):
                reply = await ask(router, conversation(f"Conversation {number}" if kind == "different" else "Equal"))
                code, why = route_of(reply)
                assert code == "weighted"
                assert why == f"fast: chosen by weight, {WEIGHTS[reply.provider]:g} of 10"
            assert sum(fleet.counts.values()) == 200
            assert chi_square(fleet.counts, WEIGHTS) < CRITICAL, fleet.counts

    run(scene)


def test_the_same_seed_makes_the_same_choices() -> None:
    async def scene() -> None:
        async with Fleet(GOOD, GOOD, GOOD) as fleet:
            chosen = [
                [(await ask(router)).provider for _ in range(20)]
                for router in (fleet.router(seed=7), fleet.router(seed=7), fleet.router(seed=8))
            ]
            assert chosen[0] == chosen[1] != chosen[2]

    run(scene)


def test_a_target_of_weight_zero_is_the_last_resort() -> None:
    async def scene() -> None:
        async with Fleet(GOOD, GOOD) as fleet:
            router = fleet.router(weights={"a": 0})
            for _ in range(20):
                await ask(router)
            assert fleet.counts == {"a": 0, "b": 20}
            fleet.ups["b"].script(BUSY)
            assert (await ask(router)).provider == "a"

    run(scene)


def test_new_conversations_have_the_same_place_in_every_process() -> None:
    async def scene() -> None:
        async with Fleet(GOOD, GOOD, GOOD) as fleet:
            texts = [f"Conversation {number}" for number in range(12)]
            one, other = fleet.router(seed=1), fleet.router(seed=2)
            places = [(await ask(one, conversation(text))).provider for text in texts]
            assert [(await ask(other, conversation(text, 1))).provider for text in texts] == places
            assert len(set(places)) == 3

    run(scene)


# ── load ──────────────────────────────────────────────────────────────────────────────────────────


def test_the_least_busy_target_is_chosen_while_streams_are_open() -> None:
    async def scene() -> None:
        held = GOOD.stall(after=middle(GOOD))
        async with Fleet(held, held) as fleet:
            router = fleet.router("least-busy", sticky=False)
            replies = [await router.open(conversation(), options=quick()) for _ in range(6)]
            assert fleet.counts == {"a": 3, "b": 3}
            for reply in replies:
                if reply.provider == "a":
                    await reply.aclose()
            replies += [await router.open(conversation(), options=quick()) for _ in range(3)]
            assert fleet.counts == {"a": 6, "b": 3}
            assert route_of(replies[-1]) == (
                "least-busy",
                "fast: least busy with 2 open requests; b/m has 3",
            )
            for reply in replies:
                await reply.aclose()
            assert [router.deployments.open_requests(name, "m") for name in "ab"] == [0, 0]

    run(scene)


def test_open_requests_count_in_proportion_to_weights() -> None:
    async def scene() -> None:
        held = GOOD.stall(after=middle(GOOD))
        async with Fleet(held, held) as fleet:
            router = fleet.router("least-busy", weights={"a": 2, "b": 1}, sticky=False)
            replies = [await router.open(conversation(), options=quick()) for _ in range(6)]
            assert fleet.counts == {"a": 4, "b": 2}
            for reply in replies:
                await reply.aclose()

    run(scene)


def test_every_end_of_a_request_frees_its_target() -> None:
    """The end of an answer, a fault within it, an error, a cancelled task, and an answer that nobody closes."""

    async def scene() -> None:
        async with Fleet(GOOD, GOOD) as fleet:
            router = fleet.router("least-busy", sticky=False)

            def busy() -> int:
                return sum(router.deployments.open_requests(name, "m") for name in "ab")

            await ask(router)
            whole = conversation()
            whole.stream = False
            for up in fleet.ups.values():
                up.script(Reply.of("openai-chat", play("text"), stream=False))
            await ask(router, whole)
            assert busy() == 0
            for up in fleet.ups.values():
                up.script(GOOD.disconnect(after=middle(GOOD)))
            assert isinstance((await ask(router)).end, Fault)
            for up in fleet.ups.values():
                up.script(Reply.error("openai-chat", 400, "no"))
            with pytest.raises(InvalidRequest):
                await ask(router)
            assert busy() == 0
            for up in fleet.ups.values():
                up.script(GOOD.stall(after=0))
            task = asyncio.create_task(ask(router))
            received = [asyncio.create_task(up.wait_for_request(len(up.requests) + 1)) for up in fleet.ups.values()]
            await asyncio.wait(received, return_when=asyncio.FIRST_COMPLETED)
            for waiting in received:
                waiting.cancel()
            assert busy() == 1
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert busy() == 0
            for up in fleet.ups.values():
                up.script(GOOD.stall(after=middle(GOOD)))
            reply = await router.open(conversation(), options=quick())
            assert busy() == 1
            await reply.aclose()
            assert busy() == 0

    run(scene)


# ── speed ─────────────────────────────────────────────────────────────────────────────────────────


def taking(clock: Clock, seconds: dict[str, float], name: str) -> Callable[[ReceivedRequest], Reply]:
    """An upstream whose first token takes so many seconds by the test's clock."""

    def answer(_: ReceivedRequest) -> Reply:
        clock.now += seconds[name]
        return GOOD

    return answer


def test_the_fastest_target_is_chosen_and_others_are_measured_again() -> None:
    async def scene() -> None:
        clock, seconds = Clock(), {"a": 0.5, "b": 0.2, "c": 0.9}
        async with Fleet(*(taking(clock, seconds, name) for name in "abc"), clock=clock) as fleet:
            router = fleet.router("fastest", sticky=False, seed=5)
            first = [await ask(router) for _ in range(3)]
            assert {reply.provider for reply in first} == {"a", "b", "c"}  # each is measured once
            assert {route_of(reply)[0] for reply in first} == {"explore"}
            replies = [await ask(router) for _ in range(60)]
            codes = Counter(route_of(reply)[0] for reply in replies)
            assert 1 <= codes["explore"] <= 15
            assert all(reply.provider == "b" for reply in replies if route_of(reply)[0] == "fastest")
            assert ("fastest", "fast: fastest, first token after 0.20 s on average") in map(route_of, replies)
            seconds["b"] = 3.0  # it becomes slow: the mean follows, and another one is chosen
            later = [await ask(router) for _ in range(20)]
            assert later[-1].provider != "b"

    run(scene)


def test_a_measurement_is_forgotten_after_a_while() -> None:
    async def scene() -> None:
        clock, seconds = Clock(), {"a": 0.5, "b": 0.2}
        async with Fleet(*(taking(clock, seconds, name) for name in "ab"), clock=clock) as fleet:
            router = fleet.router("fastest", sticky=False, chance=lambda: 0.5)
            for _ in range(4):
                await ask(router)
            assert fleet.counts == {"a": 1, "b": 3}
            clock.now += 301
            assert {(await ask(router)).provider for _ in range(2)} == {"a", "b"}

    run(scene)


# ── configuration ─────────────────────────────────────────────────────────────────────────────────

PROVIDERS = {name: {"base_url": "http://127.0.0.1:9/v1"} for name in "abc"}


def table(*targets: Any, **more: Any) -> dict[str, Any]:
    return {"targets": list(targets), "strategy": "weighted", **more}


@pytest.mark.parametrize(
    ("alias", "words"),
    [
        (table(), "aliases.fast: targets: expected at least one model, found none"),
        (table({"model": "a/m", "weight": -1}), "aliases.fast: targets: expected weights of at least 0, found -1"),
        (table({"model": "a/m", "weight": 0}), "aliases.fast: targets: all weights are 0"),
        (table("a/m", strategy="random"), "Invalid enum value 'random'"),
        (table("a/m", stick=True), "unknown field `stick`"),
    ],
)
def test_an_alias_that_cannot_work_is_refused(alias: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words.replace("(", r"\(")):
        Config.read({"providers": PROVIDERS, "aliases": {"fast": alias}})


@pytest.mark.parametrize(
    ("alias", "words"),
    [
        (table("a/m", "b/m"), ""),
        (table("a/m", "d/m"), "aliases.fast: 'd/m' means no model"),
        (table("a/m", "a/m"), "aliases.fast.targets: 'a/m' is named twice"),
        (table("a/m"), "aliases.fast.strategy: there is one target"),
        (table({"model": "a/m", "weight": 2}, "b/m", strategy="fastest"), "aliases.fast.targets: weights have no"),
    ],
)
def test_an_alias_with_settings_that_have_no_effect_is_reported(alias: dict[str, Any], words: str) -> None:
    config = Config.read({"providers": PROVIDERS, "aliases": {"fast": alias}})
    found = [f"{'.'.join(one.keys)}: {one.message}" for one in find_problems(config, {})]
    assert len(found) == bool(words), found
    assert not found or found[0].startswith(words)


def test_names_of_an_alias_are_resolved_as_in_a_list() -> None:
    config = Config.read(
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

    def names(model: str) -> list[tuple[str, float, str]]:
        found = resolve_targets(model, config, {})
        return [(f"{one.provider.name}/{one.model}", one.weight, one.pool.name if one.pool else "") for one in found]

    assert names("fast") == [("a/m", 3, "fast"), ("b/m", 1, "fast"), ("c/last", 1, "")]
    assert names("wide") == [("a/m", 3, "fast"), ("b/m", 1, "fast"), ("c/last", 1, ""), ("c/m", 1, "")]
    assert names("any-x") == [("a/x", 1, "any-*"), ("b/x", 1, "any-*")]
    with pytest.raises(InputError, match=r"aliases\.deep: 'wide' leads to several models"):
        names("deep")


def test_one_target_has_no_part_in_it() -> None:
    """A plain model, and an alias with one target, cost nothing more."""

    async def scene() -> None:
        async with Fleet(GOOD) as fleet:
            router = fleet.router("order")
            router.deployments = cast("Any", None)  # whoever touched it would fail
            for model in ("fast", "a/m"):
                request = conversation()
                request.model = model
                await ask(router, request)

    run(scene)
