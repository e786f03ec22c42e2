"""The AI SDK's words for what the events call otherwise: finish reasons, provider metadata.

Provider metadata is state that a provider wants back, under the provider's name; `extra` is the same under a
protocol's name. Where both have a word for one thing the tables below pair them; what only one side knows travels
untouched, ours under `penstock` in the metadata, theirs under `aisdk` in the extra.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock import pick
from penstock.jsontext import as_json

if TYPE_CHECKING:
    from penstock.events import Extra, Reason, Source

SDK = "aisdk"
OURS = "penstock"
OPAQUE = "data-penstock-opaque"  # opaque state in UI streams: data, so that every reader keeps it and sends it back
READS: dict[str, Reason] = {
    "stop": "stop", "length": "length", "content-filter": "filter", "tool-calls": "calls", "other": "other",
    "unknown": "other",
}  # fmt: skip
# a complete turn is never `other`: some readers take that for a failure
WRITES: dict[Reason, str] = {
    "stop": "stop", "length": "length", "calls": "tool-calls", "filter": "content-filter", "refusal": "content-filter",
    "pause": "stop", "other": "stop",
}  # fmt: skip

# protocol, field ↔ provider, field: what a block of reasoning wants back, and what any part may
REASONING: dict[tuple[str, str], tuple[str, str]] = {
    ("anthropic", "signature"): ("anthropic", "signature"),
    ("anthropic", "redacted"): ("anthropic", "redactedData"),
    ("bedrock", "signature"): ("bedrock", "signature"),
    ("bedrock", "redactedContent"): ("bedrock", "redactedData"),
    ("responses", "id"): ("openai", "itemId"),
    ("responses", "encrypted_content"): ("openai", "reasoningEncryptedContent"),
}
ANY: dict[tuple[str, str], tuple[str, str]] = {("gemini", "thoughtSignature"): ("google", "thoughtSignature")}
_TO_SDK = (ANY, {**REASONING, **ANY})  # of any part, of reasoning
_FROM_SDK = tuple({theirs: ours for ours, theirs in pairs.items()} for pairs in _TO_SDK)


def encoded(value: Any) -> str:
    """A value as JSON text; what JSON cannot hold is shown."""
    try:
        return as_json(value)
    except TypeError:
        return msgspec.json.encode(value, enc_hook=repr).decode()


def read_metadata(metadata: Any, *, reasoning: bool = False) -> Extra:
    """Provider metadata as extra."""
    extra: Extra = {}
    pairs = _FROM_SDK[reasoning]
    for provider, value in pick.as_object(metadata).items():
        fields = pick.as_object(value)
        if provider == OURS:
            for protocol in pick.table(fields, "extra"):
                extra.setdefault(protocol, {}).update(pick.table(fields["extra"], protocol))
            continue
        rest = {key: said for key, said in fields.items() if (provider, key) not in pairs or said is None}
        for key in [key for key in fields if key not in rest]:
            protocol, word = pairs[provider, key]
            extra.setdefault(protocol, {})[word] = fields[key]
        if rest:
            extra.setdefault(SDK, {}).setdefault("metadata", {})[provider] = rest
    return extra


def write_metadata(extra: Extra | None, *, reasoning: bool = False, **ours: Any) -> dict[str, dict[str, Any]]:
    """Extra as provider metadata; `ours` are further words of our own, those that say nothing left out."""
    found: dict[str, dict[str, Any]] = {}
    kept: Extra = {}
    for protocol, fields in (extra or {}).items():
        if protocol == SDK:
            for provider in pick.table(fields, "metadata"):
                found.setdefault(provider, {}).update(pick.table(fields["metadata"], provider))
            continue
        for key, value in fields.items():
            theirs = _TO_SDK[reasoning].get((protocol, key))
            if theirs:
                found.setdefault(theirs[0], {})[theirs[1]] = value
            else:
                kept.setdefault(protocol, {})[key] = value
    said = {key: value for key, value in {"extra": kept, **ours}.items() if value}
    return {**found, OURS: said} if said else found


def merge(before: Extra | None, more: Extra) -> Extra | None:
    """Two extras as one; what came later wins, field by field."""
    if not more:
        return before
    return {
        key: _joined((before or {}).get(key, {}), more.get(key, {}))
        for key in [*(before or {}), *(key for key in more if key not in (before or {}))]
    }


def _joined(before: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    metadata = {**pick.table(before, "metadata"), **pick.table(more, "metadata")}
    return {**before, **more, **({"metadata": metadata} if metadata else {})}


def cite(source: Source) -> dict[str, Any]:
    """What a source says about its place in the text, for which the AI SDK has no word in every version."""
    said = {"of": None if source.of is None else str(source.of), "span": source.span, "quote": source.quote or None}
    return {key: value for key, value in said.items() if value is not None}


def own(extra: Extra | None) -> dict[str, Any]:
    """What the AI SDK itself left in an extra."""
    return (extra or {}).get(SDK, {})
