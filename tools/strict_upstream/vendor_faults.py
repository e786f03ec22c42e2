"""How each vendor words a rate limit, an overload, an overflow, an empty account and a wrong key.

https://platform.openai.com/docs/guides/error-codes
https://docs.claude.com/en/api/errors and https://docs.claude.com/en/api/rate-limits
https://ai.google.dev/gemini-api/docs/troubleshooting and https://ai.google.dev/gemini-api/docs/rate-limits
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tools.strict_upstream.refusal import Refusal, anthropic, gemini, openai

if TYPE_CHECKING:
    from tools.strict_upstream.conversation import Protocol

FaultName = Literal["rate-limit", "overload", "overflow", "quota", "auth"]
_QUOTA = (
    "You exceeded your current quota, please check your plan and billing details. For more information on this error, "
)
_RPC = "type.googleapis.com/google.rpc"


def make_refusal(protocol: Protocol, fault: FaultName) -> Refusal:
    """The refusal of this vendor."""
    match protocol:
        case "messages":
            refusal = _anthropic(fault)
        case "gemini":
            refusal = _gemini(fault)
        case _:
            refusal = _openai(fault, protocol)
    refusal.fault = True
    return refusal


def _openai(fault: FaultName, protocol: Protocol) -> Refusal:
    match fault:
        case "rate-limit":
            text = (
                "Rate limit reached for gpt-4.1 in organization org-strict on tokens per min (TPM): Limit "
                "30000, Used 29500, Requested 1000. Please try again in 1s. Visit "
                "https://platform.openai.com/account/rate-limits to learn more."
            )
            headers = {"retry-after": "1", "retry-after-ms": "1000", "x-ratelimit-remaining-tokens": "500"}
            return openai(text, status=429, type="tokens", code="rate_limit_exceeded", headers=headers)
        case "overload":
            text = "The engine is currently overloaded, please try again later"
            return openai(text, status=503, type="server_error", code="service_unavailable")
        case "overflow":
            if protocol == "responses":
                text = "Your input exceeds the context window of this model. Please adjust your input and try again."
                return openai(text, param="input", code="context_length_exceeded")
            text = (
                "This model's maximum context length is 1047576 tokens. However, your messages resulted in "
                "1054321 tokens. Please reduce the length of the messages."
            )
            return openai(text, param="messages", code="context_length_exceeded")
        case "quota":
            text = _QUOTA + "read the docs: https://platform.openai.com/docs/guides/error-codes/api-errors."
            return openai(text, status=429, type="insufficient_quota", code="insufficient_quota")
        case "auth":
            text = (
                "Incorrect API key provided: sk-stric*****upstream. You can find your API key at "
                "https://platform.openai.com/account/api-keys."
            )
            return openai(text, status=401, code="invalid_api_key")


def _anthropic(fault: FaultName) -> Refusal:
    match fault:
        case "rate-limit":
            text = (
                "This request would exceed your organization's rate limit of 50,000 input tokens per minute. "
                "For details, refer to: https://docs.claude.com/en/api/rate-limits."
            )
            headers = {"retry-after": "1", "anthropic-ratelimit-input-tokens-remaining": "0"}
            return anthropic(text, status=429, type="rate_limit_error", headers=headers)
        case "overload":
            return anthropic("Overloaded", status=529, type="overloaded_error", headers={"x-should-retry": "true"})
        case "overflow":
            return anthropic("prompt is too long: 1054321 tokens > 1000000 maximum")
        case "quota":
            text = (
                "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to "
                "upgrade or purchase credits."
            )
            return anthropic(text)
        case "auth":
            return anthropic("invalid x-api-key", status=401, type="authentication_error")


def _gemini(fault: FaultName) -> Refusal:
    match fault:
        case "rate-limit":
            text = _QUOTA + "head to: https://ai.google.dev/gemini-api/docs/rate-limits.\nPlease retry in 1s."
            violation = {
                "quotaMetric": "generativelanguage.googleapis.com/generate_content_requests",
                "quotaId": "GenerateRequestsPerMinutePerProjectPerModel",
            }
            quota = {"@type": f"{_RPC}.QuotaFailure", "violations": [violation]}
            retry = {"@type": f"{_RPC}.RetryInfo", "retryDelay": "1s"}
            return gemini(text, status=429, code="RESOURCE_EXHAUSTED", details=[quota, retry])
        case "overload":
            return gemini("The model is overloaded. Please try again later.", status=503, code="UNAVAILABLE")
        case "overflow":
            return gemini("The input token count (1054321) exceeds the maximum number of tokens allowed (1048576).")
        case "quota":
            text = _QUOTA + "head to: https://ai.google.dev/gemini-api/docs/rate-limits."
            violation = {
                "quotaMetric": "generativelanguage.googleapis.com/generate_content_requests",
                "quotaId": "GenerateRequestsPerDayPerProjectPerModel",
            }
            details = [{"@type": f"{_RPC}.QuotaFailure", "violations": [violation]}]
            return gemini(text, status=429, code="RESOURCE_EXHAUSTED", details=details)
        case "auth":
            info = {"@type": f"{_RPC}.ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"}
            return gemini("API key not valid. Please pass a valid API key.", details=[info])
