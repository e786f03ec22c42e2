"""`/vscode/chat`: answers as JSON lines for the VS Code extension (docs/vscode-parts.md); and `/vscode/usage`."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import msgspec

from penstock._gateway.endpoints import ClientEndpoint, IncomingRequest, TurnRequest, query_integer, read_request
from penstock._gateway.journal import COUNT
from penstock._messages.context_trimming import Cleared
from penstock._protocols.vscode import wire
from penstock._protocols.vscode.wire import encode_json

if TYPE_CHECKING:
    from penstock._engines.failure_policy import RetryWait
    from penstock._gateway.services import Services
    from penstock._lenient_fields import Object
    from penstock._store.journal import JournalRows, UsageSum

WAIT_REASONS = {
    "rate-limit": "{}'s rate limit",
    "overloaded": "{} is overloaded",
    "timeout": "{} did not answer in time",
}
USAGE_DAYS = 92  # at most; the journal may go back further
RETRY_REASON = "{} failed and is asked again"


def read_chat(incoming: IncomingRequest) -> TurnRequest:
    """Read a chat request. The answer is JSON lines, or one object with `"stream": false`."""
    _, request = read_request(incoming, "vscode")
    # VS Code sends the id back, so it must be unique; a provider's id may not be.
    options = {"id": incoming.id, "model": request.model, "created": int(time.time()), "renames": True}
    return TurnRequest(
        request, "vscode", framing="ndjson", options=options, encode_notice=encode_notice, turn_id=incoming.id
    )


def encode_notice(told: RetryWait | Cleared) -> bytes:
    """Encode a notice: a wait before a retry, or that the conversation was shortened."""
    if isinstance(told, Cleared):
        return encode_json(wire.Compacted(told.before, told.after))
    return encode_json(
        wire.Wait(round(told.seconds, 1), WAIT_REASONS.get(told.kind, RETRY_REASON).format(told.provider))
    )


CHAT = ClientEndpoint("vscode", read_chat)


async def report_usage(services: Services, incoming: IncomingRequest) -> bytes:
    """`/vscode/usage`: the caller's usage since midnight, in total and by model; `days`: that of the last days, too.

    Empty without a journal.
    """
    rows, days = services.journal.rows, query_integer(incoming.query, "days", 0, most=USAGE_DAYS)
    report = await asyncio.to_thread(_usage_report, rows, incoming.caller.key, days) if rows is not None else {}
    return msgspec.json.encode({"version": 1, **report})


def _usage_report(rows: JournalRows, key: str, days: int) -> Object:
    since = _midnight(0)
    models = rows.by("model", since=since, key=key, without=COUNT)
    report: Object = {
        "today": _format_sum(rows.total(since=since, key=key, without=COUNT)),
        "models": [{"model": row.name, **_format_sum(row)} for row in models],
    }
    if days:
        report["days"] = [_usage_of_day(rows, key, ago) for ago in reversed(range(days))]
    return report


def _usage_of_day(rows: JournalRows, key: str, ago: int) -> Object:
    since = _midnight(ago)
    models = rows.by("model", since=since, until=_midnight(ago - 1), key=key, without=COUNT)
    day = time.strftime("%Y-%m-%d", time.localtime(since))
    return {"day": day, "models": [{"model": row.name, **_format_sum(row)} for row in models]}


def _format_sum(row: UsageSum) -> Object:
    """Format a sum. `cached` is part of `input`. `unpriced` counts requests with tokens but no known price."""
    sums = {"input": row.input, "cached": row.cached, "output": row.output}
    return {"requests": row.turns, **sums, "cost": row.cost, "unpriced": row.unpriced}


def _midnight(ago: int) -> float:
    """Return the local midnight at the beginning of a day, in seconds since the epoch. Days may have 23 or 25 hours."""
    now = time.localtime()
    return time.mktime((now.tm_year, now.tm_mon, now.tm_mday - ago, 0, 0, 0, 0, 0, -1))
