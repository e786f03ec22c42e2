"""Errors and faults → a status, headers and a body in the client's own dialect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock import protocols
from penstock.errors import BadRequest, InputError, MissingExtra, StreamFault
from penstock.events import Fault
from penstock.gateway.callers import Refused
from penstock.http.header_fields import response_header
from penstock.http_errors import redact_fault
from penstock.vendor_errors import PARAM, is_from_protocol, refused_by

if TYPE_CHECKING:
    from penstock.events import FaultKind
    from penstock.gateway.endpoints import Headers

# Where the client's protocol has no vendor, and so no table of its own.
STATUSES: dict[FaultKind, int] = {
    "auth": 401, "permission": 403, "quota": 402, "not-found": 404, "invalid": 400, "too-large": 413, "rate-limit": 429,
    "overloaded": 503, "server": 502, "timeout": 504, "network": 502, "cancelled": 499, "filter": 400,
    "truncated": 502, "malformed": 502, "grammar": 502, "other": 500,
}  # fmt: skip
REFUSED_BY = b"x-penstock-refused-by"  # `gateway` or `provider`
JSON = (b"content-type", b"application/json")
_WORST = 599
_LONGEST_ID = 200  # characters of a provider's request id
_INTERNAL = "internal error of the gateway; its log tells more"


# What a client is told when the server stops before its answer is whole.
STOPPING = Fault(
    "overloaded", "the gateway is shutting down; send the request again", status=503, code="shutting-down",
    retry_after=1.0,
)  # fmt: skip


def status_of(fault: Fault, protocol: str = "") -> int:
    """The status of a refusal: the one that was given, by a provider of the same protocol or by the gateway; else the
    one that the client's vendor sends.
    """
    given = fault.status if fault.status is not None and 400 <= fault.status <= _WORST else None  # noqa: PLR2004
    vendor = protocols.error_status(protocol, fault) if protocol else None
    if vendor is None or refused_by(fault) == "gateway" or is_from_protocol(fault, protocol):
        return given or vendor or STATUSES[fault.kind]
    return vendor


def fault_of(error: BaseException, protocol: str = "") -> Fault:
    """What a client is told of an error, redacted. Of those that are not ours only that there was one."""
    return redact_fault(_fault_of(error, protocol))


def _fault_of(error: BaseException, protocol: str) -> Fault:
    if isinstance(error, StreamFault | Refused):
        return error.fault
    if isinstance(error, BadRequest):
        where = {protocol: {PARAM: error.path}} if error.path else None
        return Fault("invalid", str(error), status=400, extra=where)
    if isinstance(error, MissingExtra):
        return Fault("server", str(error), status=501, code="missing-extra")
    if isinstance(error, InputError):
        return Fault("invalid", str(error), status=400)
    return Fault("other", _INTERNAL, status=500, code="internal")


def unknown_model(error: Exception) -> Fault:
    """A name that means nobody."""
    return redact_fault(Fault("not-found", str(error), status=404, code="model_not_found"))


def refusal(protocol: str, fault: Fault) -> tuple[int, bytes, Headers]:
    """Status, body and headers."""
    return status_of(fault, protocol), body_of(protocol, fault), (JSON, *headers_of(fault))


def body_of(protocol: str, fault: Fault) -> bytes:
    """The body alone."""
    if not protocol or protocols.protocol(protocol).encoder is None:
        return msgspec.json.encode({"error": fault.message})
    return protocols.error_body(protocol, fault)


def headers_of(fault: Fault) -> Headers:
    """Who refused, when to come back, and by which id a provider knows what happened."""
    made: list[tuple[bytes, bytes]] = [(REFUSED_BY, refused_by(fault).encode())]
    if fault.retry_after is not None:
        made.append((b"retry-after", b"%d" % max(1, round(fault.retry_after))))
        made.append((b"retry-after-ms", b"%d" % round(fault.retry_after * 1000)))
    upstream_id = response_header("x-upstream-request-id", fault.request_id[:_LONGEST_ID])
    return tuple(made) if upstream_id is None else (*made, upstream_id)
