"""Providers' error responses become typed errors: status, code, message, request id, retry-after; no secrets."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import errors
from penstock.errors import ProviderError, explain, provider_error
from penstock.events import Fault, FaultKind
from penstock.testing import Reply, Upstream
from tests.support import corpus
from tests.support.routed_client import KEY, asking, quick, routed, run, staged

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

    Refused = Callable[[int, Any, Mapping[str, str]], Awaitable[ProviderError]]

MARK = "[secret]"
REQUEST_ID_HEADERS = (
    "request-id x-request-id x-amzn-requestid apim-request-id x-ms-request-id x-goog-request-id mistral-correlation-id "
    "x-correlation-id x-kong-request-id openai-request-id x-groq-request-id x-generation-id x-trace-id cf-ray"
).split()
# name → status, body; kind, code, what the message holds
SAID: dict[str, tuple[int, Any, str, str, str]] = {
    "openai key": (401, {"error": {"message": "Incorrect API key", "type": "invalid_request_error", "code": "invalid_api_key"}}, "auth", "invalid_api_key", "Incorrect"),
    "openai model": (404, {"error": {"message": "no such model", "type": "invalid_request_error", "code": "model_not_found"}}, "not-found", "model_not_found", "no such"),
    "a 400 that means the model": (400, {"error": {"message": "gone", "code": "model_not_found"}}, "not-found", "model_not_found", "gone"),
    "quota is no rate": (429, {"error": {"message": "no credit", "code": "insufficient_quota"}}, "quota", "insufficient_quota", "credit"),
    "vague type, telling status": (401, {"error": {"message": "Unauthorized", "type": "api_error", "code": None}}, "auth", "api_error", "Unauthorized"),
    "anthropic": (529, {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}, "request_id": "req_9"}, "overloaded", "overloaded_error", "busy"),
    "anthropic too long": (400, {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8"}}, "too-large", "invalid_request_error", "too long"),
    "google key": (400, {"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT", "details": [{"reason": "API_KEY_INVALID"}]}}, "auth", "API_KEY_INVALID", "not valid"),
    "google in a list": (503, [{"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}], "overloaded", "UNAVAILABLE", "busy"),
    "bedrock": (400, {"message": "The provided model identifier is invalid."}, "not-found", "", "identifier"),
    "mistral": (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, "invalid", "", "field required"),
    "fastapi text": (401, {"detail": "Invalid API Key"}, "auth", "", "Invalid API Key"),
    "ollama": (404, {"error": "model 'x' not found"}, "not-found", "", "not found"),
    "xai": (400, {"code": "invalid-argument", "error": "Incorrect API key provided."}, "auth", "invalid-argument", "Incorrect"),
    "cloudflare": (403, {"success": False, "errors": [{"code": 10000, "message": "Authentication error"}]}, "permission", "", "Authentication"),
    "a middleman's quote": (502, {"error": {"message": "Provider returned error", "code": 502, "metadata": {"raw": '{"error":{"message":"deep cause"}}'}}}, "server", "", "deep cause"),
    "llama.cpp": (400, {"error": {"code": 400, "message": "too much", "type": "exceed_context_size_error"}}, "too-large", "exceed_context_size_error", "too much"),
    "azure filter": (400, {"error": {"code": "content_filter", "message": "policy", "innererror": {"code": "ResponsibleAIPolicyViolation"}}}, "filter", "ResponsibleAIPolicyViolation", "policy"),
    "nothing at all": (500, b"", "server", "", "status 500"),
    "a web page": (502, b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>", "server", "", "502 Bad Gateway"),
    "plain text": (503, b"upstream connect error", "overloaded", "", "upstream connect"),
    "a number": (500, b"42", "server", "", "42"),
}  # fmt: skip


@asynccontextmanager
async def refusing() -> AsyncGenerator[Refused]:
    """What a client raises when a provider answers with this status, body and these headers."""
    async with Upstream(Reply.no_response()) as up:
        client = routed(up, retries=0, breaker={"failures": 10**9})

        async def refused(status: int, body: Any, headers: Mapping[str, str]) -> ProviderError:
            raw = body if isinstance(body, bytes) else json.dumps(body).encode()
            up.script(Reply.body(raw, status=status, headers={"content-type": "application/json", **headers}))
            with pytest.raises(ProviderError) as caught:
                await client.open(asking(stream=False), options=quick())
            return caught.value

        yield refused


def test_a_no_is_understood() -> None:
    wrong: list[str] = []

    async def scene() -> None:
        async with refusing() as refused:
            for case, (status, body, kind, code, words) in SAID.items():
                error = await refused(status, body, {})
                found = (error.kind, error.status, error.code, type(error))
                if found != (kind, status, code, errors.KINDS[kind]) or words not in error.message:
                    wrong.append(f"{case}: {found} {error.message}")

    run(scene)
    assert wrong == []


WAITS: dict[str, tuple[dict[str, str], float | None]] = {
    "seconds": ({"retry-after": "20"}, 20),
    "fraction": ({"retry-after": "0.5"}, 0.5),
    "milliseconds": ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
    "date": ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 30),
    "date in the past": ({"retry-after": "Wed, 21 Oct 2026 07:27:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 0),
    "date in the past of the server's own clock": ({"retry-after": "Wed, 21 Oct 2020 07:28:30 GMT"}, 0),
    "span": ({"x-ratelimit-reset-after": "1m30s"}, 90),
    "nonsense": ({"retry-after": "soon"}, None),
    "none": ({}, None),
}


BODY_WAITS: list[tuple[Any, float]] = [
    ({"error": {"code": 429, "message": "x", "details": [{"retryDelay": "15s"}]}}, 15),
    ({"error": {"message": "Rate limit reached. Please try again in 350ms."}}, 0.35),
    ({"error": {"code": 429, "message": "x", "details": [{"retryDelay": "2h1m0.5s"}]}}, 7260.5),
]


def test_how_long_to_wait_and_which_request_it_was() -> None:
    waits: dict[str, float | None] = {}
    ids: list[str] = []

    async def scene() -> None:
        async with refusing() as refused:
            for case, (headers, _) in WAITS.items():
                waits[case] = (await refused(500, b"{}", headers)).retry_after
            for body, seconds in BODY_WAITS:
                assert (await refused(429, body, {})).retry_after == pytest.approx(seconds)
            ids.extend([(await refused(500, b"{}", {name: "r-1"})).request_id for name in REQUEST_ID_HEADERS])
            ids.append((await refused(500, b'{"request_id":"r-1","error":{"message":"x"}}', {})).request_id)

    run(scene)
    assert waits == {case: seconds for case, (_, seconds) in WAITS.items()}
    assert ids == ["r-1"] * len(ids)


# ── secrets ───────────────────────────────────────────────────────────────────────────────────────

PLANTED = (
    "Incorrect API key provided: sk-abcdefghij0123456789", "Authorization: Bearer abcdef.ghijk-lmnop",
    "https://user:hunter22@proxy.test:8080/x", "https://host/v1/models?key=AIzaSyA1234567890abcdefghijklmn&alt=sse",
    '{"api_key": "zq-9-secret-value"}', "x-amz-security-token=FQoGZXIvYXdzE", "AKIAIOSFODNN7EXAMPLE",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-def",
)  # fmt: skip


HARMLESS = (
    "The model `gpt-4o` does not exist", "https://platform.openai.com/account/api-keys", "prompt is too long",
    "key-value pairs", "task-based",
)  # fmt: skip
PARTS = ("abcdefghij0123", "hunter22", "AIzaSy", "zq-9", "FQoGZX", "IOSFODNN", "eyJzdWI", "ghijk-lmnop")


def test_what_looks_like_a_secret_is_hidden_and_nothing_else() -> None:
    for text in PLANTED:
        told = explain(provider_error(Fault("server", text, 500), body=text, headers={"x-note": text}))
        assert MARK in told, text
        assert [part for part in PARTS if part in told] == [], text
    for text in HARMLESS:
        assert text in explain(provider_error(Fault("server", text, 500)))
    shown = {"X-Api-Key": "abc", "authorization": "xyz", "my-secret-token": "uvw", "content-type": "zz-plain"}
    told = explain(
        provider_error(Fault("server", "down", 500), headers={**shown, "x-ratelimit-remaining-tokens": "12"})
    )
    assert [value for value in ("abc", "xyz", "uvw") if value in told] == []
    assert "zz-plain" in told
    assert "x-ratelimit-remaining-tokens: 12" in told, "a number of tokens is no token"


# ── explaining ────────────────────────────────────────────────────────────────────────────────────


def test_an_error_is_explained_with_all_that_was_said() -> None:
    first = provider_error(Fault("overloaded", "busy", 529), provider="anthropic", model="m")
    fault = Fault("rate-limit", f"slow down, {KEY}", 429, "rate_limit_error", "req_7", 2.5)
    last = provider_error(
        fault, provider="openai", model="gpt", body='{"error": "slow"}', headers={"x-request-id": "req_7", "api-key": KEY},
        attempts=[first],
    )  # fmt: skip
    last.__cause__ = OSError("the cable was cut")
    block = explain(last)
    for word in (
        "RateLimited", "openai", "gpt", "429", "rate_limit_error", "req_7", "2.5 s", '{"error": "slow"}', "x-request-id",
        "try 1", "Overloaded", "busy", "caused by", "the cable was cut", "hint:",
    ):  # fmt: skip
        assert word in block
    assert KEY not in block


def test_any_error_can_be_explained_and_a_ring_ends() -> None:
    one, two = ValueError("one"), KeyError("two")
    one.__cause__, two.__cause__ = two, one
    assert explain(one).count("ValueError") == 1


def test_every_kind_has_its_class() -> None:
    assert set(errors.KINDS) == set(get_args(FaultKind))


# ── the recorded ones ─────────────────────────────────────────────────────────────────────────────


def test_recorded_errors_are_understood() -> None:
    """Of every recorded error: a kind, the status, and the provider's own message and code. No headers were recorded."""
    corpus.corpus_or_skip()
    wrong: list[str] = []

    async def scene() -> None:
        async with refusing() as refused:
            for entry in corpus.errors():
                saved = json.loads(entry.body)
                body = saved["body"] if isinstance(saved, dict) and "body" in saved else saved
                error = await refused(entry.status or 400, body.encode() if isinstance(body, str) else body, {})
                if error.status != (entry.status or 400) or error.kind == "other" or not is_told(body, error):
                    wrong.append(f"{entry.name}: {error}")

    run(scene)
    assert not wrong, "\n".join(wrong)


