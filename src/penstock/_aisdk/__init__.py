"""What the codecs of the AI SDK's two protocols share: `fullStream` parts (`aisdk`) and UI chunks (`uistream`).

Their chunks have the same names and differ in spelling, and real programs mix the spellings. So one decoder reads both.
This module has the finish reasons, provider metadata, token counts and the base of the encoders.

Provider metadata is state that a provider wants back, under the provider's name. `extra` is the same under a protocol's
name. `_TO_SDK` pairs the fields that both sides know. Other fields travel unchanged: ours under `penstock` in the
metadata, theirs under `aisdk` in the extra.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import _lenient_fields as lenient
from penstock import events as ev
from penstock._codec import Encoder
from penstock._jsontext import as_json, is_json
from penstock._text_runs import NO_TEMPLATE, FrameTemplate

if TYPE_CHECKING:
    from penstock._lenient_fields import Object
    from penstock.events import Extra, Reason

SDK = "aisdk"
PENSTOCK = "penstock"  # our key in provider metadata
OPAQUE_TYPE = "data-penstock-opaque"  # opaque state in UI streams: every page keeps data parts and sends them back
INCOMPLETE_CALL = "the call never became whole"
FINISH_REASONS: dict[str, Reason] = {
    "stop": "stop",
    "length": "length",
    "content-filter": "filter",
    "tool-calls": "calls",
    "other": "other",
    "unknown": "other",
}
# a complete turn is never `other`: some readers treat that as a failure
FINISH_WORDS: dict[Reason, str] = {
    "stop": "stop",
    "length": "length",
    "calls": "tool-calls",
    "filter": "content-filter",
    "refusal": "content-filter",
    "pause": "stop",
    "other": "stop",
}
# (protocol, field) → (provider, field)
_ANY_PART = {("gemini", "thoughtSignature"): ("google", "thoughtSignature")}
_REASONING = {
    ("anthropic", "signature"): ("anthropic", "signature"),
    ("anthropic", "redacted"): ("anthropic", "redactedData"),
    ("bedrock", "signature"): ("bedrock", "signature"),
    ("bedrock", "redactedContent"): ("bedrock", "redactedData"),
    ("responses", "id"): ("openai", "itemId"),
    ("responses", "encrypted_content"): ("openai", "reasoningEncryptedContent"),
}
_TO_SDK = (_ANY_PART, {**_REASONING, **_ANY_PART})  # for any part; for reasoning
_FROM_SDK = tuple({theirs: ours for ours, theirs in pairs.items()} for pairs in _TO_SDK)
encode_json = msgspec.json.Encoder().encode


def to_json_text(value: Any) -> str:
    """Returns a value as JSON text. A value that JSON cannot hold is written as its repr."""
    try:
        return as_json(value)
    except TypeError:
        return msgspec.json.encode(value, enc_hook=repr).decode()


def raw_json(json: str) -> Any:
    """Returns JSON text as a value to encode; text that is not JSON stays a string."""
    return msgspec.Raw(json.encode()) if is_json(json) else json


# ── provider metadata ─────────────────────────────────────────────────────────────────────────────


def read_metadata(metadata: Any, *, reasoning: bool = False) -> Extra:
    """Reads provider metadata into extra data."""
    extra: Extra = {}
    pairs = _FROM_SDK[reasoning]
    for provider, value in lenient.as_object(metadata).items():
        fields = lenient.as_object(value)
        if provider == PENSTOCK:
            for protocol in lenient.get_object(fields, "extra"):
                extra.setdefault(protocol, {}).update(lenient.get_object(fields["extra"], protocol))
            continue
        rest: Object = {}
        for key, field in fields.items():
            if (provider, key) in pairs and field is not None:
                protocol, name = pairs[provider, key]
                extra.setdefault(protocol, {})[name] = field
            else:
                rest[key] = field
        if rest:
            extra.setdefault(SDK, {}).setdefault("metadata", {})[provider] = rest
    return extra


def write_metadata(extra: Extra | None, *, reasoning: bool = False, **ours: Any) -> dict[str, Object]:
    """Writes extra data as provider metadata. `ours` are further fields under our key; empty ones are left out."""
    metadata: dict[str, Object] = {}
    unpaired: Extra = {}
    for protocol, fields in (extra or {}).items():
        if protocol == SDK:
            for provider in lenient.get_object(fields, "metadata"):
                metadata.setdefault(provider, {}).update(lenient.get_object(fields["metadata"], provider))
            continue
        for key, value in fields.items():
            theirs = _TO_SDK[reasoning].get((protocol, key))
            if theirs:
                metadata.setdefault(theirs[0], {})[theirs[1]] = value
            else:
                unpaired.setdefault(protocol, {})[key] = value
    own = {key: value for key, value in {"extra": unpaired, **ours}.items() if value}
    return {**metadata, PENSTOCK: own} if own else metadata


def metadata_field(extra: Extra | None, *, reasoning: bool = False, **ours: Any) -> Object:
    """Returns the field of provider metadata, if there is any metadata."""
    metadata = write_metadata(extra, reasoning=reasoning, **ours)
    return {"providerMetadata": metadata} if metadata else {}


def merge_extra(before: Extra | None, more: Extra) -> Extra | None:
    """Merges two extras field by field; the later one wins."""
    if not more:
        return before
    merged: Extra = dict(before or {})
    for protocol, fields in more.items():
        old = merged.get(protocol, {})
        metadata = {**lenient.get_object(old, "metadata"), **lenient.get_object(fields, "metadata")}
        merged[protocol] = {**old, **fields, **({"metadata": metadata} if metadata else {})}
    return merged


def sdk_extra(extra: Extra | None) -> Object:
    """Returns the AI SDK's own fields of an extra."""
    return (extra or {}).get(SDK, {})


