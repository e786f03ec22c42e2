"""Chat Completions, text completions, and filling in the middle, whose answer is chat-shaped."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from penstock.gateway.endpoints import Asked, Door, canonical

if TYPE_CHECKING:
    from penstock import request as rq
    from penstock.gateway.endpoints import Visit


def read_chat(visit: Visit) -> Asked:
    """`/v1/chat/completions`."""
    _, request = canonical(visit, "openai-chat")
    return _chat(visit, request)


def read_fim(visit: Visit) -> Asked:
    """`/v1/fim/completions`: asked like a completion, answered like a chat."""
    _, request = canonical(visit, "completions")
    asked = _chat(visit, request)
    asked.source, asked.operation = "completions", "fim"
    return asked


def read_completions(visit: Visit) -> Asked:
    """`/v1/completions`; with a suffix it is filling in the middle."""
    body, request = canonical(visit, "completions")
    usage = not request.stream or request.usage is True
    options = {
        "id": f"cmpl-{visit.id}", "model": request.model, "created": int(time.time()), "include_usage": usage,
    }  # fmt: skip
    operation = "fim" if body.get("suffix") else "completions"
    return Asked(request, "completions", operation=operation, options=options, usage=usage)


def _chat(visit: Visit, request: rq.Request) -> Asked:
    usage = not request.stream or request.usage is True
    whole, thinking = visit.client.whole_calls, visit.client.thinking
    options: dict[str, Any] = {
        "id": f"chatcmpl-{visit.id}", "model": request.model, "created": int(time.time()), "include_usage": usage,
        "whole_calls": whole, "custom_tools": any(tool.kind == "custom" for tool in request.tools),
    }  # fmt: skip
    if thinking:
        options["reasoning"] = "thinking"
    return Asked(
        request, "openai-chat", options=options, usage=usage, tee=not thinking and not (whole and request.stream)
    )


CHAT = Door("openai-chat", read_chat)
FIM = Door("openai-chat", read_fim)
COMPLETIONS = Door("completions", read_completions)
