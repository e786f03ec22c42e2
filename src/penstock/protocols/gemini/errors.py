"""A fault → the error that the Gemini API would send: https://ai.google.dev/gemini-api/docs/troubleshooting.

The limit of bytes as it is reported: https://github.com/MaKTaiL/gemini-srt-translator/issues/63. No public source was
found for a prompt that is refused by a filter with an error: Gemini answers 200 with a blockReason; ours is a 400.
A wrong key is a 400 there, with the reason API_KEY_INVALID. Gemini CLI gives up on the reason QUOTA_EXHAUSTED, and
waits for every other RESOURCE_EXHAUSTED:
https://github.com/google-gemini/gemini-cli/blob/main/packages/core/src/utils/googleQuotaErrors.ts
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock.vendor_errors import VendorError, message_of, provider_object, refused_by, vendor_error

if TYPE_CHECKING:
    from penstock.events import Fault
    from penstock.vendor_errors import ErrorTable

NAME = "gemini"
RETRY = "type.googleapis.com/google.rpc.RetryInfo"
_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
_INVALID, _EXHAUSTED = "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"
_FAILED = VendorError(status=500, type="INTERNAL")
ERRORS: ErrorTable = {
    "auth": VendorError(
        status=400, type=_INVALID, opening="API key not valid. Please pass a valid API key",
        details=({"@type": _INFO, "reason": "API_KEY_INVALID", "domain": "googleapis.com"},),
    ),
    "permission": VendorError(status=403, type="PERMISSION_DENIED"),
    "quota": VendorError(
        status=429, type=_EXHAUSTED,
        opening="You exceeded your current quota, please check your plan and billing details",
        details=({"@type": _INFO, "reason": "QUOTA_EXHAUSTED", "domain": "cloudcode-pa.googleapis.com"},),
    ),
    "not-found": VendorError(status=404, type="NOT_FOUND"),
    "invalid": VendorError(status=400, type=_INVALID),
    "too-large": VendorError(
        status=400, type=_INVALID, opening="The input token count exceeds the maximum number of tokens allowed",
        overflow="The input token count ({tokens}) exceeds the maximum number of tokens allowed ({limit}).",
    ),
    "body-size": VendorError(status=400, type=_INVALID, opening="Request payload size exceeds the limit"),
    "rate-limit": VendorError(status=429, type=_EXHAUSTED),
    "filter": VendorError(status=400, type=_INVALID),
    "overloaded": VendorError(status=503, type="UNAVAILABLE"),
    "timeout": VendorError(status=504, type="DEADLINE_EXCEEDED"),
    "cancelled": VendorError(status=499, type="CANCELLED"),
    "network": VendorError(status=502, type="UNAVAILABLE"),
    "server": _FAILED, "other": _FAILED, "truncated": replace(_FAILED, status=502),
    "malformed": replace(_FAILED, status=502), "grammar": replace(_FAILED, status=502),
}  # fmt: skip
# What Google's APIs answer to the statuses of a gateway that are none of the table's.
_STATUSES: dict[int, str] = {401: "UNAUTHENTICATED", 501: "UNIMPLEMENTED"}


def error_body(fault: Fault) -> dict[str, Any]:
    """The body of an HTTP error, which is also the payload of an error in a stream."""
    quoted = provider_object(fault, NAME)
    if isinstance(quoted.get("code"), int) and isinstance(quoted.get("status"), str):  # Interactions has other words
        return {"error": quoted}
    row = vendor_error(ERRORS, fault)
    own = fault.status if refused_by(fault) == "gateway" else None  # the status that a gateway's refusal has
    status = own or row.status
    word = _STATUSES.get(status, row.type)
    error: dict[str, Any] = {"code": status, "message": message_of(fault, row), "status": word}
    details = [dict(one) for one in row.details] if status == row.status else []
    if fault.retry_after is not None:
        details.append({"@type": RETRY, "retryDelay": f"{fault.retry_after:g}s"})
    if details:
        error["details"] = details
    return {"error": error}
