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
from msgspec.structs import replace

from penstock import _lenient_fields as lenient
from penstock import events as ev
from penstock._codec import MethodTableEncoder
from penstock._diagnostics import read_tables
from penstock._lenient_json import as_json, is_json
from penstock._text_runs import NO_TEMPLATE, FrameTemplate

if TYPE_CHECKING:
    from penstock._lenient_fields import Object
    from penstock.events import Extra, Reason

SDK = "aisdk"
UI_STREAM = "uistream"
PENSTOCK = "penstock"  # our key in provider metadata
OPAQUE_TYPE = "data-penstock-opaque"  # opaque state in UI streams: every page keeps data parts and sends them back
INCOMPLETE_CALL = "the call never became whole"
TABLES: dict[str, Any] = read_tables(__name__, "tables.toml")
FINISH_REASONS: dict[str, Reason] = TABLES["finish_reasons"]
FINISH_WORDS: dict[Reason, str] = TABLES["finish_words"]
# (protocol, field) → (provider, field): for any part, and for reasoning
_TO_SDK: list[dict[Any, Any]] = [
    {tuple(ours.split()): tuple(theirs.split()) for ours, theirs in TABLES[name].items()}
    for name in ("part_state", "reasoning_state")
]
_FROM_SDK: list[dict[Any, Any]] = [{theirs: ours for ours, theirs in pairs.items()} for pairs in _TO_SDK]
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
    our_data = {key: value for key, value in {"extra": unpaired, **ours}.items() if value}
    return {**metadata, PENSTOCK: our_data} if our_data else metadata


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
        fields_before = merged.get(protocol, {})
        metadata = {**lenient.get_object(fields_before, "metadata"), **lenient.get_object(fields, "metadata")}
        merged[protocol] = {**fields_before, **fields, **({"metadata": metadata} if metadata else {})}
    return merged


def sdk_extra(extra: Extra | None) -> Object:
    """Returns the AI SDK's own fields of an extra."""
    return (extra or {}).get(SDK, {})


def our_fields(metadata: Any) -> Object:
    """Returns the fields under our key in provider metadata."""
    return lenient.get_object(lenient.as_object(metadata), PENSTOCK)


def citation_fields(source: ev.Source) -> Object:
    """Returns where in the text a source belongs. Not every version of the AI SDK has fields for that."""
    return _drop_none(of=None if source.of is None else str(source.of), span=source.span, quote=source.quote or None)


# ── token counts ──────────────────────────────────────────────────────────────────────────────────
#
# Version 4 has `promptTokens`, 5 `inputTokens` and cached tokens, 6 and 7 add details; `doStream` since 6 nests them.
# Up to version 5 some counts are only in the provider's metadata: cached tokens in 4; and Claude's prompt count
# excludes cached tokens.


def _find_count(source: Object, *paths: str) -> int | None:
    """Returns the first of these fields that holds an integer. JavaScript has no integers, so 7.0 is one."""
    for path in paths:
        parent, _, key = path.rpartition(".")
        value = (lenient.get_object(source, parent) if parent else source).get(key)
        if (isinstance(value, int) and not isinstance(value, bool)) or (
            isinstance(value, float) and value.is_integer()
        ):
            return int(value)
    return None


def _drop_none(**fields: Any) -> Object:
    return {key: value for key, value in fields.items() if value is not None}


def read_usage(raw: Any, step: int = 0) -> ev.Usage | None:
    """Reads usage in any version's spelling; None if it counts nothing."""
    usage = lenient.as_object(raw)
    prompt = _find_count(usage, "inputTokens", "promptTokens", "inputTokens.total")
    output = _find_count(usage, "outputTokens", "completionTokens", "outputTokens.total")
    if not prompt and not output:
        return None
    cached = _find_count(usage, "inputTokens.cacheRead", "inputTokenDetails.cacheReadTokens", "cachedInputTokens")
    written = _find_count(usage, "inputTokens.cacheWrite", "inputTokenDetails.cacheWriteTokens")
    reasoning = _find_count(usage, "outputTokens.reasoning", "outputTokenDetails.reasoningTokens", "reasoningTokens")
    return ev.Usage(prompt, output, cached, written, reasoning, step=step, extra={SDK: usage})


