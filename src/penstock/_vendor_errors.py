"""Vendor errors: the kind of a vendor's error, and the status, type, code and message a vendor sends for a kind.

Each protocol has an error table (`Protocol.errors`). The error of a provider of the client's protocol is quoted
instead. Errors of the gateway keep their message and code. If the connection to a provider breaks, the message has
the phrases by which clients recognise a broken connection, so that they retry.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from penstock._diagnostics import read_tables
from penstock._lazy_patterns import lazy_pattern
from penstock._lenient_fields import as_object, as_objects, get_object, get_text
from penstock.events import Fault, FaultKind

ErrorKind: TypeAlias = FaultKind | Literal["body-size"]  # too many bytes is not too many tokens
RefusedBy: TypeAlias = Literal["gateway", "provider"]
HTTP = "http"  # where `Fault.extra` has the body of a refusal, and the protocol it was written in
ERROR, PARAM = "error", "param"  # what a protocol's own `Fault.extra` may hold: its error object, the field at fault
BROKEN: frozenset[FaultKind] = frozenset({"network", "truncated"})  # the connection to the provider broke
_BYTES = 413
_LONGEST = 4000  # characters of a message that are searched for numbers
_OWN_CODE = lazy_pattern(r"[a-z]{1,40}(?:_[a-z]{1,40}){1,8}")
# Shapes that are not protocols of turns, but have the same errors as one.
_SAME: dict[str, str] = {"openai-embeddings": "openai-chat", "openai-models": "openai-chat"}


class VendorError(msgspec.Struct, frozen=True, kw_only=True):
    """What a vendor sends for one kind of fault.

    `code` stands in an HTTP body; `event_code` in an event of a stream, where that differs. `opening` is how the
    vendor's message begins, where clients look for it; `overflow` the message with both token counts. `in_stream`: the
    vendor accepts a request for a stream, and tells this error inside it.
    """

    status: int
    type: str
    code: str | None = None
    event_code: str | None = None
    param: str | None = None
    opening: str = ""
    overflow: str = ""
    in_stream: bool = False
    details: tuple[dict[str, Any], ...] = ()


ErrorTable: TypeAlias = Mapping[ErrorKind, VendorError]


def read_errors(module: str, file: str = "errors.toml") -> ErrorTable:
    """Returns the error table of a TOML file beside a module: a `VendorError` for each kind of fault."""
    return msgspec.convert(read_tables(module.rpartition(".")[0], file), dict[ErrorKind, VendorError])


class ErrorRules(NamedTuple):
    """What codes, statuses and messages of vendors mean. `quota` tells a used-up credit by its message."""

    codes: dict[str, FaultKind]
    statuses: dict[int, FaultKind]
    messages: dict[FaultKind, re.Pattern[str]]
    quota: re.Pattern[str]
    token_counts: list[re.Pattern[str]]


@cache
def error_rules() -> ErrorRules:
    """Returns the rules of `_vendor_errors.toml`. They are read when the first error is."""
    tables = read_tables("penstock", "_vendor_errors.toml")
    messages: dict[FaultKind, re.Pattern[str]] = {
        kind: lazy_pattern("|".join(patterns), re.IGNORECASE) for kind, patterns in tables["messages"].items()
    }
    return ErrorRules(
        codes={code: kind for kind, codes in tables["codes"].items() for code in codes.split()},
        statuses={status: kind for kind, statuses in tables["statuses"].items() for status in statuses},
        quota=messages.pop("quota"),
        messages=messages,
        token_counts=[lazy_pattern(pattern, re.IGNORECASE) for pattern in tables["token_counts"]],
    )


QUOTA_EXHAUSTED = "QUOTA_EXHAUSTED"  # Google's code for a quota that does not come back within minutes
_VAGUE: frozenset[FaultKind] = frozenset({"invalid", "server", "other"})  # the status may be more specific
_VAGUE_STATUSES = frozenset({400, 422, 500, 502})
_QUOTA_STATUSES = frozenset({400, 401, 403, 422, 429})  # statuses that providers send if credit is used up
_OPENAI_PROTOCOLS = ("openai-chat", "responses", "completions")  # they have the same error object
_STATUS = lazy_pattern("[45][0-9][0-9]")
_SEPARATORS = lazy_pattern(r"[^a-z0-9]+")


def vendor_error(errors: ErrorTable, fault: Fault) -> VendorError:
    """Returns the row of a fault."""
    if fault.kind == "too-large" and fault.status == _BYTES and not _is_overflow(fault.message):
        return errors["body-size"]
    return errors[fault.kind]


def _is_overflow(message: str) -> bool:
    """True if a message says that a prompt has too many tokens."""
    return error_rules().messages["too-large"].search(message[:_LONGEST]) is not None


def refused_by(fault: Fault) -> RefusedBy:
    """Returns who refused the request: a provider, if the fault has its error, otherwise the gateway."""
    said = fault.extra or {}
    return "provider" if HTTP in said or any(get_object(as_object(own), ERROR) for own in said.values()) else "gateway"


# ── quoting ───────────────────────────────────────────────────────────────────────────────────────


def is_from_protocol(fault: Fault, protocol: str) -> bool:
    """True if the error comes from a provider of this protocol."""
    said = fault.extra or {}
    written = get_text(as_object(said.get(HTTP)), "protocol")
    return bool(protocol) and (
        _SAME.get(written, written) == protocol or bool(get_object(as_object(said.get(protocol)), ERROR))
    )


def provider_body(fault: Fault, protocol: str) -> dict[str, Any] | None:
    """Returns the error body of a provider of this protocol; None if it is another's, or has another shape."""
    http = as_object((fault.extra or {}).get(HTTP))
    body = as_object(http.get("body")) or as_object(next(iter(as_objects(http.get("body"))), None))
    return body if is_from_protocol(fault, protocol) and get_text(get_object(body, ERROR), "message") else None


