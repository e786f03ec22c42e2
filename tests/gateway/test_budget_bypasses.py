"""Requests that try to get more than was reserved for them, or than their key may use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock._gateway.limits import DAY
from penstock._store.limit_store import LimitRule
from penstock._tokens.estimate import HybridTokenEstimator
from penstock.testing import Reply
from tests.gateway.test_faults import settled, until
from tests.support.budget_requests import ask, chat, key
from tests.support.gateway import answer, gateway
from tests.support.openresponses import FAST

if TYPE_CHECKING:
    from penstock.testing import ReceivedRequest

MOST = 50  # tokens of an answer
TEXT = [{"role": "user", "content": "Hi."}]
CHAT, MESSAGES, OLLAMA = "/v1/chat/completions", "/v1/messages", "/api/chat"
THINKING = {"type": "enabled", "budget_tokens": 60_000}
LIMIT_NAMES = ("max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens", "num_predict")
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "both": (CHAT, chat(max_tokens=100_000, max_completion_tokens=10)),
    "both, the other way": (CHAT, chat(max_tokens=10, max_completion_tokens=100_000)),
    "of other servers": (CHAT, chat(max_tokens=10, max_new_tokens=100_000, num_predict=100_000)),
    "in options": (CHAT, chat(max_tokens=10, options={"num_predict": 100_000, "top_k": 3})),
    "in an extra body": (CHAT, chat(max_tokens=10, extra_body={"max_new_tokens": 100_000})),
    "of another protocol": (CHAT, chat(max_output_tokens=100_000)),
    "negative": (CHAT, chat(max_tokens=-1)),
    "zero": (CHAT, chat(max_tokens=0)),
    "reasoning": (MESSAGES, {"model": "anthropic/text", "messages": TEXT, "max_tokens": 40, "thinking": THINKING}),
    "more reasoning": (
        MESSAGES,
        {"model": "anthropic/text", "messages": TEXT, "max_tokens": 61_000, "thinking": THINKING},
    ),
    "reasoning without a limit": (CHAT, chat(model="anthropic/text", reasoning={"max_tokens": 60_000})),
    "endless": (OLLAMA, {"model": "ollama/text", "messages": TEXT, "stream": False, "options": {"num_predict": -1}}),
    "the whole context": (
        OLLAMA,
        {"model": "ollama/text", "messages": TEXT, "stream": False, "options": {"num_predict": -2}},
    ),
}


def sent_limits(seen: ReceivedRequest) -> list[int]:
    places = [seen.json, *(seen.json.get(name, {}) for name in ("options", "extra_body"))]
    return [fields[name] for fields in places for name in LIMIT_NAMES if name in fields]


@pytest.mark.parametrize("case", CASES)
def test_no_request_gets_around_the_output_limit_of_its_key(case: str) -> None:
    path, body = CASES[case]
    with gateway(answer, keys=key("a", max_output=MOST), serve=FAST) as (running, up):
        assert ask(running.url, "a", body, path).status_code == 200
        sent = sent_limits(up.requests[0])
        assert len(sent) == 1
        assert 0 < sent[0] <= MOST
        assert up.requests[0].json.get("thinking", {}).get("type") in {None, "disabled"}


@pytest.mark.parametrize("case", CASES)
def test_what_is_sent_was_reserved(case: str) -> None:
    """Without an output limit of the key, the reservation covers the limit that the provider gets."""
    path, body = CASES[case]
    rule = LimitRule("key:a", "tokens", DAY, 10**9)
    reserved: list[int] = []

    async def script(seen: ReceivedRequest) -> Any:
        reserved.append(running.call(running.app.services.limits.store.usage([rule]))[0])
        return answer(seen)

    with gateway(script, keys=key("a", limits={"day_tokens": 10**9}), serve=FAST) as (running, up):
        assert ask(running.url, "a", body, path).status_code == 200
        sent = sent_limits(up.requests[0])
        assert len(sent) == 1
        assert 0 < sent[0] <= reserved[0]


def test_reasoning_is_fitted_into_the_output_limit_of_a_key() -> None:
    body = {"model": "anthropic/text", "messages": TEXT, "max_tokens": 61_000, "thinking": THINKING}
    with gateway(answer, keys=key("a", max_output=8_000), serve=FAST) as (running, up):
        assert ask(running.url, "a", body, MESSAGES).status_code == 200
        sent = up.requests[0].json
        assert (sent["max_tokens"], sent["thinking"]["budget_tokens"]) == (8_000, 8_000 - 1_024)
        row = running.rows()[-1]
        assert "limit: a reasoning budget of 60000 is sent as 6976" in row.decisions


def test_a_key_with_some_models_cannot_leave_the_choice_to_a_provider() -> None:
    keys = key("some", models=("openai-chat/text",)) | key("all")
    body = chat(models=["vendor/expensive"])
    with gateway(answer, keys=keys, serve=FAST) as (running, up):
        refused = ask(running.url, "some", body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "model_not_allowed")
        assert ask(running.url, "some", chat()).status_code == 200
        assert ask(running.url, "all", body).status_code == 200
        assert len(up.requests) == 2


# ── embeddings and rerank ─────────────────────────────────────────────────────────────────────────

LONG = "The gauge reads seven metres. " * 500  # about 3,500 tokens
EMBED, RERANK = "/v1/embeddings", "/v1/rerank"
INPUTS: dict[str, tuple[str, dict[str, Any], int]] = {
    "a text": (EMBED, {"input": LONG}, 3_000),
    "a list in a list": (EMBED, {"input": [[LONG]]}, 3_000),
    "tokens": (EMBED, {"input": [[7] * 3_000]}, 3_000),
    "messages": (EMBED, {"input": "Hi.", "messages": [{"role": "user", "content": LONG}]}, 3_000),
    "another field": (EMBED, {"input": "Hi.", "text": LONG}, 3_000),
    "a query": (RERANK, {"query": LONG, "documents": ["one", "two", "three", "four"]}, 4 * 3_000),
    "documents of another name": (RERANK, {"query": "Hi.", "documents": ["one"], "texts": [LONG]}, 3_000),
}


@pytest.mark.parametrize("case", INPUTS)
def test_all_inputs_are_reserved(case: str) -> None:
    path, body, least = INPUTS[case]
    rule = LimitRule("key:a", "tokens", DAY, 10**9)
    reserved: list[int] = []

    async def script(seen: ReceivedRequest) -> Any:
        reserved.append(running.call(running.app.services.limits.store.usage([rule]))[0])
        return answer(seen)

    with gateway(script, keys=key("a", limits={"day_tokens": 10**9}), serve=FAST) as (running, _):
        assert ask(running.url, "a", {"model": "openai-chat/e", **body}, path).status_code == 200
        assert reserved[0] >= least


def test_settings_of_embeddings_are_not_counted() -> None:
    body = {"model": "openai-chat/e", "input": "Hi.", "dimensions": 256, "user": "somebody", "input_type": "query"}
    with gateway(answer, keys=key("a", limits={"day_tokens": 60}), serve=FAST) as (running, _):
        assert ask(running.url, "a", body, EMBED).status_code == 200


def test_batches_that_were_answered_are_charged_if_another_one_is_refused() -> None:
    def script(seen: ReceivedRequest) -> Any:
        return Reply.error("openai-chat", 400, "no") if len(seen.json["input"]) == 1 else answer(seen)

    rule = LimitRule("key:a", "tokens", DAY, 10**9)
    with gateway(script, keys=key("a", limits={"day_tokens": 10**9}), serve=FAST) as (running, up):
        body = {"model": "openai-chat/e", "input": ["one two"] * 2_049}
        assert ask(running.url, "a", body, EMBED).status_code == 400
        assert len(up.requests) == 2
        until(running, lambda: settled(running))
        assert running.call(running.app.services.limits.store.usage([rule]))[0] >= 2 * 2_048


def test_a_history_that_cannot_be_counted_is_reserved_by_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes from the store of responses: the body of the request is short."""

    def fail(*_: object, **__: object) -> None:
        raise ValueError("no count")

    rule = LimitRule("key:a", "tokens", DAY, 10**9)
    reserved: list[int] = []

    async def script(seen: ReceivedRequest) -> Any:
        reserved.append(running.call(running.app.services.limits.store.usage([rule]))[0])
        return answer(seen)

    monkeypatch.setattr(HybridTokenEstimator, "estimate_conversation", fail)
    body = {"model": "responses/text", "max_output_tokens": 10}
    with gateway(script, keys=key("a", limits={"day_tokens": 10**9}), serve=FAST) as (running, _):
        first = ask(running.url, "a", {**body, "input": LONG}, "/v1/responses").json()["id"]
        until(running, lambda: settled(running))
        before = running.call(running.app.services.limits.store.usage([rule]))[0]
        more = {**body, "input": "And?", "previous_response_id": first}
        assert ask(running.url, "a", more, "/v1/responses").status_code == 200
        assert reserved[1] - before >= len(LONG)
