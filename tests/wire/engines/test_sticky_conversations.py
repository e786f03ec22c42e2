"""An alias with several targets: the turns of a conversation stay with one of them."""

from __future__ import annotations

import pytest

from penstock._engines.deployments import MAX_CONVERSATIONS, Deployments
from penstock.request import Message, Request, Text
from tests.wire.engines.fleet import BUSY, GOOD, LIMITED, Clock, Fleet, ask, conversation, route_of
from tests.wire.engines.router_setup import run

# ── conversations ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("strategy", ["weighted", "least-busy", "fastest"])
def test_a_conversation_stays_while_others_go_elsewhere(strategy: str) -> None:
    async def scene() -> None:
        async with Fleet(GOOD, GOOD, GOOD) as fleet:
            router = fleet.router(strategy)
            homes: dict[str, set[str]] = {}
            for turn in range(5):
                for number in range(9):
                    reply = await ask(router, conversation(f"Conversation {number}", turn))
                    homes.setdefault(f"{number}", set()).add(reply.provider)
                    if turn:
                        assert route_of(reply)[0] == "sticky"
            assert all(len(found) == 1 for found in homes.values())
            assert {home for found in homes.values() for home in found} == {"a", "b", "c"}

    run(scene)


def test_marks_of_a_client_do_not_make_another_conversation() -> None:
    """Agents move their cache marks from message to message."""

    async def scene() -> None:
        async with Fleet(GOOD, GOOD, GOOD) as fleet:
            router = fleet.router()
            home = (await ask(router, conversation())).provider
            for turn in range(1, 8):
                later = conversation(turns=turn)
                later.messages[turn % 2].parts[0].cache = "ephemeral"
                later.tools[0].cache = "ephemeral" if turn % 2 else ""
                assert (await ask(router, later)).provider == home

    run(scene)


def test_conversations_that_begin_alike_are_told_apart_by_their_first_answer() -> None:
    async def scene() -> None:
        async with Fleet(GOOD, GOOD) as fleet:
            router = fleet.router("least-busy", chance=lambda: 0.5)

            def continued(answer: str) -> Request:
                request = conversation(turns=1)
                request.messages[2] = Message("assistant", [Text(answer)])
                return request

            fleet.ups["a"].script(BUSY)
            await ask(router, conversation())
            await ask(router, continued("One"))
            fleet.ups["a"].script(GOOD)
            fleet.ups["b"].script(BUSY)
            await ask(router, conversation())
            await ask(router, continued("Two"))
            fleet.ups["b"].script(GOOD)
            assert [(await ask(router, continued(answer))).provider for answer in ("One", "Two")] == ["b", "a"]

    run(scene)


def test_tenants_do_not_share_conversations() -> None:
    async def scene() -> None:
        async with Fleet(GOOD, GOOD, GOOD) as fleet:
            router = fleet.router()
            homes = {(await ask(router, conversation(), tenant=f"tenant {number}")).provider for number in range(12)}
            assert homes == {"a", "b", "c"}
            for number in range(12):
                code, _ = route_of(await ask(router, conversation(turns=1), tenant=f"other {number}"))
                assert code == "weighted"

    run(scene)


def test_a_conversation_moves_when_its_target_cools_down_and_then_stays() -> None:
    async def scene() -> None:
        async with Fleet(GOOD, GOOD) as fleet:
            router = fleet.router()
            home = (await ask(router, conversation())).provider
            other = "b" if home == "a" else "a"
            fleet.ups[home].script(LIMITED)
            assert (await ask(router, conversation(turns=1))).provider == other
            fleet.ups[home].script(GOOD)
            fleet.clock.now += 100
            reply = await ask(router, conversation(turns=2))
            assert (reply.provider, route_of(reply)[0]) == (other, "sticky")
            fleet.ups[other].script(LIMITED)
            await ask(router, conversation("Something else"))
            await ask(router, conversation("And another thing"))
            await ask(router, conversation("And a third thing"))
            reply = await ask(router, conversation(turns=3))
            assert reply.provider == home
            assert f"the conversation moves here from {other}/m, which cools down" in route_of(reply)[1]

    run(scene)


def test_conversations_are_bounded_in_number_and_time() -> None:
    clock = Clock()
    deployments = Deployments(clock, lambda: 0.5)
    for number in range(MAX_CONVERSATIONS + 10):
        deployments.remember(b"%d" % number, ("a", "m"))
    assert len(deployments._conversations) == MAX_CONVERSATIONS  # pyright: ignore[reportPrivateUsage]

    async def scene() -> None:
        async with Fleet(GOOD, GOOD, clock=clock) as fleet:
            router = fleet.router("least-busy")
            await ask(router, conversation())
            clock.now += 3601
            assert route_of(await ask(router, conversation(turns=1)))[0] == "least-busy"

    run(scene)
