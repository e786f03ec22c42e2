"""`/vscode/budget`: the daily budget of the program that started the gateway, and what is spent of it today."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import msgspec

from penstock._gateway.callers import make_refusal
from penstock._gateway.keys import STARTER_KEY_NAME

if TYPE_CHECKING:
    from penstock._gateway.endpoints import IncomingRequest
    from penstock._gateway.services import Services

_DAY = re.compile(r"(?:[0-9]{4}-[0-9]{2}-[0-9]{2})?")


async def show_budget(services: Services, incoming: IncomingRequest) -> bytes:
    """`GET /vscode/budget`."""
    _check_starter(incoming)
    budget = services.budget
    spent = await budget.read_spending()
    answer = {
        "version": 1,
        "day": budget.today,
        "limit": budget.limit or None,
        "used": round(spent.cost, 6),
        "unpriced": spent.unpriced,
        "lifted": budget.is_lifted,
        "enforced": budget.is_enforced,
    }
    return msgspec.json.encode(answer)


async def change_budget(services: Services, incoming: IncomingRequest) -> bytes:
    """`POST /vscode/budget`: `limit` in dollars (0 or null: none), and in `lifted` the date for which it is lifted."""
    _check_starter(incoming)
    body = incoming.json_body()
    limit, lifted = body.get("limit") or 0, body.get("lifted") or ""
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not math.isfinite(limit) or limit < 0:
        raise make_refusal(400, "invalid", "limit: expected a number of dollars, at least 0")
    if not isinstance(lifted, str) or not _DAY.fullmatch(lifted):
        raise make_refusal(400, "invalid", "lifted: expected a date such as 2026-11-17")
    services.budget.change(float(limit), lifted)
    return await show_budget(services, incoming)


def _check_starter(incoming: IncomingRequest) -> None:
    """Raise unless the caller is the program that started this gateway."""
    if incoming.caller.key != STARTER_KEY_NAME:
        reason = "the daily budget belongs to the program that started this gateway; others have limits.day_cost"
        raise make_refusal(403, "permission", reason, code="not_the_starter")
