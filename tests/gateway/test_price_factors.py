"""Requests that ask for a tier of service with its own price: it is reserved, settled and journaled."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import events as ev
from penstock.testing import ReceivedRequest, Reply
from tests.support.budget_requests import ask, chat, key, turn_events
from tests.support.each_case import each
from tests.support.gateway import gateway, spoken_protocol
from tests.support.limit_store import reserved as reserve
from tests.support.limit_store import used
from tests.support.openresponses import FAST

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
GEMINI = "/v1beta/models/gemini%2Ftext:generateContent"
USAGE = ev.Usage(input=1000, output=100)
COST = 2000  # micro-dollars of USAGE
MODELS = {"*": {"input": 1, "output": 10}}
PRICES = {"models": MODELS}
MESSAGE = {"role": "user", "content": "Hi."}


def responses(**more: Any) -> dict[str, Any]:
    return {"model": "responses/text", "input": "Hi.", "max_output_tokens": 100, **more}


def messages(**more: Any) -> dict[str, Any]:
    return {"model": "anthropic/text", "messages": [MESSAGE], "max_tokens": 100, **more}


def gemini(**more: Any) -> dict[str, Any]:
    limit = {"generationConfig": {"maxOutputTokens": 100}}
    return {"contents": [{"role": "user", "parts": [{"text": "Hi."}]}], **limit, **more}


CASES: dict[str, tuple[str, dict[str, Any], float]] = {
    "no tier": (CHAT, chat(max_tokens=100), 1),
    "default": (CHAT, chat(max_tokens=100, service_tier="default"), 1),
    "flex": (CHAT, chat(max_tokens=100, service_tier="flex"), 1),
    "priority": (CHAT, chat(max_tokens=100, service_tier="priority"), 2.5),
    "in an extra body": (CHAT, chat(max_tokens=100, extra_body={"service_tier": "priority"}), 2.5),
    "two tiers": (CHAT, chat(max_tokens=100, service_tier="default", extra_body={"service_tier": "priority"}), 2.5),
    "of another vendor": (CHAT, chat(max_tokens=100, speed="fast"), 6),
    "responses": (RESPONSES, responses(service_tier="priority"), 2.5),
    "fast": (MESSAGES, messages(speed="fast"), 6),
    "fast in one country": (MESSAGES, messages(speed="fast", inference_geo="us"), 6.6),
    "standard only": (MESSAGES, messages(service_tier="standard_only", speed="standard"), 1),
    "gemini": (GEMINI, gemini(serviceTier="priority"), 2.5),
    "gemini, the other spelling": (GEMINI, gemini(service_tier="PRIORITY"), 2.5),
}


def reply(seen: ReceivedRequest) -> Reply:
    protocol, _, rest = seen.path.lstrip("/").partition("/")
    return Reply.of(spoken_protocol(protocol, rest), turn_events(USAGE), stream=seen.json.get("stream") is True)


@each("case", CASES)
def test_a_tier_of_service_is_reserved_settled_and_journaled_at_its_price(case: str) -> None:
    path, body, factor = CASES[case]
    reserved: list[int] = []

    async def script(seen: ReceivedRequest) -> Reply:
        reserved.append(reserve(running, "cost"))
        return reply(seen)

    with gateway(script, keys=key("a", limits={"day_cost": 10**6}), prices=PRICES, serve=FAST) as (running, _):
        assert ask(running.url, "a", body, path).status_code == 200
        assert reserved[0] >= 100 * 10 * factor
        assert used(running, "cost") == round(COST * factor)
        assert running.rows()[0].cost == pytest.approx(COST * factor / 1e6)


def test_a_tier_that_the_provider_does_not_get_costs_nothing() -> None:
    body = chat(model="anthropic/text", max_tokens=100, service_tier="priority")
    with gateway(reply, keys=key("a", limits={"day_cost": 1}), prices=PRICES, serve=FAST) as (running, up):
        assert ask(running.url, "a", body).status_code == 200
        assert "service_tier" not in up.requests[0].json
        assert used(running, "cost") == COST


@each("value", ["performance", "ultra-priority", 5, {"priority": True}])
def test_a_tier_without_a_known_price_is_refused_where_cost_is_limited(value: Any) -> None:
    keys, body = key("a", limits={"day_cost": 1}) | key("b"), messages(speed=value)
    with gateway(reply, keys=keys, prices=PRICES, serve=FAST) as (running, up):
        refused = ask(running.url, "a", body, MESSAGES)
        assert (refused.status_code, len(up.requests)) == (403, 0)
        assert "prices.factors" in refused.json()["error"]["message"]
        assert ask(running.url, "b", body, MESSAGES).status_code == 200


@each("unknown", ["flat", "free"])
def test_the_policy_for_unknown_prices_counts_for_tiers_too(unknown: Any) -> None:
    prices = {"models": MODELS, "unknown": unknown, "flat": {"input": 5, "output": 15}}
    with gateway(reply, keys=key("a", limits={"day_cost": 1}), prices=prices, serve=FAST) as (running, _):
        assert ask(running.url, "a", messages(speed="performance"), MESSAGES).status_code == 200
        assert used(running, "cost") == COST


def test_a_model_that_costs_nothing_takes_any_tier() -> None:
    prices = {"models": {"*": {"input": 0, "output": 0}}}
    with gateway(reply, keys=key("a", limits={"day_cost": 1}), prices=prices, serve=FAST) as (running, _):
        assert ask(running.url, "a", chat(max_tokens=100, service_tier="performance")).status_code == 200


@each("tier, factor", [({"service_tier": "priority"}, 2), ({}, 3), ({"service_tier": "gold"}, 4)])
def test_factors_of_the_configuration(tier: dict[str, Any], factor: int) -> None:
    """`auto` is what a request without a tier gets: the project of the provider key decides."""
    prices = {"models": MODELS, "factors": {"priority": 2, "auto": 3, "gold": 4}}
    with gateway(reply, keys=key("a", limits={"day_cost": 1}), prices=prices, serve=FAST) as (running, _):
        assert ask(running.url, "a", chat(max_tokens=100, **tier)).status_code == 200
        assert used(running, "cost") == COST * factor
