"""Messages requests: rules for content blocks, for pairs of calls and results, and for thinking."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from tools.strict_upstream import refusal
from tools.strict_upstream.model_facts import claude_refuses_prefill
from tools.strict_upstream.seals import seal, unseal

_ID = re.compile(r"[a-zA-Z0-9_-]+\Z")
_CACHE_LIMIT = 4
_EMPTY = "all messages must have non-empty content except for the optional final assistant message"


@dataclass
class Turn:
    """Messages of one role in a row. `at` is the number of the first."""

    at: int
    role: str
    blocks: list[dict[str, Any]]


def sign_thinking(text: str) -> str:
    """The signature of a thinking block."""
    return seal(hashlib.sha256(text.encode()).hexdigest())


def merge_turns(messages: list[dict[str, Any]]) -> list[Turn]:
    """Consecutive messages of one role are one turn. A `system` message in the middle stands beside the turns."""
    turns: list[Turn] = []
    for at, message in enumerate(messages):
        content = message["content"]
        if not content and not (message["role"] == "assistant" and at == len(messages) - 1):
            raise refusal.anthropic(f"messages.{at}: {_EMPTY}")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for number, block in enumerate(blocks):
            _check_block(block, f"messages.{at}.content.{number}")
        if message["role"] == "system":
            continue
        if turns and turns[-1].role == message["role"]:
            turns[-1].blocks += blocks
        else:
            turns.append(Turn(at, message["role"], list(blocks)))
    return turns


def _check_block(block: dict[str, Any], place: str) -> None:
    match block.get("type"):
        case "text":
            if not block["text"]:
                raise refusal.anthropic("messages: text content blocks must be non-empty")
            if not block["text"].strip():
                raise refusal.anthropic("messages: text content blocks must contain non-whitespace text")
        case "tool_use":
            if not _ID.match(block["id"]):
                raise refusal.anthropic(f"{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
            if not isinstance(block["input"], dict):
                raise refusal.anthropic(f"{place}.tool_use.input: Input should be a valid dictionary")
        case _:
            _check_signature(block, place)


def _check_signature(block: dict[str, Any], place: str) -> None:
    if block.get("type") == "thinking":
        signed = unseal(block["signature"])
        if signed != hashlib.sha256(block["thinking"].encode()).hexdigest():
            raise refusal.anthropic(f"{place}: Invalid `signature` in `thinking` block")
    if block.get("type") == "redacted_thinking" and unseal(block["data"]) is None:
        raise refusal.anthropic(f"{place}: Invalid `data` in `redacted_thinking` block")


def check_blocks(body: dict[str, Any], turns: list[Turn]) -> None:
    """Roles, the end of the conversation, thinking, and the number of cache breakpoints."""
    if not turns or turns[0].role != "user":
        raise refusal.anthropic('messages: first message must use the "user" role')
    last = turns[-1]
    if last.role == "assistant":
        if claude_refuses_prefill(body["model"]):
            text = (
                "This model does not support assistant message prefill. The conversation must end with a user message."
            )
            raise refusal.anthropic(text)
        if last.blocks and last.blocks[-1].get("text", "").endswith((" ", "\n", "\t")):
            raise refusal.anthropic("messages: final assistant content cannot end with trailing whitespace")
    for turn in turns:
        if turn.role == "assistant" and turn.blocks and turn.blocks[-1]["type"] in ("thinking", "redacted_thinking"):
            raise refusal.anthropic(
                f"messages.{turn.at}: The final block in an assistant message cannot be `thinking`."
            )
    _check_thinking(body, turns)
    count = _count_breakpoints({name: body.get(name) for name in ("system", "messages", "tools")})
    if count > _CACHE_LIMIT:
        text = f"A maximum of {_CACHE_LIMIT} blocks with cache_control may be provided. Found {count}."
        raise refusal.anthropic(text)


def _check_thinking(body: dict[str, Any], turns: list[Turn]) -> None:
    """With a budget, an assistant turn whose results are being returned starts with its thinking."""
    if (body.get("thinking") or {}).get("type") != "enabled" or len(turns) < 2:  # noqa: PLR2004 — a call and a result
        return
    results = any(block["type"] == "tool_result" for block in turns[-1].blocks)
    first = turns[-2].blocks[0]["type"] if turns[-2].blocks else ""
    if results and turns[-2].role == "assistant" and first not in ("thinking", "redacted_thinking"):
        text = (
            f"messages.{turns[-2].at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{first}`. "
            "When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the "
            "lastmost set of `tool_use` and `tool_result` blocks). We recommend you include thinking blocks from "
            "previous turns. To avoid this requirement, disable `thinking`. Please consult our documentation at "
            "https://docs.claude.com/en/docs/build-with-claude/extended-thinking"
        )
        raise refusal.anthropic(text)


def _count_breakpoints(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(_count_breakpoints, value))
    if isinstance(value, dict):
        own = 1 if isinstance(value.get("cache_control"), dict) else 0
        return own + sum(
            _count_breakpoints(one) for name, one in value.items() if name not in ("input", "input_schema")
        )
    return 0


def check_pairs(turns: list[Turn]) -> None:
    """Every call has its result at the start of the next turn, and every result its call in the turn before."""
    seen: set[str] = set()
    for number, turn in enumerate(turns):
        calls = [block["id"] for block in turn.blocks if block["type"] == "tool_use"]
        if len(set(calls)) < len(calls) or seen & set(calls):
            raise refusal.anthropic("messages: `tool_use` ids must be unique")
        seen |= set(calls)
        after = turns[number + 1] if number + 1 < len(turns) else None
        lacking = [one for one in calls if one not in _leading_results(after)]
        if lacking:
            text = (
                f"messages.{turn.at}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(lacking)}. Each `tool_use` block must have a corresponding `tool_result` block "
                "in the next message."
            )
            raise refusal.anthropic(text)
        _check_results(turns, number)


def _leading_results(turn: Turn | None) -> list[str]:
    """The results at the start of a turn: text before a result is refused."""
    found: list[str] = []
    for block in turn.blocks if turn else []:
        if block["type"] != "tool_result":
            break
        found.append(block["tool_use_id"])
    return found


def _check_results(turns: list[Turn], number: int) -> None:
    turn = turns[number]
    before = turns[number - 1].blocks if number else []
    calls = {block["id"] for block in before if block["type"] == "tool_use"}
    answered: set[str] = set()
    for at, block in enumerate(turn.blocks):
        if block["type"] != "tool_result":
            continue
        known = block["tool_use_id"]
        if known not in calls:
            text = (
                f"messages.{turn.at}.content.{at}: unexpected `tool_use_id` found in `tool_result` blocks: {known}. "
                "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
            raise refusal.anthropic(text)
        if known in answered:
            text = (
                f"messages.{turn.at}.content.{at}: each tool_use must have a single result. Found multiple "
                f"`tool_result` blocks with id: {known}"
            )
            raise refusal.anthropic(text)
        answered.add(known)
