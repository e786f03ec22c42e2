"""Gemini: generateContent and streamGenerateContent, on v1 and v1beta; the model and the method are in the path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.gateway.endpoints import Asked, Door, canonical

if TYPE_CHECKING:
    from penstock.gateway.endpoints import Visit


def read_generate(visit: Visit) -> Asked:
    """`…/models/{model}:generateContent`, and its stream: server-sent events if so asked, else a JSON array."""
    _, request = canonical(visit, "gemini")
    request.model = visit.params["model"]
    request.stream = visit.params["method"] == "streamGenerateContent"
    sse = request.stream and visit.query.get("alt") == "sse"
    options = {"id": visit.id, "model": request.model}
    framing = "sse+json" if sse or not request.stream else "jsonarray"
    return Asked(request, "gemini", framing=framing, options=options, tee=framing != "jsonarray")


GENERATE = Door("gemini", read_generate)
