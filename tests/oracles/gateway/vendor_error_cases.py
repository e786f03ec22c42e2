"""Errors as vendors send them, and what the vendors of the clients send for the same: two tables, written by hand from
their documentation. Nothing of penstock is used here: this is the other side of the comparison.

OpenAI: https://developers.openai.com/docs/guides/error-codes. Anthropic: https://docs.claude.com/en/api/errors. Google:
https://ai.google.dev/gemini-api/docs/troubleshooting.
"""

from __future__ import annotations

import json
from typing import Any

KINDS = (
    "overflow", "quota", "rate-limit", "auth", "permission", "not-found", "overload", "filter", "invalid", "server",
    "timeout",
)  # fmt: skip
UPSTREAMS = ("openai-chat", "responses", "anthropic", "gemini")
CLIENTS = ("openai-chat", "responses", "completions", "anthropic", "gemini")
_IS, _HAS = "invalid_request_error", "This model's maximum context length is 200000 tokens. However, your messages "


def _openai(message: str, sort: str, code: str | None, param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": sort, "param": param, "code": code}}


def _anthropic(message: str, sort: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": sort, "message": message}, "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy"}


def _google(message: str, code: int, status: str, *details: dict[str, Any]) -> dict[str, Any]:
    more = {"details": list(details)} if details else {}
    return {"error": {"code": code, "message": message, "status": status, **more}}


_OPENAI: dict[str, tuple[int, dict[str, Any]]] = {
    "overflow": (400, _openai(f"{_HAS}resulted in 212345 tokens. Please reduce the length of the messages.", _IS, "context_length_exceeded", "messages")),
    "quota": (429, _openai("You exceeded your current quota, please check your plan and billing details.", "insufficient_quota", "insufficient_quota")),
    "rate-limit": (429, _openai("Rate limit reached for gpt-5 on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 7s.", "requests", "rate_limit_exceeded")),
    "auth": (401, _openai("Incorrect API key provided. You can find your API key in your account.", _IS, "invalid_api_key")),
    "permission": (403, _openai("You have insufficient permissions for this operation.", _IS, None)),
    "not-found": (404, _openai("The model `gpt-9` does not exist or you do not have access to it.", _IS, "model_not_found")),
    "overload": (503, _openai("Our servers are currently overloaded. Please try again later.", "service_unavailable_error", "server_is_overloaded")),
    "filter": (400, _openai("Invalid prompt: your prompt was flagged as potentially violating our usage policy.", _IS, "invalid_prompt")),
    "invalid": (400, _openai("Unsupported parameter: 'temperature' is not supported with this model.", _IS, "unsupported_parameter", "temperature")),
    "server": (500, _openai("The server had an error while processing your request. Sorry about that!", "server_error", "server_error")),
    "timeout": (504, _openai("The request took too long.", "server_error", None)),
}  # fmt: skip
SENT: dict[str, dict[str, tuple[int, dict[str, Any]]]] = {
    "openai-chat": _OPENAI,
    "responses": {**_OPENAI, "overflow": (400, _openai("Your input exceeds the context window of this model. Please adjust your input and try again.", _IS, "context_length_exceeded", "input"))},
    "anthropic": {
        "overflow": (400, _anthropic("prompt is too long: 212345 tokens > 200000 maximum", _IS)),
        "quota": (400, _anthropic("Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.", _IS)),
        "rate-limit": (429, _anthropic("This request would exceed your organization's rate limit of 50 requests per minute.", "rate_limit_error")),
        "auth": (401, _anthropic("invalid x-api-key", "authentication_error")),
        "permission": (403, _anthropic("Your API key does not have permission to use the specified resource.", "permission_error")),
        "not-found": (404, _anthropic("model: claude-9", "not_found_error")),
        "overload": (529, _anthropic("Overloaded", "overloaded_error")),
        "filter": (400, _anthropic("Output blocked by content filtering policy", _IS)),
        "invalid": (400, _anthropic("messages.0.content: Field required", _IS)),
        "server": (500, _anthropic("Internal server error", "api_error")),
        "timeout": (504, _anthropic("The request timed out while processing.", "timeout_error")),
    },
    "gemini": {
        "overflow": (400, _google("The input token count (212345) exceeds the maximum number of tokens allowed (200000).", 400, "INVALID_ARGUMENT")),
        "quota": (429, _google("You exceeded your current quota, please check your plan and billing details.", 429, "RESOURCE_EXHAUSTED", {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]})),
        "rate-limit": (429, _google("You exceeded your current quota, please check your plan and billing details.", 429, "RESOURCE_EXHAUSTED", {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel"}]}, {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"})),
        "auth": (400, _google("API key not valid. Please pass a valid API key.", 400, "INVALID_ARGUMENT", {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"})),
        "permission": (403, _google("Your API key doesn't have the required permissions.", 403, "PERMISSION_DENIED")),
        "not-found": (404, _google("models/gemini-9 is not found for API version v1beta.", 404, "NOT_FOUND")),
        "overload": (503, _google("The model is overloaded. Please try again later.", 503, "UNAVAILABLE")),
        "filter": (400, _google("The prompt was blocked by content filters.", 400, "INVALID_ARGUMENT")),
        "invalid": (400, _google('Invalid JSON payload received. Unknown name "x": Cannot find field.', 400, "INVALID_ARGUMENT")),
        "server": (500, _google("An internal error has occurred.", 500, "INTERNAL")),
        "timeout": (504, _google("Deadline expired before operation could complete.", 504, "DEADLINE_EXCEEDED")),
    },
}  # fmt: skip

# client → kind → status, then the words that its SDK and its agents decide by: for OpenAI type, code and a part of the
# message; for Anthropic type and message; for Google status, a reason in the details, and message.
_OPENAI_WANTED: dict[str, tuple[int, str, str | None, str]] = {
    "overflow": (400, _IS, "context_length_exceeded", ""),
    "quota": (429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota"),
    "rate-limit": (429, "rate_limit_error", "rate_limit_exceeded", ""),
    "auth": (401, _IS, "invalid_api_key", "Incorrect API key provided"),
    "permission": (403, _IS, None, ""),
    "not-found": (404, _IS, "model_not_found", ""),
    "overload": (503, "service_unavailable_error", "server_is_overloaded", ""),
    "filter": (400, _IS, "invalid_prompt", "flagged as potentially violating our usage policy"),
    "invalid": (400, _IS, None, ""),
    "server": (500, "server_error", "server_error", ""),
    "timeout": (504, "server_error", "server_error", ""),
}
WANTED: dict[str, dict[str, tuple[int, str, str | None, str]]] = {
    "openai-chat": _OPENAI_WANTED, "responses": _OPENAI_WANTED, "completions": _OPENAI_WANTED,
    "anthropic": {
        "overflow": (400, _IS, None, "prompt is too long"),
        "quota": (402, "billing_error", None, "Your credit balance is too low"),
        "rate-limit": (429, "rate_limit_error", None, ""),
        "auth": (401, "authentication_error", None, "invalid x-api-key"),
        "permission": (403, "permission_error", None, ""),
        "not-found": (404, "not_found_error", None, ""),
        "overload": (529, "overloaded_error", None, ""),
        "filter": (400, _IS, None, "Output blocked by content filtering policy"),
        "invalid": (400, _IS, None, ""),
        "server": (500, "api_error", None, ""),
        "timeout": (504, "timeout_error", None, ""),
    },
    "gemini": {
        "overflow": (400, "INVALID_ARGUMENT", None, "exceeds the maximum number of tokens allowed"),
        "quota": (429, "RESOURCE_EXHAUSTED", "QUOTA_EXHAUSTED", "You exceeded your current quota"),
        "rate-limit": (429, "RESOURCE_EXHAUSTED", None, ""),
        "auth": (400, "INVALID_ARGUMENT", "API_KEY_INVALID", "API key not valid"),
        "permission": (403, "PERMISSION_DENIED", None, ""),
        "not-found": (404, "NOT_FOUND", None, ""),
        "overload": (503, "UNAVAILABLE", None, ""),
        "filter": (400, "INVALID_ARGUMENT", None, ""),
        "invalid": (400, "INVALID_ARGUMENT", None, ""),
        "server": (500, "INTERNAL", None, ""),
        "timeout": (504, "DEADLINE_EXCEEDED", None, ""),
    },
}  # fmt: skip
# The whole message of an overflow, where the provider said both counts.
OVERFLOW: dict[str, str] = {
    "openai-chat": f"{_HAS}resulted in 212345 tokens. Please reduce the length of the messages.",
    "responses": "Your input exceeds the context window of this model. Please adjust your input and try again. Input tokens exceed the configured limit of 200000 tokens. Your messages resulted in 212345 tokens.",
    "completions": f"{_HAS}resulted in 212345 tokens. Please reduce the length of the messages.",
    "anthropic": "prompt is too long: 212345 tokens > 200000 maximum",
    "gemini": "The input token count (212345) exceeds the maximum number of tokens allowed (200000).",
}
# The codes of a failed response. Codex gives up on server_is_overloaded, which the SDK does not declare for events: https://github.com/openai/codex/blob/main/codex-rs/codex-api/src/sse/responses.rs
EVENT_CODES: dict[str, str] = {
    "overflow": "context_length_exceeded", "quota": "insufficient_quota", "rate-limit": "rate_limit_exceeded",
    "overload": "server_error", "server": "server_error", "timeout": "server_error",
    **dict.fromkeys(("auth", "permission", "not-found", "filter", "invalid"), "invalid_prompt"),
}  # fmt: skip
# What the SDKs raise by status: https://github.com/openai/openai-python#handling-errors and their like.
CLASSES: dict[str, dict[int, str]] = {
    "openai": {
        400: "BadRequestError", 401: "AuthenticationError", 403: "PermissionDeniedError", 404: "NotFoundError",
        429: "RateLimitError", 500: "InternalServerError", 503: "InternalServerError", 504: "InternalServerError",
    },
    "anthropic": {
        400: "BadRequestError", 401: "AuthenticationError", 402: "APIStatusError", 403: "PermissionDeniedError",
        404: "NotFoundError", 429: "RateLimitError", 500: "InternalServerError", 504: "GatewayTimeoutError",
        529: "OverloadedError",
    },
    "google": {500: "ServerError", 503: "ServerError", 504: "ServerError"},  # and ClientError below 500
}  # fmt: skip


def begun(upstream: str, error: dict[str, Any]) -> bytes:
    """A stream that says one word, and then fails as the vendor's streams do."""
    if upstream == "anthropic":
        start: Any = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None, "usage": {"input_tokens": 1, "output_tokens": 1}}  # fmt: skip
        rows: list[Any] = [
            {"type": "message_start", "message": start},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hal"}},
            {"type": "error", "error": error},
        ]
    elif upstream == "gemini":
        said = {"content": {"parts": [{"text": "Hal"}], "role": "model"}, "index": 0}
        rows = [{"candidates": [said], "modelVersion": "m"}, {"error": error}]
    elif upstream == "responses":
        item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
        failed = {"code": error["code"] or "server_error", "message": error["message"]}
        head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": []}
        rows = [
            {"type": "response.created", "response": {**head, "status": "in_progress"}},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": "Hal"},
            {"type": "response.failed", "response": {**head, "status": "failed", "error": failed}},
        ]  # fmt: skip
    else:
        said = {"index": 0, "delta": {"role": "assistant", "content": "Hal"}, "finish_reason": None}
        rows = [{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [said]}, {"error": error}]  # fmt: skip
    return b"".join(
        (f"event: {row['type']}\n" if "type" in row else "").encode() + f"data: {json.dumps(row)}\n\n".encode()
        for row in rows
    )