def add_metadata_counts(usage: ev.Usage, metadata: Any) -> ev.Usage:
    """Adds the counts that only the provider's metadata has (up to version 5)."""
    raw = sdk_extra(usage.extra)
    if "inputTokenDetails" in raw or isinstance(raw.get("inputTokens"), dict):
        return usage
    providers = lenient.as_object(metadata)
    cached, reasoning = usage.cached, usage.reasoning
    if cached is None:
        cached = _find_count(providers, *(f"{name}.cachedPromptTokens" for name in providers))
    if reasoning is None:
        reasoning = _find_count(providers, *(f"{name}.reasoningTokens" for name in providers))
    claude = lenient.get_object(providers, "anthropic")
    read = _find_count(claude, "cacheReadInputTokens") or _find_count(claude, "usage.cache_read_input_tokens") or 0
    written = (
        _find_count(claude, "cacheCreationInputTokens") or _find_count(claude, "usage.cache_creation_input_tokens") or 0
    )
    if not read and not written:
        return replace(usage, cached=cached, reasoning=reasoning)
    total = (usage.input or 0) + read + written
    return replace(usage, input=total, cached=read, written=written, reasoning=reasoning)


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
    fields = sdk_extra(event.extra)
    by_provider = event.by == "provider" and not fields.get("sdk")
    known = {key: fields[key] for key in names if fields.get(key)}
    return {"providerExecuted": True, **known} if by_provider else known


def approval_fields(event: ev.Ask) -> Object:
    """Returns the further fields of a request for approval."""
    fields = sdk_extra(event.extra)
    names = {"reason": "reason", "automatic": "isAutomatic", "signature": "signature"}
    return {name: fields[key] for key, name in names.items() if fields.get(key)}


class ChunkEncoder(MethodTableEncoder, ABC):
    """The base of the encoders.

    Opening a part registers the start of its delta frames; deltas of parts that were not opened are left out. State:
    open parts, open files, pending calls. A call that the SDK ran waits for its result, because the SDK sends it like a
    client's call. Without a result it is written as the provider's call, so that nobody runs it again.
    """

    delta_field: ClassVar[bytes]  # the field of a delta's text
    source_id_field: ClassVar[str]

    def _reset_parts(self) -> None:
        self._delta_heads: dict[int, bytes] = {}
        self._calls: dict[str, Any] = {}  # id → fields of the call that its result needs
        self._client_calls: set[str] = set()
        self._files: dict[int, tuple[ev.FileStart, list[str]]] = {}
        self._pending_calls: dict[str, tuple[str, Object]] = {}
        self.template = NO_TEMPLATE

    def _flush_call(self, call: str) -> None:
        """Writes a pending call, because its result or a request for its approval comes next."""
        if call in self._pending_calls:
            kind, fields = self._pending_calls.pop(call)
            self._send(kind, **fields)

    def _flush_calls(self) -> None:
        """Writes all pending calls as the provider's."""
        for kind, fields in self._pending_calls.values():
            self._send(kind, **fields, providerExecuted=True)
        self._pending_calls.clear()

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

    def _write_text_end(self, event: ev.TextEnd | ev.RefusalEnd) -> None:
        self._close_part(event, "text-end", id=str(event.index), **metadata_field(event.extra))

    def _write_refusal_end(self, event: ev.RefusalEnd) -> None:
        self._write_text_end(event)

    def _write_reasoning_end(self, event: ev.ReasoningEnd) -> None:
        self._close_part(event, "reasoning-end", id=str(event.index), **metadata_field(event.extra, reasoning=True))

    def _close_part(self, event: Any, type: str, **fields: Any) -> bool:
        if self._delta_heads.pop(event.index, None) is None or event.broken:
            return False
        self._send(type, **fields)
        return True

    def _report_finish(self, event: ev.Finish) -> str:
        """Returns the finish reason; reports what it does not express."""
        if event.reason in ("pause", "other", "refusal"):
            self.report_loss("reason")
        if event.others:
            self.report_loss("choice")
        return FINISH_WORDS[event.reason]

    def _answer_call(self, call: str) -> None:
        """Writes a pending call before its result or a request for its approval."""
        self._flush_call(call)
        if call in self._client_calls:
            self.report_loss("answered")

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
