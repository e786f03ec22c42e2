"""Gemini: generateContent and streamGenerateContent, on v1 and v1beta; the model and the method are in the path."""

from __future__ import annotations

from penstock._gateway.endpoints import Endpoint, IncomingRequest, TurnRequest, read_request


def read_generate(incoming: IncomingRequest) -> TurnRequest:
    """`…/models/{model}:generateContent`, and its stream: server-sent events with `alt=sse`, else a JSON array."""
    _, request = read_request(incoming, "gemini")
    request.model = incoming.params["model"]
    request.stream = incoming.params["method"] == "streamGenerateContent"
    sse = request.stream and incoming.query.get("alt") == "sse"
    options = {"id": incoming.id, "model": request.model}
    framing = "sse+json" if sse or not request.stream else "jsonarray"
    return TurnRequest(request, "gemini", framing=framing, options=options, allow_passthrough=framing != "jsonarray")


GENERATE = Endpoint("gemini", read_generate)
