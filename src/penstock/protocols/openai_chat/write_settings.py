"""Canonical settings → Chat Completions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocols.openai_chat.request_settings import MARKED, read_effort, read_format, read_reasoning
from penstock.writing import budget_of, effort_of, said

if TYPE_CHECKING:
    from penstock import request as rq
    from penstock.pick import Object
    from penstock.protocols.openai_chat.write_parts import Parts, Quirks

_PLAIN = (
    ("temperature", "temperature"), ("top_p", "top_p"), ("frequency_penalty", "frequency_penalty"),
    ("presence_penalty", "presence_penalty"), ("n", "choices"), ("logprobs", "logprobs"),
    ("top_logprobs", "top_logprobs"), ("parallel_tool_calls", "parallel_calls"), ("verbosity", "verbosity"),
    ("service_tier", "tier"), ("user", "user"), ("metadata", "metadata"), ("prompt_cache_key", "cache_key"),
    ("store", "store"),
)  # fmt: skip


def write_settings(draft: Parts, asked: rq.Settings, own: Object, marks: Object, body: Object) -> None:
    """All settings that say something."""
    for key, name in _PLAIN:
        value = getattr(asked, name)
        if value is not None and value != "":
            body[key] = value
    if asked.max_output is not None:
        _limit(draft, asked.max_output, marks, body)
    if asked.seed is not None:
        body[marks.get("seed") or draft.quirks.seed] = asked.seed
    if asked.stop:
        body["stop"] = asked.stop[0] if "stop" in marks and len(asked.stop) == 1 else asked.stop
    if asked.format is not None or "format" in marks:
        _formed(asked.format, marks, body)
    if asked.top_k is not None:
        _top_k(draft, asked.top_k, marks, body)
    kept = {key: own[key] for key in MARKED if key in own}
    if kept and read_effort(kept)[1] == asked.budget:
        body.update(said(reasoning_effort=asked.effort), **kept)
    else:
        _thinking(draft, asked, marks, body)


def _limit(draft: Parts, most: int, marks: Object, body: Object) -> None:
    body[draft.quirks.limit or marks.get("limit") or "max_tokens"] = most
    long, short = marks.get("limits", (None, None))
    if long == most and not draft.quirks.limit:
        body["max_tokens"] = short


def _formed(form: rq.Format | None, marks: Object, body: Object) -> None:
    given = marks.get("format", {}).get("as")
    if given is not None and read_format({"response_format": given}) == form:
        body["response_format"] = given
    elif form is not None:
        body["response_format"] = _format(form)


def _top_k(draft: Parts, top_k: int, marks: Object, body: Object) -> None:
    if draft.quirks.top_k or "top_k" in marks:
        body["top_k"] = top_k
    else:
        draft.lose("setting", "top_k")


def _thinking(draft: Parts, asked: rq.Settings, marks: Object, body: Object) -> None:
    """How much to think, in the field that the provider has for it."""
    word = draft.quirks.effort
    if "reasoning" in marks:
        given = marks["reasoning"]["as"]
        if read_reasoning(given) == (asked.effort, asked.budget, asked.thoughts):
            body["reasoning"] = given
            return
        word = "reasoning"
    if word == "reasoning":
        _reasoning(asked, body)
        return
    if word in _SWITCHES:
        body.update(_SWITCHES[word](asked, draft.quirks))
        return
    if asked.thoughts is not None:
        draft.lose("setting", "thoughts")
    effort = asked.effort
    if asked.budget is not None:
        draft.lose("budget")
        effort = effort_of(asked.budget) if not effort or not asked.budget else effort
    if effort and word:
        body[word] = effort
    elif effort:
        draft.lose("setting", "effort")


def _typed(asked: rq.Settings, quirks: Quirks) -> Object:
    """`thinking` says whether, `reasoning_effort` how hard where the model takes a word.

    https://api-docs.deepseek.com/guides/thinking_mode, https://docs.z.ai/guides/capabilities/thinking-mode
    """
    if asked.budget == 0 or asked.effort == "none":
        return {"thinking": {"type": "disabled"}}
    if asked.thinking == "none" or (not asked.effort and asked.budget is None and not asked.thoughts):
        return {}
    made: Object = {"thinking": {"type": quirks.switched_on}}
    effort = asked.effort or (effort_of(asked.budget) if asked.budget is not None else "")
    return {**made, "reasoning_effort": effort} if effort else made


def _enabled(asked: rq.Settings, _quirks: Quirks) -> Object:
    """https://www.alibabacloud.com/help/en/model-studio/deep-thinking"""
    if asked.budget == 0 or asked.effort == "none":
        return {"enable_thinking": False}
    if asked.budget is None and not asked.effort:
        return {"enable_thinking": True} if asked.thoughts else {}
    return {"enable_thinking": True, "thinking_budget": asked.budget or budget_of(asked.effort)}


_SWITCHES = {"thinking": _typed, "enable_thinking": _enabled}


def _reasoning(asked: rq.Settings, body: Object) -> None:
    hidden = None if asked.thoughts is None else not asked.thoughts
    off = asked.budget == 0
    made = said(effort=asked.effort, max_tokens=None if off else asked.budget)
    made.update(
        {key: value for key, value in (("exclude", hidden), ("enabled", False if off else None)) if value is not None}
    )
    if made:
        body["reasoning"] = made


def _format(form: rq.Format) -> Object:
    if form.kind != "schema":
        return {"type": "json_object" if form.kind == "json" else "text"}
    schema = said(name=form.name or "answer", schema=form.schema, description=form.description)
    if form.strict is not None:
        schema["strict"] = form.strict
    return {"type": "json_schema", "json_schema": schema}
