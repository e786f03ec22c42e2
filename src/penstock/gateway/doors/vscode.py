"""`/vscode/chat`: the parts of a reply as lines, for a thin client in an editor. docs/vscode-parts.md has the form."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock.gateway.doors.door import Asked, Door, canonical

if TYPE_CHECKING:
    from penstock.gateway.doors.door import Visit


def read_chat(visit: Visit) -> Asked:
    """Lines, or with `"stream": false` one object."""
    _, request = canonical(visit, "vscode")
    options = {"id": visit.id, "model": request.model, "created": int(time.time())}
    return Asked(request, "vscode", framing="ndjson", options=options)


CHAT = Door("vscode", read_chat)
