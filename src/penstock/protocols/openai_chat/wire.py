"""OpenAI Chat Completions as sent, with the dialects of those who imitate it: chunks, and whole completions.

Everything may be missing or null somewhere in the wild, so everything has a default.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Function(Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None  # an object in some dialects


class Custom(Struct, gc=False):
    name: str | None = None
    input: str | None = None


class ToolCall(Struct, gc=False):
    index: int | None = None
    id: str | None = None
    type: str | None = None
    function: Function | None = None
    custom: Custom | None = None
    extra_content: dict[str, Any] | None = None  # Gemini's thought signature, behind its OpenAI face


class Audio(Struct, gc=False):
    id: str | None = None
    data: str | None = None
    transcript: str | None = None
    expires_at: int | None = None


class Delta(Struct, gc=False):
    """What a choice adds; in a whole completion its `message` has the same fields."""

    content: str | list[dict[str, Any]] | dict[str, Any] | None = None  # an object where JSON was asked for
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    refusal: str | None = None
    tool_calls: list[ToolCall] | None = None
    function_call: Function | None = None  # before there were tools
    annotations: list[dict[str, Any]] | None = None
    audio: Audio | None = None
    images: list[dict[str, Any]] | None = None
    executed_tools: list[dict[str, Any]] | None = None  # run by the provider (Groq)
    extra_content: dict[str, Any] | None = None  # Gemini's thought signature, as in calls


class Choice(Struct, gc=False):
    """In the order in which they are usually sent, which is read fastest."""

    index: int | None = None
    delta: Delta | None = None
    logprobs: Any = None
    finish_reason: str | None = None
    message: Delta | None = None
    content_filter_results: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class More(Struct, gc=False):
    """A payload inside a turn, as far as it matters there: what names the turn is not read again."""

    choices: list[Choice] | None = None
    usage: dict[str, Any] | None = None
    error: dict[str, Any] | str | None = None
    citations: list[Any] | None = None
    search_results: list[dict[str, Any]] | None = None
    x_groq: dict[str, Any] | None = None


class Chunk(More, gc=False):
    """Any payload: the one that begins a turn, one without choices, a whole completion, an error."""

    id: str | None = None
    model: str | None = None
    created: float | None = None
    service_tier: str | None = None
    system_fingerprint: str | None = None
    type: str | None = None  # keep-alives of some gateways, and errors without an `error`
    message: Any = None
    detail: Any = None
    prompt_filter_results: list[Any] | None = None


class Usage(Struct, gc=False):
    """Token counts under every name they go by."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None
    cached_tokens: int | None = None
    prompt_cache_hit_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    reasoning_tokens: int | None = None


class PromptDetails(Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class CompletionDetails(Struct, gc=False):
    reasoning_tokens: int | None = None
