"""Anthropic Messages as sent: the payloads of a stream, and the whole message of a non-stream answer.

Only what is read is declared. Blocks and usage stay objects as well, because they are echoed as they were.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct, field


class Usage(Struct, gc=False):
    """Token counts; `input_tokens` leaves out what was cached."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens_details: OutputDetails | None = None
    iterations: list[Iteration] | None = None


class Iteration(Struct, gc=False):
    """What one run of a model inside the request cost. The counts around the list hold those of type `message` only."""

    type: str = ""
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class OutputDetails(Struct, gc=False):
    thinking_tokens: int | None = None


class Message(Struct, tag_field="type", tag="message"):
    """A whole message: inside `message_start` (usually empty), or the body of a non-stream answer."""

    id: str | None = None
    model: str | None = None
    content: list[dict[str, Any]] | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: dict[str, Any] | None = None
    container: dict[str, Any] | None = None
    context_management: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None


class MessageStart(Struct, tag_field="type", tag="message_start"):
    message: Message = field(default_factory=Message)


class ContentBlockStart(Struct, tag_field="type", tag="content_block_start"):
    index: int = 0
    content_block: dict[str, Any] = field(default_factory=dict[str, Any])


class Delta(Struct, gc=False):
    """Every kind of block delta in one shape; `type` says which field counts."""

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
    delta: Delta = field(default_factory=Delta)


class ContentBlockStop(Struct, tag_field="type", tag="content_block_stop", gc=False):
    index: int = 0


class StopDelta(Struct):
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: dict[str, Any] | None = None
    container: dict[str, Any] | None = None


class MessageDelta(Struct, tag_field="type", tag="message_delta"):
    delta: StopDelta = field(default_factory=StopDelta)
    usage: dict[str, Any] | None = None
    context_management: dict[str, Any] | None = None


class MessageStop(Struct, tag_field="type", tag="message_stop"):
    pass


class Ping(Struct, tag_field="type", tag="ping"):
    pass


class ErrorDetail(Struct):
    type: str | None = None
    message: str | None = None
    details: dict[str, Any] | None = None


class Error(Struct, tag_field="type", tag="error"):
    """A fault in mid-stream, or the body of a failed request."""

    error: ErrorDetail = field(default_factory=ErrorDetail)
    request_id: str | None = None


Payload: TypeAlias = (
    MessageStart | ContentBlockStart | ContentBlockDelta | ContentBlockStop | MessageDelta | MessageStop | Ping | Error
    | Message
)  # fmt: skip
