"""Token estimates beside the provider's counts: which turns are estimated, what is stored; no request waits for it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from penstock import events as ev
from penstock._gateway.token_estimates import MAX_BODY, MAX_FAILURES, TurnEstimates
from penstock._store.tokens import TokenStore
from penstock.testing import Reply
from penstock.tokens import HybridTokenEstimator
from tests.support.client_requests import ask, post
from tests.support.gateway import gateway

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.gateway import Running

COUNTED: list[ev.AnyEvent] = [
    ev.Start(id="1", model="m"), ev.TextStart(0), ev.TextDelta(0, "Hi"), ev.TextEnd(0), ev.Usage(input=20, output=2),
    ev.Finish("stop"),
]  # fmt: skip
UNCOUNTED = [event for event in COUNTED if not isinstance(event, ev.Usage)]


def all_of_them(running: Running) -> TurnEstimates:
    estimates = running.app.services.estimates
    estimates._interval = 0.0
    return estimates


def rows(running: Running) -> list[Any]:
    running.rows()  # waits for the end of the turn, which a client may see before the gateway does
    running.app.services.estimates.flush()
    return running.rows()


def test_what_is_learned_outlives_the_gateway(tmp_path: Path) -> None:
    with gateway(Reply.of("openai-chat", COUNTED), data=tmp_path) as (running, _):
        all_of_them(running)
        for _ in range(3):
            ask(running.url, "anthropic", "openai-chat/text")
        found = rows(running)
    assert [(row.low <= row.estimate <= row.high, row.input) for row in found] == [(True, 20)] * 3
    assert found[0].factor > found[2].factor > 1  # the latest first: 20 is more than was estimated
    store = TokenStore(tmp_path / "tokens.sqlite")
    factor = HybridTokenEstimator(learned=store.factors).factor("text", "openai-chat")
    assert (round(factor.value, 4), factor.turns) == (found[0].factor, 3)
    store.close()


def test_the_method_is_in_the_journal() -> None:
    with gateway(Reply.of("openai-chat", COUNTED)) as (running, _):
        all_of_them(running)
        for _ in range(2):
            ask(running.url, "anthropic", "openai-chat/text")
        assert [(row.method, row.low < row.high) for row in rows(running)] == [("actual", False), ("estimated", True)]


GUESSED: dict[str, dict[str, Any]] = {
    "provider-tools": {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
    "image-urls": {"part": {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}},
    "": {},
}


@pytest.mark.parametrize("kind", GUESSED)
def test_what_could_only_be_guessed_is_in_the_journal(kind: str) -> None:
    """Turns with tools of the provider are compared, but teach no factor: their count may include what the tools read."""
    part = GUESSED[kind].get("part", {"type": "text", "text": "Hello"})
    body = {"model": "openai-chat/text", "max_tokens": 9, "messages": [{"role": "user", "content": [part]}]}
    with gateway(Reply.of("openai-chat", COUNTED, stream=False)) as (running, _):
        all_of_them(running)
        post(f"{running.url}/v1/messages", json={**body, "tools": GUESSED[kind].get("tools", [])})
        (row,) = rows(running)
    assert (row.uncertain, row.factor is None) == (kind, kind == "provider-tools")
    assert row.low <= row.estimate <= row.high


@pytest.mark.parametrize("why", ["off", "no count", "a fault", "too long", "refused"])
def test_turns_that_say_nothing_are_left_out(why: str) -> None:
    reply = {
        "no count": Reply.of("openai-chat", UNCOUNTED), "a fault": Reply.of("openai-chat", COUNTED).disconnect(after=200),
        "refused": Reply.error("openai-chat", 400, "no"),
    }.get(why, Reply.of("openai-chat", COUNTED))  # fmt: skip
    words = "x" * MAX_BODY if why == "too long" else "Hello"
    body: dict[str, Any] = {"model": "openai-chat/text", "max_tokens": 9, "stream": True}
    body["messages"] = [{"role": "user", "content": words}]
    with gateway(reply, features={"estimates": why != "off"}) as (running, _):
        all_of_them(running)
        post(f"{running.url}/v1/messages", json=body)
        (row,) = rows(running)
        assert (row.estimate, row.low, row.factor) == (None, None, None)


def test_no_request_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The turns that are answered meanwhile wait in the queue."""
    with gateway(Reply.of("openai-chat", COUNTED)) as (running, _):
        estimates, gate, begun = running.app.services.estimates, threading.Event(), threading.Event()
        learn = estimates._learn

        def slow(*given: Any) -> Any:
            begun.set()
            gate.wait(20)
            return learn(*given)

        monkeypatch.setattr(estimates, "_learn", slow)
        for _ in range(5):
            assert ask(running.url, "anthropic", "openai-chat/text").status_code == 200
        assert begun.wait(10)
        assert not any(row.estimate for row in running.rows())
        gate.set()
        assert sum(row.estimate is not None for row in rows(running)) == 1


def test_a_turn_that_fails_does_not_end_learning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with gateway(Reply.of("openai-chat", COUNTED)) as (running, _):
        estimates = all_of_them(running)
        with monkeypatch.context() as broken:
            broken.setattr(running.app.services.estimators, "find", lambda _: object())
            for _ in range(MAX_FAILURES - 1):
                ask(running.url, "anthropic", "openai-chat/text")
            assert not any(row.estimate for row in rows(running))
        ask(running.url, "anthropic", "openai-chat/text")
        assert sum(row.estimate is not None for row in rows(running)) == 1
        assert (estimates.dropped, estimates.enabled) == (MAX_FAILURES - 1, True)
    told = [row.message for row in caplog.records if row.name == "penstock.tokens"]
    assert told == ["nothing was learned from a turn"]


def test_many_failures_in_a_row_end_learning(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    with gateway(Reply.of("openai-chat", COUNTED)) as (running, _):
        estimates = all_of_them(running)
        monkeypatch.setattr(running.app.services.estimators, "find", lambda _: object())
        for _ in range(MAX_FAILURES + 1):
            ask(running.url, "anthropic", "openai-chat/text")
        assert not any(row.estimate for row in rows(running))
        assert not estimates.enabled
    told = [row.message for row in caplog.records if row.name == "penstock.tokens"]
    assert told == [
        "nothing was learned from a turn",
        f"nothing is learned any more: {MAX_FAILURES} turns in a row failed",
    ]


def test_the_factor_is_learned_without_a_journal(tmp_path: Path) -> None:
    with gateway(Reply.of("openai-chat", COUNTED), data=tmp_path, journal={"path": "off"}) as (running, _):
        all_of_them(running)
        for _ in range(3):
            ask(running.url, "anthropic", "openai-chat/text")
        running.app.services.estimates.flush()
    store = TokenStore(tmp_path / "tokens.sqlite")
    factor = HybridTokenEstimator(learned=store.factors).factor("text", "openai-chat")
    assert factor.turns == 3
    assert factor.value > 1
    store.close()
