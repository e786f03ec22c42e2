"""Errors in the words of a client's own vendor: which status, type, code and message it sends for a kind of fault.

Each protocol's folder has a table of them (`Protocol.errors`). A provider that speaks the client's protocol is quoted
instead. What the gateway itself refuses keeps its own message and code. A connection to a provider that breaks is
the client's chance to ask again, so its message has the words by which clients recognise one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from penstock._diagnostics import read_tables
from penstock._lenient_fields import as_object, as_objects, get_object, get_text
from penstock.events import Fault, FaultKind

ErrorKind: TypeAlias = FaultKind | Literal["body-size"]  # too many bytes: vendors tell it from too many tokens
RefusedBy: TypeAlias = Literal["gateway", "provider"]
HTTP = "http"  # where `Fault.extra` has the body of a refusal, and the protocol it was written in
ERROR, PARAM = "error", "param"  # what a protocol's own `Fault.extra` may hold: its error object, the field at fault
BROKEN: frozenset[FaultKind] = frozenset({"network", "truncated"})  # the connection to the provider broke
_BYTES = 413
_LONGEST = 4000  # characters of a message that are searched for numbers
_OWN_CODE = re.compile(r"[a-z]{1,40}(?:_[a-z]{1,40}){1,8}")
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


def read_errors(module: str) -> ErrorTable:
    """Reads the table in the `errors.toml` beside a protocol's module."""
    tables = read_tables(module.rpartition(".")[0], "errors.toml")
    return msgspec.convert(tables, dict[ErrorKind, VendorError])


def vendor_error(errors: ErrorTable, fault: Fault) -> VendorError:
    """The row of a fault."""
    if fault.kind == "too-large" and fault.status == _BYTES and not OVERFLOW.search(fault.message[:_LONGEST]):
        return errors["body-size"]
    return errors[fault.kind]


def refused_by(fault: Fault) -> RefusedBy:
    """Who refused: a provider whose error is quoted in the fault, or whoever made the fault."""
    said = fault.extra or {}
    return "provider" if HTTP in said or any(get_object(as_object(own), ERROR) for own in said.values()) else "gateway"


# ── quoting ───────────────────────────────────────────────────────────────────────────────────────


def is_from_protocol(fault: Fault, protocol: str) -> bool:
    """Whether the error is of a provider that speaks this protocol."""
    said = fault.extra or {}
    written = get_text(as_object(said.get(HTTP)), "protocol")
    return bool(protocol) and (
        _SAME.get(written, written) == protocol or bool(get_object(as_object(said.get(protocol)), ERROR))
    )


def provider_body(fault: Fault, protocol: str) -> dict[str, Any] | None:
    """The body with which a provider of this protocol refused; None where it is of another, or not of its shape."""
    http = as_object((fault.extra or {}).get(HTTP))
    body = as_object(http.get("body")) or as_object(next(iter(as_objects(http.get("body"))), None))
    return body if is_from_protocol(fault, protocol) and get_text(get_object(body, ERROR), "message") else None


def provider_error_object(fault: Fault, protocol: str) -> dict[str, Any]:
    """The error object of a provider of this protocol, from a body or from a stream; empty where there is none."""
    body = provider_body(fault, protocol)
    return (
        get_object(body, ERROR) if body is not None else get_object(as_object((fault.extra or {}).get(protocol)), ERROR)
    )


def rejected_param(fault: Fault, protocol: str) -> Any:
    """The field of the request that the gateway itself objects to."""
    return as_object((fault.extra or {}).get(protocol)).get(PARAM)


def vendor_code(fault: Fault, row: VendorError) -> str | None:
    """The vendor's code; the gateway's own where it has one that is written like a vendor's."""
    if refused_by(fault) == "provider":
        return row.code
    if _OWN_CODE.fullmatch(fault.code) and (fault.code == row.code or normalize_code(fault.code) not in KINDS_BY_CODE):
        return fault.code
    return None if fault.kind == "not-found" else row.code  # the gateway lacks other things than models, too


# ── messages ──────────────────────────────────────────────────────────────────────────────────────

# How providers say how long a prompt is, and how long it may be: `tokens`, to which `more` is added, and `limit`.
COUNTS: tuple[re.Pattern[str], ...] = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?P<tokens>\d{1,12}) tokens > (?P<limit>\d{1,12})",  # Anthropic
        r"context limit: (?P<tokens>\d{1,12}) \+ (?P<more>\d{1,12}) > (?P<limit>\d{1,12})",  # also Anthropic
        r"token count (?:of )?\(?(?P<tokens>\d{1,12})\)? exceeds [a-z ]{1,60}\(?(?P<limit>\d{1,12})",  # Google, Copilot
        # OpenAI, vLLM, OpenRouter, DeepSeek, xAI
        r"maximum (?:context|prompt) length is (?P<limit>\d{1,12})[^0-9]{1,80}(?P<tokens>\d{1,12}) tokens",
        r"limit of (?P<limit>\d{1,12}) tokens[^0-9]{1,80}resulted in (?P<tokens>\d{1,12})",  # OpenAI
        r"\((?P<tokens>\d{1,12}) tokens\) exceeds the available context size \((?P<limit>\d{1,12})",  # llama.cpp
        r"contains (?P<tokens>\d{1,12}) tokens[^0-9]{1,80}(?P<limit>\d{1,12}) maximum context length",  # Mistral
        r"length is (?P<tokens>\d{1,12}) while limit is (?P<limit>\d{1,12})",  # Cerebras
        r"too long: (?P<tokens>\d{1,12}), model maximum context length: (?P<limit>\d{1,12})",  # Fireworks
        r"token limit: (?P<limit>\d{1,12}) \(requested: (?P<tokens>\d{1,12})",  # Moonshot
    )
)


