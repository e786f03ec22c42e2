"""The AI SDK's language, which two protocols speak: `fullStream` parts (`aisdk`) and UI message chunks (`uistream`).

Their chunks share names and differ in spelling; programs in the wild mix the spellings. So both are read by one
decoder, and what both encoders need (usage, metadata, reasons) is written down here once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import events as ev
from penstock import lenient_fields as lenient
from penstock.codec import Encoder
from penstock.jsontext import as_json, is_json
from penstock.text_runs import NO_TEMPLATE, FrameTemplate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
    for provider, value in lenient.as_object(metadata).items():
        fields = lenient.as_object(value)
        if provider == OURS:
            for protocol in lenient.get_object(fields, "extra"):
                extra.setdefault(protocol, {}).update(lenient.get_object(fields["extra"], protocol))
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
            for provider in lenient.get_object(fields, "metadata"):
                found.setdefault(provider, {}).update(lenient.get_object(fields["metadata"], provider))
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
    metadata = {**lenient.get_object(before, "metadata"), **lenient.get_object(more, "metadata")}
    return {**before, **more, **({"metadata": metadata} if metadata else {})}


def cite(source: Source) -> dict[str, Any]:
    """What a source says about its place in the text, for which the AI SDK has no word in every version."""
    said = {"of": None if source.of is None else str(source.of), "span": source.span, "quote": source.quote or None}
    return {key: value for key, value in said.items() if value is not None}


def own(extra: Extra | None) -> dict[str, Any]:
    """What the AI SDK itself left in an extra."""
    return (extra or {}).get(SDK, {})


def _count(source: dict[str, Any], *keys: str) -> int | None:
    """The first of these keys that holds a number; JavaScript has no integers, so 7.0 is one."""
    for key in keys:
        value = source.get(key)
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if lenient.get_integer(source, key) is not None:
            return lenient.get_integer(source, key)
    return None


def read_usage(raw: Any, step: int = 0) -> ev.Usage | None:
    """Usage of any spelling; None where nothing was counted."""
    said = lenient.as_object(raw)
    nested_in, nested_out = (
        lenient.get_object(said, "inputTokens"),
        lenient.get_object(said, "outputTokens"),
    )
    of_input, of_output = (
        lenient.get_object(said, "inputTokenDetails"),
        lenient.get_object(said, "outputTokenDetails"),
    )
    read = _first(_count(said, "inputTokens", "promptTokens"), _count(nested_in, "total"))
    made = _first(_count(said, "outputTokens", "completionTokens"), _count(nested_out, "total"))
    if not read and not made:
        return None
    cached = _first(
        _count(nested_in, "cacheRead"), _count(of_input, "cacheReadTokens"), _count(said, "cachedInputTokens")
    )
    written = _first(_count(nested_in, "cacheWrite"), _count(of_input, "cacheWriteTokens"))
    thought = (_count(nested_out, "reasoning"), _count(of_output, "reasoningTokens"), _count(said, "reasoningTokens"))
    return ev.Usage(read, made, cached, written, _first(*thought), step=step, extra={SDK: said})


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def completed(usage: ev.Usage, metadata: Any) -> ev.Usage:
    """The same usage with what only the provider's metadata tells."""
    said = usage.extra[SDK] if usage.extra else {}
    if "inputTokenDetails" in said or isinstance(said.get("inputTokens"), dict):
        return usage
    providers = [lenient.as_object(fields) for fields in lenient.as_object(metadata).values()]
    cached = _first(usage.cached, *(_count(fields, "cachedPromptTokens") for fields in providers))
    thought = _first(usage.reasoning, *(_count(fields, "reasoningTokens") for fields in providers))
    read, written = _apart(lenient.get_object(lenient.as_object(metadata), "anthropic"))
    whole = (usage.input or 0) + read + written if read or written else usage.input
    kept = (read, written) if read or written else (cached, usage.written)
    return ev.Usage(whole, usage.output, *kept, thought, step=usage.step, extra=usage.extra)


def _apart(anthropic: dict[str, Any]) -> tuple[int, int]:
    """Tokens read from and written to Claude's cache, which its count of the prompt leaves out."""
    counted = lenient.get_object(anthropic, "usage")
    read = _count(anthropic, "cacheReadInputTokens") or _count(counted, "cache_read_input_tokens")
    written = _count(anthropic, "cacheCreationInputTokens") or _count(counted, "cache_creation_input_tokens")
    return (read or 0, written or 0)


