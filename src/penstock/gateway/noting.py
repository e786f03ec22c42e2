"""A turn that is over → its row in the journal. Numbers and names only: nothing that was said."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock import events as ev
from penstock.gateway.journal import Turn as Row
from penstock.gateway.journal import cost

if TYPE_CHECKING:
    from penstock.engines.reply import Reply
    from penstock.gateway.turn import Turn
    from penstock.store.journal import Status

_UNSAID = ev.Usage()


def row_of(turn: Turn) -> Row:
    """The row. All of it at once: every turn pays for it."""
    visit, asked, reply = turn.visit, turn.asked, turn.reply
    spent = time.monotonic() - visit.started
    end = turn.fault or (reply.end if reply is not None else None) or _ENDLESS
    finish, fault = (end, None) if isinstance(end, ev.Finish) else (None, end)
    used = (reply.usage if reply is not None else None) or _UNSAID
    return Row(
        time=time.time() - spent, key=visit.caller.key, tenant=visit.caller.tenant, client=visit.client.name,
        route=visit.path, protocol=asked.protocol if asked else turn.door.protocol,
        stream=bool(asked and asked.request.stream), tee=turn.teed, asked=asked.request.model if asked else "",
        user=asked.request.settings.user if asked else "", operation=asked.operation if asked else "",
        http=turn.status, duration=spent, ttft=turn.first if reply else None, request_id=visit.id,
        bytes_in=len(visit.raw), bytes_out=turn.out.size,
        status="finish" if fault is None else _status(turn, fault), finish=finish.reason if finish else "",
        fault=fault.kind if fault else "", fault_message=fault.message if fault else "",
        upstream_id=fault.request_id if fault else "",
        provider=reply.provider if reply else "", model=reply.model if reply else "",
        engine=reply.engine if reply else "", upstream=reply.protocol if reply else "",
        tries=reply.record.tries if reply else 0, decisions="\n".join(reply.record.lines()) if reply else "",
        input=used.input, output=used.output, cached=used.cached, written=used.written, reasoning=used.reasoning,
        exact=used.exact, cost=_cost(turn, reply) if reply else None,
        malformed=turn.malformed,
    )  # fmt: skip


def _cost(turn: Turn, reply: Reply) -> float | None:
    return cost(turn.visit.services.price_list, reply.provider, reply.model, reply.usage)


_ENDLESS = ev.Fault("truncated", "the turn has no end")


def _status(turn: Turn, fault: ev.Fault) -> Status:
    if fault.kind == "cancelled":
        return "cancelled"
    return "fault" if turn.reply is not None else "refused"
