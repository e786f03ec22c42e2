"""Short prompts of limited callers are counted on the event loop: they reserve what the counting thread would."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import events as ev
from penstock._gateway.token_estimators import TokenEstimators
from penstock._gateway.usage_bounds import SHORT_PROMPT
from tests.gateway.test_faults import settled, until
from tests.support.budget_requests import ask, chat, key, reply_to
from tests.support.gateway import gateway
from tests.support.openresponses import FAST

if TYPE_CHECKING:
    import httpx
    import pytest

    from penstock.testing import ReceivedRequest

MOST = 1_000_000
USAGE = ev.Usage(input=40, output=2)
TEXT = "The gauge reads seven metres. " * 9


def answer(seen: ReceivedRequest) -> Any:
    return reply_to(seen, USAGE)


def left(reply: httpx.Response) -> int:
    return int(reply.headers["x-ratelimit-remaining-tokens"])


def test_both_ways_to_count_reserve_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    in_thread: list[int] = []
    run = TokenEstimators.run

    def counted(self: TokenEstimators, tenant: str, count: Any, size: int = 0) -> Any:
        in_thread.append(size)
        return run(self, tenant, count, size)

    monkeypatch.setattr(TokenEstimators, "run", counted)
    keys, body = key("a", limits={"tokens": MOST}), chat(TEXT, max_tokens=10)
    features = {"estimates": False}  # what is learned would change the second count
    with gateway(answer, keys=keys, serve=FAST, features=features) as (running, _):
        first = left(ask(running.url, "a", body))
        until(running, lambda: settled(running))
        second = left(ask(running.url, "a", body))
        assert len(in_thread) == 1  # the first count of a model reads its factor from the store
        until(running, lambda: settled(running))
        assert MOST - first == MOST - second - 42
        ask(running.url, "a", chat("x" * SHORT_PROMPT, max_tokens=10))
        assert len(in_thread) == 2
