"""Token estimates beside the provider's counts: which turns are estimated, what is stored; no request waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import events as ev
from penstock.testing import Reply
from penstock.tokens import HybridTokenEstimator, TokenStore
from tests.support import budget_requests as limited
from tests.support.client_requests import ask, post
from tests.support.each_case import each
from tests.support.estimates import (
    MAX_BODY,
    MAX_FAILURES,
    break_learning,
    estimate_every_turn,
    held_thread,
    learn,
)
from tests.support.gateway import gateway

if TYPE_CHECKING:
    from pathlib import Path

    import httpx
    import pytest

COUNTED: list[ev.AnyEvent] = [
    ev.Start(id="1", model="m"), ev.TextStart(0), ev.TextDelta(0, "Hi"), ev.TextEnd(0), ev.Usage(input=20, output=2),
    ev.Finish("stop"),
]  # fmt: skip
UNCOUNTED = [event for event in COUNTED if not isinstance(event, ev.Usage)]


def test_what_is_learned_outlives_the_gateway(tmp_path: Path) -> None:
    with gateway(Reply.of("openai-chat", COUNTED), data=tmp_path) as (running, _):
        estimate_every_turn(running)
        for _ in range(3):
            ask(running.url, "anthropic", "openai-chat/text")
        found = learn(running)
    assert [(row.low <= row.estimate <= row.high, row.input) for row in found] == [(True, 20)] * 3
    assert found[0].factor > found[2].factor > 1  # the latest first: 20 is more than was estimated
    store = TokenStore(tmp_path / "tokens.sqlite")
    factor = HybridTokenEstimator(learned=store.factors).factor("text", "openai-chat")
    assert (round(factor.value, 4), factor.turns) == (found[0].factor, 3)
    store.close()


def test_the_method_is_in_the_journal() -> None:
    with gateway(Reply.of("openai-chat", COUNTED)) as (running, _):
        estimate_every_turn(running)
        for _ in range(2):
            ask(running.url, "anthropic", "openai-chat/text")
        assert [(row.method, row.low < row.high) for row in learn(running)] == [("actual", False), ("estimated", True)]


GUESSED: dict[str, dict[str, Any]] = {
    "provider-tools": {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
    "image-urls": {"part": {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}},
    "": {},
}


@each("kind", GUESSED)
def test_what_could_only_be_guessed_is_in_the_journal(kind: str) -> None:
    """Turns with tools of the provider are compared, but teach no factor: their count may include what the tools read."""
    part = GUESSED[kind].get("part", {"type": "text", "text": "Hello"})
    body = {"model": "openai-chat/text", "max_tokens": 9, "messages": [{"role": "user", "content": [part]}]}
    with gateway(Reply.of("openai-chat", COUNTED, stream=False)) as (running, _):
        estimate_every_turn(running)
        post(f"{running.url}/v1/messages", json={**body, "tools": GUESSED[kind].get("tools", [])})
        (row,) = learn(running)
    assert (row.uncertain, row.factor is None) == (kind, kind == "provider-tools")
    assert row.low <= row.estimate <= row.high


@each("why", ["off", "no count", "a fault", "too long", "refused"])
def test_turns_that_say_nothing_are_left_out(why: str) -> None:
    reply = {
        "no count": Reply.of("openai-chat", UNCOUNTED), "a fault": Reply.of("openai-chat", COUNTED).disconnect(after=200),
        "refused": Reply.error("openai-chat", 400, "no"),
    }.get(why, Reply.of("openai-chat", COUNTED))  # fmt: skip
    words = "x" * MAX_BODY if why == "too long" else "Hello"
    body: dict[str, Any] = {"model": "openai-chat/text", "max_tokens": 9, "stream": True}
    body["messages"] = [{"role": "user", "content": words}]
    with gateway(reply, features={"estimates": why != "off"}) as (running, _):
        estimate_every_turn(running)
        post(f"{running.url}/v1/messages", json=body)
        (row,) = learn(running)
        assert (row.estimate, row.low, row.factor) == (None, None, None)


def test_no_request_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The turns that are answered meanwhile wait in the queue."""
    with gateway(Reply.of("openai-chat", COUNTED)) as (running, _):
        with held_thread(running, monkeypatch) as begun:
            for _ in range(5):
                assert ask(running.url, "anthropic", "openai-chat/text").status_code == 200
            assert begun.wait(10)
            assert not any(row.estimate for row in running.rows())
        assert sum(row.estimate is not None for row in learn(running)) == 1


def test_a_turn_that_fails_does_not_end_learning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with gateway(Reply.of("openai-chat", COUNTED)) as (running, _):
        estimate_every_turn(running)
        with monkeypatch.context() as broken:
            break_learning(running, broken)
            for _ in range(MAX_FAILURES - 1):
                ask(running.url, "anthropic", "openai-chat/text")
            assert not any(row.estimate for row in learn(running))
        ask(running.url, "anthropic", "openai-chat/text")
        assert sum(row.estimate is not None for row in learn(running)) == 1
    told = [row.message for row in caplog.records if row.name == "penstock.tokens"]
    assert told == ["nothing was learned from a turn"]


def test_many_failures_in_a_row_end_learning(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    with gateway(Reply.of("openai-chat", COUNTED)) as (running, _):
        estimate_every_turn(running)
        with monkeypatch.context() as broken:
            break_learning(running, broken)
            for _ in range(MAX_FAILURES + 1):
                ask(running.url, "anthropic", "openai-chat/text")
            learn(running)
        ask(running.url, "anthropic", "openai-chat/text")
        assert not any(row.estimate for row in learn(running))
    told = [row.message for row in caplog.records if row.name == "penstock.tokens"]
    assert told == [
        "nothing was learned from a turn",
        f"nothing is learned any more: {MAX_FAILURES} turns in a row failed",
    ]


def test_the_factor_is_learned_without_a_journal(tmp_path: Path) -> None:
    with gateway(Reply.of("openai-chat", COUNTED), data=tmp_path, journal={"path": "off"}) as (running, _):
        estimate_every_turn(running)
        for _ in range(3):
            ask(running.url, "anthropic", "openai-chat/text")
        learn(running)
    store = TokenStore(tmp_path / "tokens.sqlite")
    factor = HybridTokenEstimator(learned=store.factors).factor("text", "openai-chat")
    assert factor.turns == 3
    assert factor.value > 1
    store.close()


def test_short_prompts_of_limited_callers_reserve_what_the_counting_thread_would() -> None:
    """The first count of a model reads its factor from the store, in that thread; later ones are made on the loop."""
    most, usage, text = 1_000_000, ev.Usage(input=40, output=2), "The gauge reads seven metres. " * 9

    def left(reply: httpx.Response) -> int:
        return int(reply.headers["x-ratelimit-remaining-tokens"])

    keys, body = limited.key("a", limits={"tokens": most}), limited.chat(text, max_tokens=10)
    features = {"estimates": False}  # what is learned would change the second count
    with gateway(lambda seen: limited.reply_to(seen, usage), keys=keys, features=features) as (running, _):
        first = left(limited.ask(running.url, "a", body))
        running.settle()
        second = left(limited.ask(running.url, "a", body))
        assert most - first == most - second - 42
