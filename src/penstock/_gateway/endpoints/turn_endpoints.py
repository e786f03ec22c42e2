"""Chat endpoints: Chat Completions, text completions, fill-in-the-middle, Anthropic Messages, Gemini.

The answer of fill-in-the-middle is a chat completion. Gemini's paths contain the model and the method.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from penstock._gateway.endpoints import ClientEndpoint, IncomingRequest, TurnRequest, read_request

if TYPE_CHECKING:
    from penstock import request as rq


def read_chat(incoming: IncomingRequest) -> TurnRequest:
    """`/v1/chat/completions`."""
    _, request = read_request(incoming, "openai-chat")
    return _build_chat_request(incoming, request)


def read_fim(incoming: IncomingRequest) -> TurnRequest:
    """`/v1/fim/completions`: the request is a completion, the answer a chat completion."""
    _, request = read_request(incoming, "completions")
    turn_request = _build_chat_request(incoming, request)
    turn_request.source, turn_request.operation = "completions", "fim"
    return turn_request


def read_completions(incoming: IncomingRequest) -> TurnRequest:
    """`/v1/completions`; with a suffix, also an empty one, it is fill-in-the-middle."""
    body, request = read_request(incoming, "completions")
    usage = not request.stream or request.usage is True
    options = {"id": f"cmpl-{incoming.id}", "model": request.model, "created": int(time.time()), "include_usage": usage}
    operation = "fim" if isinstance(body.get("suffix"), str) else "completions"
    return TurnRequest(request, "completions", operation=operation, options=options, include_usage=usage)


def _build_chat_request(incoming: IncomingRequest, request: rq.Request) -> TurnRequest:
    usage = not request.stream or request.usage is True
    whole, thinking = incoming.client.whole_calls, incoming.client.thinking
    options: dict[str, Any] = {
        "id": f"chatcmpl-{incoming.id}",
        "model": request.model,
        "created": int(time.time()),
        "include_usage": usage,
        "whole_calls": whole,
        "custom_tools": any(tool.kind == "custom" for tool in request.tools),
    }
    if thinking:
        options["reasoning"] = "thinking"
    return TurnRequest(
        request,
        "openai-chat",
        options=options,
        include_usage=usage,
        allow_passthrough=not thinking and not (whole and request.stream),
    )


CHAT = ClientEndpoint("openai-chat", read_chat)
FIM = ClientEndpoint("openai-chat", read_fim)
COMPLETIONS = ClientEndpoint("completions", read_completions)


def read_messages(incoming: IncomingRequest) -> TurnRequest:
    """`/v1/messages`; the query is ignored."""
    _, request = read_request(incoming, "anthropic")
    options = {"id": f"msg_{incoming.id}", "model": request.model}
    return TurnRequest(request, "anthropic", options=options, headers=((b"request-id", f"req_{incoming.id}".encode()),))


MESSAGES = ClientEndpoint("anthropic", read_messages)


def read_gemini(incoming: IncomingRequest) -> TurnRequest:
    """`…/models/{model}:generateContent`, and its stream: server-sent events with `alt=sse`, else a JSON array."""
    _, request = read_request(incoming, "gemini")
    request.model = incoming.params["model"]
    request.stream = incoming.params["method"] == "streamGenerateContent"
    sse = request.stream and incoming.query.get("alt") == "sse"
    options = {"id": incoming.id, "model": request.model}
    framing = "sse+json" if sse or not request.stream else "jsonarray"
    return TurnRequest(request, "gemini", framing=framing, options=options, allow_passthrough=framing != "jsonarray")


GEMINI = ClientEndpoint("gemini", read_gemini)