def write_usage(usage: ev.Usage | None, version: int = 7) -> dict[str, Any]:
    """Usage as a version spells it; what is unknown is left out, as JavaScript's undefined is."""
    if usage is None:
        return _details(None, None, None, None) if version > 5 else {}  # noqa: PLR2004
    total = None if usage.input is None and usage.output is None else (usage.input or 0) + (usage.output or 0)
    if version == 4:  # noqa: PLR2004
        return _said(promptTokens=usage.input, completionTokens=usage.output, totalTokens=total)
    counts = _said(inputTokens=usage.input, outputTokens=usage.output, totalTokens=total)
    if version == 5:  # noqa: PLR2004
        return {**counts, **_said(reasoningTokens=usage.reasoning, cachedInputTokens=usage.cached)}
    return {**counts, **_details(usage.input, usage.cached, usage.written, usage.output, usage.reasoning)}


def _details(
    input: int | None, cached: int | None, written: int | None, output: int | None, reasoning: int | None = None
) -> dict[str, Any]:
    fresh = None if input is None else max(input - (cached or 0) - (written or 0), 0)
    text = None if output is None else max(output - (reasoning or 0), 0)
    return {
        "inputTokenDetails": _said(noCacheTokens=fresh, cacheReadTokens=cached, cacheWriteTokens=written),
        "outputTokenDetails": _said(textTokens=text, reasoningTokens=reasoning),
    }


def _said(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


encode_json = msgspec.json.Encoder().encode


def metadata(extra: Extra | None, *, reasoning: bool = False, **ours: Any) -> dict[str, Any]:
    """The field of provider metadata, if there is any."""
    found = write_metadata(extra, reasoning=reasoning, **ours)
    return {"providerMetadata": found} if found else {}


def value(json: str) -> Any:
    """Raw JSON as a value; what is none is text."""
    return msgspec.Raw(json.encode()) if is_json(json) else json


class PartEncoder(Encoder, ABC):
    """State: how each open part's deltas begin, the files so far, calls that wait to be known as run.

    A call that the SDK ran leaves as the SDK itself would have sent it: like one of the client's, with its result. So
    it waits for its result, and if none comes it leaves as the provider's: nobody may run it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._clear()

    def _clear(self) -> None:
        self._open: dict[int, bytes] = {}
        self._files: dict[int, tuple[ev.FileStart, list[str]]] = {}
        self._waiting: dict[str, tuple[str, dict[str, Any]]] = {}
        self.template = NO_TEMPLATE

    def _settle(self, call: str | None = None, *, ran: bool = False) -> None:
        """Write the call that waits, or all of them: `ran` if its result, or a question about it, comes next."""
        for name in list(self._waiting) if call is None else [call] if call in self._waiting else []:
            kind, fields = self._waiting.pop(name)
            self._send(kind, **fields, **({} if ran else {"providerExecuted": True}))

    def _send(self, type: str, **fields: Any) -> None:
        self.out.append((b"", encode_json({"type": type, **fields})))

    def _first(self, event: Any) -> bool:
        """Whether the part is of the choice that is written."""
        if event.choice:
            self.report_loss("choice")
        return not event.choice

    def _text_delta(self, event: ev.TextDelta) -> None:
        if event.logprobs is not None:
            self.report_loss("logprobs")
        head = self._open.get(event.index)
        if head is not None:
            self._write_delta(event, head, event.text)

    def _delta(self, event: ev.RefusalDelta | ev.ReasoningDelta) -> None:
        head = self._open.get(event.index)
        if head is not None:
            self._write_delta(event, head, event.text)

    def _call_delta(self, event: ev.CallDelta) -> None:
        head = self._open.get(event.index)
        if head is not None:
            self._write_delta(event, head, event.json)

    def _write_delta(self, event: Any, head: bytes, text: str) -> None:
        self.template = FrameTemplate(type(event), event.index, b"", head, b"}")
        self.out.append(self.template.frame(text))

    def _file_start(self, event: ev.FileStart) -> None:
        if self._first(event):
            self._files[event.index] = (event, [])

    def _file_delta(self, event: ev.FileDelta) -> None:
        if event.index in self._files:
            self._files[event.index][1].append(event.data)

    def _file_end(self, event: ev.FileEnd) -> None:
        if event.index in self._files:
            start, pieces = self._files.pop(event.index)
            if event.broken:
                self.report_loss("cut-file")
                return
            self._file(start, "".join(pieces), event.extra or start.extra)

    @abstractmethod
    def _file(self, start: ev.FileStart, data: str, extra: Extra | None) -> None:
        """Write a whole file."""

    def _unknown(self, event: ev.Unknown) -> None:
        if event.protocol == self.protocol:
            self.out.append((b"", event.data.encode()))
        else:
            self.report_loss("unknown")

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        ev.TextDelta: _text_delta, ev.RefusalDelta: _delta, ev.ReasoningDelta: _delta, ev.CallDelta: _call_delta,
        ev.FileStart: _file_start, ev.FileDelta: _file_delta, ev.FileEnd: _file_end, ev.Unknown: _unknown,
    }  # fmt: skip
