"""The columns of a turn's journal row that tell which provider was asked, and how that came about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import events as ev

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._engines.engine_interface import DecisionLog
    from penstock._engines.reply import ModelReply


def reply_columns(
    reply: ModelReply, usage: ev.Usage | None, cost: float | None, first_content: float, limits: Sequence[str]
) -> dict[str, Any]:
    """Return the columns of a turn that a provider answered. `limits`: decisions about the caller's limits."""
    used = usage or ev.Usage()
    return {
        "provider": reply.provider,
        "model": reply.model,
        "engine": reply.engine,
        "upstream": reply.protocol,
        "tries": reply.record.tries,
        "decisions": "\n".join([*limits, *reply.record.lines()]),
        "ttft": first_content,
        "input": used.input,
        "output": used.output,
        "cached": used.cached,
        "written": used.written,
        "reasoning": used.reasoning,
        "exact": used.exact,
        "cost": cost,
        "tools": "\n".join(reply.tools),
        "notes": len(reply.diagnostics),
    }


def refusal_columns(record: DecisionLog | None, limits: Sequence[str]) -> dict[str, Any]:
    """Return the columns of a turn that no provider answered: the last one that was asked, and all decisions."""
    if record is None:
        return {"decisions": "\n".join(limits)} if limits else {}
    last = next((one for one in reversed(record.decisions) if one.provider), None)
    return {
        "provider": last.provider if last is not None else "",
        "model": last.model if last is not None else "",
        "tries": record.tries,
        "decisions": "\n".join([*limits, *record.lines()]),
    }
