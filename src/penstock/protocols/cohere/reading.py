"""What both versions of Cohere Chat say alike: citations, usage, why an answer ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock import events as ev
from penstock import pick
from penstock.protocols.cohere import wire

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.events import FaultKind, Reason
    from penstock.parts import Ledger

NAME = "cohere"
REASONS: dict[str, Reason] = {
    "COMPLETE": "stop", "STOP_SEQUENCE": "stop", "MAX_TOKENS": "length", "TOOL_CALL": "calls",
    "ERROR_LIMIT": "length", "ERROR_TOXIC": "filter",
}  # fmt: skip
_NO_TOKENS = wire.Tokens()
FAILED: dict[str, FaultKind] = {"ERROR": "server", "TIMEOUT": "timeout", "USER_CANCEL": "cancelled"}


def cite(
    ledger: Ledger, citation: dict[str, Any], of: int | None, documents: Mapping[str, dict[str, Any]] | None = None
) -> None:
    """One citation as a source for each thing it cites. Version 1 names documents that were sent apart."""
    first, last = pick.number(citation, "start"), pick.number(citation, "end")
    span = (first, last) if first is not None and last is not None and last > first else None
    named = [
        {"type": "document", "id": name, "document": (documents or {}).get(name, {})}
        for name in pick.listed(citation, "document_ids")
        if isinstance(name, str)
    ]
    for source in pick.rows(citation, "sources") or named or [{}]:
        document = pick.table(source, "document")
        url, title = pick.text(document, "url"), pick.text(document, "title", "name")
        quote, name = pick.text(document, "text", "snippet"), pick.text(source, "id")
        kept = {**citation, "sources": [source]} if source else citation
        ledger.cite((of, kept), url, title, of, span, quote, name, "", "", {NAME: kept})


def read_usage(raw: dict[str, Any]) -> ev.Usage | None:
    """Tokens where they are told; else what is billed for, which leaves out the prompt's own frame."""
    try:
        said = msgspec.convert(raw, wire.Usage, strict=False)
    except msgspec.ValidationError:
        return None
    tokens = next((one for one in (said.tokens, said.billed_units) if one not in (None, _NO_TOKENS)), None)
    if tokens is None:
        return None
    whole = None if tokens.input_tokens is None else tokens.input_tokens + (tokens.image_tokens or 0)
    return ev.Usage(
        whole, tokens.output_tokens, said.cached_tokens, None, tokens.reasoning_tokens, said.tokens is not None,
        extra={NAME: raw},
    )  # fmt: skip


def end(ledger: Ledger, word: str, error: str | None = None) -> None:
    """The answer ended by itself, or for a reason that is a failure."""
    upper = word.upper()
    if upper in FAILED or error:
        message = error or f"Cohere ended the answer with {word!r}"
        extra = {NAME: {"error": {"message": message}}}
        ledger.fault(FAILED.get(upper, "server"), message, code=word, extra=extra)
        return
    if word and upper not in REASONS:
        ledger.diagnostics.add("unknown-reason", f"finish reason {word!r} is read as a normal stop")
    if word:
        ledger.finish(REASONS.get(upper, "stop"), word)
    ledger.end()
