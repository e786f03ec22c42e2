"""Anthropic Messages."""

from __future__ import annotations

from penstock._gateway.endpoints import Endpoint, IncomingRequest, TurnRequest, read_request


def read_messages(incoming: IncomingRequest) -> TurnRequest:
    """`/v1/messages`; the query is ignored."""
    _, request = read_request(incoming, "anthropic")
    options = {"id": f"msg_{incoming.id}", "model": request.model}
    return TurnRequest(request, "anthropic", options=options, headers=((b"request-id", f"req_{incoming.id}".encode()),))


MESSAGES = Endpoint("anthropic", read_messages)
