"""The chunks of the AI SDK as sent, but for those about tools: text, reasoning, sources, files, the frame around them.

One shape per meaning, with every spelling as a field of its own; a chunk's type says what it means. Only what is read
is declared. Metadata is `Any` on purpose: text must not be lost because something beside it is odd.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

Id: TypeAlias = str | int | None


class Chunk(Struct, tag_field="type", rename="camel"):
    """The root of all chunks: snake_case here, camelCase on the wire."""


# ── text and reasoning ────────────────────────────────────────────────────────────────────────────


class Say(Chunk, gc=False):
    """A piece: `text` in a full stream, `delta` in a UI stream and in `doStream`, `textDelta` in version 4."""

    id: Id = None
    text: str | None = None
    delta: str | None = None
    text_delta: str | None = None
    provider_metadata: Any = None


class TextDelta(Say, tag="text-delta", gc=False):
    """All versions."""


class Text(Say, tag="text", gc=False):
    """An alpha of version 5."""


class ReasoningDelta(Say, tag="reasoning-delta", gc=False):
    """Since 5."""


class Reasoning(Say, tag="reasoning", gc=False):
    """Version 4."""


class Border(Chunk):
    """Where a part begins or ends."""

    id: Id = None
    provider_metadata: Any = None
    citations: Any = None


class TextStart(Border, tag="text-start"):
    """Since 5."""


class TextEnd(Border, tag="text-end"):
    """Since 5; with citations since 7."""


class ReasoningStart(Border, tag="reasoning-start"):
    """Since 5."""


class ReasoningEnd(Border, tag="reasoning-end"):
    """Since 5."""


class ReasoningPartFinish(Border, tag="reasoning-part-finish"):
    """An alpha of version 5."""


class ReasoningSignature(Chunk, tag="reasoning-signature"):
    """Version 4: ends a block of reasoning."""

    signature: str = ""


class RedactedReasoning(Chunk, tag="redacted-reasoning"):
    """Version 4."""

    data: str = ""


# ── sources and files ─────────────────────────────────────────────────────────────────────────────


class SourceChunk(Chunk):
    """A source in itself, or in version 4 under `source`."""

    id: Id = None
    source_id: Id = None
    url: str | None = None
    title: str | None = None
    media_type: str | None = None
    filename: str | None = None
    source: Any = None
    provider_metadata: Any = None


class Source(SourceChunk, tag="source"):
    """In full streams."""


class SourceUrl(SourceChunk, tag="source-url"):
    """In UI streams."""


class SourceDocument(SourceChunk, tag="source-document"):
    """In UI streams."""


class FileChunk(Chunk):
    """A file by its address, its bytes (which `penstock.aisdk.files` finds), or all of it under `file`."""

    file: Any = None
    url: str | None = None
    media_type: str | None = None
    mime_type: str | None = None
    base64: Any = None
    base64_data: Any = None
    data: Any = None
    uint8_array: Any = None
    uint8_array_data: Any = None
    provider_metadata: Any = None


class File(FileChunk, tag="file"):
    """All versions."""


class ReasoningFile(FileChunk, tag="reasoning-file"):
    """Since 7."""


# ── the frame ─────────────────────────────────────────────────────────────────────────────────────


class Start(Chunk, tag="start"):
    """A turn begins."""

    message_id: str | None = None
    message_metadata: Any = None


class StreamStart(Chunk, tag="stream-start"):
    """The first part of `doStream`."""

    warnings: Any = None


class ResponseMetadata(Chunk, tag="response-metadata"):
    """Only in `doStream`."""

    id: str | None = None
    model_id: str | None = None
    timestamp: Any = None


class StepBegin(Chunk):
    """A model call inside the turn begins."""

    message_id: str | None = None
    warnings: Any = None


class StartStep(StepBegin, tag="start-step"):
    """Since 5."""


class StepStart(StepBegin, tag="step-start"):
    """Version 4, whose streams have no `start`."""


class Ending(Chunk):
    """What the end of a step and the end of all may say."""

    finish_reason: Any = None
    raw_finish_reason: str | None = None
    usage: Any = None
    total_usage: Any = None
    response: Any = None
    provider_metadata: Any = None
    message_metadata: Any = None


class FinishStep(Ending, tag="finish-step"):
    """Since 5."""


class StepFinish(Ending, tag="step-finish"):
    """Version 4."""


class Finish(Ending, tag="finish"):
    """The end of all."""


class MessageMetadata(Chunk, tag="message-metadata"):
    """An application's own words about the message; UI streams."""

    message_metadata: Any = None


class Error(Chunk, tag="error"):
    """`error` is anything in a full stream; a UI stream has text only."""

    error: Any = None
    error_text: str | None = None


class Abort(Chunk, tag="abort"):
    """The caller stopped it."""

    reason: Any = None


class Custom(Chunk, tag="custom"):
    """A provider's own part, since 7."""

    kind: str = ""
    provider_metadata: Any = None


class SteeringMessage(Chunk, tag="steering-message"):
    """A user's word in the midst of a run, since 7."""


class Raw(Chunk, tag="raw"):
    """A provider's own chunk, for whoever asked to see it."""


class Ping(Chunk, tag="ping"):
    """A sign of life."""


class ResetStep(Chunk, tag="reset-step"):
    """What the step said so far is taken back, since 7."""


class Data(Struct):
    """`data-*`: its name is part of its type, so it cannot be one of the tagged chunks. The data stays as written."""

    type: str
    data: msgspec.Raw
    id: str | None = None
    transient: bool | None = None
