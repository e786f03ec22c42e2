"""Makes a `TurnRequest` that encodes a response as an earlier client got it, from the `ClientForm` that was kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._gateway.endpoints import TurnRequest
from penstock._gateway.endpoints.ollama import OllamaEncoder, join_lines
from penstock._gateway.endpoints.vscode import encode_notice
from penstock.request import Request

if TYPE_CHECKING:
    from penstock._gateway.client_form import ClientForm


def turn_request_of(form: ClientForm) -> TurnRequest:
    """Returns a `TurnRequest` that encodes the same response."""
    request = Request(model=form.model, stream=form.stream)
    made = TurnRequest(
        request, form.protocol, framing=form.framing, options=dict(form.options), include_usage=form.include_usage
    )
    if form.protocol == "responses" and (created := form.options.get("created")) is not None:
        made.options["clock"] = lambda: created
    if form.protocol == "ollama":
        made.encoder, made.body = lambda: OllamaEncoder(form.model, generate=form.generate), join_lines
    if form.protocol == "vscode":
        made.encode_notice = encode_notice
    return made
