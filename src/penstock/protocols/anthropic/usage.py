"""Anthropic usage objects → canonical usage: the whole prompt, and runs of the model that the top counts leave out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock import events as ev
from penstock.protocols.anthropic import wire

if TYPE_CHECKING:
    from penstock.diagnostics import Diagnostics

NAME = "anthropic"
_COMPACTION = "compaction"
_ADVISOR = "advisor_message"


def read_usage(raw: dict[str, Any], diagnostics: Diagnostics) -> ev.Usage | None:
    """None where the object is of another shape.

    The counts at the top leave out the tokens of compactions, which are billed like the rest: "sum across all entries
    in the `usage.iterations` array" (https://platform.claude.com/docs/en/build-with-claude/compaction). An advisor is
    another model with other prices, so its tokens are not added; the whole object is in `extra`.
    """
    known = _shaped(raw) or _shaped({key: value for key, value in raw.items() if key != "iterations"})
    if known is None:
        diagnostics.add("wrong-shape", "usage is not of the shape it should have and is left out")
        return None
    runs = known.iterations or ()
    counted: list[wire.Usage | wire.Iteration] = [known, *(run for run in runs if run.type == _COMPACTION)]
    for model in {run.model for run in runs if run.type == _ADVISOR}:
        diagnostics.add("usage-advisor", f"the tokens of the advisor {model!r} are not part of this model's usage")
    read, written = _sum(counted, "cache_read_input_tokens"), _sum(counted, "cache_creation_input_tokens")
    rest = _sum(counted, "input_tokens")
    whole = None if rest is read is written is None else (rest or 0) + (read or 0) + (written or 0)
    details = known.output_tokens_details or wire.OutputDetails()
    output = _sum(counted, "output_tokens")
    return ev.Usage(whole, output, read, written, details.thinking_tokens, extra={NAME: raw})


def _shaped(raw: dict[str, Any]) -> wire.Usage | None:
    try:
        return msgspec.convert(raw, wire.Usage, strict=False)
    except msgspec.ValidationError:
        return None


def _sum(counted: list[wire.Usage | wire.Iteration], name: str) -> int | None:
    counts = [count for one in counted if (count := getattr(one, name)) is not None]
    return sum(counts) if counts else None
