"""Canonical settings → `generationConfig`. `request_settings.py` is the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocols.gemini.request_settings import LEVELS
from penstock.protocols.gemini.schema import to_json, to_subset
from penstock.writing import add, budget_of

if TYPE_CHECKING:
    from penstock import request as rq
    from penstock.pick import Object
    from penstock.protocols.gemini.write_parts import PartWriter

_UNSAID = ("parallel_calls", "verbosity", "tier", "user", "metadata", "cache_key", "store")
_NEAREST = {"xhigh": "high", "max": "high"}


def write_settings(asked: rq.Settings, own: Object, marks: Object, draft: PartWriter) -> Object:
    """The settings, without what has no word here."""
    for name in _UNSAID:
        if getattr(asked, name) not in (None, ""):
            draft.lose("setting", name)
    thinking = {**own.get("generationConfig", {}).get("thinkingConfig", {}), **_thinking(asked, marks, draft)}
    said: Object = {
        "maxOutputTokens": asked.max_output, "temperature": asked.temperature, "topP": asked.top_p,
        "topK": asked.top_k, "stopSequences": asked.stop or None, "seed": asked.seed,
        "frequencyPenalty": asked.frequency_penalty, "presencePenalty": asked.presence_penalty,
        "candidateCount": asked.choices, "responseLogprobs": asked.logprobs, "logprobs": asked.top_logprobs,
        "thinkingConfig": thinking or None,
    }  # fmt: skip
    made = {key: value for key, value in said.items() if value is not None}
    if asked.format is not None:
        made.update(_format(asked.format, marks, draft))
    add(made, marks.get("config"))
    return made


def _thinking(asked: rq.Settings, marks: Object, draft: PartWriter) -> Object:
    made: Object = {} if asked.thoughts is None else {"includeThoughts": asked.thoughts}
    level = _NEAREST.get(asked.effort, asked.effort)
    if level in LEVELS:
        word = marks.get("level", "")
        made["thinkingLevel"] = word if word.lower() == level else level.upper()
        if level != asked.effort:
            draft.lose("effort")
        if asked.budget is not None:
            draft.lose("budget")
    elif asked.budget is not None or asked.effort:
        if asked.effort:
            draft.lose("effort")
        made["thinkingBudget"] = budget_of(asked.effort) if asked.budget is None else asked.budget
    return made


def _format(form: rq.Format, marks: Object, draft: PartWriter) -> Object:
    if form.kind == "text":
        return {"responseMimeType": "text/plain"}
    if form.name or form.description or form.strict is not None:
        draft.lose("format")
    made: Object = {} if marks.get("untyped") else {"responseMimeType": "application/json"}
    was = marks.get("schema")
    if form.schema is None:
        return made
    if was is True:
        made["responseSchema"] = form.schema
    elif was and to_json(was) == form.schema:
        made["responseSchema"] = was
    elif draft.quirks.schemas == "subset":
        made["responseSchema"] = to_subset(form.schema, lambda: draft.lose("schema"))
    else:
        made["responseJsonSchema"] = form.schema
    return made
