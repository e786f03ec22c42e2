"""Chat Completions settings → canonical: those of the standard, and what its dialects call the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from penstock import reading
from penstock import request as rq
from penstock.pick import as_object
from penstock.reading import rest

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.pick import Object

SETTINGS = frozenset({
    "max_tokens", "max_completion_tokens", "temperature", "top_p", "top_k", "stop", "seed", "random_seed",
    "frequency_penalty", "presence_penalty", "n", "logprobs", "top_logprobs", "response_format", "parallel_tool_calls",
    "reasoning_effort", "reasoning", "thinking", "enable_thinking", "thinking_budget", "verbosity", "service_tier",
    "user", "metadata", "prompt_cache_key", "store",
})  # fmt: skip
_SCHEMA = frozenset({"name", "schema", "description", "strict"})
# Known, and yet kept as they are: they say more than is read from them.
MARKED = frozenset({"thinking", "enable_thinking", "thinking_budget"})

# What is read as it stands: its name with us, and how.
_SAID: dict[str, tuple[str, Callable[[Object, str], Any]]] = {
    "temperature": ("temperature", reading.number), "top_p": ("top_p", reading.number),
    "top_k": ("top_k", reading.whole), "stop": ("stop", reading.strings),
    "frequency_penalty": ("frequency_penalty", reading.number),
    "presence_penalty": ("presence_penalty", reading.number), "n": ("choices", reading.whole),
    "logprobs": ("logprobs", reading.flag), "top_logprobs": ("top_logprobs", reading.whole),
    "parallel_tool_calls": ("parallel_calls", reading.flag), "verbosity": ("verbosity", reading.text),
    "service_tier": ("tier", reading.text), "user": ("user", reading.text),
    "metadata": ("metadata", lambda body, key: reading.table(body, key) or None),
    "prompt_cache_key": ("cache_key", reading.text), "store": ("store", reading.flag),
}  # fmt: skip
_THINKING = frozenset({"reasoning_effort", "reasoning", "enable_thinking", "thinking", "thinking_budget"})


def spelled(body: Object) -> Object:
    """How a request puts what can be put in several ways."""
    long, short = body.get("max_completion_tokens") is not None, body.get("max_tokens") is not None
    return {
        "limit": "max_completion_tokens" if long else "",
        "limits": [body["max_completion_tokens"], body["max_tokens"]] if long and short else None,
        "stop": isinstance(body.get("stop"), str),
        "seed": "random_seed" if body.get("random_seed") is not None else "",
        "top_k": body.get("top_k") is not None,
        "reasoning": {"as": body["reasoning"]} if isinstance(body.get("reasoning"), dict) else None,
        "format": _odd_format(body.get("response_format")),
    }


def read_settings(body: Object) -> rq.Settings:
    """The settings that all protocols share in some form."""
    said: dict[str, Any] = {}
    for key in body:
        if key in _SAID:
            name, read = _SAID[key]
            said[name] = read(body, key)
    if "max_completion_tokens" in body or "max_tokens" in body:
        limit = reading.whole(body, "max_completion_tokens")
        said["max_output"] = reading.whole(body, "max_tokens") if limit is None else limit
    if "seed" in body or "random_seed" in body:
        seed = reading.whole(body, "seed")
        said["seed"] = reading.whole(body, "random_seed") if seed is None else seed
    if not _THINKING.isdisjoint(body):
        said["effort"], said["budget"], said["thoughts"] = read_effort(body)
    return rq.Settings(**said, format=read_format(body))


def read_effort(body: Object) -> tuple[str, int | None, bool | None]:
    """Effort, budget and whether to show it, from the standard field or from those of the dialects."""
    effort = reading.text(body, "reasoning_effort")
    if body.get("reasoning") is not None:
        said, budget, shown = reading.inside(body, "reasoning", read_reasoning)
        return effort or said, budget, shown
    off = reading.flag(body, "enable_thinking") is False
    if body.get("thinking") is not None:
        thinking = reading.table(body, "thinking")
        off = off or thinking.get("type") == "disabled"
        return (
            effort,
            0 if off else reading.inside(body, "thinking", lambda one: reading.whole(one, "budget_tokens")),
            None,
        )
    return effort, 0 if off else reading.whole(body, "thinking_budget"), None


def read_reasoning(said: Object) -> tuple[str, int | None, bool | None]:
    """The object that some dialects have for all about reasoning."""
    hidden = reading.flag(said, "exclude")
    off = reading.flag(said, "enabled") is False
    budget = 0 if off else reading.whole(said, "max_tokens")
    return reading.text(said, "effort"), budget, None if hidden is None else not hidden


def read_format(body: Object) -> rq.Format | None:
    """The form that an answer should have."""
    if body.get("response_format") is None:
        return None
    return reading.inside(body, "response_format", _form)


def _form(given: Object) -> rq.Format | None:
    kind = given.get("type")
    if kind == "json_schema":
        return reading.inside(given, "json_schema", _schema)
    return rq.Format("json") if kind == "json_object" else rq.Format() if kind == "text" else None


def _schema(said: Object) -> rq.Format:
    schema = reading.table(said, "schema") or None
    name, description = reading.text(said, "name"), reading.text(said, "description")
    return rq.Format("schema", name, schema, description, reading.flag(said, "strict"))


_FORMS = {"text": {"type"}, "json_object": {"type"}, "json_schema": {"type", "json_schema"}}


def _odd_format(given: Any) -> Object | None:
    """A form of answer that cannot be said again from what is read of it."""
    if not isinstance(given, dict):
        return None
    whole = cast("Object", given)
    said = as_object(whole.get("json_schema"))
    strange = rest(whole, _FORMS.get(str(whole.get("type")), set())) or rest(said, _SCHEMA)
    empty = any(value in (None, "", {}) for value in said.values())
    return {"as": whole} if strange or empty or (said and not said.get("name")) else None
