"""Cohere Chat as sent: the events of version 2 (`type`) and version 1 (`event_type`), and their whole answers.

One shape for all, because nothing but its fields tells them apart. In a stream's first event `content`, `tool_calls`
and `citations` are empty lists, later they are one object, and in a whole answer lists again.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field


class Content(Struct, gc=False):
    type: str | None = None
    text: str | None = None
    thinking: str | None = None


class Function(Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class ToolCall(Struct):
    id: str | None = None
    function: Function | None = None


class Message(Struct):
    content: Content | list[Content] | None = None
    tool_plan: str | None = None
    tool_calls: ToolCall | list[ToolCall] | None = None
    citations: dict[str, Any] | list[dict[str, Any]] | None = None


class Delta(Struct):
    message: Message | None = None
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None
    error: str | None = None


class Tokens(Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    image_tokens: int | None = None


class Usage(Struct):
    """`tokens` is what the model read and wrote, `billed_units` what is paid for."""

    tokens: Tokens | None = None
    billed_units: Tokens | None = None
    cached_tokens: int | None = None


class OldCall(Struct):
    """A call of version 1: it has no id."""

    name: str | None = None
    parameters: dict[str, Any] | None = None


class OldCallDelta(Struct):
    index: int | None = None
    name: str | None = None
    parameters: str | None = None
    text: str | None = None


class Generation(Struct):
    """An answer of the older still `generate`."""

    text: str | None = None
    finish_reason: str | None = None


class OldAnswer(Struct):
    """A whole answer of version 1: the body of a call without a stream, or inside the last event of one."""

    text: str | None = None
    generation_id: str | None = None
    response_id: str | None = None
    finish_reason: str | None = None
    tool_calls: list[OldCall] | None = None
    citations: list[dict[str, Any]] | None = None
    documents: list[dict[str, Any]] | None = None
    search_queries: list[dict[str, Any]] | None = None
    search_results: list[dict[str, Any]] | None = None
    generations: list[Generation] | None = None
    meta: dict[str, Any] | None = None


class Invocation(Struct, gc=False):
    """What Bedrock adds to the last payload of any model."""

    inputTokenCount: int | None = None
    outputTokenCount: int | None = None


class Payload(OldAnswer):
    type: str | None = None
    event_type: str | None = None
    id: str | None = None
    index: int | None = None
    delta: Delta | None = None
    message: Message | str | None = None  # a string where the request failed
    usage: dict[str, Any] | None = None
    logprobs: Any = None
    is_finished: bool | None = None
    response: OldAnswer | None = None
    tool_call_delta: OldCallDelta | None = None
    invocation: Invocation | None = field(default=None, name="amazon-bedrock-invocationMetrics")
