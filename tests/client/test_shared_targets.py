"""Cool-downs and open circuits of one process, as others take them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import Overloaded
from penstock.testing import Upstream
from tests.support.routed_client import BUSY, GOOD, LIMITED, Clock, ask, asking, fleet, routed, run, staged
from tests.support.target_notices import Neighbours, Notice

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.testing import Reply
    from tests.support.routed_client import RoutedClient


@staged
async def test_a_target_that_asked_one_process_to_wait_is_not_asked_by_another() -> None:
    async with fleet(LIMITED, GOOD) as ups:
        one, other = (ups.client(weights={"b": 0}, sticky=False) for _ in range(2))
        both = Neighbours(one, other, clock=ups.clock)
        await ask(one)
        both.exchange()
        reply = await ask(other)
        assert (reply.provider, ups.counts["a"]) == ("b", 1)
        skipped = next(row for row in reply.record.decisions if row.what == "skip")
        why = "a/m cools down for another 20.0 s: rate-limit, it asked for 20 s (another process was told)"
        assert (skipped.code, skipped.why) == ("cool-down", why)
        ups.clock.now += 20.1
        ups.script(GOOD, "a")
        assert (await ask(other)).provider == "a"


class Pair:
    """Two clients of one provider, whose circuits open after two failures: for 1 s, then 2, 4 … at most 30."""

    def __init__(self, up: Upstream) -> None:
        self.up, self.clock = up, Clock()
        breaker = {"failures": 2, "cool": 30, "first": 1}
        how = {"clock": self.clock, "sleep": self.clock.sleep}
        self.one, self.other = (routed(up, retries=0, breaker=breaker, how=how) for _ in range(2))
        self.both = Neighbours(self.one, self.other, clock=self.clock)

    async def ask(self, client: RoutedClient, reply: Reply, times: int = 1, key: str = "") -> float:
        """Asks. Returns for how long the circuit is open; 0 if the upstream was asked."""
        self.up.script(reply)
        left = 0.0
        for _ in range(times):
            try:
                await ask(client, asking(), **({"key": key} if key else {}))
            except Overloaded as error:
                left = (error.retry_after or 0.0) if error.code == "circuit-open" else 0.0
        return left


def play_pair(steps: Callable[[Pair], Awaitable[None]]) -> None:
    async def scene() -> None:
        async with Upstream(GOOD) as up:
            await steps(Pair(up))

    run(scene)


def test_an_open_circuit_is_open_everywhere_until_it_closes() -> None:
    async def steps(pair: Pair) -> None:
        await pair.ask(pair.one, BUSY, 2)
        pair.clock.now += 0.25
        pair.both.exchange()
        assert await pair.ask(pair.other, GOOD) == 0.75
        pair.clock.now += 0.75
        assert await pair.ask(pair.one, BUSY) == 0.0, "one request is let through"
        pair.both.exchange()
        assert await pair.ask(pair.other, GOOD) == 2.0
        pair.clock.now += 2
        assert await pair.ask(pair.one, GOOD) == 0.0
        pair.both.exchange()
        assert await pair.ask(pair.other, GOOD, 2) == 0.0

    play_pair(steps)


def test_a_process_that_alone_cannot_reach_a_provider_does_not_stop_the_others() -> None:
    async def steps(pair: Pair) -> None:
        await pair.ask(pair.one, BUSY, 2)
        pair.both.exchange()
        pair.clock.now += 1
        assert await pair.ask(pair.other, GOOD) == 0.0
        for _ in range(3):  # one goes on failing: it is the same streak
            pair.clock.now += 30
            assert await pair.ask(pair.one, BUSY) == 0.0
            pair.both.exchange()
            assert await pair.ask(pair.other, GOOD) == 0.0
        pair.clock.now += 30
        assert await pair.ask(pair.one, GOOD) == 0.0
        pair.both.exchange()
        await pair.ask(pair.one, BUSY, 2)
        pair.both.exchange()
        assert await pair.ask(pair.other, GOOD) == 1.0, "a new streak counts"

    play_pair(steps)


def test_failures_of_a_process_itself_stay_when_others_recover() -> None:
    async def steps(pair: Pair) -> None:
        for client in (pair.one, pair.other):
            await pair.ask(client, BUSY, 2)
        pair.both.exchange()
        pair.clock.now += 1
        assert await pair.ask(pair.one, GOOD) == 0.0
        pair.both.exchange()
        assert await pair.ask(pair.one, GOOD) == 0.0
        assert await pair.ask(pair.other, BUSY) == 0.0, "one request is let through"
        assert await pair.ask(pair.other, GOOD) > 0.0

    play_pair(steps)


def test_a_silent_process_leaves_one_request_at_a_time() -> None:
    async def steps(pair: Pair) -> None:
        await pair.ask(pair.one, BUSY, 2)
        pair.both.exchange()
        pair.clock.now += 30 + 60 + 1
        pair.both.exchange()
        assert await pair.ask(pair.other, GOOD) == 0.0

    play_pair(steps)


def test_circuits_of_callers_own_keys_are_not_told() -> None:
    async def steps(pair: Pair) -> None:
        await pair.ask(pair.one, BUSY, 2, key="sk-caller")
        assert await pair.ask(pair.one, BUSY, key="sk-caller") > 0.0
        assert pair.both.boards[0].rows == {}

    play_pair(steps)


@staged
async def test_what_cannot_be_read_is_ignored_and_times_are_bounded() -> None:
    async with fleet(GOOD, GOOD) as ups:
        client = ups.client("order", sticky=False)
        notice = '{"kind":"cool-down","provider":"a","model":"m","seconds":1e12,"why":"","stated":true,"later":[1]}'
        texts = ("", "{", "[]", '{"kind":"other"}', "\ufffd", notice)
        Neighbours(client, clock=ups.clock).tell_first(*(Notice("x", text, 1e12) for text in texts))
        ups.clock.now += 3599
        assert (await ask(client)).provider == "b"
        ups.clock.now += 2
        assert (await ask(client)).provider == "a"
