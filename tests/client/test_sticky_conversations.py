"""An alias with several targets: the turns of a conversation stay with one of them."""

from __future__ import annotations

from penstock.request import Message, Request, Text
from tests.support.each_case import each
from tests.support.routed_client import BUSY, GOOD, LIMITED, ask, conversation, fleet, route_of, staged

# ── conversations ─────────────────────────────────────────────────────────────────────────────────


@each("strategy", ["weighted", "least-busy", "fastest"])
@staged
async def test_a_conversation_stays_while_others_go_elsewhere(strategy: str) -> None:
    async with fleet(GOOD, GOOD, GOOD) as ups:
        client = ups.client(strategy)
        homes: dict[str, set[str]] = {}
        for turn in range(5):
            for number in range(9):
                reply = await ask(client, conversation(f"Conversation {number}", turn))
                homes.setdefault(f"{number}", set()).add(reply.provider)
                if turn:
                    assert route_of(reply)[0] == "sticky"
        assert all(len(found) == 1 for found in homes.values())
        assert {home for found in homes.values() for home in found} == {"a", "b", "c"}


@staged
async def test_marks_of_a_client_do_not_make_another_conversation() -> None:
    """Agents move their cache marks from message to message."""
    async with fleet(GOOD, GOOD, GOOD) as ups:
        client = ups.client()
        home = (await ask(client, conversation())).provider
        for turn in range(1, 8):
            later = conversation(turns=turn)
            later.messages[turn % 2].parts[0].cache = "ephemeral"
            later.tools[0].cache = "ephemeral" if turn % 2 else ""
            assert (await ask(client, later)).provider == home


@staged
async def test_conversations_that_begin_alike_are_told_apart_by_their_first_answer() -> None:
    async with fleet(GOOD, GOOD) as ups:
        client = ups.client("least-busy", chance=lambda: 0.5)

        def continued(answer: str) -> Request:
            request = conversation(turns=1)
            request.messages[2] = Message("assistant", [Text(answer)])
            return request

        ups.ups["a"].script(BUSY)
        await ask(client, conversation())
        await ask(client, continued("One"))
        ups.ups["a"].script(GOOD)
        ups.ups["b"].script(BUSY)
        await ask(client, conversation())
        await ask(client, continued("Two"))
        ups.ups["b"].script(GOOD)
        assert [(await ask(client, continued(answer))).provider for answer in ("One", "Two")] == ["b", "a"]


@staged
async def test_tenants_do_not_share_conversations() -> None:
    async with fleet(GOOD, GOOD, GOOD) as ups:
        client = ups.client()
        homes = {(await ask(client, conversation(), tenant=f"tenant {number}")).provider for number in range(12)}
        assert homes == {"a", "b", "c"}
        for number in range(12):
            code, _ = route_of(await ask(client, conversation(turns=1), tenant=f"other {number}"))
            assert code == "weighted"


@staged
async def test_a_conversation_moves_when_its_target_cools_down_and_then_stays() -> None:
    async with fleet(GOOD, GOOD) as ups:
        client = ups.client()
        home = (await ask(client, conversation())).provider
        other = "b" if home == "a" else "a"
        ups.ups[home].script(LIMITED)
        assert (await ask(client, conversation(turns=1))).provider == other
        ups.ups[home].script(GOOD)
        ups.clock.now += 100
        reply = await ask(client, conversation(turns=2))
        assert (reply.provider, route_of(reply)[0]) == (other, "sticky")
        ups.ups[other].script(LIMITED)
        await ask(client, conversation("Something else"))
        await ask(client, conversation("And another thing"))
        await ask(client, conversation("And a third thing"))
        reply = await ask(client, conversation(turns=3))
        assert reply.provider == home
        assert f"the conversation moves here from {other}/m, which cools down" in route_of(reply)[1]


@staged
async def test_a_conversation_is_forgotten_an_hour_after_its_last_turn() -> None:
    async with fleet(GOOD, GOOD) as ups:
        client = ups.client("least-busy")
        await ask(client, conversation())
        ups.clock.now += 3599
        assert route_of(await ask(client, conversation(turns=1)))[0] == "sticky"
        ups.clock.now += 3601
        assert route_of(await ask(client, conversation(turns=2)))[0] == "least-busy"
