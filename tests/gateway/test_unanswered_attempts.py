"""Attempts without an answer: a provider may have answered them, and charge for it, so they count for budgets."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock import events as ev
from penstock.testing import ReceivedRequest, Reply
from tests.support.budget_requests import ask, auth, chat, key, turn_events
from tests.support.each_case import each
from tests.support.gateway import gateway, spoken_protocol
from tests.support.limit_store import reserved, used
from tests.support.openresponses import until

if TYPE_CHECKING:
    from collections.abc import Generator

    from tests.support.gateway import Running

CHEAP, DEAR, ABSENT = "openai-chat/text", "anthropic/text", "absent/text"
BOTH = [DEAR, CHEAP]
USAGE = ev.Usage(input=1000, output=100)
COST = 2000  # micro-dollars of USAGE at the cheap target
DEAR_FACTOR = 5
PRICES = {
    "models": {
        CHEAP: {"input": 1, "output": 10},
        DEAR: {"input": 5, "output": 50},
        ABSENT: {"input": 1, "output": 10},
    }
}
OUTPUT = 400  # tokens: the output limit of requests
QUICK = {"timeouts": {"first_byte": 0.3, "between_bytes": 0.3, "connect": 5.0, "retry_wait": 5.0}}
LIMITS = {"day_tokens": 10**6, "day_cost": 100}


@contextmanager
def running(script: Any, targets: list[str], *, retries: int = 0, limits: Any = LIMITS) -> Generator[Any]:
    absent = {"base_url": "http://127.0.0.1:9", "key": "sk-0", "like": "openai"}
    with gateway(
        script, keys=key("a", limits=limits), prices=PRICES, options=QUICK, aliases={"both": targets}, retries=retries,
        providers={"absent": absent},
    ) as found:  # fmt: skip
        yield found


def body(*, stream: bool = False) -> dict[str, Any]:
    return chat(model="both", max_tokens=OUTPUT, stream=stream)


def reply(seen: ReceivedRequest) -> Reply:
    protocol, _, rest = seen.path.lstrip("/").partition("/")
    return Reply.of(spoken_protocol(protocol, rest), turn_events(USAGE), stream=seen.json.get("stream") is True)


class Script:
    """What the upstream does with each request in turn: answer, stall, cut the connection, or refuse."""

    def __init__(self, *steps: str) -> None:
        self.steps = list(steps)
        self.reserved: list[int] = []
        self.gateway: Running | None = None

    async def __call__(self, seen: ReceivedRequest) -> Reply:
        if self.gateway is not None:
            self.reserved.append(reserved(self.gateway, "cost"))
        step = self.steps.pop(0)
        if step == "refuse":
            return Reply.error("openai-chat", 400, "no")
        if step == "busy":
            return Reply.error("openai-chat", 503, "busy")
        answer = reply(seen)
        return {"stall": answer.stall, "cut": answer.disconnect, "garbage": lambda: Reply((b"{]",))}.get(
            step, lambda: answer
        )()


@each("stream", [False, True])
@each("broken", ["stall", "cut", "garbage"])
def test_an_attempt_without_an_answer_is_charged_although_the_next_one_is_refused(broken: str, stream: bool) -> None:
    with running(Script(broken, "refuse"), BOTH) as (made, up):
        assert ask(made.url, "a", body(stream=stream)).status_code == 400
        assert len(up.requests) == 2
        tokens = used(made, "tokens")
        assert OUTPUT * (not stream) < tokens <= OUTPUT + 100  # one attempt, not two
        assert used(made, "cost") >= tokens * DEAR_FACTOR


def test_refusals_and_servers_that_cannot_be_reached_cost_nothing() -> None:
    with running(Script("busy"), [ABSENT, CHEAP]) as (made, _):
        assert ask(made.url, "a", body()).status_code >= 500
        assert used(made, "tokens") == used(made, "cost") == 0


@each("targets", [BOTH, [CHEAP]])
def test_an_answer_after_an_attempt_without_one_is_charged_besides(targets: list[str]) -> None:
    """Another target, or the same one again."""
    with running(Script("stall", "answer"), targets, retries=1 if len(targets) == 1 else 0) as (made, _):
        assert ask(made.url, "a", body()).status_code == 200
        assert OUTPUT + 1100 < used(made, "tokens") <= OUTPUT + 1100 + 100
        assert used(made, "cost") >= COST + OUTPUT * 10


def test_each_attempt_is_reserved_before_it_is_sent() -> None:
    script = Script("stall", "stall", "answer")
    with running(script, [CHEAP], retries=2) as (made, _):
        script.gateway = made
        assert ask(made.url, "a", body()).status_code == 200
        first, second, third = script.reserved
        assert (second, third) == (2 * first, 3 * first)


def test_no_attempt_is_sent_that_the_budget_does_not_cover() -> None:
    script = Script("stall", "answer")
    with running(script, [CHEAP], retries=1, limits={"day_tokens": OUTPUT + 200}) as (made, up):
        refused = ask(made.url, "a", body())
        assert (refused.status_code, len(up.requests)) == (429, 1)
        assert "day" in refused.json()["error"]["message"]
        assert OUTPUT < used(made, "tokens") <= OUTPUT + 200


def test_the_most_expensive_target_is_reserved_and_the_one_that_answers_is_charged() -> None:
    script = Script("busy", "answer")
    with running(script, BOTH) as (made, _):
        script.gateway = made
        assert ask(made.url, "a", body()).status_code == 200
        assert min(script.reserved) >= OUTPUT * 10 * DEAR_FACTOR
        assert used(made, "cost") == COST


@each("stream", [False, True])
def test_a_client_that_leaves_before_the_answer_is_charged(stream: bool) -> None:
    """Of a stream, at most what can be generated in the time that it took."""
    arrived = threading.Event()

    def stall(seen: ReceivedRequest) -> Reply:
        arrived.set()
        return reply(seen).stall()

    with running(stall, [CHEAP]) as (made, up):
        with (
            httpx.Client(timeout=httpx.Timeout(30, read=0.05), trust_env=False) as http,
            pytest.raises(httpx.ReadTimeout),
        ):
            http.post(f"{made.url}/v1/chat/completions", json=body(stream=stream), headers=auth("a"))
        assert arrived.wait(30)
        until(up.requests[0].disconnected.is_set)
        tokens = used(made, "tokens")
        assert 0 < tokens <= OUTPUT + 100
        assert stream or tokens > OUTPUT


def test_a_body_that_breaks_off_counts_as_reserved() -> None:
    def cut(seen: ReceivedRequest) -> Reply:
        return reply(seen).disconnect(0.9)

    with running(cut, [CHEAP]) as (made, _):
        assert ask(made.url, "a", body()).status_code >= 500
        assert OUTPUT < used(made, "tokens") <= OUTPUT + 100


def test_embeddings_that_are_not_answered_count_as_reserved() -> None:
    def stall(_: ReceivedRequest) -> Reply:
        return Reply.body({"data": []}).stall()

    with running(stall, [CHEAP]) as (made, _):
        asked = {"model": CHEAP, "input": ["one two three"]}
        assert ask(made.url, "a", asked, "/v1/embeddings").status_code >= 500
        assert 0 < used(made, "tokens") < 50
