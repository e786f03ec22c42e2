"""The output limit: the caller's, else half the model's maximum; never under what the provider requires."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from penstock.writing import ROOM

if TYPE_CHECKING:
    from penstock import request as rq
    from penstock.diagnostics import Diagnostics


def limit_output(
    request: rq.Request, notes: Diagnostics, *, maximum: int | None = None, minimum: int = 0, inside: bool = False
) -> rq.Request:
    """The request with its output limit. `inside`: a budget for reasoning is part of it and must leave room."""
    asked = request.settings
    wanted = asked.max_output if asked.max_output is not None else maximum // 2 if maximum else None
    if wanted is None:
        return request
    budget = asked.budget if inside else None
    limit = max(wanted, minimum, budget + ROOM if budget else 0)
    if maximum:
        limit = min(limit, max(maximum, minimum))
    if budget and budget >= limit:
        notes.add("reasoning-budget", f"a budget of {budget} reasoning tokens is more than the model can put out")
        asked = replace(asked, budget=max(limit - ROOM, 0))
    if asked.max_output not in (None, limit):
        notes.add("output-limit", f"an output limit of {asked.max_output} is sent as {limit}")
    settled = replace(asked, max_output=limit)
    return request if settled == request.settings else replace(request, settings=settled)
