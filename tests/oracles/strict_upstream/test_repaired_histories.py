"""Histories after a cut stream, and settings and state that a vendor rejects: the gateway makes them acceptable."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import httpx

from tests.oracles.strict_upstream.test_gateway import PROVIDERS, start, start_gateway
from tests.support.each_case import each
from tools.strict_upstream.model_facts import DEFAULT_MODELS
from tools.strict_upstream.scenario import SCENARIOS
from tools.strict_upstream.server import serve

if TYPE_CHECKING:
    from tools.strict_upstream.request_log import Exchange


USER = {"type": "message", "role": "user", "content": "go"}
HALF = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I will lo"}]}
REASONING = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Look."}]}
CALL = {"type": "function_call", "call_id": "call_1", "name": "bash", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "call_1", "output": "done"}
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
TOOL = {"type": "function", "name": "bash", "parameters": SCHEMA}


def ask(upstream: str, model: str, *items: Any, **more: Any) -> tuple[httpx.Response, Exchange]:
    """What a Responses client gets for a history, and what the vendor was sent for it."""
    body = {"model": f"up/{model}", "input": [USER, *items], "tools": [TOOL], "store": False, **more}
    with serve(SCENARIOS["one-call"]) as server, start_gateway(server.url, upstream) as gateway:
        response = httpx.post(f"{gateway.url}/v1/responses", json=body, timeout=30)
    return response, server.log.exchanges[-1]


@each("upstream, model", [("messages", "claude-opus-4-7"), ("messages", "claude-sonnet-4-5"), ("gemini", "gemini-3.6-flash"),
     ("gemini", "gemini-3.1-pro-preview"), ("chat", "gpt-4.1")])  # fmt: skip
@each("end", [HALF, REASONING])
def test_the_history_after_a_cut_is_taken(upstream: str, model: str, end: Any) -> None:
    response, exchange = ask(upstream, model, end)
    assert (response.status_code, exchange.outcome) == (200, "answered"), response.text
    if end is REASONING:
        assert "reasoning-only" in response.headers["x-penstock-losses"]


@each("upstream, model", [("messages", "claude-opus-4-7"), ("chat", "gpt-5")])
def test_a_temperature_that_the_model_refuses_is_left_out(upstream: str, model: str) -> None:
    response, exchange = ask(upstream, model, temperature=0.2, top_p=0.9)
    assert (response.status_code, exchange.outcome) == (200, "answered"), response.text
    assert "temperature" in response.headers["x-penstock-losses"]
    assert not {"temperature", "top_p"} & set(exchange.body)


def test_in_the_same_protocol_the_vendors_own_error_passes() -> None:
    response, exchange = ask("responses", "gpt-5", temperature=0.2)
    assert (response.status_code, exchange.outcome) == (400, "refused")
    assert "temperature" in response.json()["error"]["message"]


def test_a_client_that_named_another_model_does_not_get_that_error() -> None:
    model = DEFAULT_MODELS["messages"]
    body = {
        "model": DEFAULT_MODELS["chat"],
        "max_tokens": 64,
        "temperature": 0.2,
        "messages": [{"role": "user", "content": "go"}],
    }
    with serve(SCENARIOS["one-call"]) as server, start_gateway(server.url, "messages") as gateway:
        direct = httpx.post(f"{gateway.url}/v1/messages", json={**body, "model": model})
        renamed = httpx.post(f"{gateway.url}/v1/messages", json=body)
    assert (direct.status_code, renamed.status_code) == (400, 200), renamed.text
    assert renamed.headers["x-penstock-losses"] == "temperature"


def test_calls_of_another_model_are_taken_by_gemini_3() -> None:
    response, exchange = ask("gemini", "gemini-3.1-pro-preview", CALL, RESULT)
    assert (response.status_code, exchange.outcome) == (200, "answered"), response.text
    assert exchange.body["contents"][1]["parts"][0]["thoughtSignature"] == "skip_thought_signature_validator"


@each("stream", [True, False])
def test_one_responses_server_is_not_sent_what_another_has_encrypted(stream: bool) -> None:
    with serve(SCENARIOS["one-call"]) as first, serve(SCENARIOS["one-call"]) as second:
        accounts = {
            name: {"base_url": f"{server.url}/v1", "key": "sk-strict", "models": ("gpt-5.4",), **PROVIDERS["responses"]}
            for name, server in (("one", first), ("two", second))
        }
        with start(providers=accounts) as gateway:
            fields = {"tools": [TOOL], "store": False, "include": ["reasoning.encrypted_content"], "stream": stream,
                      "reasoning": {"effort": "low", "summary": "auto"}}  # fmt: skip
            answer = httpx.post(f"{gateway.url}/v1/responses", json={"model": "one/gpt-5.4", "input": [USER], **fields})
            assert answer.status_code == 200, answer.text
            found = re.search(r'"encrypted_content": ?"([^"]+)', answer.text)
            assert found, answer.text
            ciphertext = found[1]
            sealed = {**REASONING, "encrypted_content": ciphertext}
            again = {"input": [USER, sealed, CALL, RESULT], **fields}
            asked = [{"model": f"{provider}/gpt-5.4", **again} for provider in ("one", "two")]
            own, foreign = [httpx.post(f"{gateway.url}/v1/responses", json=body) for body in asked]
    assert (own.status_code, foreign.status_code) == (200, 200), foreign.text
    assert ciphertext in str(first.log.exchanges[-1].body)
    assert ciphertext not in str(second.log.exchanges[-1].body)
    assert "encrypted_content" in foreign.headers["x-penstock-losses"]
