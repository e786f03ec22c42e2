"""Errors of every upstream protocol, kind and client protocol: through a real gateway, read by the vendor's own SDK."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

import anthropic
import httpx
import openai
import pytest

from penstock.testing import Reply
from tests.oracles.gateway.vendor_error_cases import (
    CLASSES,
    CLIENTS,
    EVENT_CODES,
    KINDS,
    OVERFLOW,
    SENT,
    UPSTREAMS,
    WANTED,
    begun,
)
from tests.support.client_requests import ask
from tests.support.each_case import each
from tests.support.gateway import gateway

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.testing import Upstream
    from tests.support.gateway import Running

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the SDK's own source makes Python complain
    from google import genai
    from google.genai import errors as google_errors

PROVIDER = {"openai-chat": "openai", "responses": "openai", "completions": "openai"}
CELLS = [(upstream, kind, client) for upstream in UPSTREAMS for kind in KINDS for client in CLIENTS]


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Running, Upstream]]:
    with gateway(Reply.no_response()) as found:
        yield found


@pytest.fixture(scope="module")
def sdks(both: tuple[Running, Upstream]) -> Iterator[dict[str, Any]]:
    """The SDK of each client, made once: that takes longer than a request."""
    base = both[0].url
    more: dict[str, Any] = {"api_key": "x", "timeout": 20.0, "max_retries": 0}
    options: Any = {"base_url": base, "timeout": 20_000, "retry_options": {"attempts": 1}}
    with (
        openai.OpenAI(base_url=f"{base}/v1", **more) as gpt,
        anthropic.Anthropic(base_url=base, **more) as claude,
        genai.Client(api_key="x", http_options=options) as gemini,
    ):
        yield {**dict.fromkeys(PROVIDER, gpt), "anthropic": claude, "gemini": gemini}


def raised(client: str, sdk: Any, model: str) -> tuple[str, int, dict[str, Any]]:
    """What the SDK of a client raises: the class, the status, the error object."""
    said: Any = [{"role": "user", "content": "hello"}]
    try:
        if client == "anthropic":
            sdk.messages.create(model=model, max_tokens=9, messages=said)
        elif client == "gemini":
            sdk.models.generate_content(model=model, contents="hi")
        elif client == "responses":
            sdk.responses.create(model=model, input="hello")
        elif client == "completions":
            sdk.completions.create(model=model, prompt="hello")
        else:
            sdk.chat.completions.create(model=model, messages=said)
    except (openai.APIStatusError, anthropic.APIStatusError) as error:
        body: Any = error.body
        return type(error).__name__, error.status_code, body if client in PROVIDER else body["error"]
    except google_errors.APIError as error:
        return type(error).__name__, error.code, error.details["error"]
    raise AssertionError("nothing was raised")


def refuse(both: tuple[Running, Upstream], upstream: str, kind: str, headers: dict[str, str] | None = None) -> str:
    running, up = both
    running.close_circuits()
    status, body = SENT[upstream][kind]
    up.script(Reply.body(body, status=status, headers=headers or {}))
    return running.url


def check_words(client: str, kind: str, upstream: str, error: dict[str, Any]) -> None:
    _, sort, code, message = WANTED[client][kind]
    if client == "gemini":
        reasons = [row.get("reason") for row in error.get("details", ())]
        assert (error["code"], error["status"]) == (WANTED[client][kind][0], sort)
        assert code is None or code in reasons
    elif client == "anthropic":
        assert error["type"] == sort
    else:
        sibling = upstream in PROVIDER and kind == "invalid"  # OpenAI's own code for a field means the same elsewhere
        assert (error["type"], error["code"]) == (sort, "unsupported_parameter" if sibling else code)
    assert message in error["message"]
    if kind == "overflow" and upstream != "responses":  # which gives no counts
        assert error["message"] == OVERFLOW[client]


@each("upstream, kind, client", CELLS)
def test_an_error_is_told_as_the_clients_vendor_would(
    both: tuple[Running, Upstream], sdks: dict[str, Any], upstream: str, kind: str, client: str
) -> None:
    refuse(both, upstream, kind)
    name, status, error = raised(client, sdks[client], f"{upstream}/text")
    if upstream == client:
        sent, body = SENT[upstream][kind]
        assert (status, error) == (sent, body["error"])
        return
    assert status == WANTED[client][kind][0]
    sdk = {"anthropic": "anthropic", "gemini": "google"}.get(client, "openai")
    assert name == CLASSES[sdk].get(status, "ClientError")
    check_words(client, kind, upstream, error)


@each("upstream", UPSTREAMS)
@each("kind", KINDS)
def test_a_provider_of_the_same_protocol_is_quoted_less_its_secrets(
    both: tuple[Running, Upstream], upstream: str, kind: str
) -> None:
    running, up = both
    running.close_circuits()
    status, body = SENT[upstream][kind]
    secret = "sk-up-000000"
    up.script(Reply.body({**body, "echo": f"you sent {secret}", "more": [1, {"x": None}]}, status=status))
    found = ask(running.url, upstream, f"{upstream}/text")
    assert found.status_code == status
    assert secret not in found.text
    assert {**found.json(), "echo": ""} == {**body, "echo": "", "more": [1, {"x": None}]}


# ── streams ───────────────────────────────────────────────────────────────────────────────────────


def last_error(client: str, text: str) -> dict[str, Any]:
    """The error object that a stream ends with; a failed response for Responses."""
    rows = [json.loads(line[5:]) for line in text.splitlines() if line.startswith("data:") and "[DONE]" not in line]
    found: dict[str, Any] = rows[-1]["response"]["error"] if client == "responses" else rows[-1]["error"]
    return found


STREAMED = [cell for cell in CELLS if cell[2] != "completions"]


@each("upstream, kind, client", STREAMED)
def test_an_error_in_a_stream_is_told_as_the_clients_vendor_would(
    both: tuple[Running, Upstream], upstream: str, kind: str, client: str
) -> None:
    running, up = both
    running.close_circuits()
    sent = SENT[upstream][kind][1]["error"]
    up.script(Reply.body(begun(upstream, sent), headers={"content-type": "text/event-stream"}))
    found = ask(running.url, client, f"{upstream}/text")
    assert (found.status_code, "Hal" in found.text) == (200, True)
    error = last_error(client, found.text)
    if upstream == client:
        assert {key: error[key] for key in sent if key in error or client != "responses"} == {
            key: value for key, value in sent.items() if client != "responses" or key in error
        } | ({"code": sent["code"] or "server_error"} if client == "responses" else {})
    elif client == "responses":
        assert error["code"] == _event_code(upstream, kind)
        assert kind != "overflow" or error["message"] == OVERFLOW[client]
    elif _told_apart(upstream, kind):
        check_words(client, kind, upstream, error)


@each("upstream", UPSTREAMS)
def test_an_overflow_fails_the_response_of_a_stream(both: tuple[Running, Upstream], upstream: str) -> None:
    """OpenAI begins a stream of Responses and tells an overflow inside it. Codex recovers from nothing else."""
    base = refuse(both, upstream, "overflow")
    with openai.OpenAI(base_url=f"{base}/v1", api_key="x", max_retries=0) as made:
        if upstream == "responses":  # a provider of the same protocol is quoted as it refused
            with pytest.raises(openai.BadRequestError):
                made.responses.create(model=f"{upstream}/text", input="hello", stream=True)
            return
        stream = made.responses.create(model=f"{upstream}/text", input="hello", stream=True)
        assert stream.response.headers["x-penstock-refused-by"] == "provider"
        with pytest.raises(openai.APIError) as raised:
            list(stream)
    assert (raised.value.code, raised.value.param) == ("context_length_exceeded", "input")
    assert raised.value.message == OVERFLOW["responses"]
    text = ask(refuse(both, upstream, "overflow"), "responses", f"{upstream}/text").text
    assert last_error("responses", text) == {"code": "context_length_exceeded", "message": OVERFLOW["responses"]}


def _told_apart(upstream: str, kind: str) -> bool:
    """Whether a stream can say this: OpenAI's have no status, and a failed response has not even a type."""
    code = SENT[upstream][kind][1]["error"].get("code")
    return not (upstream in PROVIDER and code is None) and _has_kind(upstream, kind)


