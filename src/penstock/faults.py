"""Error words to fault kinds: one table for all the ways providers say the same thing.

A word is looked up whole, lower-cased and without separators. What is only said in prose is searched for in the
message; a status comes last. Quota (no credit left: waiting does not help) is told from a rate limit (waiting does).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.events import FaultKind

WORDS: dict[str, FaultKind] = {
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
STATUSES: dict[int, FaultKind] = {
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
PROSE: tuple[tuple[re.Pattern[str], FaultKind], ...] = (
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
SPENT = "QUOTA_EXHAUSTED"  # Google's word for a quota that does not come back within minutes
_SEPARATORS = re.compile(r"[^a-z0-9]+")


def word(given: object) -> str:
    """A word as the table has it."""
    return _SEPARATORS.sub("", str(given or "").lower())


def kind_of(*words: object, status: int | None = None) -> FaultKind:
    """The kind that the first known word names, else the status, else `server` or `other`."""
    for one in words:
        kind = WORDS.get(word(one))
        if kind is not None:
            return kind
    if status is None:
        status = next((int(one) for one in map(str, words) if re.fullmatch("[45][0-9][0-9]", one)), 0)
    return STATUSES.get(status, "server" if status >= 500 else "invalid" if status >= 400 else "other")  # noqa: PLR2004


def is_daily_quota(details: Iterable[Mapping[str, Any]]) -> bool:
    """Whether Google's error details name a quota per day. Its message is the same for one per minute."""
    lists: list[Any] = [one.get("violations") for one in details]
    rows: list[Any] = [row for one in lists if isinstance(one, list) for row in one]  # pyright: ignore[reportUnknownVariableType]
    return any("PerDay" in str(row.get("quotaId")) for row in rows if isinstance(row, dict))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def classify(words: Iterable[str], message: str, status: int | None) -> FaultKind:
    """A word that says something first, then prose, then the status, then words that say little."""
    known = [one for one in words if one]
    if status is None:
        status = next((int(one) for one in known if re.fullmatch("[45][0-9][0-9]", one)), None)
    found: list[FaultKind] = [WORDS[bare] for one in known if (bare := word(one)) in WORDS]
    telling: FaultKind | None = next((kind for kind in found if kind not in _VAGUE), None)
    if telling not in {None, "rate-limit", "permission", "auth"}:
        return telling or "other"
    if (status is None or status in _SPENT) and QUOTA.search(message):
        return "quota"
    if telling is not None:
        return telling
    if status is None or status in _OPEN:
        prose: FaultKind | None = next((kind for pattern, kind in PROSE if pattern.search(message)), None)
        if prose is not None:
            return prose
    if status in STATUSES and status not in _OPEN:
        return STATUSES[status]
    return found[0] if found else kind_of(status=status)
