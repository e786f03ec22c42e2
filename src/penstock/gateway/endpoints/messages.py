"""Anthropic Messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.gateway.endpoints import Asked, Door, canonical

if TYPE_CHECKING:
    from penstock.gateway.endpoints import Visit


def read_messages(visit: Visit) -> Asked:
    """`/v1/messages`, whatever its query says."""
    _, request = canonical(visit, "anthropic")
    options = {"id": f"msg_{visit.id}", "model": request.model}
    return Asked(request, "anthropic", options=options, headers=((b"request-id", f"req_{visit.id}".encode()),))


MESSAGES = Door("anthropic", read_messages)