def provider_error_object(fault: Fault, protocol: str) -> dict[str, Any]:
    """Returns the error object of a provider of this protocol, from a body or a stream; empty if there is none."""
    body = provider_body(fault, protocol)
    return (
        get_object(body, ERROR) if body is not None else get_object(as_object((fault.extra or {}).get(protocol)), ERROR)
    )


def rejected_param(fault: Fault, protocol: str) -> Any:
    """Returns the field of the request that the gateway refuses."""
    return as_object((fault.extra or {}).get(protocol)).get(PARAM)


def vendor_code(fault: Fault, row: VendorError) -> str | None:
    """Returns the vendor's code, or the gateway's code if it is written like a vendor's."""
    if refused_by(fault) == "provider":
        return row.code
    if _OWN_CODE.fullmatch(fault.code) and (
        fault.code == row.code or normalize_code(fault.code) not in error_rules().codes
    ):
        return fault.code
    return None if fault.kind == "not-found" else row.code  # the gateway reports this kind not only for models


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


def token_counts(message: str) -> tuple[int, int] | None:
    """Returns the tokens of a prompt and the limit, as a provider's message has them."""
    found = next((found for one in error_rules().token_counts if (found := one.search(message[:_LONGEST]))), None)
    if found is None:
        return None
    named = found.groupdict()
    return int(named["tokens"]) + int(named.get("more") or 0), int(named["limit"])


def vendor_message(fault: Fault, row: VendorError) -> str:
    """Returns the message with the vendor's opening. A message about token counts is rewritten as the vendor's.

    The gateway's own refusals keep their message. A broken connection is not one of them.
    """
    if refused_by(fault) == "gateway" and fault.kind not in BROKEN:
        return fault.message
    counts = token_counts(fault.message) if row.overflow else None
    if counts is not None:
        return row.overflow.format(tokens=counts[0], limit=counts[1])
    if not row.opening or row.opening.casefold() in fault.message.casefold():
        return fault.message
    return f"{row.opening}: {fault.message}"


# ── the kind of a fault ─────────────────────────────────────────────────────────────────────────────


def normalize_code(given: object) -> str:
    """Returns a code in the form of the table."""
    return _SEPARATORS.sub("", str(given or "").lower())


