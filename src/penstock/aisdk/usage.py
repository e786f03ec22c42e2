"""Token counts in the spellings of all versions, both ways.

Version 4 counts `promptTokens`, 5 `inputTokens` with what was cached beside it, 6 and 7 add details; `doStream` since 6
nests them. Up to 5 some counts are in the provider's metadata alone: in 4 what was cached, and for Claude that its
prompt is counted without it.
"""

from __future__ import annotations

from typing import Any

from penstock import events as ev
from penstock import pick
from penstock.aisdk.words import SDK


def _count(source: dict[str, Any], *keys: str) -> int | None:
    """The first of these keys that holds a number; JavaScript has no integers, so 7.0 is one."""
    for key in keys:
        value = source.get(key)
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if pick.number(source, key) is not None:
            return pick.number(source, key)
    return None


def read_usage(raw: Any, step: int = 0) -> ev.Usage | None:
    """Usage of any spelling; None where nothing was counted."""
    said = pick.as_object(raw)
    nested_in, nested_out = pick.table(said, "inputTokens"), pick.table(said, "outputTokens")
    of_input, of_output = pick.table(said, "inputTokenDetails"), pick.table(said, "outputTokenDetails")
    read = _first(_count(said, "inputTokens", "promptTokens"), _count(nested_in, "total"))
    made = _first(_count(said, "outputTokens", "completionTokens"), _count(nested_out, "total"))
    if not read and not made:
        return None
    cached = _first(
        _count(nested_in, "cacheRead"), _count(of_input, "cacheReadTokens"), _count(said, "cachedInputTokens")
    )
    written = _first(_count(nested_in, "cacheWrite"), _count(of_input, "cacheWriteTokens"))
    thought = (_count(nested_out, "reasoning"), _count(of_output, "reasoningTokens"), _count(said, "reasoningTokens"))
    return ev.Usage(read, made, cached, written, _first(*thought), step=step, extra={SDK: said})


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def completed(usage: ev.Usage, metadata: Any) -> ev.Usage:
    """The same usage with what only the provider's metadata tells."""
    said = usage.extra[SDK] if usage.extra else {}
    if "inputTokenDetails" in said or isinstance(said.get("inputTokens"), dict):
        return usage
    providers = [pick.as_object(fields) for fields in pick.as_object(metadata).values()]
    cached = _first(usage.cached, *(_count(fields, "cachedPromptTokens") for fields in providers))
    thought = _first(usage.reasoning, *(_count(fields, "reasoningTokens") for fields in providers))
    read, written = _apart(pick.table(pick.as_object(metadata), "anthropic"))
    whole = (usage.input or 0) + read + written if read or written else usage.input
    kept = (read, written) if read or written else (cached, usage.written)
    return ev.Usage(whole, usage.output, *kept, thought, step=usage.step, extra=usage.extra)


def _apart(anthropic: dict[str, Any]) -> tuple[int, int]:
    """Tokens read from and written to Claude's cache, which its count of the prompt leaves out."""
    counted = pick.table(anthropic, "usage")
    read = _count(anthropic, "cacheReadInputTokens") or _count(counted, "cache_read_input_tokens")
    written = _count(anthropic, "cacheCreationInputTokens") or _count(counted, "cache_creation_input_tokens")
    return (read or 0, written or 0)


def write_usage(usage: ev.Usage | None, version: int = 7) -> dict[str, Any]:
    """Usage as a version spells it; what is unknown is left out, as JavaScript's undefined is."""
    if usage is None:
        return _details(None, None, None, None) if version > 5 else {}  # noqa: PLR2004
    total = None if usage.input is None and usage.output is None else (usage.input or 0) + (usage.output or 0)
    if version == 4:  # noqa: PLR2004
        return _said(promptTokens=usage.input, completionTokens=usage.output, totalTokens=total)
    counts = _said(inputTokens=usage.input, outputTokens=usage.output, totalTokens=total)
    if version == 5:  # noqa: PLR2004
        return {**counts, **_said(reasoningTokens=usage.reasoning, cachedInputTokens=usage.cached)}
    return {**counts, **_details(usage.input, usage.cached, usage.written, usage.output, usage.reasoning)}


def _details(
    input: int | None, cached: int | None, written: int | None, output: int | None, reasoning: int | None = None
) -> dict[str, Any]:
    fresh = None if input is None else max(input - (cached or 0) - (written or 0), 0)
    text = None if output is None else max(output - (reasoning or 0), 0)
    return {
        "inputTokenDetails": _said(noCacheTokens=fresh, cacheReadTokens=cached, cacheWriteTokens=written),
        "outputTokenDetails": _said(textTokens=text, reasoningTokens=reasoning),
    }


def _said(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}
