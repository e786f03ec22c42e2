"""The output limit: the caller's, else half the model's maximum; never under what the provider requires."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from penstock import request as rq
    from penstock.diagnostics import Diagnostics

ROOM = 1024  # tokens to answer in, where reasoning is counted against the same limit


def limit_output(
    request: rq.Request, notes: Diagnostics, *, maximum: int | None = None, minimum: int = 0, inside: bool = False
) -> rq.Request:
    """The request with its output limit. `inside`: a budget for reasoning is part of it and must leave room."""
    asked = request.settings
    wanted = asked.max_output if asked.max_output is not None else maximum // 2 if maximum else None
    if wanted is None:
        return request
    least = max(minimum, asked.budget + ROOM if inside and asked.budget else 0)
    limit = max(wanted, least)
    if maximum:
        limit = min(limit, max(maximum, minimum))
    if limit == asked.max_output:
        return request
    if asked.max_output is not None:
        notes.add("output-limit", f"an output limit of {asked.max_output} is sent as {limit}")
    return replace(request, settings=replace(asked, max_output=limit))
