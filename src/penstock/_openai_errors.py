"""The errors of OpenAI's APIs, which Chat Completions, Completions and Responses share: one object, one table.

Statuses, types and codes: https://developers.openai.com/docs/guides/error-codes, and as they are reported:
- permission: https://github.com/Aider-AI/aider/issues/1903 (403 invalid_request_error; its code model_not_found is said
  only where it is a model that may not be used)
- filter: https://github.com/microsoft/PyRIT/pull/1463, https://github.com/alan-turing-institute/t0-1/issues/69
  (content_policy_violation is of the images API, content_filter of Azure)
- body-size: a 413 with a page of HTML, so type and code are ours: https://github.com/openai/codex/issues/2908
Codex reads the codes of events: https://github.com/openai/codex/blob/main/codex-rs/codex-api/src/sse/responses.rs
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock._lenient_fields import get_text
from penstock._vendor_errors import (
    ErrorTable,
    VendorError,
    provider_error_object,
    rejected_param,
    vendor_code,
    vendor_error,
    vendor_message,
)

if TYPE_CHECKING:
    from penstock.events import Fault

FAMILY = ("openai-chat", "responses", "completions")  # who write the same error object
_INVALID, _BROKEN = "invalid_request_error", "server_error"
_TOO_LONG = (
    "This model's maximum context length is {limit} tokens. However, your messages resulted in {tokens} tokens. "
    "Please reduce the length of the messages."
)
_EVENT = "invalid_prompt"  # the one code of a failed response after which Codex does not send the request again
_FAILED = VendorError(status=500, type=_BROKEN, code=_BROKEN)
ERRORS: ErrorTable = {
    "auth": VendorError(
        status=401, type=_INVALID, code="invalid_api_key", event_code=_EVENT, opening="Incorrect API key provided"
    ),
    "permission": VendorError(status=403, type=_INVALID, event_code=_EVENT),
    "quota": VendorError(
        status=429, type="insufficient_quota", code="insufficient_quota",
        opening="You exceeded your current quota, please check your plan and billing details",
    ),
    "not-found": VendorError(status=404, type=_INVALID, code="model_not_found", event_code=_EVENT),
    "invalid": VendorError(status=400, type=_INVALID, event_code=_EVENT),
    "too-large": VendorError(
        status=400, type=_INVALID, code="context_length_exceeded", overflow=_TOO_LONG,
        opening="Your input exceeds the context window of this model. Please adjust your input and try again",
    ),
    "body-size": VendorError(status=413, type=_INVALID, event_code=_EVENT),
    "rate-limit": VendorError(status=429, type="rate_limit_error", code="rate_limit_exceeded"),
    "filter": VendorError(
        status=400, type=_INVALID, code=_EVENT,
        opening="Invalid prompt: your prompt was flagged as potentially violating our usage policy",
    ),
    "overloaded": VendorError(
        status=503, type="service_unavailable_error", code="server_is_overloaded", event_code=_BROKEN
    ),
    "server": _FAILED, "other": _FAILED,
    "timeout": replace(_FAILED, status=504), "cancelled": replace(_FAILED, status=499),
    "network": replace(_FAILED, status=502), "truncated": replace(_FAILED, status=502),
    "malformed": replace(_FAILED, status=502), "grammar": replace(_FAILED, status=502),
}  # fmt: skip


def errors_with_prompt(param: str, **fields: Any) -> ErrorTable:
    """The table of a protocol whose prompt stands in this field: an overflow names it. `fields` are its other words."""
    return {**ERRORS, "too-large": replace(ERRORS["too-large"], param=param, **fields)}


def error_object(fault: Fault, protocol: str, errors: ErrorTable = ERRORS, *, event: bool = False) -> dict[str, Any]:
    """The error object. A provider of the same protocol is quoted, with all that it said."""
    quoted = provider_error_object(fault, protocol)
    row = vendor_error(errors, fault)
    code, param = vendor_code(fault, row), rejected_param(fault, protocol) or row.param
    if event:
        code = row.event_code or row.code
    elif fault.kind == "invalid":
        code, param = _sibling_words(fault, protocol, code, param)
    if quoted:
        return {"message": fault.message, "type": row.type, "param": None, "code": None, **quoted}
    return {"message": _message(fault, row), "type": row.type, "param": param, "code": code}


def build_error_body(fault: Fault, protocol: str, errors: ErrorTable) -> dict[str, Any]:
    """Returns the body of an HTTP error, which is also the payload of an error in a stream of chunks."""
    return {"error": error_object(fault, protocol, errors)}


def _sibling_words(fault: Fault, protocol: str, code: str | None, param: Any) -> tuple[str | None, Any]:
    """What a provider of a sibling protocol says of an invalid request: code and field have the same names there."""
    for sibling in FAMILY:
        said = provider_error_object(fault, sibling) if sibling != protocol else {}
        if said:
            return get_text(said, "code") or code, get_text(said, "param") or param
    return code, param


def _message(fault: Fault, row: VendorError) -> str:
    """The message, with how long to wait: OpenAI says so in words, and that is where Codex reads it in a stream."""
    message = vendor_message(fault, row)
    if fault.kind != "rate-limit" or fault.retry_after is None or "try again in" in message.lower():
        return message
    return f"{message.rstrip().removesuffix('.')}. Please try again in {fault.retry_after:g}s."
