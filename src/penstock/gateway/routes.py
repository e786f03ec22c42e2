"""What each client protocol asks for: its path, and how to read the little that a packaged answer depends on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from penstock import pick
from penstock.pick import Object


class Asked(msgspec.Struct):
    """A request as far as a packaged stream cares."""

    model: str
    stream: bool
    answered: bool  # its last word is a tool result
    options: dict[str, Any] = {}


class Route(msgspec.Struct, frozen=True):
    """A client protocol's door."""

    path: str
    protocol: str
    read: Callable[[Object], Asked]
    headers: tuple[tuple[bytes, bytes], ...] = ()


def _last(body: Object, key: str) -> Object:
    return (pick.rows(body, key) or [{}])[-1]


def _chat(body: Object) -> Asked:
    stream = body.get("stream") is True
    usage = pick.table(body, "stream_options").get("include_usage") is True
    options = {"include_usage": usage or not stream}
    return Asked(pick.text(body, "model"), stream, _last(body, "messages").get("role") == "tool", options)


def _messages(body: Object) -> Asked:
    content = pick.rows(_last(body, "messages"), "content")
    answered = any(block.get("type") == "tool_result" for block in content)
    return Asked(pick.text(body, "model"), body.get("stream") is True, answered)


def _responses(body: Object) -> Asked:
    answered = pick.text(_last(body, "input"), "type").endswith("_output")
    return Asked(pick.text(body, "model"), body.get("stream") is True, answered)


def _ui(body: Object) -> Asked:
    """`useChat` posts no model unless the page adds one; its streams are always streams."""
    parts = pick.rows(_last(body, "messages"), "parts")
    answered = any(pick.text(part, "state").startswith("output-") for part in parts)
    return Asked(pick.text(body, "model"), stream=True, answered=answered)


ROUTES = (
    Route("/v1/chat/completions", "openai-chat", _chat),
    Route("/v1/messages", "anthropic", _messages),
    Route("/v1/responses", "responses", _responses),
    Route("/api/chat", "uistream", _ui, ((b"x-vercel-ai-ui-message-stream", b"v1"),)),
)
