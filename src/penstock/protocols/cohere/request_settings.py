"""Settings of a Cohere Chat request, which are the same in both versions → canonical."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import reading
from penstock import request as rq
from penstock.pick import number, text
from penstock.writing import budget_of

if TYPE_CHECKING:
    from penstock.pick import Object
    from penstock.writing import Draft

SETTINGS = frozenset({
    "max_tokens", "temperature", "p", "k", "stop_sequences", "seed", "frequency_penalty", "presence_penalty",
    "logprobs", "response_format", "thinking",
})  # fmt: skip


def read_thinking(thinking: Object) -> tuple[int | None, bool | None]:
    """(budget, whether it is wanted at all)."""
    if text(thinking, "type") == "disabled":
        return 0, None
    budget = number(thinking, "token_budget")
    return budget, True if thinking and budget is None else None


def read_format(given: Object) -> rq.Format | None:
    """The form of the answer."""
    kind = given.get("type")
    if kind is None or kind == "text":
        return None if kind is None else rq.Format()
    key = "json_schema" if "json_schema" in given else "schema"
    return rq.Format("json") if given.get(key) is None else rq.Format("schema", schema=reading.table(given, key))


def read_settings(body: Object) -> tuple[rq.Settings, Object]:
    """The settings, and how they were said."""
    thinking, form = reading.table(body, "thinking"), reading.table(body, "response_format")
    budget, thoughts = read_thinking(thinking)
    settings = rq.Settings(
        max_output=reading.whole(body, "max_tokens"),
        temperature=reading.number(body, "temperature"),
        top_p=reading.number(body, "p"),
        top_k=reading.whole(body, "k"),
        stop=reading.strings(body, "stop_sequences"),
        seed=reading.whole(body, "seed"),
        frequency_penalty=reading.number(body, "frequency_penalty"),
        presence_penalty=reading.number(body, "presence_penalty"),
        logprobs=reading.flag(body, "logprobs"),
        format=read_format(form),
        budget=budget,
        thoughts=thoughts,
    )
    return settings, {"thinking": thinking, "format": form}


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