def citation_fields(source: ev.Source) -> Object:
    """Returns where in the text a source belongs. Not every version of the AI SDK has fields for that."""
    return _drop_none(of=None if source.of is None else str(source.of), span=source.span, quote=source.quote or None)


# ── token counts ──────────────────────────────────────────────────────────────────────────────────
#
# Version 4 has `promptTokens`, 5 `inputTokens` and cached tokens, 6 and 7 add details; `doStream` since 6 nests them.
# Up to version 5 some counts are only in the provider's metadata: cached tokens in 4; and Claude's prompt count
# excludes cached tokens.


def _get_count(source: Object, *keys: str) -> int | None:
    """Returns the first of these keys that holds an integer. JavaScript has no integers, so 7.0 is one."""
    for key in keys:
        value = source.get(key)
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if lenient.get_integer(source, key) is not None:
            return lenient.get_integer(source, key)
    return None


def _first_count(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _drop_none(**fields: Any) -> Object:
    return {key: value for key, value in fields.items() if value is not None}


def read_usage(raw: Any, step: int = 0) -> ev.Usage | None:
    """Reads usage in any version's spelling; None if it counts nothing."""
    usage = lenient.as_object(raw)
    nested_input, nested_output = (lenient.get_object(usage, "inputTokens"), lenient.get_object(usage, "outputTokens"))
    input_details, output_details = (
        lenient.get_object(usage, "inputTokenDetails"),
        lenient.get_object(usage, "outputTokenDetails"),
    )
    prompt = _first_count(_get_count(usage, "inputTokens", "promptTokens"), _get_count(nested_input, "total"))
    output = _first_count(_get_count(usage, "outputTokens", "completionTokens"), _get_count(nested_output, "total"))
    if not prompt and not output:
        return None
    cached = _first_count(
        _get_count(nested_input, "cacheRead"),
        _get_count(input_details, "cacheReadTokens"),
        _get_count(usage, "cachedInputTokens"),
    )
    written = _first_count(_get_count(nested_input, "cacheWrite"), _get_count(input_details, "cacheWriteTokens"))
    reasoning = _first_count(
        _get_count(nested_output, "reasoning"),
        _get_count(output_details, "reasoningTokens"),
        _get_count(usage, "reasoningTokens"),
    )
    return ev.Usage(prompt, output, cached, written, reasoning, step=step, extra={SDK: usage})


def add_metadata_counts(usage: ev.Usage, metadata: Any) -> ev.Usage:
    """Adds the counts that only the provider's metadata has (up to version 5)."""
    raw = usage.extra[SDK] if usage.extra else {}
    if "inputTokenDetails" in raw or isinstance(raw.get("inputTokens"), dict):
        return usage
    providers = [lenient.as_object(fields) for fields in lenient.as_object(metadata).values()]
    cached = _first_count(usage.cached, *(_get_count(fields, "cachedPromptTokens") for fields in providers))
    reasoning = _first_count(usage.reasoning, *(_get_count(fields, "reasoningTokens") for fields in providers))
    claude = lenient.get_object(lenient.as_object(metadata), "anthropic")
    counts = lenient.get_object(claude, "usage")
    read = _get_count(claude, "cacheReadInputTokens") or _get_count(counts, "cache_read_input_tokens") or 0
    written = _get_count(claude, "cacheCreationInputTokens") or _get_count(counts, "cache_creation_input_tokens") or 0
    if not read and not written:
        return ev.Usage(usage.input, usage.output, cached, usage.written, reasoning, step=usage.step, extra=usage.extra)
    total = (usage.input or 0) + read + written
    return ev.Usage(total, usage.output, read, written, reasoning, step=usage.step, extra=usage.extra)


def write_usage(usage: ev.Usage | None, version: int = 7) -> Object:
    """Writes usage as a version spells it. Unknown counts are left out, like JavaScript's undefined."""
    if usage is None:
        return {"inputTokenDetails": {}, "outputTokenDetails": {}} if version > 5 else {}  # noqa: PLR2004
    total = None if usage.input is None and usage.output is None else (usage.input or 0) + (usage.output or 0)
    if version == 4:  # noqa: PLR2004
        return _drop_none(promptTokens=usage.input, completionTokens=usage.output, totalTokens=total)
    counts = _drop_none(inputTokens=usage.input, outputTokens=usage.output, totalTokens=total)
    if version == 5:  # noqa: PLR2004
        return {**counts, **_drop_none(reasoningTokens=usage.reasoning, cachedInputTokens=usage.cached)}
    cached, written, reasoning = usage.cached, usage.written, usage.reasoning
    uncached = None if usage.input is None else max(usage.input - (cached or 0) - (written or 0), 0)
    text = None if usage.output is None else max(usage.output - (reasoning or 0), 0)
    return {
        **counts,
        "inputTokenDetails": _drop_none(noCacheTokens=uncached, cacheReadTokens=cached, cacheWriteTokens=written),
        "outputTokenDetails": _drop_none(textTokens=text, reasoningTokens=reasoning),
    }


# ── encoders ──────────────────────────────────────────────────────────────────────────────────────


def call_fields(event: ev.CallStart | ev.CallEnd | ev.CallCut, *names: str) -> Object:
    """Returns who runs a call, and those of the named fields that its extra data has."""
    own = sdk_extra(event.extra)
    by_provider = event.by == "provider" and not own.get("sdk")
    return {**({"providerExecuted": True} if by_provider else {}), **{key: own[key] for key in names if own.get(key)}}


def approval_fields(event: ev.Ask) -> Object:
    """Returns the further fields of a request for approval."""
    own = sdk_extra(event.extra)
    names = {"reason": "reason", "automatic": "isAutomatic", "signature": "signature"}
    return {name: own[key] for key, name in names.items() if own.get(key)}


class ChunkEncoder(Encoder, ABC):
    """The base of the encoders. The method `_write_<tag>` writes the event with that tag.

    Opening a part registers the start of its delta frames; deltas of parts that were not opened are left out. State:
    open parts, open files, pending calls. A call that the SDK ran waits for its result, because the SDK sends it like a
    client's call. Without a result it is written as the provider's call, so that nobody runs it again.
    """

    delta_field: ClassVar[bytes]  # the field of a delta's text
    source_id_field: ClassVar[str]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        tags = {event: str(event.__struct_config__.tag).replace("-", "_") for event in ev.EVENTS}
        methods = {event: getattr(cls, f"_write_{tag}", None) for event, tag in tags.items()}
        cls.table = {event: method for event, method in methods.items() if method is not None}

    def __init__(self) -> None:
        super().__init__()
        self._reset_parts()

    def _reset_parts(self) -> None:
        self._delta_heads: dict[int, bytes] = {}
        self._files: dict[int, tuple[ev.FileStart, list[str]]] = {}
        self._pending_calls: dict[str, tuple[str, Object]] = {}
        self.template = NO_TEMPLATE

    def _flush_calls(self, call: str | None = None, *, ran: bool = False) -> None:
        """Writes one pending call, or all. `ran`: its result, or a request for approval, comes next."""
        for name in list(self._pending_calls) if call is None else [call] if call in self._pending_calls else []:
            kind, fields = self._pending_calls.pop(name)
            self._send(kind, **fields, **({} if ran else {"providerExecuted": True}))

    def _send(self, type: str, **fields: Any) -> None:
        self.out.append((b"", encode_json({"type": type, **fields})))

    def _is_first_choice(self, event: Any) -> bool:
        if event.choice:
            self.report_loss("choice")
        return not event.choice

    def _open_text(self, event: ev.TextStart | ev.RefusalStart | ev.ReasoningStart, kind: str, **ours: Any) -> None:
        if self._is_first_choice(event):
            metadata = metadata_field(event.extra, reasoning=kind == "reasoning", **ours)
            self._send(f"{kind}-start", id=str(event.index), **metadata)
            names = (kind.encode(), event.index, self.delta_field)
            self._delta_heads[event.index] = b'{"type":"%b-delta","id":"%d","%b":' % names

    def _write_text_start(self, event: ev.TextStart) -> None:
        self._open_text(event, "text")

    def _write_refusal_start(self, event: ev.RefusalStart) -> None:
        self.report_loss("refusal")
        self._open_text(event, "text", refusal=True)

    def _write_reasoning_start(self, event: ev.ReasoningStart) -> None:
        self._open_text(event, "reasoning", form="" if event.form == "full" else event.form)

    def _write_text_end(self, event: ev.TextEnd) -> None:
        self._close_part(event, "text-end", id=str(event.index), **metadata_field(event.extra))

    def _write_refusal_end(self, event: ev.RefusalEnd) -> None:
        self._close_part(event, "text-end", id=str(event.index), **metadata_field(event.extra))

    def _write_reasoning_end(self, event: ev.ReasoningEnd) -> None:
        self._close_part(event, "reasoning-end", id=str(event.index), **metadata_field(event.extra, reasoning=True))

    def _close_part(self, event: Any, type: str, **fields: Any) -> bool:
        if self._delta_heads.pop(event.index, None) is None or event.broken:
            return False
        self._send(type, **fields)
        return True

    def _write_text_delta(self, event: ev.TextDelta) -> None:
        if event.logprobs is not None:
            self.report_loss("logprobs")
        self._write_delta(event, event.text)

    def _write_reasoning_delta(self, event: ev.RefusalDelta | ev.ReasoningDelta) -> None:
        self._write_delta(event, event.text)

    _write_refusal_delta = _write_reasoning_delta

    def _write_call_delta(self, event: ev.CallDelta) -> None:
        self._write_delta(event, event.json)

    def _write_delta(self, event: Any, text: str) -> None:
        head = self._delta_heads.get(event.index)
        if head is not None:
            self.template = FrameTemplate(type(event), event.index, b"", head, b"}")
            self.out.append(self.template.frame(text))

    def _write_source(self, event: ev.Source) -> None:
        metadata = metadata_field(event.extra, cite=citation_fields(event))
        fields: Object = {self.source_id_field: event.id or f"source-{event.index}"}
        if not event.url and not event.title:
            self.report_loss("source")
        if event.title or not event.url:
            fields["title"] = event.title or event.filename or "document"
        if event.url:
            self._send_source("url", **fields, url=event.url, **metadata)
            return
        file = {"filename": event.filename} if event.filename else {}
        self._send_source("document", **fields, mediaType=event.media or "text/plain", **file, **metadata)

    @abstractmethod
    def _send_source(self, kind: str, **fields: Any) -> None:
        """Writes a source of kind `url` or `document`."""

    def _write_file_start(self, event: ev.FileStart) -> None:
        if self._is_first_choice(event):
            self._files[event.index] = (event, [])

    def _write_file_delta(self, event: ev.FileDelta) -> None:
        if event.index in self._files:
            self._files[event.index][1].append(event.data)

    def _write_file_end(self, event: ev.FileEnd) -> None:
        if event.index in self._files:
            start, pieces = self._files.pop(event.index)
            if event.broken:
                self.report_loss("cut-file")
                return
            self._write_file(start, "".join(pieces), event.extra or start.extra)

    @abstractmethod
    def _write_file(self, start: ev.FileStart, data: str, extra: Extra | None) -> None:
        """Writes a complete file."""

    def _write_unknown(self, event: ev.Unknown) -> None:
        if event.protocol == self.protocol:
            self.out.append((b"", event.data.encode()))
        else:
            self.report_loss("unknown")
