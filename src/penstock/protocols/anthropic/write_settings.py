"""Canonical settings → Anthropic Messages. What was said here, and means the same still, is said again as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocols.anthropic.request_tools import TIERS, read_format, read_metadata, read_output, read_thinking
from penstock.writing import said

if TYPE_CHECKING:
    from penstock import request as rq
    from penstock.pick import Object
    from penstock.protocols.anthropic.write_blocks import Blocks

_UNSAID = (
    "seed", "frequency_penalty", "presence_penalty", "choices", "logprobs", "top_logprobs", "verbosity", "cache_key",
    "store",
)  # fmt: skip
_EFFORTS = {"minimal": "low", "none": ""}
_TIERS = {word: own for own, word in TIERS.items()} | {"auto": "auto"}
_LEAST = 1024  # tokens of a budget


def write_settings(draft: Blocks, asked: rq.Settings, marks: Object, body: Object) -> None:
    """All settings that say something."""
    for name in _UNSAID:
        if getattr(asked, name) not in (None, ""):
            draft.lose("setting", name)
    if asked.max_output is not None:
        body["max_tokens"] = asked.max_output
    elif "unlimited" not in marks:
        limit = draft.quirks.max_output + (asked.budget or 0)  # reasoning counts against it
        draft.lose("max-output", str(limit))
        body["max_tokens"] = limit
    if asked.temperature is not None:
        if asked.temperature > 1:
            draft.lose("temperature")
        body["temperature"] = min(asked.temperature, 1)
    body.update(said(top_p=asked.top_p, top_k=asked.top_k, stop_sequences=asked.stop))
    if asked.tier:
        _tier(draft, asked.tier, body)
    _about(draft, asked, marks, body)
    _thinking(draft, asked, marks, body)
    _output(draft, asked, marks, body)


def _tier(draft: Blocks, tier: str, body: Object) -> None:
    if tier in _TIERS:
        body["service_tier"] = _TIERS[tier]
    else:
        draft.lose("setting", "tier")


def _about(draft: Blocks, asked: rq.Settings, marks: Object, body: Object) -> None:
    """Who asks; nothing else may be noted here, unless it came from here."""
    given = marks.get("metadata", {}).get("as")
    if given is not None and read_metadata({"metadata": given}) == (asked.user, asked.metadata):
        body["metadata"] = given
        return
    if asked.metadata:
        draft.lose("setting", "metadata")
    if asked.user:
        body["metadata"] = {"user_id": asked.user}


def _thinking(draft: Blocks, asked: rq.Settings, marks: Object, body: Object) -> None:
    given = marks.get("thinking", {}).get("as")
    if given is not None and read_thinking(given, asked.effort) == (asked.budget, asked.thoughts):
        body["thinking"] = given
    elif "unthinking" not in marks:
        made = _thought(draft, asked)
        if made:
            body["thinking"] = made


def _thought(draft: Blocks, asked: rq.Settings) -> Object | None:
    display = {} if asked.thoughts is None else {"display": "summarized" if asked.thoughts else "omitted"}
    if asked.budget == 0 or asked.effort == "none":
        return {"type": "disabled"}
    if asked.budget is not None:
        if asked.budget < _LEAST:
            draft.lose("budget")
        return {"type": "enabled", "budget_tokens": max(asked.budget, _LEAST), **display}
    if not asked.effort and asked.thoughts is None:
        return None
    # From Opus 4.7 on, thoughts that are not asked for by `display` are left out:
    # https://platform.claude.com/docs/en/about-claude/models/whats-new-claude-4-7#thinking-content-omitted-by-default
    return {"type": "adaptive", **display}


def _output(draft: Blocks, asked: rq.Settings, marks: Object, body: Object) -> None:
    given, old = marks.get("output", {}).get("as"), marks.get("form", {}).get("as")
    form = asked.format
    if old is not None and form is not None and read_format(old) == form:
        body["output_format"], form = old, None
    if given is not None and read_output(given) == (asked.effort, form):
        body["output_config"] = given
        return
    made = said(effort=_effort(draft, asked), format=_format(draft, form))
    if made:
        body["output_config"] = made


def _effort(draft: Blocks, asked: rq.Settings) -> str:
    effort = asked.effort
    if effort in _EFFORTS:
        effort = _EFFORTS[effort]
        draft.lose("effort", asked.effort)
    return effort


def _format(draft: Blocks, form: rq.Format | None) -> Object | None:
    if form is None or form.kind == "text":
        return None
    if form.kind == "json" or form.schema is None:
        draft.lose("any-json")
        return None
    if form.name or form.description or form.strict is not None:
        draft.lose("format")
    return {"type": "json_schema", "schema": form.schema}
