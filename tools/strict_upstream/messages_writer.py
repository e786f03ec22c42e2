"""Answers as Messages. https://docs.claude.com/en/docs/build-with-claude/streaming"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tools.strict_upstream.frames import Frame, Holds, split_text
from tools.strict_upstream.messages_blocks import sign_thinking

if TYPE_CHECKING:
    from tools.strict_upstream.conversation import Answer, Conversation


def write_messages_body(answer: Answer, conversation: Conversation) -> dict[str, Any]:
    """A whole answer."""
    usage = {**_usage(answer), "output_tokens": answer.output_tokens}
    content = [block for block, _ in _blocks(answer, conversation)]
    return {**_head(answer), "content": content, "stop_reason": _stop(answer), "stop_sequence": None, "usage": usage}


def write_messages_frames(answer: Answer, conversation: Conversation) -> list[Frame]:
    """A stream."""
    usage = {**_usage(answer), "output_tokens": 1}
    start = {**_head(answer), "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    frames = [_frame("message_start", message=start), _frame("ping")]
    for index, (block, pieces) in enumerate(_blocks(answer, conversation)):
        frames.append(_frame("content_block_start", index=index, content_block=_emptied(block)))
        holds: Holds = {"text": "text", "tool_use": "call"}.get(block["type"], "")  # type: ignore[assignment]
        frames += [_frame("content_block_delta", holds, index=index, delta=delta) for delta in pieces]
        frames.append(_frame("content_block_stop", index=index))
    delta = {"stop_reason": _stop(answer), "stop_sequence": None}
    final = {**_usage(answer), "output_tokens": answer.output_tokens}
    return [*frames, _frame("message_delta", delta=delta, usage=final), _frame("message_stop")]


def _blocks(answer: Answer, conversation: Conversation) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Each block, and the deltas that build it."""
    made: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if answer.thought and conversation.wants_reasoning:
        signature = sign_thinking(answer.thought)
        pieces = [{"type": "thinking_delta", "thinking": piece} for piece in split_text(answer.thought)]
        block = {"type": "thinking", "thinking": answer.thought, "signature": signature}
        made.append((block, [*pieces, {"type": "signature_delta", "signature": signature}]))
    if answer.text:
        deltas = [{"type": "text_delta", "text": piece} for piece in split_text(answer.text)]
        made.append(({"type": "text", "text": answer.text, "citations": None}, deltas))
    for call in answer.calls:
        block = {"type": "tool_use", "id": call.id, "name": call.tool.name, "input": json.loads(call.arguments)}
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in split_text(call.arguments)]
        made.append((block, [{"type": "input_json_delta", "partial_json": ""}, *deltas]))
    return made


def _emptied(block: dict[str, Any]) -> dict[str, Any]:
    """A block as it starts."""
    match block["type"]:
        case "thinking":
            return {"type": "thinking", "thinking": "", "signature": ""}
        case "text":
            return {"type": "text", "text": ""}
        case _:
            return {**block, "input": {}}


def _frame(name: str, holds: Holds = "", **fields: Any) -> Frame:
    return Frame({"type": name, **fields}, name, holds)


def _head(answer: Answer) -> dict[str, Any]:
    return {"id": f"msg_{answer.id}", "type": "message", "role": "assistant", "model": answer.model}


def _stop(answer: Answer) -> str:
    return "tool_use" if answer.calls else "end_turn"


def _usage(answer: Answer) -> dict[str, Any]:
    return {
        "input_tokens": answer.input_tokens, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}, "service_tier": "standard",
    }  # fmt: skip
