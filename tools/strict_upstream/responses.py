"""Responses requests, over HTTP or a WebSocket: what OpenAI refuses.

https://platform.openai.com/docs/api-reference/responses/create
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openai.types.responses.response_create_params import (
    ResponseCreateParamsNonStreaming,
    ResponseCreateParamsStreaming,
)

from tools.strict_upstream import refusal
from tools.strict_upstream.chat import check_bearer
from tools.strict_upstream.conversation import Conversation, Item, Tool, join_text
from tools.strict_upstream.model_facts import openai_reasons, openai_samples
from tools.strict_upstream.openai_tools import NAME, check_choice, check_function, check_length, check_unique
from tools.strict_upstream.seals import unseal
from tools.strict_upstream.vendor_types import Known, find_violation

if TYPE_CHECKING:
    from collections.abc import Mapping

_CALL_ID_LIMIT = 64
_PREFIXES = {"message": "msg", "function_call": "fc", "reasoning": "rs"}
_CALLS = {
    "function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output",
    "local_shell_call": "local_shell_call_output", "shell_call": "shell_call_output",
}  # fmt: skip
# Codex sends these to its own vendor: https://github.com/openai/codex/blob/main/codex-rs/codex-api/src/common.rs
_CREATE = frozenset({"client_metadata"})
_MESSAGE = frozenset({"id", "internal_chat_message_metadata_passthrough"})
_KNOWN = Known(
    extra={
        "ResponseCreateParamsStreaming": _CREATE, "ResponseCreateParamsNonStreaming": _CREATE,
        "EasyInputMessageParam": _MESSAGE, "Message": _MESSAGE,
    },
    # What is not stored has no id; the AI SDK leaves out the ids of such items.
    optional={
        "ResponseReasoningItemParam": frozenset({"id"}),
        "ResponseOutputMessageParam": frozenset({"id", "status", "type"}),
        "FunctionToolParam": frozenset({"strict", "parameters"}), "ResponseOutputTextParam": frozenset({"annotations"}),
    },
    nulls=True,
)  # fmt: skip


def read_responses(
    body: dict[str, Any], headers: Mapping[str, str], stored: Mapping[str, list[dict[str, Any]]]
) -> tuple[Conversation, list[dict[str, Any]]]:
    """Check a request; give the conversation and its whole input, with that of the previous response before it."""
    check_bearer(headers)
    kind: Any = ResponseCreateParamsStreaming if body.get("stream") else ResponseCreateParamsNonStreaming
    found = find_violation(body, kind, known=_KNOWN)
    if found:
        raise refusal.openai_violation(found)
    for name in ("model", "input"):
        if name not in body:
            raise refusal.openai(
                f"Missing required parameter: '{name}'.", param=name, code="missing_required_parameter"
            )
    _check_settings(body)
    tools = _read_tools(body.get("tools") or [], "tools", "")
    check_unique([f"{tool.namespace}.{tool.name}" for tool in tools])
    check_choice(body)
    items = _whole_input(body, stored)
    _check_order(items, stored=body.get("store") is not False)
    read = [item for at, one in enumerate(items) for item in _read_item(one, at)]
    reasoning = body.get("reasoning") or {}
    instructions = [one.get("content") for one in items if one.get("role") in ("system", "developer")]
    conversation = Conversation(
        body["model"], bool(body.get("stream")), tools, read,
        system=join_text([body.get("instructions"), *instructions]),
        wants_reasoning=bool(reasoning.get("summary")),
        wants_sealed_reasoning="reasoning.encrypted_content" in (body.get("include") or ()),
        options=body,
    )  # fmt: skip
    return conversation, items


def _check_settings(body: dict[str, Any]) -> None:
    reasons = openai_reasons(body["model"])
    effort = (body.get("reasoning") or {}).get("effort")
    if reasons is False and effort is not None:
        text = "Unsupported parameter: 'reasoning.effort' is not supported with this model."
        raise refusal.openai(text, param="reasoning.effort", code="unsupported_parameter")
    if reasons is False and "reasoning.encrypted_content" in (body.get("include") or ()):
        raise refusal.openai("Encrypted content is not supported with this model.", param="include")
    for name in ("temperature", "top_p"):
        if reasons and body.get(name) not in (None, 1) and not openai_samples(body["model"], effort):
            text = f"Unsupported parameter: '{name}' is not supported with this model."
            raise refusal.openai(text, param=name, code="unsupported_parameter")
    limit = body.get("max_output_tokens")
    if limit is not None and limit < 16:  # noqa: PLR2004 — OpenAI's own bound
        text = (
            f"Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got {limit} "
            "instead."
        )
        raise refusal.openai(text, param="max_output_tokens", code="integer_below_min_value")


def _read_tools(tools: list[dict[str, Any]], place: str, namespace: str) -> list[Tool]:
    made: list[Tool] = []
    for at, tool in enumerate(tools):
        here = f"{place}[{at}]"
        match tool.get("type"):
            case "function":
                check_function(tool, here)
                made.append(Tool(tool["name"], tool.get("parameters") or {}, namespace=namespace))
            case "custom":
                made.append(Tool(tool["name"], {}, freeform=True, namespace=namespace))
            case "namespace":
                made += _read_tools(tool.get("tools") or [], f"{here}.tools", tool["name"])
            case _:
                pass  # run by the vendor
    return made


def _whole_input(body: dict[str, Any], stored: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    given = body["input"]
    items = [{"type": "message", "role": "user", "content": given}] if isinstance(given, str) else list(given)
    previous = body.get("previous_response_id")
    if previous:
        if previous not in stored:
            text = f"Previous response with id '{previous}' not found."
            raise refusal.openai(text, param="previous_response_id", code="previous_response_not_found")
        return [*stored[previous], *items]
    if not items:
        text = "Invalid 'input': empty array. Expected an array with minimum length 1, but got an empty array instead."
        raise refusal.openai(text, param="input", code="empty_array")
    return items


def _check_order(items: list[dict[str, Any]], *, stored: bool) -> None:
    """Calls and outputs are pairs, the call first; a stored reasoning item stands before what it led to.

    Codex, which stores nothing, repeats a request after a broken stream with the reasoning alone.
    """
    calls: set[str] = set()
    outputs: list[str] = []
    for at, item in enumerate(items):
        kind = item.get("type", "message")
        if kind in _CALLS:
            if item["call_id"] in calls:
                raise refusal.openai(f"Duplicate item found with call_id {item['call_id']}.", param="input")
            calls.add(item["call_id"])
        elif kind in _CALLS.values():
            outputs.append(item["call_id"])
            if item["call_id"] not in calls:
                text = f"No tool call found for function call output with call_id {item['call_id']}."
                raise refusal.openai(text, param="input")
        elif kind == "reasoning" and stored:
            after = items[at + 1] if at + 1 < len(items) else {}
            if after.get("type", "message") not in (*_CALLS, "reasoning") and after.get("role") != "assistant":
                text = f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item."
                raise refusal.openai(text, param="input")
    lacking = next((one for one in calls if one not in outputs), None)
    if lacking is not None:
        raise refusal.openai(f"No tool output found for function call {lacking}.", param="input")


def _read_item(item: dict[str, Any], at: int) -> list[Item]:
    kind = item.get("type", "message")
    prefix = _PREFIXES.get(kind)
    if item.get("id") and prefix and not item["id"].startswith(prefix):
        text = f"Invalid 'input[{at}].id': '{item['id']}'. Expected an ID that begins with '{prefix}'."
        raise refusal.openai(text, param=f"input[{at}].id", code="invalid_value")
    for name in ("id", "call_id"):
        check_length(item.get(name) or "", f"input[{at}].{name}", _CALL_ID_LIMIT)
    if kind == "message":
        return _read_message(item, at)
    if kind in _CALLS:
        return _read_call(item, at)
    if kind in _CALLS.values():
        return [Item("result", join_text(item.get("output")), id=item["call_id"])]
    if kind == "reasoning":
        return _read_reasoning(item)
    return []


def _read_message(item: dict[str, Any], at: int) -> list[Item]:
    text = join_text(item.get("content"))
    if item["role"] == "assistant":
        refused = any(part.get("refusal") for part in item["content"] if isinstance(part, dict))
        if not text and not refused:
            words = (
                f"Invalid 'input[{at}].content': empty array. Expected an array with minimum length 1, but got "
                "an empty array instead."
            )
            raise refusal.openai(words, param=f"input[{at}].content", code="empty_array")
        return [Item("assistant", text)]
    if item.get("content") == []:
        words = (
            f"Invalid 'input[{at}].content': empty array. Expected an array with minimum length 1, but got an "
            "empty array instead."
        )
        raise refusal.openai(words, param=f"input[{at}].content", code="empty_array")
    return [Item("user", text)] if item["role"] == "user" else []


def _read_call(item: dict[str, Any], at: int) -> list[Item]:
    name = item.get("name", "")
    if name and not NAME.match(name):
        text = (
            f"Invalid 'input[{at}].name': string does not match pattern. Expected a string that matches the "
            "pattern '^[a-zA-Z0-9_-]+$'."
        )
        raise refusal.openai(text, param=f"input[{at}].name", code="invalid_value")
    return [Item("call", item.get("arguments") or item.get("input") or "", name, item["call_id"])]


def _read_reasoning(item: dict[str, Any]) -> list[Item]:
    sealed = item.get("encrypted_content")
    if sealed and unseal(sealed) is None:
        text = (
            f"The encrypted content for item {item.get('id')} could not be verified. Reason: Encrypted content "
            "could not be decrypted or parsed."
        )
        raise refusal.openai(text, code="invalid_encrypted_content")
    return [Item("reasoning", join_text(item.get("summary")), id="sealed" if sealed else "")]
