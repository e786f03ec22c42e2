"""Redaction through a gateway: bounded work for hostile errors, and no key in any column, header or log line."""

from __future__ import annotations

import time
from typing import Any

from msgspec.structs import asdict, replace

from penstock.testing import Reply
from tests.support.client_requests import get, post
from tests.support.each_case import each
from tests.support.gateway import gateway

KEY = "sk-ant-planted0123456789abcdef"
ACCOUNT = "sk-up-000000"  # the provider's key in `running.config`
HOSTILE = ["http://" + "a" * 20_000, "a." * 10_000, "-eyJ" * 5_000, "sk-" * 6_000, "<title>" * 3_000, "secret:" * 3_000]


def chat(url: str, model: str, text: str) -> Any:
    body = {"model": model, "messages": [{"role": "user", "content": text}]}
    return post(f"{url}/v1/chat/completions", json=body)


@each("prompt", HOSTILE)
def test_an_error_that_quotes_the_prompt_stops_nobody(prompt: str) -> None:
    """It took five seconds of the loop's time. CPU time is asserted: a busy machine does not change it."""

    def quote(seen: Any) -> Reply:
        return Reply.error("openai-chat", 400, f"bad prompt: {seen.json['messages'][0]['content']}")

    with gateway(quote) as (running, _):
        assert get(f"{running.url}/healthz").status_code == 200
        began = time.process_time()
        reply = chat(running.url, "openai-chat/text", prompt)
        assert get(f"{running.url}/healthz").status_code == 200
        assert time.process_time() - began < 1.5
        rows = running.rows()
    assert reply.status_code == 400
    message = reply.json()["error"]["message"]
    assert message.startswith("bad prompt: ")
    assert message.endswith("more characters]")
    assert len(message) < 12_000
    assert len(rows[0].fault_message) < 1_000


@each("depth", [500, 100_000])
def test_a_deep_error_body_keeps_its_status(depth: int) -> None:
    deep = b'{"error":{"message":"no","details":' + b"[" * depth + b"]" * depth + b"}}"
    with gateway(Reply.body(deep, status=400)) as (running, _):
        assert chat(running.url, "openai-chat/text", "x").status_code == 400


def test_a_key_in_an_address_or_a_name_is_kept_nowhere() -> None:
    with gateway() as (running, _):
        post(f"{running.url}/v1/models/{KEY}:generateContent", json={"contents": []})
        post(
            f"{running.url}/v1beta/models/gemini/{KEY}:generateContent", json={"contents": [{"parts": [{"text": "x"}]}]}
        )
        unknown = chat(running.url, KEY, "x")
        chat(running.url, f"openai-chat/{KEY}", "x")
        get(f"{running.url}/v1/responses/{KEY}")
        rows = running.rows()
        page = get(f"{running.url}/metrics").text
    assert len(rows) >= 3
    assert any("[secret]" in row.route for row in rows)
    for row in rows:
        assert KEY not in str(asdict(row)), row
    assert KEY not in unknown.text
    assert KEY not in page


def test_a_key_in_a_providers_request_id_is_not_passed_on() -> None:
    refusal = Reply.error("openai-chat", 400, f"no such thing: {ACCOUNT}")
    refusal = replace(refusal, headers={**refusal.headers, "x-request-id": f"id-of {ACCOUNT}"})
    with gateway(refusal) as (running, _):
        reply = chat(running.url, "openai-chat/text", "x")
        rows = running.rows()
    assert reply.headers["x-upstream-request-id"] == "id-of [secret]"
    assert ACCOUNT not in reply.text
    assert rows[0].upstream_id == "id-of [secret]"
    assert ACCOUNT not in str(asdict(rows[0]))
