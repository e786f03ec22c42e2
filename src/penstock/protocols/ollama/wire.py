"""Ollama's own API as sent: the lines of `/api/chat` and `/api/generate`. A whole answer is one line with all in it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Function(Struct, gc=False):
    name: str | None = None
    arguments: dict[str, Any] | str | None = None


class ToolCall(Struct, gc=False):
    id: str | None = None  # newer servers send one
    function: Function | None = None


class Message(Struct, gc=False):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[ToolCall] | None = None
    images: list[str] | None = None


class Line(Struct, gc=False):
    """`message` is chat's, `response` and `thinking` are generate's; the counts come with `done`."""

    model: str | None = None
    created_at: str | None = None
    message: Message | None = None
    response: str | None = None
    thinking: str | None = None
    tool_calls: list[ToolCall] | None = None
    logprobs: list[Any] | None = None
    done: bool | None = None
    done_reason: str | None = None
    error: str | dict[str, Any] | None = None
    context: list[int] | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    total_duration: int | None = None
    load_duration: int | None = None
    prompt_eval_duration: int | None = None
    eval_duration: int | None = None
    StatusCode: int | None = None  # the cloud's errors