def token_counts(message: str) -> tuple[int, int] | None:
    """How many tokens a prompt has and how many it may have, as a provider says it."""
    found = next((found for one in COUNTS if (found := one.search(message[:_LONGEST]))), None)
    if found is None:
        return None
    named = found.groupdict()
    return int(named["tokens"]) + int(named.get("more") or 0), int(named["limit"])


def vendor_message(fault: Fault, row: VendorError) -> str:
    """The message as the vendor begins it. Of a provider's own message nothing is lost but words for two numbers.

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


KINDS_BY_CODE: dict[str, FaultKind] = {
    "authenticationerror": "auth", "unauthenticated": "auth", "unauthorized": "auth", "invalidapikey": "auth",
    "apikeyinvalid": "auth",
    "unrecognizedclientexception": "auth", "expiredtokenexception": "auth", "incompletesignature": "auth",
    "permissionerror": "permission", "permissiondenied": "permission", "accessdeniedexception": "permission",
    "forbidden": "permission", "usagenotincluded": "permission",
    # https://developers.openai.com/docs/guides/error-codes lists the spend limits; https://docs.claude.com/en/api/errors
    # has billing_error; QUOTA_EXHAUSTED is Google's for what does not come back within minutes.
    "billingerror": "quota", "insufficientquota": "quota", "creditbalanceexhausted": "quota",
    "organizationspendlimitexceeded": "quota", "projectspendlimitexceeded": "quota",
    "organizationusagelimitexceeded": "quota", "billinghardlimitreached": "quota", "billingnotactive": "quota",
    "enforcedspendlimitreached": "quota", "quotaexhausted": "quota", "quotaexceeded": "quota",
    "insufficientg1creditsbalance": "quota",
    "exceededcurrentquotaerror": "quota", "insufficientbalance": "quota", "insufficientcredits": "quota",
    "paymentrequired": "quota", "usagelimitreached": "quota", "servicequotaexceededexception": "quota",
    "notfounderror": "not-found", "notfound": "not-found", "modelnotfound": "not-found",
    "invalidmodel": "not-found",
    "resourcenotfoundexception": "not-found", "deploymentnotfound": "not-found", "modelnotreadyexception": "overloaded",
    "invalidrequesterror": "invalid", "invalidargument": "invalid", "badrequest": "invalid",
    "badrequesterror": "invalid", "validationexception": "invalid", "failedprecondition": "invalid",
    "unprocessableentity": "invalid", "invalidprompt": "invalid", "toolusefailed": "invalid",
    "exceedcontextsizeerror": "too-large", "requesttoolarge": "too-large",
    "contextlengthexceeded": "too-large", "contextwindowexceeded": "too-large",
    "stringabovemaxlength": "too-large", "payloadtoolarge": "too-large", "modelmaxprompttokensexceeded": "too-large",
    "ratelimiterror": "rate-limit", "ratelimitexceeded": "rate-limit", "toomanyrequests": "rate-limit",
    "throttlingexception": "rate-limit", "resourceexhausted": "rate-limit", "ratelimit": "rate-limit",
    "ratelimitreached": "rate-limit", "slowdown": "rate-limit", "tokens": "rate-limit", "requests": "rate-limit",
    "overloadederror": "overloaded", "overloaded": "overloaded", "unavailable": "overloaded",
    "serviceunavailableexception": "overloaded", "serviceunavailable": "overloaded", "engineoverloaded": "overloaded",
    "serverisoverloaded": "overloaded", "serviceunavailableerror": "overloaded",
    "modelcapacityexhausted": "overloaded",
    "apierror": "server", "servererror": "server", "internalservererror": "server", "internal": "server",
    "internalserverexception": "server", "modelstreamerrorexception": "server", "modelerrorexception": "server",
    "timeouterror": "timeout", "deadlineexceeded": "timeout", "modeltimeoutexception": "timeout", "timeout": "timeout",
    "gatewaytimeout": "timeout",
    "cancelled": "cancelled", "canceled": "cancelled", "aborted": "cancelled", "aborterror": "cancelled",
    "contentfilter": "filter", "contentpolicyviolation": "filter", "responsibleaipolicyviolation": "filter",
    "safety": "filter",
    # our own words, which come back where one penstock reads another
    "auth": "auth", "permission": "permission", "quota": "quota", "invalid": "invalid", "toolarge": "too-large",
    "server": "server", "network": "network", "filter": "filter", "truncated": "truncated", "malformed": "malformed",
    "grammar": "grammar",
}  # fmt: skip
KINDS_BY_STATUS: dict[int, FaultKind] = {
    400: "invalid", 401: "auth", 402: "quota", 403: "permission", 404: "not-found", 408: "timeout",
    409: "invalid", 413: "too-large", 422: "invalid", 424: "server", 429: "rate-limit", 499: "cancelled",
    503: "overloaded", 504: "timeout", 529: "overloaded",
}  # fmt: skip
_VAGUE: frozenset[FaultKind] = frozenset({"invalid", "server", "other"})  # kinds that a status may know better
_OPEN = frozenset({400, 422, 500, 502})  # statuses that say too little themselves
_SPENT = frozenset({400, 401, 403, 422, 429})  # and those with which somebody says that the money is gone
# What is only said in prose, in the order it is looked for.
QUOTA = re.compile(
    r"(?i)credit balance is too low|insufficient (?:account )?(?:balance|credits?|funds|quota)|credits are depleted"
    r"|specified api usage limits|(?:out of|not enough|no(?: remaining)?|any|more) credits\b|billing (?:hard )?limit"
    r"|spend(?:ing)? limit"
)
OVERFLOW = re.compile(
    r"(?i)prompt is too long|context (?:length|window|size|limit)|maximum (?:context|prompt length)|input is too long"
    r"|too many (?:input )?tokens|exceeds? the (?:available |maximum )?(?:context|number of tokens)"
    r"|exceeded model token limit|prompt exceeds max length|prompt token count|range of input length"
    r"|`inputs` (?:tokens|must have less than)"
)
KINDS_BY_MESSAGE: tuple[tuple[re.Pattern[str], FaultKind], ...] = (
    (OVERFLOW, "too-large"),
    (re.compile(r"(?i)(?:invalid|incorrect|missing|no) api[ -]?key|api key not valid|invalid x-api-key"), "auth"),
    (re.compile(r"(?i)\bmodel\b.{0,120}\b(?:not found|does not exist)|model identifier is invalid"), "not-found"),
    # Anthropic's words for its filter, and OpenAI's: a 400 of type invalid_request_error.
    (
        re.compile(
            r"(?i)blocked by content filter|flagged as potentially violating|content management policy"
            r"|limited access to this content for safety"  # https://github.com/microsoft/PyRIT/pull/1463
        ),
        "filter",
    ),
)
QUOTA_EXHAUSTED = "QUOTA_EXHAUSTED"  # Google's word for a quota that does not come back within minutes
_SEPARATORS = re.compile(r"[^a-z0-9]+")


def normalize_code(given: object) -> str:
    """A word as the table has it."""
    return _SEPARATORS.sub("", str(given or "").lower())


def fault_kind(*words: object, status: int | None = None) -> FaultKind:
    """The kind that the first known word names, else the status, else `server` or `other`."""
    for one in words:
        kind = KINDS_BY_CODE.get(normalize_code(one))
        if kind is not None:
            return kind
    if status is None:
        status = next((int(one) for one in map(str, words) if re.fullmatch("[45][0-9][0-9]", one)), 0)
    return KINDS_BY_STATUS.get(status, "server" if status >= 500 else "invalid" if status >= 400 else "other")  # noqa: PLR2004


def is_daily_quota(details: Iterable[Mapping[str, Any]]) -> bool:
    """Whether Google's error details name a quota per day. Its message is the same for one per minute."""
    lists: list[Any] = [one.get("violations") for one in details]
    rows: list[Any] = [row for one in lists if isinstance(one, list) for row in one]  # pyright: ignore[reportUnknownVariableType]
    return any("PerDay" in str(row.get("quotaId")) for row in rows if isinstance(row, dict))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def classify_fault(words: Iterable[str], message: str, status: int | None) -> FaultKind:
    """A word that says something first, then prose, then the status, then words that say little."""
    known = [one for one in words if one]
    if status is None:
        status = next((int(one) for one in known if re.fullmatch("[45][0-9][0-9]", one)), None)
    found: list[FaultKind] = [KINDS_BY_CODE[bare] for one in known if (bare := normalize_code(one)) in KINDS_BY_CODE]
    telling: FaultKind | None = next((kind for kind in found if kind not in _VAGUE), None)
    if telling not in {None, "rate-limit", "permission", "auth"}:
        return telling or "other"
    if (status is None or status in _SPENT) and QUOTA.search(message):
        return "quota"
    if telling is not None:
        return telling
    if status is None or status in _OPEN:
        prose: FaultKind | None = next((kind for pattern, kind in KINDS_BY_MESSAGE if pattern.search(message)), None)
        if prose is not None:
            return prose
    if status in KINDS_BY_STATUS and status not in _OPEN:
        return KINDS_BY_STATUS[status]
    return found[0] if found else fault_kind(status=status)
