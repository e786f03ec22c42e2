"""Canonical settings → those of Converse, and the additional fields of the model's family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocols.bedrock.request_settings import THOUGHTS, Wishes, wishes, write_format
from penstock.writing import add, budget_inside, effort_of

if TYPE_CHECKING:
    from penstock import request as rq
    from penstock.pick import Object
    from penstock.protocols.bedrock.write_blocks import Blocks

_UNSAID = (
    "seed", "frequency_penalty", "presence_penalty", "choices", "logprobs", "top_logprobs", "parallel_calls",
    "verbosity", "user", "cache_key", "store",
)  # fmt: skip
_NEAREST = {"minimal": "low", "xhigh": "high", "max": "high"}
_LEAST = 1024  # the smallest budget that is taken
# Additional fields of families whose field is not Claude's, by what stands in the ids of their models.
# https://docs.aws.amazon.com/nova/latest/nova2-userguide/extended-thinking.html
# https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-openai.html
_FIELDS = (("nova-", "reasoningConfig"), ("gpt-oss", "reasoning_effort"), ("deepseek.v", "reasoning_effort"))


def write_settings(asked: rq.Settings, marks: Object, draft: Blocks, body: Object, model: str) -> None:
    """Put the settings into a body."""
    for name in _UNSAID:
        if getattr(asked, name) not in (None, ""):
            draft.lose("setting", name)
    said: Object = {
        marks.get("limit") or "maxTokens": asked.max_output, "temperature": asked.temperature, "topP": asked.top_p,
        "stopSequences": asked.stop or None,
    }  # fmt: skip
    config = {**{key: value for key, value in said.items() if value is not None}, **marks.get("config", {})}
    add(config, marks.get("unsaid"))
    more = _more(asked, marks.get("more", {}), draft, model)
    if more is not marks.get("more"):
        _leave_out_refused(config, more, draft)
    made: Object = {
        "inferenceConfig": config, "additionalModelRequestFields": more,
        "outputConfig": _output(asked.format, marks.get("output"), draft), "requestMetadata": asked.metadata,
        "serviceTier": marks.get("tier") or ({"type": asked.tier} if asked.tier else None),
    }  # fmt: skip
    body.update({key: value for key, value in made.items() if value})


def _leave_out_refused(config: Object, more: Object, draft: Blocks) -> None:
    """Nova refuses an output limit, a temperature and a top_p beside the effort high.

    https://github.com/UKGovernmentBEIS/inspect_ai/issues/3767, https://github.com/promptfoo/promptfoo/pull/6531
    """
    if more.get("reasoningConfig", {}).get("maxReasoningEffort") != "high":
        return
    for key, name in (("maxTokens", "max_output"), ("temperature", "temperature"), ("topP", "top_p")):
        if config.pop(key, None) is not None:
            draft.lose("setting", name)


def _output(form: rq.Format | None, was: Object | None, draft: Blocks) -> Object | None:
    if form is None or form.kind == "text":
        return was
    if form.schema is None:
        draft.lose("any-json")
        return None
    if form.strict is not None:
        draft.lose("format")
    return was or write_format(form)


def _more(asked: rq.Settings, was: Object, draft: Blocks, model: str) -> Object:
    """The additional fields as they were said, or as this family of models says them."""
    wished = Wishes(asked.budget, asked.thoughts, asked.effort, asked.top_k)
    if wishes(was) == wished:
        return was
    made = {
        key: value for key, value in was.items() if key not in (*THOUGHTS, "output_config", "top_k", "reasoning_effort")
    }
    if asked.top_k is not None:
        made.update(_top_k(asked.top_k, draft))
    made.update(_thinking(asked, _field(draft, model)))
    if wishes(made) != Wishes(asked.budget, asked.thoughts, asked.effort, wishes(made).top_k):
        draft.lose("effort" if asked.effort else "budget")
    return made


def _top_k(top_k: int, draft: Blocks) -> Object:
    word = draft.quirks.top_k
    if not word:
        draft.lose("top-k")
        return {}
    return {"top_k": top_k} if word == "top_k" else {"inferenceConfig": {"topK": top_k}}


def _field(draft: Blocks, model: str) -> str:
    """The additional field that reasoning settings stand in."""
    word = draft.quirks.thinking
    return word if word != "auto" else next((field for part, field in _FIELDS if part in model), "thinking")


def _thinking(asked: rq.Settings, key: str) -> Object:
    budget, effort = asked.budget, _NEAREST.get(asked.effort, asked.effort)
    if (budget is None and not effort and asked.thoughts is None) or not key:
        return {}
    off = budget == 0 or effort == "none" or asked.thoughts is False
    word = effort or effort_of(_LEAST if budget is None else budget)
    if key == "reasoning_effort":
        return {key: word}
    if off:
        return {key: {"type": "disabled"}}
    if key == "reasoningConfig":
        return {key: {"type": "enabled", "maxReasoningEffort": _NEAREST.get(word, word)}}
    return _claude(asked, key, effort)


def _claude(asked: rq.Settings, key: str, effort: str) -> Object:
    """Claude's fields: adaptive with an effort, or a budget."""
    budget = asked.budget
    if budget is None and not effort:
        return {key: {"type": "adaptive"}}
    if budget is None and asked.thinking == "adaptive":
        return {key: {"type": "adaptive"}, "output_config": {"effort": asked.effort}}
    budget = budget_inside(effort, asked.max_output, _LEAST) if budget is None else max(budget, _LEAST)
    return {key: {"type": "enabled", "budget_tokens": budget}} if budget else {}
