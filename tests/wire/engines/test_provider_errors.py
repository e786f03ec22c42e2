"""Providers' error responses become typed errors: status, code, message, request id, retry-after; no secrets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import errors
from penstock._http_errors import REQUEST_ID_HEADERS, parse_duration, read_http_error, retry_after
from penstock._redaction import MARK, redact, redact_headers
from penstock.errors import explain, provider_error
from penstock.events import Fault
from tests.support import corpus
from tests.wire.engines.router_setup import KEY

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


@pytest.mark.parametrize("case", SAID)
def test_a_no_is_understood(case: str) -> None:
    status, body, kind, code, words = SAID[case]
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    fault = read_http_error(status, {}, raw)
    assert (fault.kind, fault.status, fault.code) == (kind, status, code)
    assert words in fault.message
    assert type(provider_error(fault)) is errors.KINDS[kind]


@pytest.mark.parametrize("name", REQUEST_ID_HEADERS)
def test_a_request_id_is_found_in_any_header(name: str) -> None:
    assert read_http_error(500, {name: "r-1"}, b"{}").request_id == "r-1"


def test_a_request_id_is_found_in_the_body() -> None:
    assert read_http_error(500, {}, b'{"request_id":"r-2","error":{"message":"x"}}').request_id == "r-2"


WAITS: dict[str, tuple[dict[str, str], float | None]] = {
    "seconds": ({"retry-after": "20"}, 20),
    "fraction": ({"retry-after": "0.5"}, 0.5),
    "milliseconds": ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
    "date": ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 30),
    "date in the past": ({"retry-after": "Wed, 21 Oct 2026 07:27:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 0),
    "date without a clock": ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT"}, None),
    "span": ({"x-ratelimit-reset-after": "1m30s"}, 90),
    "nonsense": ({"retry-after": "soon"}, None),
    "none": ({}, None),
}


@pytest.mark.parametrize("case", WAITS)
def test_how_long_to_wait(case: str) -> None:
    headers, seconds = WAITS[case]
    assert retry_after(headers) == seconds


def test_a_wait_said_in_the_body() -> None:
    google = {"error": {"code": 429, "message": "x", "details": [{"retryDelay": "15s"}]}}
    assert read_http_error(429, {}, json.dumps(google).encode()).retry_after == 15
    prose = {"error": {"message": "Rate limit reached. Please try again in 350ms."}}
    assert read_http_error(429, {}, json.dumps(prose).encode()).retry_after == pytest.approx(0.35)
    assert parse_duration("2h1m0.5s") == 7260.5


# ── secrets ───────────────────────────────────────────────────────────────────────────────────────

PLANTED = (
    "Incorrect API key provided: sk-abcdefghij0123456789", "Authorization: Bearer abcdef.ghijk-lmnop",
    "https://user:hunter22@proxy.test:8080/x", "https://host/v1/models?key=AIzaSyA1234567890abcdefghijklmn&alt=sse",
    '{"api_key": "zq-9-secret-value"}', "x-amz-security-token=FQoGZXIvYXdzE", "AKIAIOSFODNN7EXAMPLE",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-def",
)  # fmt: skip


@pytest.mark.parametrize("text", PLANTED)
def test_what_looks_like_a_secret_is_hidden(text: str) -> None:
    made = redact(text)
    assert MARK in made
    assert made != text
    assert not [
        word
        for word in ("abcdefghij0123", "hunter22", "AIzaSy", "zq-9", "FQoGZX", "IOSFODNN", "eyJzdWI", "ghijk-lmnop")
        if word in made
    ]


@pytest.mark.parametrize(
    "text",
    [
        "The model `gpt-4o` does not exist",
        "https://platform.openai.com/account/api-keys",
        "prompt is too long",
        "key-value pairs",
        "task-based",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


def test_headers_that_carry_secrets() -> None:
    shown = redact_headers({"X-Api-Key": "abc", "authorization": "x", "my-secret-token": "y", "content-type": "z"})
    assert list(shown.values()) == [MARK, MARK, MARK, "z"]


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
    from typing import get_args

    from penstock.events import FaultKind

    assert set(errors.KINDS) == set(get_args(FaultKind))


# ── the recorded ones ─────────────────────────────────────────────────────────────────────────────


def test_recorded_errors_are_understood() -> None:
    """Of every recorded error: a kind, the status, and the provider's own message and code. No headers were recorded."""
    corpus.corpus_or_skip()
    wrong: list[str] = []
    for entry in corpus.errors():
        saved = json.loads(entry.body)
        body = saved["body"] if isinstance(saved, dict) and "body" in saved else saved
        status = entry.status
        fault = read_http_error(status, {}, body.encode() if isinstance(body, str) else json.dumps(body).encode())
        if fault.status != status or fault.kind == "other" or not _told(body, fault):
            wrong.append(f"{entry.name}: {fault}")
    assert not wrong, "\n".join(wrong)


def _told(body: Any, fault: Fault) -> bool:
    """The message is one of the body's own strings, less its secrets; so is the code."""
    strings = [redact(text) for text in _strings(body)]
    said = any(text and (fault.message in text or text in fault.message) for text in strings)
    return said and (not fault.code or fault.code in strings)


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
    status=st.none() | st.integers(100, 599),
    headers=st.dictionaries(st.sampled_from([*REQUEST_ID_HEADERS, "retry-after", "retry-after-ms", "date", "x-amzn-errortype"]), st.text(max_size=30)),
)  # fmt: skip
def test_any_answer_is_read(body: bytes, status: int | None, headers: dict[str, str]) -> None:
    fault = read_http_error(status, headers, body)
    assert fault.message
    assert fault.kind in errors.KINDS
    assert fault.retry_after is None or fault.retry_after >= 0
    assert explain(provider_error(fault, headers=headers, body=body.decode("utf-8", "replace")))
