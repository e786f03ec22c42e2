"""The vendors' SDKs do the task through the gateway, whatever strict upstream is behind it."""

from __future__ import annotations

from itertools import product
from typing import Any

import httpx
import pytest

from penstock.gateway import App
from tests.oracles.strict_upstream.test_official_clients import CLIENTS, TURNED
from tests.support.each_case import each
from tests.support.gateway import Running, read_config
from tools.strict_upstream.model_facts import DEFAULT_MODELS
from tools.strict_upstream.scenario import SCENARIOS
from tools.strict_upstream.server import serve

PROVIDERS: dict[str, dict[str, Any]] = {
    "chat": {"like": "openai", "fields": {"has": ["chat"]}},
    "responses": {"like": "openai", "fields": {"has": ["responses"]}},
    "messages": {"like": "anthropic"},
    "gemini": {"like": "gemini"},
}


BETA = {"anthropic-beta": "context-management-2025-06-27"}


def start_gateway(url: str, upstream: str) -> Running:
    """A gateway that sends every model the clients name to the upstream."""
    base = f"{url}/v1beta" if upstream == "gemini" else f"{url}/v1"
    account = {"base_url": base, "key": "sk-strict", "models": (DEFAULT_MODELS[upstream],), **PROVIDERS[upstream]}
    target = f"up/{DEFAULT_MODELS[upstream]}"
    names: dict[str, Any] = dict.fromkeys(DEFAULT_MODELS.values(), target)
    return start(providers={"up": account}, aliases=names)


def start(**tables: Any) -> Running:
    """A gateway that keeps nothing on disk and tries nothing again."""
    memory = {"path": "memory"}
    return Running(App(read_config(retries=0, serve={"pace": 0.0}, journal=memory, state=memory, **tables), env={}))


@each("client, upstream", product(CLIENTS, PROVIDERS))
def test_the_task_is_done_through_the_gateway(client: str, upstream: str) -> None:
    check_task("parallel-calls", client, upstream)


@pytest.mark.nightly
@each("scenario, client, upstream", product(TURNED, CLIENTS, PROVIDERS))
def test_every_task_is_done_through_the_gateway(scenario: str, client: str, upstream: str) -> None:
    """A single call shows less than parallel ones."""
    check_task(scenario, client, upstream)


def check_task(scenario: str, client: str, upstream: str) -> None:
    with serve(SCENARIOS[scenario]) as server, start_gateway(server.url, upstream) as gateway:
        said = CLIENTS[client](gateway.url)
    refused = [f"{one.status} {one.message}" for one in server.log.refusals()]
    assert refused == []
    assert TURNED[scenario] in said
    assert [one.outcome for one in server.log.exchanges] == ["answered"] * 3


def test_betas_of_a_messages_client_reach_the_vendor() -> None:
    """Without its `anthropic-beta` header, the API refuses the fields that Claude Code sends."""
    body = {
        "model": DEFAULT_MODELS["messages"], "max_tokens": 64, "messages": [{"role": "user", "content": "go"}],
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    }  # fmt: skip
    with serve(SCENARIOS["one-call"]) as server, start_gateway(server.url, "messages") as gateway:
        plain = httpx.post(f"{gateway.url}/v1/messages", json=body)
        beta = httpx.post(f"{gateway.url}/v1/messages", json=body, headers=BETA)
    assert (plain.status_code, beta.status_code) == (400, 200), beta.text
    assert "context_management: Extra inputs are not permitted" in plain.text


def test_betas_do_not_reach_other_vendors() -> None:
    body = {"model": DEFAULT_MODELS["messages"], "max_tokens": 64, "messages": [{"role": "user", "content": "go"}]}
    with serve(SCENARIOS["one-call"]) as server, start_gateway(server.url, "chat") as gateway:
        assert httpx.post(f"{gateway.url}/v1/messages", json=body, headers=BETA).status_code == 200
    assert "anthropic-beta" not in {name.lower() for name in server.log.exchanges[0].headers}


FAULTS = ("rate-limit", "overload", "overflow", "quota", "auth")
FOREIGN = dict(zip(CLIENTS, [*list(PROVIDERS)[1:], next(iter(PROVIDERS))], strict=True))  # client → another's upstream
# Where a vendor has two ways to say it, and the gateway takes the other one.
ALSO_RIGHT = {
    # Responses names this code for an overload, and Codex knows it.
    ("overload", "chat"): ("InternalServerError", "server_is_overloaded"),
    ("overload", "responses"): ("InternalServerError", "server_is_overloaded"),
    # The strict upstream only sends `response.failed`. The gateway sends an `error` before it, which the SDK raises.
    ("overflow", "responses"): ("APIError", "context_length_exceeded"),
    # 402 billing_error (https://docs.claude.com/en/api/errors); a credit balance that is too low is told with 400.
    ("quota", "messages"): ("APIStatusError", "None"),
}


def describe_error(client: str, url: str) -> tuple[str, str]:
    """The class and the code of the error that a client raises."""
    try:
        CLIENTS[client](url)
    except Exception as error:  # noqa: BLE001 — whatever the SDK raises is compared
        return type(error).__name__, str(getattr(error, "code", None))
    return "", ""


@each("scenario, client", product(FAULTS, CLIENTS))
def test_a_fault_is_the_error_of_the_clients_own_vendor(scenario: str, client: str) -> None:
    check_fault(scenario, client, FOREIGN[client])


@pytest.mark.nightly
@each("scenario, client, upstream", product(FAULTS, CLIENTS, PROVIDERS))
def test_every_fault_is_the_error_of_the_clients_own_vendor(scenario: str, client: str, upstream: str) -> None:
    check_fault(scenario, client, upstream)


def check_fault(scenario: str, client: str, upstream: str) -> None:
    """The SDK raises the same error, with the same code, as directly at its vendor."""
    with serve(SCENARIOS[scenario]) as server:
        direct = describe_error(client, server.url)
    assert direct[0], "the vendor's own error"
    with serve(SCENARIOS[scenario]) as server, start_gateway(server.url, upstream) as gateway:
        assert describe_error(client, gateway.url) in (direct, ALSO_RIGHT.get((scenario, client)))
    assert server.log.refusals() == []