def _has_kind(upstream: str, kind: str) -> bool:
    code = SENT[upstream][kind][1]["error"].get("code")
    return upstream != "responses" or code not in {None, "unsupported_parameter"}


def _event_code(upstream: str, kind: str) -> str:
    return EVENT_CODES[kind] if _has_kind(upstream, kind) else "server_error"


# ── who refused ───────────────────────────────────────────────────────────────────────────────────


@each("client", CLIENTS)
def test_a_header_says_who_refused(both: tuple[Running, Upstream], client: str) -> None:
    base = refuse(both, "openai-chat", "rate-limit", {"retry-after": "7"})
    origin = {"origin": base}
    by_provider = ask(base, client, "openai-chat/text", headers=origin)
    assert by_provider.headers["x-penstock-refused-by"] == "provider"
    assert by_provider.headers["retry-after"] == "7"
    assert by_provider.headers["access-control-expose-headers"] == "*"
    by_gateway = ask(base, client, "nobody/at-all", headers=origin)
    assert (by_gateway.status_code, by_gateway.headers["x-penstock-refused-by"]) == (404, "gateway")


def test_a_provider_that_is_not_reached_did_not_refuse(both: tuple[Running, Upstream]) -> None:
    running, up = both
    running.close_circuits()
    up.script(Reply.no_response())
    found: httpx.Response = ask(running.url, "openai-chat", "openai-chat/text")
    assert found.headers["x-penstock-refused-by"] == "gateway"
    assert found.json()["error"]["code"] == "server_error"


def test_rerank_has_both_names(both: tuple[Running, Upstream]) -> None:
    running, up = both
    up.script(Reply.body({"results": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.1}]}))
    body = {"model": "openai-chat/text", "query": "q", "documents": ["a", "b"]}
    made = httpx.post(f"{running.url}/v1/rerank", json=body, timeout=20, trust_env=False).json()
    assert (
        made["results"] == made["data"] == [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.1}]
    )
