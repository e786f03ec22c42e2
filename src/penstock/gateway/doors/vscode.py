"""`/vscode/chat`: the parts of a reply as lines, for a thin client in an editor. docs/vscode-parts.md has the form."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock.gateway.doors.door import Asked, Door, canonical
from penstock.messages.context import Cleared
from penstock.protocols.vscode import wire
from penstock.protocols.vscode.wire import encoded

if TYPE_CHECKING:
    from penstock.engines.retries import Wait
    from penstock.gateway.doors.door import Visit

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