def fault_kind(*words: object, status: int | None = None) -> FaultKind:
    """Returns the kind of the first known code, else of the status, else `server` or `other`."""
    for one in words:
        kind = error_rules().codes.get(normalize_code(one))
        if kind is not None:
            return kind
    if status is None:
        status = next((int(one) for one in map(str, words) if _STATUS.fullmatch(one)), 0)
    return error_rules().statuses.get(status, "server" if status >= 500 else "invalid" if status >= 400 else "other")  # noqa: PLR2004


def is_daily_quota(details: Iterable[Mapping[str, Any]]) -> bool:
    """True if Google's error details name a daily quota. The message is the same for a quota per minute."""
    lists: list[Any] = [one.get("violations") for one in details]
    rows: list[Any] = [row for one in lists if isinstance(one, list) for row in one]  # pyright: ignore[reportUnknownVariableType]
    return any("PerDay" in str(row.get("quotaId")) for row in rows if isinstance(row, dict))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def classify_fault(words: Iterable[str], message: str, status: int | None) -> FaultKind:
    """Returns the kind of an error: by a telling code, then by the message, the status, and codes that say little."""
    known = [one for one in words if one]
    rules = error_rules()
    if status is None:
        status = next((int(one) for one in known if _STATUS.fullmatch(one)), None)
    found: list[FaultKind] = [rules.codes[bare] for one in known if (bare := normalize_code(one)) in rules.codes]
    telling: FaultKind | None = next((kind for kind in found if kind not in _VAGUE), None)
    if telling not in {None, "rate-limit", "permission", "auth"}:
        return telling or "other"
    if (status is None or status in _QUOTA_STATUSES) and rules.quota.search(message):
        return "quota"
    if telling is not None:
        return telling
    if status is None or status in _VAGUE_STATUSES:
        prose: FaultKind | None = next((kind for kind, one in rules.messages.items() if one.search(message)), None)
        if prose is not None:
            return prose
    if status in rules.statuses and status not in _VAGUE_STATUSES:
        return rules.statuses[status]
    return found[0] if found else fault_kind(status=status)


# ── OpenAI ────────────────────────────────────────────────────────────────────────────────────────


def openai_errors(param: str, **fields: Any) -> ErrorTable:
    """Returns OpenAI's error table. `param` is the field of the prompt; `fields` differ if a prompt is too long."""
    errors = read_errors(__name__, "_openai_errors.toml")
    return {**errors, "too-large": replace(errors["too-large"], param=param, **fields)}


def openai_error_object(fault: Fault, protocol: str, errors: ErrorTable, *, event: bool = False) -> dict[str, Any]:
    """Returns the error object for a body or an event. The error of a provider of the same protocol is quoted."""
    quoted = provider_error_object(fault, protocol)
    row = vendor_error(errors, fault)
    code, param = vendor_code(fault, row), rejected_param(fault, protocol) or row.param
    if event:
        code = row.event_code or row.code
    elif fault.kind == "invalid":
        code, param = _sibling_code(fault, protocol, code, param)
    if quoted:
        return {"message": fault.message, "type": row.type, "param": None, "code": None, **quoted}
    return {"message": _openai_message(fault, row), "type": row.type, "param": param, "code": code}


def build_openai_error_body(fault: Fault, protocol: str, errors: ErrorTable) -> dict[str, Any]:
    """Returns the body of an HTTP error, which is also the payload of an error in a stream of chunks."""
    return {"error": openai_error_object(fault, protocol, errors)}


def _sibling_code(fault: Fault, protocol: str, code: str | None, param: Any) -> tuple[str | None, Any]:
    """Returns code and field of an error of another OpenAI protocol: they have the same names there."""
    for sibling in _OPENAI_PROTOCOLS:
        said = provider_error_object(fault, sibling) if sibling != protocol else {}
        if said:
            return get_text(said, "code") or code, get_text(said, "param") or param
    return code, param


def _openai_message(fault: Fault, row: VendorError) -> str:
    """Returns the message with the delay, as OpenAI writes it. Codex reads the delay from the message in a stream."""
    message = vendor_message(fault, row)
    if fault.kind != "rate-limit" or fault.retry_after is None or "try again in" in message.lower():
        return message
    return f"{message.rstrip().removesuffix('.')}. Please try again in {fault.retry_after:g}s."
