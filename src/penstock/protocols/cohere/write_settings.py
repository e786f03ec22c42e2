"""Canonical settings → those of Cohere Chat, in both versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocols.cohere.request_settings import read_format, read_thinking
from penstock.writing import budget_of

if TYPE_CHECKING:
    from penstock import request as rq
    from penstock.pick import Object
    from penstock.writing import Draft

_UNSAID = (
    "choices", "top_logprobs", "parallel_calls", "verbosity", "tier", "user", "metadata", "cache_key", "store",
)  # fmt: skip


def write_settings(asked: rq.Settings, marks: Object, draft: Draft, body: Object) -> None:
    """Put the settings into a body."""
    for name in _UNSAID:
        if getattr(asked, name) not in (None, ""):
            draft.lose("setting", name)
    said: Object = {
        "max_tokens": asked.max_output, "temperature": asked.temperature, "p": asked.top_p, "k": asked.top_k,
        "stop_sequences": asked.stop or None, "seed": asked.seed, "frequency_penalty": asked.frequency_penalty,
        "presence_penalty": asked.presence_penalty, "logprobs": asked.logprobs,
        "response_format": _format(asked.format, marks.get("format", {}), draft),
        "thinking": _thinking(asked, marks.get("thinking", {}), draft),
    }  # fmt: skip
    body.update({key: value for key, value in said.items() if value is not None and value != {}})


def _thinking(asked: rq.Settings, was: Object, draft: Draft) -> Object:
    if asked.effort:
        draft.lose("effort")
    elif (asked.budget, asked.thoughts) == read_thinking(was):
        return was
    if asked.thoughts is not None and (asked.budget is not None or asked.effort):
        draft.lose("setting", "thoughts")
    budget = budget_of(asked.effort) if asked.budget is None and asked.effort else asked.budget
    if budget is None:
        return {} if asked.thoughts is None else {"type": "enabled" if asked.thoughts else "disabled"}
    return {"type": "enabled", "token_budget": budget} if budget else {"type": "disabled"}


def _format(form: rq.Format | None, was: Object, draft: Draft) -> Object:
    if form is None or form == read_format(was):
        return was if form is not None else {}
    if form.kind == "text":
        return {"type": "text"}
    if form.name or form.description or form.strict is not None:
        draft.lose("format")
    return {"type": "json_object", **({"json_schema": form.schema} if form.schema is not None else {})}
