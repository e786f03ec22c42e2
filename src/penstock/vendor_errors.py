"""Errors in the words of a client's own vendor: which status, type, code and message it sends for a kind of fault.

Each protocol's folder has a table of them (`Protocol.errors`). A provider that speaks the client's protocol is quoted
instead. What the gateway itself refuses keeps its own message and code. A connection to a provider that breaks is
the client's chance to ask again, so its message has the words by which clients recognise one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from penstock.events import FaultKind
from penstock.faults import OVERFLOW, WORDS, word
from penstock.lenient_fields import as_object, as_objects, get_object, get_text

if TYPE_CHECKING:
    from penstock.events import Fault

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


def speaks(fault: Fault, protocol: str) -> bool:
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
    return body if speaks(fault, protocol) and get_text(get_object(body, ERROR), "message") else None


def provider_object(fault: Fault, protocol: str) -> dict[str, Any]:
    """The error object of a provider of this protocol, from a body or from a stream; empty where there is none."""
    body = provider_body(fault, protocol)
    return (
        get_object(body, ERROR) if body is not None else get_object(as_object((fault.extra or {}).get(protocol)), ERROR)
    )


def param_of(fault: Fault, protocol: str) -> Any:
    """The field of the request that the gateway itself objects to."""
    return as_object((fault.extra or {}).get(protocol)).get(PARAM)


def code_of(fault: Fault, row: VendorError) -> str | None:
    """The vendor's code; the gateway's own where it has one that is written like a vendor's."""
    if refused_by(fault) == "provider":
        return row.code
    if _OWN_CODE.fullmatch(fault.code) and (fault.code == row.code or word(fault.code) not in WORDS):
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


def message_of(fault: Fault, row: VendorError) -> str:
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
