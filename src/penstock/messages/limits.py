"""The output limit: the caller's, never under what the provider requires.

If the caller gives none, none is sent: providers count it against quotas and reserve credit for it. Only where the
target's protocol requires one, half the model's maximum is sent, and a diagnostic says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from penstock.providers.models import default_limit
from penstock.writing import ROOM

if TYPE_CHECKING:
    from penstock import request as rq
    from penstock.diagnostics import Diagnostics


def limit_output(
    request: rq.Request, notes: Diagnostics, *, maximum: int | None = None, minimum: int = 0, inside: bool = False,
    required: bool = False,
) -> rq.Request:  # fmt: skip
    """The request with its output limit. `inside`: a budget for reasoning is part of it and must leave room."""
    asked = request.settings
    wanted = asked.max_output
    if wanted is None and required and maximum:
        wanted = default_limit(maximum)
    if wanted is None:
        return request
    budget = asked.budget if inside else None
    limit = max(wanted, minimum, budget + ROOM if budget and budget >= wanted else 0)
    if maximum:
        limit = min(limit, max(maximum, minimum))
    if budget and budget >= limit:
        notes.add("reasoning-budget", f"a budget of {budget} reasoning tokens is more than the model can put out")
        asked = replace(asked, budget=max(limit - ROOM, 0))
    _report(notes, asked.max_output, limit, maximum)
    settled = replace(asked, max_output=limit)
    return request if settled == request.settings else replace(request, settings=settled)


def _report(notes: Diagnostics, asked: int | None, limit: int, maximum: int | None) -> None:
    if asked is None:
        said = f"an output limit is required by this API and was not given; using {limit} of the model's {maximum}"
        notes.add("output-limit", said)
    elif asked != limit:
        notes.add("output-limit", f"an output limit of {asked} is sent as {limit}")
