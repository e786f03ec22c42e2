"""A fault → the error that Anthropic would send. Types and statuses: https://docs.claude.com/en/api/errors.

As they are reported: https://github.com/anthropics/anthropic-sdk-python/issues/938 (413 request_too_large, "Request
exceeds the maximum size"), https://github.com/anthropics/claude-code/issues/10314 (the same, in Claude Code). The
sentence of the filter is in no documentation; many clients compare with it, and Claude Code prints it as "API Error:
400 Output blocked by content filtering policy".

Claude Code decides by the words of some messages: it compacts a conversation only after "prompt is too long: N tokens >
M maximum", and knows a bad key by "x-api-key" and an empty account by "Your credit balance is too low".

In a stream there is no status, and `api_error` alone tells nobody to ask again. Agents look for words in the message:
opencode for "connection error", Continue for "premature close". The type `overloaded_error` would not be true, and
Continue does not read types:
https://github.com/continuedev/continue/blob/main/extensions/cli/src/util/exponentialBackoff.ts
https://github.com/sst/opencode/blob/dev/packages/opencode/src/session/retry.ts
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock.vendor_errors import VendorError, message_of, provider_object, vendor_error

if TYPE_CHECKING:
    from penstock.events import Fault
    from penstock.vendor_errors import ErrorTable

NAME = "anthropic"
_FAILED = VendorError(status=500, type="api_error")
ERRORS: ErrorTable = {
    "auth": VendorError(status=401, type="authentication_error", opening="invalid x-api-key"),
    "permission": VendorError(status=403, type="permission_error"),
    "quota": VendorError(status=402, type="billing_error", opening="Your credit balance is too low"),
    "not-found": VendorError(status=404, type="not_found_error"),
    "invalid": VendorError(status=400, type="invalid_request_error"),
    "too-large": VendorError(
        status=400, type="invalid_request_error", opening="prompt is too long",
        overflow="prompt is too long: {tokens} tokens > {limit} maximum",
    ),
    "body-size": VendorError(status=413, type="request_too_large", opening="Request exceeds the maximum size"),
    "rate-limit": VendorError(status=429, type="rate_limit_error"),
    "filter": VendorError(
        status=400, type="invalid_request_error", opening="Output blocked by content filtering policy"
    ),
    "overloaded": VendorError(status=529, type="overloaded_error"),
    "timeout": VendorError(status=504, type="timeout_error"),
    "server": _FAILED, "other": _FAILED, "cancelled": replace(_FAILED, status=499),
    "network": replace(_FAILED, status=502, opening="Connection error"),
    "truncated": replace(_FAILED, status=502, opening="Connection error (premature close)"),
    "malformed": replace(_FAILED, status=502), "grammar": replace(_FAILED, status=502),
}  # fmt: skip


def error_body(fault: Fault) -> dict[str, Any]:
    """The body of an HTTP error, which is also the payload of an error in a stream."""
    row = vendor_error(ERRORS, fault)
    error = provider_object(fault, NAME) or {"type": row.type, "message": message_of(fault, row)}
    payload: dict[str, Any] = {"type": "error", "error": error}
    if fault.request_id:
        payload["request_id"] = fault.request_id
    return payload
