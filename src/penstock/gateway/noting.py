"""A turn that is over → its row in the journal. Numbers and names only: nothing that was said."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from penstock import events as ev
from penstock.gateway.journal import Turn as Row
from penstock.gateway.journal import cost

if TYPE_CHECKING:
    from penstock.gateway.turn import Turn

_COUNTS = ("input", "output", "cached", "written", "reasoning", "exact")


def row_of(turn: Turn) -> Row:
    """The row."""
    visit, asked, reply = turn.visit, turn.asked, turn.reply
    spent = time.monotonic() - visit.started
    return Row(
        time=time.time() - spent, key=visit.caller.key, tenant=visit.caller.tenant, client=visit.client.name,
        route=visit.path, protocol=asked.protocol if asked else turn.door.protocol,
        stream=bool(asked and asked.request.stream), tee=turn.teed, asked=asked.request.model if asked else "",
        user=asked.request.settings.user if asked else "", operation=asked.operation if asked else "",
        http=turn.status, duration=spent, ttft=turn.first if reply else None, request_id=visit.id,
        bytes_in=len(visit.raw), bytes_out=turn.out.size, **_ended(turn), **(_answered(reply) if reply else {}),
    )  # fmt: skip


def _ended(turn: Turn) -> dict[str, Any]:
    end: Any = turn.fault or (turn.reply.end if turn.reply is not None else None)
    if isinstance(end, ev.Finish):
        return {"status": "finish", "finish": end.reason}
    fault: ev.Fault = end or ev.Fault("truncated", "the turn has no end")
    status = "cancelled" if fault.kind == "cancelled" else "fault" if turn.reply is not None else "refused"
    return {"status": status, "fault": fault.kind, "fault_message": fault.message, "upstream_id": fault.request_id}


def _answered(reply: Any) -> dict[str, Any]:
    made = {
        "provider": reply.provider, "model": reply.model, "engine": reply.engine, "upstream": reply.protocol,
        "tries": reply.record.tries, "decisions": "\n".join(reply.record.lines()),
    }  # fmt: skip
    if reply.usage is not None:
        made |= {name: getattr(reply.usage, name) for name in _COUNTS}
        made["cost"] = cost(reply.provider, reply.model, reply.usage)
    return made