def is_told(body: Any, error: ProviderError) -> bool:
    """The message is one of the body's own strings, less its secrets; so is the code."""
    strings = [*_strings(body)]
    pieces = error.message.split(MARK)
    said = any(text and (text in error.message or all(piece in text for piece in pieces)) for text in strings)
    return said and (not error.code or error.code in strings)


def _strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for inner in value.values() for text in _strings(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in _strings(inner)]
    return [value] if isinstance(value, str) else []


# ── anything at all ───────────────────────────────────────────────────────────────────────────────

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["error", "errors", "message", "code", "type", "details", "detail", "metadata", "raw", "status", "innererror", "retryDelay"]),
        inner, max_size=5,
    ),
    max_leaves=20,
)  # fmt: skip


@given(
    body=st.binary(max_size=200) | _JSON.map(lambda value: json.dumps(value).encode()),
    status=st.integers(400, 599),
    headers=st.dictionaries(
        st.sampled_from([*REQUEST_ID_HEADERS, "retry-after", "retry-after-ms", "x-amzn-errortype"]),
        st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=30),
    ),
)
@staged
async def test_any_answer_is_read(body: bytes, status: int, headers: dict[str, str]) -> None:
    async with refusing() as refused:
        error = await refused(status, body, headers)
        assert error.message
        assert error.kind in errors.KINDS
        assert error.retry_after is None or error.retry_after >= 0
        assert explain(error)
