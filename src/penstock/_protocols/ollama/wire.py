"""Ollama's own API as sent: the lines of `/api/chat` and `/api/generate`. A non-stream body is one such line."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Function(Struct, gc=False):
    name: str | None = None
    arguments: dict[str, Any] | str | None = None


class ToolCall(Struct, gc=False):
    id: str | None = None  # only newer servers send it
    function: Function | None = None


class Message(Struct, gc=False):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[ToolCall] | None = None
    images: list[str] | None = None


class ResponseLine(Struct, gc=False):
    """Chat sets `message`; generate sets `response` and `thinking`. The counts come with `done`."""

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
    StatusCode: int | None = None  # in errors of Ollama's cloud
