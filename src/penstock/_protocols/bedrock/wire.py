"""Wire format of Bedrock Converse: stream events, non-stream answers, usage and state.

Only fields that the decoder reads are declared. Usage, citations and traces also stay plain objects, because they are
kept unchanged.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from typing import Any

import msgspec
from msgspec import Struct, field

from penstock import events as ev
from penstock._diagnostics import read_tables

NAME = "bedrock"
ENUMS = read_tables(__name__.rpartition(".")[0], "enums.toml")
FINISH_REASONS: dict[str, ev.Reason] = {
    name: reason for reason, names in ENUMS["finish_reasons"].items() for name in names
}
CLIENT_TYPES = frozenset({None, "", "tool_use"})  # types of calls that the client runs


class ToolUseBlock(Struct):
    """The start of a call; in a non-stream answer also its input."""

    toolUseId: str | None = None
    name: str | None = None
    type: str | None = None  # `server_tool_use`: Bedrock runs it
    input: Any = None


class ToolResultBlock(Struct):
    """The result of a tool that Bedrock ran. In a stream, its content follows in deltas."""

    toolUseId: str | None = None
    status: str | None = None
    type: str | None = None
    content: list[dict[str, Any]] | None = None


class ToolUseDelta(Struct, gc=False):
    input: str | None = None


class ReasoningText(Struct, gc=False):
    text: str | None = None
    signature: str | None = None


class ReasoningContent(ReasoningText, gc=False):
    """A delta has `text`, `signature` or `redactedContent`; a block has `reasoningText` or `redactedContent`."""

    redactedContent: str | None = None
    reasoningText: ReasoningText | None = None


class FileSource(Struct):
    """The bytes of a file, or their location."""

    data: str | None = field(default=None, name="bytes")
    s3Location: dict[str, Any] | None = None


class MediaContent(Struct):
    """An image, audio or video. In a stream, the start has the format and the deltas have the source."""

    format: str | None = None
    source: FileSource | None = None
    error: dict[str, Any] | None = None


class ConverseDelta(Struct, gc=False):
    text: str | None = None
    toolUse: ToolUseDelta | None = None
    toolResult: list[dict[str, Any]] | None = None
    reasoningContent: ReasoningContent | None = None
    citation: dict[str, Any] | None = None
    image: MediaContent | None = None


class BlockEvent(Struct, gc=False):
    """The start, a delta or the stop of a block."""

    contentBlockIndex: int = 0
    delta: ConverseDelta = field(default_factory=ConverseDelta)
    start: dict[str, Any] | None = None


class MessageStopEvent(Struct):
    stopReason: str | None = None
    additionalModelResponseFields: Any = None


class ConverseUsage(Struct, gc=False):
    """Token counts, with both names of the cached ones. `inputTokens` leaves out cached tokens.

    `inputTokenCount` and `outputTokenCount` are in the metrics that `InvokeModel` adds to the last payload.
    """

    inputTokens: int | None = None
    outputTokens: int | None = None
    inputTokenCount: int | None = None
    outputTokenCount: int | None = None
    totalTokens: int | None = None
    cacheReadInputTokens: int | None = None
    cacheReadInputTokenCount: int | None = None
    cacheWriteInputTokens: int | None = None
    cacheWriteInputTokenCount: int | None = None


class MetadataEvent(Struct):
    usage: dict[str, Any] | None = None
    metrics: dict[str, Any] | None = None
    trace: dict[str, Any] | None = None
    performanceConfig: dict[str, Any] | None = None
    serviceTier: dict[str, Any] | None = None


class ExceptionBody(Struct):
    message: str | None = None
    originalStatusCode: int | None = None
    originalMessage: str | None = None


class ConverseMessage(Struct):
    content: list[dict[str, Any]] | None = None


class ConverseOutput(Struct):
    message: ConverseMessage | None = None


class CitationsContent(Struct):
    """Text with citations, in a non-stream answer."""

    content: list[dict[str, Any]] | None = None
    citations: list[dict[str, Any]] | None = None


class ConverseBlock(Struct):
    """A content block of a non-stream answer."""

    text: str | None = None
    toolUse: ToolUseBlock | None = None
    toolResult: ToolResultBlock | None = None
    reasoningContent: ReasoningContent | None = None
    citationsContent: CitationsContent | None = None
    image: MediaContent | None = None
    audio: MediaContent | None = None
    video: MediaContent | None = None


class ConversePayload(MetadataEvent):
    """An event under its name, a non-stream answer, or the body of an error."""

    contentBlockDelta: BlockEvent | None = None
    contentBlockStart: BlockEvent | None = None
    contentBlockStop: BlockEvent | None = None
    messageStart: dict[str, Any] | None = None
    messageStop: MessageStopEvent | None = None
    metadata: MetadataEvent | None = None
    invocation: ConverseUsage | None = field(default=None, name="amazon-bedrock-invocationMetrics")
    internalServerException: ExceptionBody | None = None
    modelStreamErrorException: ExceptionBody | None = None
    modelTimeoutException: ExceptionBody | None = None
    serviceUnavailableException: ExceptionBody | None = None
    throttlingException: ExceptionBody | None = None
    validationException: ExceptionBody | None = None
    output: ConverseOutput | None = None
    stopReason: str | None = None
    additionalModelResponseFields: Any = None
    message: str | None = None
    capital: str | None = field(default=None, name="Message")  # the spelling of some Amazon services
    kind: str | None = field(default=None, name="__type")
    originalStatusCode: int | None = None
    originalMessage: str | None = None


# ── usage and state ───────────────────────────────────────────────────────────────────────────────


def read_usage(raw: dict[str, Any]) -> ev.Usage:
    """Returns canonical usage. The total shows whether `inputTokens` has the cached tokens."""
    usage = msgspec.convert(raw, ConverseUsage, strict=False)
    read, written = _get_cache_counts(usage)
    prompt = usage.inputTokens
    if prompt is not None and usage.totalTokens != prompt + (usage.outputTokens or 0):
        prompt += (read or 0) + (written or 0)
    return ev.Usage(prompt, usage.outputTokens, read, written, extra={NAME: raw})


def read_metrics(metrics: ConverseUsage) -> ev.Usage:
    """Returns the counts of `InvokeModel` as canonical usage."""
    read, written = _get_cache_counts(metrics)
    count = metrics.inputTokenCount
    prompt = None if count is None else count + (read or 0) + (written or 0)
    return ev.Usage(prompt, metrics.outputTokenCount, read, written)


def _get_cache_counts(usage: ConverseUsage) -> tuple[int | None, int | None]:
    """Returns how many tokens were read from the cache, and how many were written to it."""
    read, written = usage.cacheReadInputTokens, usage.cacheWriteInputTokens
    read = usage.cacheReadInputTokenCount if read is None else read
    return read, usage.cacheWriteInputTokenCount if written is None else written


def append_state(extra: ev.Extra | None, key: str, more: str) -> ev.Extra:
    """Returns extra data with more of the state under `key`."""
    native = (extra or {}).get(NAME, {})
    join = _join_base64 if key == "redactedContent" else str.__add__
    return {NAME: {**native, key: join(native[key], more) if key in native else more}}


def _join_base64(first: str, second: str) -> str:
    """Joins two base64 strings. Each may end in padding."""
    try:
        return b2a_base64(a2b_base64(first) + a2b_base64(second), newline=False).decode()
    except ValueError:
        return first + second
