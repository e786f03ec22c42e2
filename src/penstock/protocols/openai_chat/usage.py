"""Chat usage objects → canonical usage, for all the dialects that count differently."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock import events as ev
from penstock.jsontext import as_json, fit, loose
from penstock.protocols.openai_chat import wire


def _first(*values: int | None) -> int | None:
    for value in values:  # a generator would cost more than all the rest
        if value is not None:
            return value
    return None


def _apart(prompt: int | None, completion: int, reasoning: int, total: int | None) -> bool:
    """Whether a dialect leaves reasoning out of the completion. A total that fits decides; else there is more of it."""
    included = (prompt or 0) + completion
    return reasoning > completion if total not in (included, included + reasoning) else total != included


def read_usage(raw: dict[str, Any]) -> ev.Usage | None:
    """None when the object holds no counts at all, or is of another shape."""
    try:
        said = msgspec.convert(raw, wire.Usage, strict=False)
    except msgspec.ValidationError:
        try:
            said, _ = fit(loose(as_json(raw).encode()), wire.Usage)  # a copy: fields that do not fit are taken out
        except msgspec.ValidationError:
            return None
    prompt, completion = said.prompt_tokens, said.completion_tokens
    if prompt is None and completion is None:
        return None
    of_prompt = said.prompt_tokens_details or wire.PromptDetails()
    of_completion = said.completion_tokens_details or wire.CompletionDetails()
    reasoning = _first(of_completion.reasoning_tokens, said.reasoning_tokens)
    cached = _first(
        of_prompt.cached_tokens, said.cached_tokens, said.prompt_cache_hit_tokens, said.cache_read_input_tokens
    )
    written = _first(of_prompt.cache_write_tokens, said.cache_creation_input_tokens)
    if reasoning and completion is not None and _apart(prompt, completion, reasoning, said.total_tokens):
        completion += reasoning
    return ev.Usage(prompt, completion, cached, written, reasoning, extra={"openai-chat": raw})
