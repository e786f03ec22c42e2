"""`/vscode/usage`: what the caller's key has used since midnight, for a thin client to show. Leans on the journal."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import msgspec

from penstock.gateway.errands import COUNT

if TYPE_CHECKING:
    from penstock.gateway.doors.door import Visit
    from penstock.gateway.services import Services
    from penstock.pick import Object
    from penstock.store.journal import JournalRows, Sum


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
