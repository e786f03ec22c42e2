"""Legacy text completions as sent: chunks, and whole completions, which have the same shape."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Logprobs(Struct, gc=False):
    """Lists side by side, a place for each token."""

    tokens: list[str] | None = None
    token_logprobs: list[float | None] | None = None
    top_logprobs: list[dict[str, float] | None] | None = None


class Choice(Struct, gc=False):
    index: int | None = None
    text: str | None = None
    logprobs: dict[str, Any] | None = None
    finish_reason: str | None = None
    stop_reason: Any = None  # what stopped it (vLLM): a string or a token id


class Chunk(Struct, gc=False):
    """One payload, or a whole completion, or an error object in either's place."""

    id: str | None = None
    model: str | None = None
    created: float | None = None
    choices: list[Choice] | None = None
    usage: dict[str, Any] | None = None
    system_fingerprint: str | None = None
    error: dict[str, Any] | str | None = None
    object: str | None = None  # `error` where the fields below are one (vLLM)
    type: str | None = None  # of an error; also the keep-alives of some gateways
    message: Any = None
    code: Any = None


class PromptDetails(Struct, gc=False):
    cached_tokens: int | None = None


class CompletionDetails(Struct, gc=False):
    reasoning_tokens: int | None = None


class Usage(Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None
