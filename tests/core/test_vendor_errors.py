"""The tables of vendors' errors are complete, and what providers say is recognised: overflow, quota, and their numbers."""

from __future__ import annotations

import json
from typing import get_args

from penstock import _protocols as protocols
from penstock._http_errors import read_http_error
from penstock._vendor_errors import refused_by, token_counts
from penstock.events import Fault, FaultKind
from tests.support import request_protocols as requesting
from tests.support.each_case import each
from tests.support.paths import PROJECT

VENDORS = ("openai-chat", "completions", "responses", "anthropic", "gemini")


@each("name", VENDORS)
def test_a_table_has_every_kind(name: str) -> None:
    errors = protocols.protocol(name).errors
    assert errors is not None
    assert set(errors) == {*get_args(FaultKind), "body-size"}
    assert all(400 <= row.status <= 599 and row.type for row in errors.values())


@each(
    "message, counts",
    [
        ("prompt is too long: 212345 tokens > 200000 maximum", (212345, 200000)),
        ("input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length", (209573, 200000)),
        ("This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.", (9000, 8192)),
        ("This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4800 in the messages, 200 in the completion).", (5000, 4096)),
        ("This endpoint's maximum context length is 128000 tokens. However, you requested about 200000 tokens (190000 of text input).", (200000, 128000)),
        ("Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens.", (300000, 272000)),
        ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", (1200000, 1048576)),
        ("prompt token count of 200000 exceeds the limit of 128000", (200000, 128000)),
        ("request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it", (5000, 4096)),
        ("This model's maximum prompt length is 131072 but the request contains 537812 tokens.", (537812, 131072)),
        ("Prompt contains 40000 tokens, too large for model with 32768 maximum context length", (40000, 32768)),
        ("Current length is 8200 while limit is 8192", (8200, 8192)),
        ("The prompt is too long: 200000, model maximum context length: 131071", (200000, 131071)),
        ("Your request exceeded model token limit: 262144 (requested: 300000)", (300000, 262144)),
        ("Your input exceeds the context window of this model.", None),
    ],
)  # fmt: skip
def test_the_counts_of_an_overflow_are_read(message: str, counts: tuple[int, int] | None) -> None:
    assert token_counts(message) == counts
    assert read_http_error(400, {}, json.dumps({"error": {"message": message}}).encode()).kind in {
        "too-large",
        "invalid",
    }


@each(
    "status, error",
    [
        (429, {"message": "x", "type": "insufficient_quota", "code": "credit_balance_exhausted"}),
        (429, {"message": "x", "type": "exceeded_current_quota_error"}),
        (402, {"message": "Insufficient Balance", "type": "unknown_error", "code": "invalid_request_error"}),
        (402, {"message": "This request requires more credits, or fewer max_tokens.", "code": 402}),
        (403, {"message": "Your team has run out of credits."}),
        (400, {"message": "You have reached your specified API usage limits.", "type": "invalid_request_error"}),
        (429, {"message": "x", "type": "rate_limit_error", "details": {"error_code": "enforced_spend_limit_reached"}}),
        (429, {"code": 429, "message": "x", "status": "RESOURCE_EXHAUSTED", "details": [{"reason": "QUOTA_EXHAUSTED"}]}),
    ],
)  # fmt: skip
def test_an_empty_account_is_no_rate_limit(status: int, error: dict[str, object]) -> None:
    assert read_http_error(status, {}, json.dumps({"error": error}).encode()).kind == "quota"


def test_a_rate_limit_is_no_empty_account() -> None:
    said = "Rate limit reached for gpt-5 on tokens per min (TPM): Limit 30000, Used 29000. Please try again in 2s."
    fault = read_http_error(
        429, {}, json.dumps({"error": {"message": said, "type": "tokens", "code": "rate_limit_exceeded"}}).encode()
    )
    assert (fault.kind, fault.retry_after) == ("rate-limit", 2)


def test_a_body_that_is_too_large_is_no_overflow() -> None:
    """Too many bytes: compacting a conversation is not what the client is told to do."""
    fault = Fault("too-large", "the body is over 9 bytes", status=413)
    assert requesting.error_body("anthropic", fault)["error"]["type"] == "request_too_large"
    assert protocols.error_status("anthropic", fault) == 413


def test_the_gateways_own_words_are_its_own() -> None:
    fault = Fault("auth", "no gateway key was sent", status=401, code="invalid_api_key")
    assert refused_by(fault) == "gateway"
    for name in VENDORS:
        assert requesting.error_body(name, fault)["error"]["message"] == "no gateway key was sent"
    missing = requesting.error_body("openai-chat", Fault("not-found", "nothing is here", status=404))
    assert missing["error"]["code"] is None
    circuit = requesting.error_body("openai-chat", Fault("overloaded", "busy", code="circuit-open"))
    assert circuit["error"]["code"] == "server_is_overloaded"


@each("path", ["vscode/src/errors.ts", "web/src/message/outcomes.ts"])
def test_every_kind_has_words_in_the_extension_and_on_the_page(path: str) -> None:
    source = (PROJECT / path).read_text(encoding="utf-8")
    named = {kind for kind in get_args(FaultKind) if f"  {kind}: " in source or f'  "{kind}": ' in source}
    assert named | {"other"} == set(get_args(FaultKind))
