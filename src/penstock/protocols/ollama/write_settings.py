"""Canonical settings → options of an Ollama request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.protocols.ollama.request_settings import read_think
from penstock.writing import add, effort_of

if TYPE_CHECKING:
    from penstock import request as rq
    from penstock.pick import Object
    from penstock.protocols.ollama.write import Writer

_UNSAID = ("choices", "parallel_calls", "verbosity", "tier", "user", "metadata", "cache_key", "store")
_NEAREST = {"minimal": "low", "xhigh": "high", "max": "high"}


def write_settings(asked: rq.Settings, marks: Object, draft: Writer, body: Object) -> None:
    """Put the settings into a body."""
    for name in _UNSAID:
        if getattr(asked, name) not in (None, ""):
            draft.lose("setting", name)
    stop: Any = asked.stop or None
    if marks.get("single") and len(asked.stop) == 1:
        stop = asked.stop[0]
    said: Object = {
        "num_predict": asked.max_output, "temperature": asked.temperature, "top_p": asked.top_p, "top_k": asked.top_k,
        "stop": stop, "seed": asked.seed, "frequency_penalty": asked.frequency_penalty,
        "presence_penalty": asked.presence_penalty,
    }  # fmt: skip
    options = {**{key: value for key, value in said.items() if value is not None}, **marks.get("options", {})}
    add(options, marks.get("unsaid"))
    if options:
        body["options"] = options
    if asked.format is not None:
        _format(asked.format, draft, body)
    think = _think(asked, marks.get("think") or [None], draft)
    for key, value in (("think", think), ("logprobs", asked.logprobs), ("top_logprobs", asked.top_logprobs)):
        if value is not None:
            body[key] = value


def _format(form: rq.Format, draft: Writer, body: Object) -> None:
    if form.name or form.description or form.strict is not None:
        draft.lose("format")
    if form.kind != "text":
        body["format"] = "json" if form.schema is None else form.schema


def _think(asked: rq.Settings, was: list[Any], draft: Writer) -> bool | str | None:
    """Whether to think, and how hard where that can be said."""
    effort, budget, thoughts = asked.effort, asked.budget, asked.thoughts
    if read_think(was[0]) == (effort, budget, thoughts):
        known: bool | str | None = was[0]
        return known
    if not effort and budget is None:
        return thoughts
    if budget == 0 or effort == "none":
        if effort:
            draft.lose("effort")
        return False
    levels = draft.quirks.levels or asked.thinking == "effort"
    word = _NEAREST.get(effort, effort) or effort_of(budget or 0)
    if word != effort or not levels:
        draft.lose("effort")
    return word if levels else True
