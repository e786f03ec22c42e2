"""`/vscode/chat`: the parts of a reply as lines, for a thin client in an editor. docs/vscode-parts.md has the form."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import msgspec

from penstock.gateway.aux_requests import COUNT
from penstock.gateway.endpoints import Asked, Door, canonical
from penstock.messages.context import Cleared
from penstock.protocols.vscode import wire
from penstock.protocols.vscode.wire import encoded

if TYPE_CHECKING:
    from penstock.engines.retries import Wait
    from penstock.gateway.endpoints import Visit
    from penstock.gateway.services import Services
    from penstock.lenient_fields import Object
    from penstock.store.journal import JournalRows, Sum

WAITS = {"rate-limit": "{}'s rate limit", "overloaded": "{} is overloaded", "timeout": "{} did not answer in time"}
AGAIN = "{} failed and is asked again"


def read_chat(visit: Visit) -> Asked:
    """Lines, or with `"stream": false` one object."""
    _, request = canonical(visit, "vscode")
    # The host sends the reply's id back: it must be this turn's alone, which a provider's id need not be.
    options = {"id": visit.id, "model": request.model, "created": int(time.time()), "renames": True}
    return Asked(request, "vscode", framing="ndjson", options=options, notice=notice, mark=visit.id)


def notice(told: Wait | Cleared) -> bytes:
    """A line beside the reply: what is waited for, or that the conversation was made shorter."""
    if isinstance(told, Cleared):
        return encoded(wire.Compacted(told.before, told.after))
    return encoded(wire.Wait(round(told.seconds, 1), WAITS.get(told.kind, AGAIN).format(told.provider)))


CHAT = Door("vscode", read_chat)


async def today(services: Services, visit: Visit) -> bytes:
    """All of today, and by model. Without a journal there is nothing to tell."""
    rows = services.journal.rows
    told = await asyncio.to_thread(_asked, rows, visit.caller.key) if rows is not None else {}
    return msgspec.json.encode({"version": 1, **told})


def _asked(rows: JournalRows, key: str) -> Object:
    since = _midnight()
    models = rows.by("model", since=since, key=key, without=COUNT)
    return {
        "today": _told(rows.total(since=since, key=key, without=COUNT)),
        "models": [{"model": row.name, **_told(row)} for row in models],
    }


def _told(row: Sum) -> Object:
    """`unpriced`: how many of the requests have tokens but no known price."""
    return {
        "requests": row.turns, "input": row.input, "output": row.output, "cost": row.cost, "unpriced": row.unpriced,
    }  # fmt: skip


def _midnight() -> float:
    """The last one here, in seconds since the epoch."""
    now = time.localtime()
    return time.mktime((now.tm_year, now.tm_mon, now.tm_mday, 0, 0, 0, 0, 0, -1))
