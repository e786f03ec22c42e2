"""Chat Completions settings → canonical: sampling, reasoning effort, response format, metadata."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

from penstock import _openai_requests as openai
from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._lenient_fields import Object, as_object
from penstock._strict_fields import unknown_fields

# Read, and also kept as they are: they hold more than what is read.
KEPT_SETTINGS = frozenset({"thinking", "enable_thinking", "thinking_budget"})
_SCHEMA_KEYS = frozenset({"name", "schema", "description", "strict"})
_FORMAT_KEYS = {"text": {"type"}, "json_object": {"type"}, "json_schema": {"type", "json_schema"}}


_SETTING_READERS = openai.index_readers(
    {
        strict.get_number: "temperature top_p frequency_penalty presence_penalty",
        strict.get_integer: "top_k n=choices top_logprobs",
        strict.get_flag: "logprobs parallel_tool_calls=parallel_calls store",
        strict.get_text: "verbosity service_tier=tier user prompt_cache_key=cache_key",
        strict.get_strings: "stop",
        openai.get_metadata: "metadata",
    }
)
_THINKING_KEYS = frozenset({"reasoning_effort", "reasoning", "enable_thinking", "thinking", "thinking_budget"})
REQUEST_KEYS = frozenset({*_SETTING_READERS, *_THINKING_KEYS}).union(
    "model messages tools functions tool_choice function_call stream stream_options".split(),
    "max_tokens max_completion_tokens seed random_seed response_format".split(),
)


def read_spelling(body: Object) -> Object:
    """Returns how a request wrote settings that have several forms."""
    long, short = body.get("max_completion_tokens") is not None, body.get("max_tokens") is not None
    return {
        "limit": "max_completion_tokens" if long else "",
        "limits": [body["max_completion_tokens"], body["max_tokens"]] if long and short else None,
        "stop": isinstance(body.get("stop"), str),
        "seed": "random_seed" if body.get("random_seed") is not None else "",
        "top_k": body.get("top_k") is not None,
        "reasoning": {"as": body["reasoning"]} if isinstance(body.get("reasoning"), dict) else None,
        "format": _unusual_format(body.get("response_format")),
    }


def read_settings(body: Object) -> rq.Settings:
    """Reads the settings that all protocols share in some form."""
    fields = openai.read_fields(body, _SETTING_READERS)
    if "max_completion_tokens" in body or "max_tokens" in body:
        limit = strict.get_integer(body, "max_completion_tokens")
        fields["max_output"] = strict.get_integer(body, "max_tokens") if limit is None else limit
    if "seed" in body or "random_seed" in body:
        seed = strict.get_integer(body, "seed")
        fields["seed"] = strict.get_integer(body, "random_seed") if seed is None else seed
    if not _THINKING_KEYS.isdisjoint(body):
        fields["effort"], fields["budget"], fields["thoughts"] = read_effort(body)
    return rq.Settings(**fields, format=read_format(body))


def read_effort(body: Object) -> tuple[str, int | None, bool | None]:
    """Returns effort, budget and whether to show reasoning, from the standard field or those of the dialects."""
    effort = strict.get_text(body, "reasoning_effort")
    if body.get("reasoning") is not None:
        other, budget, shown = strict.read_object(body, "reasoning", read_reasoning)
        return effort or other, budget, shown
    off = strict.get_flag(body, "enable_thinking") is False
    if body.get("thinking") is not None:
        if off or strict.get_object(body, "thinking").get("type") == "disabled":
            return effort, 0, None
        return effort, strict.read_object(body, "thinking", partial(strict.get_integer, key="budget_tokens")), None
    return effort, 0 if off else strict.get_integer(body, "thinking_budget"), None


def read_reasoning(fields: Object) -> tuple[str, int | None, bool | None]:
    """Reads the `reasoning` object of some dialects."""
    hidden = strict.get_flag(fields, "exclude")
    budget = 0 if strict.get_flag(fields, "enabled") is False else strict.get_integer(fields, "max_tokens")
    return strict.get_text(fields, "effort"), budget, None if hidden is None else not hidden


def read_format(body: Object) -> rq.Format | None:
    """Reads `response_format`."""
    is_absent = body.get("response_format") is None
    return None if is_absent else strict.read_object(body, "response_format", _read_format_object)


def _read_format_object(value: Object) -> rq.Format | None:
    kind = value.get("type")
    if kind == "json_schema":
        return strict.read_object(value, "json_schema", openai.read_schema_format)
    return rq.Format("json") if kind == "json_object" else rq.Format() if kind == "text" else None


def _unusual_format(value: Any) -> Object | None:
    """Returns a `response_format` that cannot be written again from its canonical form."""
    if not isinstance(value, dict):
        return None
    whole = cast("Object", value)
    fields = as_object(whole.get("json_schema"))
    unknown_keys = unknown_fields(whole, _FORMAT_KEYS.get(str(whole.get("type")), set())) or unknown_fields(
        fields, _SCHEMA_KEYS
    )
    empty = any(value in (None, "", {}) for value in fields.values())
    return {"as": whole} if unknown_keys or empty or (fields and not fields.get("name")) else None
