"""Chat Completions requests: what OpenAI refuses.

https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)

from tools.strict_upstream import refusal
from tools.strict_upstream.conversation import Conversation, Item, Tool, join_text
from tools.strict_upstream.model_facts import openai_reasons, openai_samples
from tools.strict_upstream.openai_tools import check_choice, check_function, check_length, check_unique
from tools.strict_upstream.vendor_types import Known, find_violation

if TYPE_CHECKING:
    from collections.abc import Mapping

_CALL_ID_LIMIT = 40
_TOOL_LIMIT = 128
_LAST_WORDS = "must be a response to a preceeding message with 'tool_calls'."  # OpenAI's spelling
_UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
    "The following tool_call_ids did not have response messages: "
)


def read_chat(body: dict[str, Any], headers: Mapping[str, str]) -> Conversation:
    """Check a request and say what is in it; raise `Refusal`."""
    check_bearer(headers)
    kind: Any = CompletionCreateParamsStreaming if body.get("stream") else CompletionCreateParamsNonStreaming
    found = find_violation(body, kind, known=Known(nulls=True))
    if found:
        raise refusal.openai_violation(found)
    if not body["messages"]:
        text = (
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead."
        )
        raise refusal.openai(text, param="messages", code="empty_array")
    _check_settings(body)
    tools = _read_tools(body.get("tools"))
    check_choice(body)
    _check_order(body["messages"])
    items = [item for at, message in enumerate(body["messages"]) for item in _read_message(message, at)]
    system = join_text([one.get("content") for one in body["messages"] if one["role"] in ("system", "developer")])
    usage = bool((body.get("stream_options") or {}).get("include_usage"))
    return Conversation(body["model"], bool(body.get("stream")), tools, items, system, wants_usage=usage)


def check_bearer(headers: Mapping[str, str]) -> None:
    """The key's header."""
    if not headers.get("authorization", "").startswith("Bearer "):
        text = (
            "You didn't provide an API key. You need to provide your API key in an Authorization header using "
            "Bearer auth."
        )
        raise refusal.openai(text, status=401)


def _check_settings(body: dict[str, Any]) -> None:
    if body.get("stream_options") and not body.get("stream"):
        raise refusal.openai(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.", param="stream_options"
        )
    if body.get("max_tokens") is not None and body.get("max_completion_tokens") is not None:
        text = "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."
        raise refusal.openai(text, code="invalid_parameter_combination")
    reasons = openai_reasons(body["model"])
    if reasons is False and body.get("reasoning_effort") is not None:
        raise refusal.openai("Unrecognized request argument supplied: reasoning_effort")
    if reasons and body.get("max_tokens") is not None:
        text = (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        )
        raise refusal.openai(text, param="max_tokens", code="unsupported_parameter")
    samples = openai_samples(body["model"], body.get("reasoning_effort"))
    if reasons and body.get("temperature") not in (None, 1) and not samples:
        text = (
            f"Unsupported value: 'temperature' does not support {body['temperature']} with this model. Only the "
            "default (1) value is supported."
        )
        raise refusal.openai(text, param="temperature", code="unsupported_value")


def _read_tools(tools: list[dict[str, Any]] | None) -> list[Tool]:
    made: list[Tool] = []
    if tools is not None and not tools:
        text = "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead."
        raise refusal.openai(text, param="tools", code="empty_array")
    if len(tools or []) > _TOOL_LIMIT:
        text = (
            f"Invalid 'tools': array too long. Expected an array with maximum length {_TOOL_LIMIT}, but got an "
            f"array with length {len(tools or [])} instead."
        )
        raise refusal.openai(text, param="tools", code="array_above_max_length")
    for at, tool in enumerate(tools or []):
        if tool["type"] == "function":
            check_function(tool["function"], f"tools[{at}].function")
            made.append(Tool(tool["function"]["name"], tool["function"].get("parameters") or {}))
        else:
            made.append(Tool(tool["custom"]["name"], {}, freeform=True))
    check_unique([tool.name for tool in made])
    return made


def _check_order(messages: list[dict[str, Any]]) -> None:
    """Every call is answered at once and by nobody else."""
    open_ids: list[str] = []
    answered: set[str] = set()
    for at, message in enumerate(messages):
        if message["role"] == "tool":
            known = message["tool_call_id"]
            if known not in open_ids:
                if known in answered:
                    text = f"Duplicate value for 'tool_call_id' of '{known}' in message[{at}]."
                    raise refusal.openai(text, param="messages")
                text = f"Invalid parameter: messages with role 'tool' {_LAST_WORDS}"
                raise refusal.openai(text, param=f"messages.[{at}].role")
            open_ids.remove(known)
            answered.add(known)
            continue
        if open_ids:
            raise refusal.openai(_UNANSWERED + ", ".join(open_ids), param=f"messages.[{at}].role")
        open_ids, answered = [call["id"] for call in message.get("tool_calls") or []], set()
    if open_ids:
        raise refusal.openai(_UNANSWERED + ", ".join(open_ids), param="messages")


def _read_message(message: dict[str, Any], at: int) -> list[Item]:
    role, content = message["role"], message.get("content")
    if content == []:
        text = (
            f"Invalid 'messages[{at}].content': empty array. Expected an array with minimum length 1, but got "
            "an empty array instead."
        )
        raise refusal.openai(text, param=f"messages[{at}].content", code="empty_array")
    match role:
        case "tool":
            return [Item("result", join_text(content), id=message["tool_call_id"])]
        case "assistant":
            return _read_assistant(message, at)
        case "user":
            return [Item("user", join_text(content))]
        case _:
            return []


def _read_assistant(message: dict[str, Any], at: int) -> list[Item]:
    calls = message.get("tool_calls")
    if calls == []:
        text = (
            f"Invalid 'messages[{at}].tool_calls': empty array. Expected an array with minimum length 1, but "
            "got an empty array instead."
        )
        raise refusal.openai(text, param=f"messages[{at}].tool_calls", code="empty_array")
    text = join_text(message.get("content"))
    if not calls and not text and not message.get("refusal") and not message.get("audio"):
        # `content` is required unless `tool_calls` is specified.
        raise refusal.openai(
            "Invalid value for 'content': expected a string, got null.", param=f"messages.[{at}].content"
        )
    items = [Item("assistant", text)] if text else []
    for number, call in enumerate(calls or []):
        check_length(call["id"], f"messages[{at}].tool_calls[{number}].id", _CALL_ID_LIMIT)
        made = call.get("function") or call.get("custom")
        items.append(Item("call", made.get("arguments") or made.get("input") or "", made["name"], call["id"]))
    return items
