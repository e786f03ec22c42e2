"""Cohere Chat as sent: events of version 2 (`type`) and version 1 (`event_type`), and non-stream answers.

All have one type, because only the fields tell them apart. In the first event of a stream `content`, `tool_calls` and
`citations` are empty lists; in later events they are one object; in a non-stream answer they are lists.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field

from penstock import events as ev

NAME = "cohere"
PLAN_EXTRA = {NAME: {"kind": "tool_plan"}}  # marks reasoning that is a plan


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
    """`tokens` counts what the model read and wrote, `billed_units` what is billed."""

    tokens: Tokens | None = None
    billed_units: Tokens | None = None
    cached_tokens: int | None = None


class V1Call(Struct):
    """A call of version 1, which has no id."""

    name: str | None = None
    parameters: dict[str, Any] | None = None


class V1CallDelta(Struct):
    index: int | None = None
    name: str | None = None
    parameters: str | None = None
    text: str | None = None


class Generation(Struct):
    """An answer of the older `generate` API."""

    text: str | None = None
    finish_reason: str | None = None


class V1Answer(Struct):
    """A complete answer of version 1: a non-stream body, or part of the last event of a stream."""

    text: str | None = None
    generation_id: str | None = None
    response_id: str | None = None
    finish_reason: str | None = None
    tool_calls: list[V1Call] | None = None
    citations: list[dict[str, Any]] | None = None
    documents: list[dict[str, Any]] | None = None
    search_queries: list[dict[str, Any]] | None = None
    search_results: list[dict[str, Any]] | None = None
    generations: list[Generation] | None = None
    meta: dict[str, Any] | None = None


class Invocation(Struct, gc=False):
    """Metrics that Bedrock adds to the last payload of every model."""

    inputTokenCount: int | None = None
    outputTokenCount: int | None = None


class Payload(V1Answer):
    type: str | None = None
    event_type: str | None = None
    id: str | None = None
    index: int | None = None
    delta: Delta | None = None
    message: Message | str | None = None  # a string if the request failed
    usage: dict[str, Any] | None = None
    logprobs: Any = None
    is_finished: bool | None = None
    response: V1Answer | None = None
    tool_call_delta: V1CallDelta | None = None
    invocation: Invocation | None = field(default=None, name="amazon-bedrock-invocationMetrics")


def read_usage(raw: dict[str, Any]) -> ev.Usage | None:
    """Reads the token counts; without them the billed units, which exclude the prompt's framing."""
    try:
        usage = msgspec.convert(raw, Usage, strict=False)
    except msgspec.ValidationError:
        return None
    tokens = next((one for one in (usage.tokens, usage.billed_units) if one not in (None, Tokens())), None)
    if tokens is None:
        return None
    read = None if tokens.input_tokens is None else tokens.input_tokens + (tokens.image_tokens or 0)
    counts = (read, tokens.output_tokens, usage.cached_tokens, None, tokens.reasoning_tokens)
    return ev.Usage(*counts, usage.tokens is not None, extra={NAME: raw})
