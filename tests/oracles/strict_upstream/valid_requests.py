"""Requests that the strict upstream accepts, one for each protocol, to be spoilt by tests."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from tools.strict_upstream.chat import read_chat
from tools.strict_upstream.gemini import read_gemini
from tools.strict_upstream.messages import read_messages
from tools.strict_upstream.messages_blocks import sign_thinking
from tools.strict_upstream.responses import read_responses
from tools.strict_upstream.seals import seal

if TYPE_CHECKING:
    from tools.strict_upstream.conversation import Conversation

SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
_ARGUMENTS = '{"command": "ls"}'
_FUNCTION = {"name": "bash", "parameters": SCHEMA}

CHAT: dict[str, Any] = {
    "model": "gpt-4.1",
    "messages": [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": _ARGUMENTS}}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "done"},
    ],
    "tools": [{"type": "function", "function": _FUNCTION}],
}
RESPONSES: dict[str, Any] = {
    "model": "gpt-5.4",
    "input": [
        {"role": "user", "content": "go"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": seal("thought")},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "bash", "arguments": _ARGUMENTS},
        {"type": "function_call_output", "call_id": "call_1", "output": "done"},
    ],
    "tools": [{"type": "function", **_FUNCTION, "strict": False}],
    "include": ["reasoning.encrypted_content"],
    "store": False,
}
MESSAGES: dict[str, Any] = {
    "model": "claude-opus-4-7",
    "max_tokens": 4096,
    "thinking": {"type": "adaptive"},
    "messages": [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Look.", "signature": sign_thinking("Look.")},
                {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "ls"}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"}]},
    ],
    "tools": [{"name": "bash", "input_schema": SCHEMA}],
}
GEMINI: dict[str, Any] = {
    "contents": [
        {"role": "user", "parts": [{"text": "go"}]},
        {
            "role": "model",
            "parts": [
                {"functionCall": {"name": "bash", "args": {"command": "ls"}}, "thoughtSignature": seal("thought")}
            ],
        },
        {"role": "user", "parts": [{"functionResponse": {"name": "bash", "response": {"output": "done"}}}]},
    ],
    "tools": [{"functionDeclarations": [{"name": "bash", "parametersJsonSchema": SCHEMA}]}],
}
_ACCEPTED = {"chat": CHAT, "responses": RESPONSES, "messages": MESSAGES, "gemini": GEMINI}
_HEADERS = {"authorization": "Bearer k", "x-api-key": "k", "anthropic-version": "2023-06-01", "x-goog-api-key": "k"}


def accepted(protocol: str) -> dict[str, Any]:
    """A copy of the accepted request."""
    return copy.deepcopy(_ACCEPTED[protocol])


def read(protocol: str, body: dict[str, Any], model: str = "gemini-3.1-pro-preview") -> Conversation:
    """Read a request as its endpoint does."""
    match protocol:
        case "chat":
            return read_chat(body, _HEADERS)
        case "responses":
            return read_responses(body, _HEADERS, {})[0]
        case "messages":
            return read_messages(body, _HEADERS)
        case _:
            return read_gemini(body, _HEADERS, model, stream=True)
