"""Wire format of Anthropic Messages: the payloads of a stream, and the message of a non-stream answer.

Only fields that the decoder reads are declared. Blocks and usage also stay plain objects, because they are echoed
unchanged.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct, field

NAME = "anthropic"


class InputCounts(Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class MessageUsage(InputCounts, gc=False):
    """Token counts. `input_tokens` leaves out cached tokens."""

    output_tokens_details: OutputTokenDetails | None = None
    iterations: list[UsageIteration] | None = None


class UsageIteration(InputCounts, gc=False):
    """Token counts of one model run inside the request. The counts of the message hold only runs of type `message`."""

    type: str = ""
    model: str | None = None


class OutputTokenDetails(Struct, gc=False):
    thinking_tokens: int | None = None


class StopFields(Struct):
    """Why the message stopped: in `message_delta`, or in a complete message."""

    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: dict[str, Any] | None = None
    container: dict[str, Any] | None = None


class CompleteMessage(StopFields, tag_field="type", tag="message"):
    """A message: inside `message_start` (usually empty), or the body of a non-stream answer."""

    id: str | None = None
    model: str | None = None
    content: list[dict[str, Any]] | None = None
    context_management: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None


class MessageStart(Struct, tag_field="type", tag="message_start"):
    message: CompleteMessage = field(default_factory=CompleteMessage)


class ContentBlockStart(Struct, tag_field="type", tag="content_block_start"):
    index: int = 0
    content_block: dict[str, Any] = {}


class BlockDelta(Struct, gc=False):
    """All kinds of block deltas in one struct. `type` tells which field is used."""

    type: str = ""
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    citation: dict[str, Any] | None = None
    content: str | None = None
    encrypted_content: str | None = None


class ContentBlockDelta(Struct, tag_field="type", tag="content_block_delta", gc=False):
    index: int = 0
    delta: BlockDelta = field(default_factory=BlockDelta)


class ContentBlockStop(Struct, tag_field="type", tag="content_block_stop", gc=False):
    index: int = 0


class MessageDelta(Struct, tag_field="type", tag="message_delta"):
    delta: StopFields = field(default_factory=StopFields)
    usage: dict[str, Any] | None = None
    context_management: dict[str, Any] | None = None


class MessageStop(Struct, tag_field="type", tag="message_stop"):
    pass


class PingPayload(Struct, tag_field="type", tag="ping"):
    pass


class ErrorDetail(Struct):
    type: str | None = None
    message: str | None = None
    details: dict[str, Any] | None = None


class ErrorPayload(Struct, tag_field="type", tag="error"):
    """An error in a stream, or the body of a failed request."""

    error: ErrorDetail = field(default_factory=ErrorDetail)
    request_id: str | None = None


_StreamPayload: TypeAlias = MessageStart | ContentBlockStart | ContentBlockDelta | ContentBlockStop | MessageDelta
Payload: TypeAlias = _StreamPayload | MessageStop | PingPayload | ErrorPayload | CompleteMessage
