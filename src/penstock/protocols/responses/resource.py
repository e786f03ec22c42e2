"""The response object as an encoder writes it: every field that Open Responses asks for, usage.

Leans on nothing but the events' own words. What the request asked for is not known here: the gateway passes it in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import pick

if TYPE_CHECKING:
    from penstock import events as ev
    from penstock.events import Reason

DEFAULTS: dict[str, Any] = {
    "background": False, "completed_at": None, "error": None, "frequency_penalty": 0.0, "incomplete_details": None,
    "instructions": None, "max_output_tokens": None, "max_tool_calls": None, "metadata": {},
    "parallel_tool_calls": True, "presence_penalty": 0.0, "previous_response_id": None, "prompt_cache_key": None,
    "reasoning": None, "safety_identifier": None, "service_tier": "default", "store": False, "temperature": 1.0,
    "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [], "top_logprobs": 0, "top_p": 1.0,
    "truncation": "disabled",
}  # fmt: skip
INCOMPLETE: dict[Reason, str] = {
    "length": "max_output_tokens", "filter": "content_filter", "refusal": "content_filter",
}  # fmt: skip


def usage_object(event: ev.Usage, own: dict[str, Any]) -> dict[str, Any]:
    """All the counts that readers insist on; the provider's own object over them, if it is of this protocol."""
    taken = {"cached_tokens": event.cached or 0, "cache_write_tokens": event.written or 0}
    made = {"reasoning_tokens": event.reasoning or 0}
    counts = {
        "input_tokens": event.input or 0, "input_tokens_details": taken, "output_tokens": event.output or 0,
        "output_tokens_details": made, "total_tokens": (event.input or 0) + (event.output or 0),
    }  # fmt: skip
    return {
        **counts, **{key: value for key, value in own.items() if value is not None},
        "input_tokens_details": {**taken, **pick.table(own, "input_tokens_details")},
        "output_tokens_details": {**made, **pick.table(own, "output_tokens_details")},
    }  # fmt: skip


def token_logprobs(logprobs: Any) -> list[dict[str, Any]]:
    """Log probabilities as this protocol lists them, from its own list or the one in Chat's envelope."""
    content = pick.listed(pick.as_object(logprobs), "content") or logprobs
    return [
        {**_token(one), "top_logprobs": [_token(other) for other in pick.rows(one, "top_logprobs")]}
        for one in pick.objects(content)
    ]


def _token(one: dict[str, Any]) -> dict[str, Any]:
    token = pick.text(one, "token")
    return {"token": token, "bytes": one.get("bytes") or list(token.encode()), "logprob": one.get("logprob") or 0.0}
