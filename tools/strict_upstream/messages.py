"""Messages requests: what Anthropic refuses.

https://docs.claude.com/en/api/messages
https://docs.claude.com/en/docs/agents-and-tools/tool-use/implement-tool-use
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from anthropic.types import message_create_params as stable
from anthropic.types.beta import message_create_params as beta

from tools.strict_upstream import refusal
from tools.strict_upstream.conversation import Conversation, Item, join_text
from tools.strict_upstream.messages_blocks import check_blocks, check_pairs, merge_turns
from tools.strict_upstream.messages_settings import check_settings, read_tools
from tools.strict_upstream.vendor_types import Known, find_violation

if TYPE_CHECKING:
    from collections.abc import Mapping

# The newest models refuse sampling parameters and the SDK's types lack them; older models take them.
_SAMPLING = frozenset({"temperature", "top_k", "top_p"})
_KNOWN = Known(
    extra={
        "MessageCreateParamsStreaming": _SAMPLING, "MessageCreateParamsNonStreaming": _SAMPLING,
        "InputSchemaTyped": frozenset({"*"}), "InputSchema": frozenset({"*"}),  # JSON Schema is open
    }
)  # fmt: skip
_HEADER_FIELDS = ("betas", "user_profile_id", "workspace_id")  # of the SDK's types, but sent as headers


def read_messages(body: dict[str, Any], headers: Mapping[str, str]) -> Conversation:
    """Check a request and say what is in it; raise `Refusal`."""
    _check_headers(headers)
    types = beta if headers.get("anthropic-beta") else stable
    kind: Any = types.MessageCreateParamsStreaming if body.get("stream") else types.MessageCreateParamsNonStreaming
    for name in _HEADER_FIELDS:
        if name in body:
            raise refusal.anthropic(f"{name}: Extra inputs are not permitted")
    found = find_violation(body, kind, known=_KNOWN)
    if found:
        raise refusal.anthropic_violation(found)
    if not body["messages"]:
        raise refusal.anthropic("messages: at least one message is required")
    tools = read_tools(body)
    check_settings(body)
    turns = merge_turns(body["messages"])
    check_blocks(body, turns)
    check_pairs(turns)
    items = [item for turn in turns for block in turn.blocks for item in _read_block(turn.role, block)]
    thinking = (body.get("thinking") or {}).get("type", "disabled") != "disabled"
    instructions = [one["content"] for one in body["messages"] if one["role"] == "system"]
    system = join_text([body.get("system"), *instructions])
    return Conversation(body["model"], bool(body.get("stream")), tools, items, system, wants_reasoning=thinking)


def _check_headers(headers: Mapping[str, str]) -> None:
    if not headers.get("x-api-key") and not headers.get("authorization"):
        raise refusal.anthropic("x-api-key header is required", status=401, type="authentication_error")
    if not headers.get("anthropic-version"):
        raise refusal.anthropic("anthropic-version: header is required")


def _read_block(role: str, block: dict[str, Any]) -> list[Item]:
    match block.get("type"):
        case "text":
            return [Item("assistant" if role == "assistant" else "user", block["text"])]
        case "tool_use":
            return [Item("call", json.dumps(block["input"]), block["name"], block["id"])]
        case "tool_result":
            return [Item("result", join_text(block.get("content")), id=block["tool_use_id"])]
        case "thinking":
            return [Item("reasoning", block["thinking"], id="sealed")]
        case _:
            return []
