"""Wire format of Bedrock Converse: stream events, non-stream answers, file formats.

Only fields that the decoder reads are declared. Usage, citations and traces also stay plain objects, because they are
kept unchanged.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

NAME = "bedrock"


class MessageStartEvent(Struct, gc=False):
    role: str | None = None


class BlockStartEvent(Struct):
    contentBlockIndex: int = 0
    start: dict[str, Any] | None = None


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


class BlockDeltaEvent(Struct, gc=False):
    contentBlockIndex: int = 0
    delta: ConverseDelta = field(default_factory=ConverseDelta)


class BlockStopEvent(Struct, gc=False):
    contentBlockIndex: int = 0


class MessageStopEvent(Struct):
    stopReason: str | None = None
    additionalModelResponseFields: Any = None


class ConverseUsage(Struct, gc=False):
    """Token counts, with both names of the cached ones. `inputTokens` leaves out cached tokens."""

    inputTokens: int | None = None
    outputTokens: int | None = None
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


class InvocationMetrics(Struct, gc=False):
    """Counts that `InvokeModel` adds to the last payload of every model."""

    inputTokenCount: int | None = None
    outputTokenCount: int | None = None
    cacheReadInputTokenCount: int | None = None
    cacheWriteInputTokenCount: int | None = None


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


class ConversePayload(Struct):
    """An event under its name, a non-stream answer, or the body of an error."""

    contentBlockDelta: BlockDeltaEvent | None = None
    contentBlockStart: BlockStartEvent | None = None
    contentBlockStop: BlockStopEvent | None = None
    messageStart: MessageStartEvent | None = None
    messageStop: MessageStopEvent | None = None
    metadata: MetadataEvent | None = None
    invocation: InvocationMetrics | None = field(default=None, name="amazon-bedrock-invocationMetrics")
    internalServerException: ExceptionBody | None = None
    modelStreamErrorException: ExceptionBody | None = None
    modelTimeoutException: ExceptionBody | None = None
    serviceUnavailableException: ExceptionBody | None = None
    throttlingException: ExceptionBody | None = None
    validationException: ExceptionBody | None = None
    output: ConverseOutput | None = None
    stopReason: str | None = None
    usage: dict[str, Any] | None = None
    metrics: dict[str, Any] | None = None
    trace: dict[str, Any] | None = None
    performanceConfig: dict[str, Any] | None = None
    serviceTier: dict[str, Any] | None = None
    additionalModelResponseFields: Any = None
    message: str | None = None
    capital: str | None = field(default=None, name="Message")  # the spelling of some Amazon services
    kind: str | None = field(default=None, name="__type")
    originalStatusCode: int | None = None
    originalMessage: str | None = None


# ── file formats ──────────────────────────────────────────────────────────────────────────────────

_OFFICE = "application/vnd.openxmlformats-officedocument."
_DOCUMENT_TYPES = {
    "pdf": "application/pdf",
    "csv": "text/csv",
    "doc": "application/msword",
    "docx": _OFFICE + "wordprocessingml.document",
    "xls": "application/vnd.ms-excel",
    "xlsx": _OFFICE + "spreadsheetml.sheet",
    "html": "text/html",
    "txt": "text/plain",
    "md": "text/markdown",
}
_MEDIA_TYPES = {  # where the media type is not the kind and the format
    "video/mov": "video/quicktime",
    "video/mkv": "video/x-matroska",
    "video/flv": "video/x-flv",
    "video/wmv": "video/x-ms-wmv",
    "video/three_gp": "video/3gpp",
    "video/mpg": "video/mpeg",
    "audio/mp3": "audio/mpeg",
    "image/jpg": "image/jpeg",
}
_DOCUMENT_FORMATS = {media: file_format for file_format, media in _DOCUMENT_TYPES.items()}
_MEDIA_FORMATS = {
    media: name.partition("/")[2] for name, media in _MEDIA_TYPES.items() if name not in ("video/mpg", "image/jpg")
}
_TEXT_TYPES = ("text/", "application/json", "application/xml", "application/yaml", "application/javascript")


def get_media_type(kind: str, file_format: str) -> str:
    """Returns the media type of a format in a block of this kind."""
    if kind == "document":
        return _DOCUMENT_TYPES.get(file_format) or f"application/{file_format or 'octet-stream'}"
    name = f"{kind}/{file_format or '*'}"
    return _MEDIA_TYPES.get(name, name)


def get_block_format(media: str) -> tuple[str, str]:
    """Returns the kind of block and the format for a media type; empty strings if there is none."""
    kind, _, subtype = media.partition("/")
    if kind in ("image", "video", "audio"):
        return kind, _MEDIA_FORMATS.get(media, subtype)
    if media in _DOCUMENT_FORMATS:
        return "document", _DOCUMENT_FORMATS[media]
    return ("document", "txt") if media.startswith(_TEXT_TYPES) else ("", "")
