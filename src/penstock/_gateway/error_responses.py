"""Error responses: converts errors to a status, headers and a body in the client's protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock import _protocols as protocols
from penstock._gateway import read_tables
from penstock._gateway.callers import Refusal
from penstock._http.header_fields import response_header
from penstock._http_errors import redact_fault
from penstock._vendor_errors import PARAM, is_from_protocol, refused_by
from penstock.errors import BadRequest, InputError, MissingExtra, StreamFault
from penstock.events import Fault, FaultKind

if TYPE_CHECKING:
    from penstock._gateway.endpoints import Headers
    from penstock._http.response_writer import CancellableTask

STATUSES: dict[FaultKind, int] = read_tables()["statuses"]  # for protocols without a vendor
REFUSED_BY = b"x-penstock-refused-by"  # `gateway` or `provider`
JSON = (b"content-type", b"application/json")
_MAX_STATUS = 599
_MAX_ID_LENGTH = 200  # characters of a provider's request id
_INTERNAL_ERROR = "internal error of the gateway; its log tells more"


# The error of an unfinished answer when the server stops.
SHUTTING_DOWN = Fault(
    "overloaded",
    "the gateway is shutting down; send the request again",
    status=503,
    code="shutting-down",
    retry_after=1.0,
)


def error_status(fault: Fault, protocol: str = "") -> int:
    """Return the status of a fault: the given one if the gateway or a provider of the same protocol set it, else the
    one that the client's vendor uses.
    """
    given = fault.status if fault.status is not None and 400 <= fault.status <= _MAX_STATUS else None  # noqa: PLR2004
    vendor = protocols.error_status(protocol, fault) if protocol else None
    if vendor is None or refused_by(fault) == "gateway" or is_from_protocol(fault, protocol):
        return given or vendor or STATUSES[fault.kind]
    return vendor


def fault_from_error(error: BaseException, protocol: str = "") -> Fault:
    """Return the fault of an error, redacted. Unexpected errors become an internal error without details."""
    return redact_fault(_convert_error(error, protocol))


def _convert_error(error: BaseException, protocol: str) -> Fault:
    if isinstance(error, StreamFault | Refusal):
        return error.fault
    if isinstance(error, BadRequest):
        where = {protocol: {PARAM: error.path}} if error.path else None
        return Fault("invalid", str(error), status=400, extra=where)
    if isinstance(error, MissingExtra):
        return Fault("server", str(error), status=501, code="missing-extra")
    if isinstance(error, InputError):
        return Fault("invalid", str(error), status=400)
    return Fault("other", _INTERNAL_ERROR, status=500, code="internal")


def cancellation_fault(gone: CancellableTask) -> Fault:
    """Return why a request was cancelled, for the journal."""
    return gone.fault or Fault("cancelled", gone.reason or "the server is stopping")


def unknown_model_fault(error: Exception) -> Fault:
    """Return the fault of an unknown model."""
    return redact_fault(Fault("not-found", str(error), status=404, code="model_not_found"))


def error_response(protocol: str, fault: Fault) -> tuple[int, bytes, Headers]:
    """Return the status, body and headers of an error."""
    return error_status(fault, protocol), error_body(protocol, fault), (JSON, *error_headers(fault))


def error_body(protocol: str, fault: Fault) -> bytes:
    """Return the body of an error."""
    if not protocol or protocols.protocol(protocol).encoder is None:
        return msgspec.json.encode({"error": fault.message})
    return protocols.error_body(protocol, fault)


def error_headers(fault: Fault) -> Headers:
    """Return the headers of an error: who refused, when to retry, and the provider's request id."""
    result: list[tuple[bytes, bytes]] = [(REFUSED_BY, refused_by(fault).encode())]
    if fault.retry_after is not None:
        result.append((b"retry-after", b"%d" % max(1, round(fault.retry_after))))
        result.append((b"retry-after-ms", b"%d" % round(fault.retry_after * 1000)))
    upstream_id = response_header("x-upstream-request-id", fault.request_id[:_MAX_ID_LENGTH])
    return tuple(result) if upstream_id is None else (*result, upstream_id)
