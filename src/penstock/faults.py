"""Error words to fault kinds: one table for all the ways providers say the same thing.

A word is looked up whole, lower-cased and without separators, then by the parts it contains; a status comes last.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.events import FaultKind

WORDS: dict[str, FaultKind] = {
    "authenticationerror": "auth", "unauthenticated": "auth", "unauthorized": "auth", "invalidapikey": "auth",
    "apikeyinvalid": "auth",
    "unrecognizedclientexception": "auth", "expiredtokenexception": "auth", "incompletesignature": "auth",
    "permissionerror": "permission", "permissiondenied": "permission", "accessdeniedexception": "permission",
    "forbidden": "permission", "billingerror": "permission", "insufficientquota": "permission",
    "notfounderror": "not-found", "notfound": "not-found", "modelnotfound": "not-found",
    "invalidmodel": "not-found",
    "resourcenotfoundexception": "not-found", "deploymentnotfound": "not-found", "modelnotreadyexception": "overloaded",
    "invalidrequesterror": "invalid", "invalidargument": "invalid", "badrequest": "invalid",
    "badrequesterror": "invalid", "validationexception": "invalid", "failedprecondition": "invalid",
    "unprocessableentity": "invalid", "invalidprompt": "invalid", "toolusefailed": "invalid",
    "exceedcontextsizeerror": "too-large", "requesttoolarge": "too-large",
    "contextlengthexceeded": "too-large", "contextwindowexceeded": "too-large",
    "stringabovemaxlength": "too-large", "payloadtoolarge": "too-large",
    "ratelimiterror": "rate-limit", "ratelimitexceeded": "rate-limit", "toomanyrequests": "rate-limit",
    "throttlingexception": "rate-limit", "resourceexhausted": "rate-limit", "ratelimit": "rate-limit",
    "ratelimitreached": "rate-limit",
    "servicequotaexceededexception": "rate-limit", "slowdown": "rate-limit", "tokens": "rate-limit",
    "overloadederror": "overloaded", "overloaded": "overloaded", "unavailable": "overloaded",
    "serviceunavailableexception": "overloaded", "serviceunavailable": "overloaded", "engineoverloaded": "overloaded",
    "apierror": "server", "servererror": "server", "internalservererror": "server", "internal": "server",
    "internalserverexception": "server", "modelstreamerrorexception": "server", "modelerrorexception": "server",
    "timeouterror": "timeout", "deadlineexceeded": "timeout", "modeltimeoutexception": "timeout", "timeout": "timeout",
    "gatewaytimeout": "timeout",
    "cancelled": "cancelled", "canceled": "cancelled", "aborted": "cancelled", "aborterror": "cancelled",
    "contentfilter": "filter", "contentpolicyviolation": "filter", "responsibleaipolicyviolation": "filter",
    "safety": "filter",
    # our own words, which come back where one penstock reads another
    "auth": "auth", "permission": "permission", "invalid": "invalid", "toolarge": "too-large", "server": "server",
    "network": "network", "filter": "filter", "truncated": "truncated", "malformed": "malformed", "grammar": "grammar",
}  # fmt: skip
STATUSES: dict[int, FaultKind] = {
    400: "invalid", 401: "auth", 402: "permission", 403: "permission", 404: "not-found", 408: "timeout",
    409: "invalid", 413: "too-large", 422: "invalid", 424: "server", 429: "rate-limit", 499: "cancelled",
    503: "overloaded", 504: "timeout", 529: "overloaded",
}  # fmt: skip
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
