"""The `generationConfig` of a request → canonical settings. `write_settings.py` is the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from penstock import reading
from penstock import request as rq
from penstock.protocols.gemini.schema import to_json
from penstock.protocols.gemini.spelling import keys
from penstock.reading import rest, unsaid

if TYPE_CHECKING:
    from penstock.pick import Object

_Thought: TypeAlias = "tuple[int | None, str, bool | None, Object]"  # budget, level, whether to show it, all of it
LEVELS = frozenset({"minimal", "low", "medium", "high"})
_FORMAT = frozenset({"responseMimeType", "responseSchema", "responseJsonSchema"})
_CONFIG = _FORMAT | {
    "maxOutputTokens", "temperature", "topP", "topK", "stopSequences", "seed", "frequencyPenalty", "presencePenalty",
    "candidateCount", "responseLogprobs", "logprobs", "thinkingConfig",
}  # fmt: skip


def read_settings(given: Object) -> tuple[rq.Settings, Object, Object]:
    """The settings, what has no word among them, and how some were spelled."""
    config = keys(given)
    thought: _Thought = (None, "", None, {})
    if config.get("thinkingConfig") is not None:
        thought = reading.inside(config, "thinkingConfig", _thought)
    budget, level, thoughts, thinking = thought
    form, marks = _format(config)
    effort = level.lower() if level.lower() in LEVELS else ""
    said = {"includeThoughts": True, "thinkingBudget": _is_budget(budget), "thinkingLevel": bool(effort)}
    odd = rest(thinking, {key for key, known in said.items() if known})
    more = rest(config, _CONFIG if form is not None or not _asks(config) else _CONFIG - _FORMAT)
    if odd:
        more["thinkingConfig"] = odd
    marks |= {"level": level if effort and level != effort.upper() else "", "config": unsaid(config, _CONFIG)}
    settings = rq.Settings(
        max_output=reading.whole(config, "maxOutputTokens"),
        temperature=reading.number(config, "temperature"),
        top_p=reading.number(config, "topP"),
        top_k=reading.whole(config, "topK"),
        stop=reading.strings(config, "stopSequences"),
        seed=reading.whole(config, "seed"),
        frequency_penalty=reading.number(config, "frequencyPenalty"),
        presence_penalty=reading.number(config, "presencePenalty"),
        choices=reading.whole(config, "candidateCount"),
        logprobs=reading.flag(config, "responseLogprobs"),
        top_logprobs=reading.whole(config, "logprobs"),
        format=form,
        effort=effort,
        budget=budget if _is_budget(budget) else None,
        thoughts=thoughts,
    )
    return settings, more, marks


def _thought(given: Object) -> _Thought:
    said = keys(given)
    budget, level = reading.whole(said, "thinkingBudget"), reading.text(said, "thinkingLevel")
    return budget, level, reading.flag(said, "includeThoughts"), said


def _is_budget(budget: int | None) -> bool:
    """-1 leaves it to the model."""
    return budget is not None and budget >= 0


def _asks(config: Object) -> bool:
    return any(config.get(key) for key in _FORMAT)


def _format(config: Object) -> tuple[rq.Format | None, Object]:
    """The form of the answer, and how its schema was spelled. Forms without a word stay as they are."""
    mime = reading.text(config, "responseMimeType")
    subset = config.get("responseJsonSchema") is None
    schema = config.get("responseSchema" if subset else "responseJsonSchema")
    if mime == "text/plain" and schema is None:
        return rq.Format(), {}
    if mime not in ("", "application/json") or (not mime and schema is None):
        return None, {}
    if schema is None:
        return rq.Format("json"), {}
    given = reading.table(config, "responseSchema" if subset else "responseJsonSchema")
    made = to_json(given) if subset else given
    marks: Object = {"schema": (True if made is given else given) if subset else None, "untyped": not mime}
    return rq.Format("schema", schema=made), marks
