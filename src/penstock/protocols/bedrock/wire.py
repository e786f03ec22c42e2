"""Bedrock Converse as sent: the events of a stream, each under its kind, and the whole answer of a call without one.

Only what is read is declared. Usage, citations and traces stay objects as well, because they are kept as they were.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field


class MessageStart(Struct, gc=False):
    role: str | None = None


class BlockStart(Struct):
    contentBlockIndex: int = 0
    start: dict[str, Any] | None = None


class ToolUse(Struct):
    """How a call begins; in a whole answer, with its input."""

    toolUseId: str | None = None
    name: str | None = None
    type: str | None = None  # `server_tool_use`: Bedrock runs it
    input: Any = None


class ToolResult(Struct):
    """The answer of a tool that Bedrock ran; in a stream its content follows in deltas."""

    toolUseId: str | None = None
    status: str | None = None
    type: str | None = None
    content: list[dict[str, Any]] | None = None


class ToolInput(Struct, gc=False):
    input: str | None = None


class Reasoning(Struct, gc=False):
    """A delta has one of the three; a whole block has `reasoningText` or `redactedContent`."""

    text: str | None = None
    signature: str | None = None
    redactedContent: str | None = None
    reasoningText: ReasoningText | None = None


class ReasoningText(Struct, gc=False):
    text: str | None = None
    signature: str | None = None


class Source(Struct):
    """Where the bytes of a file are."""

    data: str | None = field(default=None, name="bytes")
    s3Location: dict[str, Any] | None = None


class Media(Struct):
    """A picture, sound or film: its format at the start, its source in the deltas; both in a whole answer."""

    format: str | None = None
    source: Source | None = None
    error: dict[str, Any] | None = None


class Delta(Struct, gc=False):
    text: str | None = None
    toolUse: ToolInput | None = None
    toolResult: list[dict[str, Any]] | None = None
    reasoningContent: Reasoning | None = None
    citation: dict[str, Any] | None = None
    image: Media | None = None


class BlockDelta(Struct, gc=False):
    contentBlockIndex: int = 0
    delta: Delta = field(default_factory=Delta)


class BlockStop(Struct, gc=False):
    contentBlockIndex: int = 0


class MessageStop(Struct):
    stopReason: str | None = None
    additionalModelResponseFields: Any = None


class Usage(Struct, gc=False):
    """Token counts, the cached ones under both of their names. `inputTokens` leaves out what was cached."""

    inputTokens: int | None = None
    outputTokens: int | None = None
    totalTokens: int | None = None
    cacheReadInputTokens: int | None = None
    cacheReadInputTokenCount: int | None = None
    cacheWriteInputTokens: int | None = None
    cacheWriteInputTokenCount: int | None = None


class Metadata(Struct):
    usage: dict[str, Any] | None = None
    metrics: dict[str, Any] | None = None
    trace: dict[str, Any] | None = None
    performanceConfig: dict[str, Any] | None = None
    serviceTier: dict[str, Any] | None = None


class InvocationMetrics(Struct, gc=False):
    """What `InvokeModel` adds to the last payload of any model."""

    inputTokenCount: int | None = None
    outputTokenCount: int | None = None
    cacheReadInputTokenCount: int | None = None
    cacheWriteInputTokenCount: int | None = None


class Error(Struct):
    message: str | None = None
    originalStatusCode: int | None = None
    originalMessage: str | None = None


class Message(Struct):
    content: list[dict[str, Any]] | None = None


class Output(Struct):
    message: Message | None = None


class CitationsContent(Struct):
    """Text with its citations, in a whole answer."""

    content: list[dict[str, Any]] | None = None
    citations: list[dict[str, Any]] | None = None


class Block(Struct):
    """A block of a whole answer."""

    text: str | None = None
    toolUse: ToolUse | None = None
    toolResult: ToolResult | None = None
    reasoningContent: Reasoning | None = None
    citationsContent: CitationsContent | None = None
    image: Media | None = None
    audio: Media | None = None
    video: Media | None = None


class Payload(Struct):
    """An event under its kind, or a whole answer, or the body of an error."""

    contentBlockDelta: BlockDelta | None = None
    contentBlockStart: BlockStart | None = None
    contentBlockStop: BlockStop | None = None
    messageStart: MessageStart | None = None
    messageStop: MessageStop | None = None
    metadata: Metadata | None = None
    invocation: InvocationMetrics | None = field(default=None, name="amazon-bedrock-invocationMetrics")
    internalServerException: Error | None = None
    modelStreamErrorException: Error | None = None
    modelTimeoutException: Error | None = None
    serviceUnavailableException: Error | None = None
    throttlingException: Error | None = None
    validationException: Error | None = None
    output: Output | None = None
    stopReason: str | None = None
    usage: dict[str, Any] | None = None
    metrics: dict[str, Any] | None = None
    trace: dict[str, Any] | None = None
    performanceConfig: dict[str, Any] | None = None
    serviceTier: dict[str, Any] | None = None
    additionalModelResponseFields: Any = None
    message: str | None = None
    capital: str | None = field(default=None, name="Message")  # as some of Amazon's services spell it
    kind: str | None = field(default=None, name="__type")
    originalStatusCode: int | None = None
    originalMessage: str | None = None


_OFFICE = "application/vnd.openxmlformats-officedocument."
DOCUMENTS: dict[str, str] = {
    "pdf": "application/pdf", "csv": "text/csv", "doc": "application/msword",
    "docx": _OFFICE + "wordprocessingml.document", "xls": "application/vnd.ms-excel",
    "xlsx": _OFFICE + "spreadsheetml.sheet", "html": "text/html", "txt": "text/plain", "md": "text/markdown",
}  # fmt: skip
_ODD: dict[str, str] = {
    "video/mov": "video/quicktime", "video/mkv": "video/x-matroska", "video/flv": "video/x-flv",
    "video/wmv": "video/x-ms-wmv", "video/three_gp": "video/3gpp", "video/mpg": "video/mpeg", "audio/mp3": "audio/mpeg",
    "image/jpg": "image/jpeg",
}  # fmt: skip
_FORMS = {media: form for form, media in DOCUMENTS.items()}
_WORDS = {media: word.partition("/")[2] for word, media in _ODD.items() if word not in ("video/mpg", "image/jpg")}
_TEXTS = ("text/", "application/json", "application/xml", "application/yaml", "application/javascript")


def media_of(kind: str, form: str) -> str:
    """The media type of a format, in a block of a kind."""
    if kind == "document":
        return DOCUMENTS.get(form) or f"application/{form or 'octet-stream'}"
    word = f"{kind}/{form or '*'}"
    return _ODD.get(word, word)


def kind_of(media: str) -> tuple[str, str]:
    """The kind of block for a media type, and its format; neither if there is none."""
    kind, _, form = media.partition("/")
    if kind in ("image", "video", "audio"):
        return kind, _WORDS.get(media, form)
    if media in _FORMS:
        return "document", _FORMS[media]
    return ("document", "txt") if media.startswith(_TEXTS) else ("", "")
