"""Settings of a Cohere Chat request, which are the same in both versions → canonical."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import request as rq
from penstock import strict_fields as strict
from penstock.lenient_fields import get_integer, get_text
from penstock.request_writer import budget_for_effort

if TYPE_CHECKING:
    from penstock.lenient_fields import Object
    from penstock.request_writer import RequestDraft

SETTINGS = frozenset({
    "max_tokens", "temperature", "p", "k", "stop_sequences", "seed", "frequency_penalty", "presence_penalty",
    "logprobs", "response_format", "thinking",
})  # fmt: skip


def read_thinking(thinking: Object) -> tuple[int | None, bool | None]:
    """(budget, whether it is wanted at all)."""
    if get_text(thinking, "type") == "disabled":
        return 0, None
    budget = get_integer(thinking, "token_budget")
    return budget, True if thinking and budget is None else None


def read_format(given: Object) -> rq.Format | None:
    """The form of the answer."""
    kind = given.get("type")
    if kind is None or kind == "text":
        return None if kind is None else rq.Format()
    key = "json_schema" if "json_schema" in given else "schema"
    return rq.Format("json") if given.get(key) is None else rq.Format("schema", schema=strict.get_object(given, key))


def read_settings(body: Object) -> tuple[rq.Settings, Object]:
    """The settings, and how they were said."""
    thinking, form = strict.get_object(body, "thinking"), strict.get_object(body, "response_format")
    budget, thoughts = read_thinking(thinking)
    settings = rq.Settings(
        max_output=strict.get_integer(body, "max_tokens"),
        temperature=strict.get_number(body, "temperature"),
        top_p=strict.get_number(body, "p"),
        top_k=strict.get_integer(body, "k"),
        stop=strict.get_strings(body, "stop_sequences"),
        seed=strict.get_integer(body, "seed"),
        frequency_penalty=strict.get_number(body, "frequency_penalty"),
        presence_penalty=strict.get_number(body, "presence_penalty"),
        logprobs=strict.get_flag(body, "logprobs"),
        format=read_format(form),
        budget=budget,
        thoughts=thoughts,
    )
    return settings, {"thinking": thinking, "format": form}


_UNSAID = (
    "choices", "top_logprobs", "parallel_calls", "verbosity", "tier", "user", "metadata", "cache_key", "store",
)  # fmt: skip


def write_settings(asked: rq.Settings, marks: Object, draft: RequestDraft, body: Object) -> None:
    """Put the settings into a body."""
    for name in _UNSAID:
        if getattr(asked, name) not in (None, ""):
            draft.report_loss("setting", name)
    said: Object = {
        "max_tokens": asked.max_output, "temperature": asked.temperature, "p": asked.top_p, "k": asked.top_k,
        "stop_sequences": asked.stop or None, "seed": asked.seed, "frequency_penalty": asked.frequency_penalty,
        "presence_penalty": asked.presence_penalty, "logprobs": asked.logprobs,
        "response_format": _format(asked.format, marks.get("format", {}), draft),
        "thinking": _thinking(asked, marks.get("thinking", {}), draft),
    }  # fmt: skip
    body.update({key: value for key, value in said.items() if value is not None and value != {}})


def _thinking(asked: rq.Settings, was: Object, draft: RequestDraft) -> Object:
    if asked.effort:
        draft.report_loss("effort")
    elif (asked.budget, asked.thoughts) == read_thinking(was):
        return was
    if asked.thoughts is not None and (asked.budget is not None or asked.effort):
        draft.report_loss("setting", "thoughts")
    budget = budget_for_effort(asked.effort) if asked.budget is None and asked.effort else asked.budget
    if budget is None:
        return {} if asked.thoughts is None else {"type": "enabled" if asked.thoughts else "disabled"}
    return {"type": "enabled", "token_budget": budget} if budget else {"type": "disabled"}


def _format(form: rq.Format | None, was: Object, draft: RequestDraft) -> Object:
    if form is None or form == read_format(was):
        return was if form is not None else {}
    if form.kind == "text":
        return {"type": "text"}
    if form.name or form.description or form.strict is not None:
        draft.report_loss("format")
    return {"type": "json_object", **({"json_schema": form.schema} if form.schema is not None else {})}
