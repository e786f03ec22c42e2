"""Answers as Chat Completions. https://platform.openai.com/docs/api-reference/chat-streaming"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tools.strict_upstream.frames import Frame, split_text

if TYPE_CHECKING:
    from tools.strict_upstream.conversation import Answer, Call, Conversation

_CREATED = 1_780_000_000
_FINGERPRINT = "fp_44709d6fcb"


def write_chat_body(answer: Answer, _conversation: Conversation) -> dict[str, Any]:
    """A whole answer."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None, "refusal": None, "annotations": []}
    if answer.calls:
        message["tool_calls"] = [_call(call, call.arguments) for call in answer.calls]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(answer)}
    return {**_head(answer, "chat.completion"), "choices": [choice], "usage": _usage(answer)}


def write_chat_frames(answer: Answer, conversation: Conversation) -> list[Frame]:
    """A stream, without its `[DONE]`."""
    first: dict[str, Any] = {
        "role": "assistant",
        "content": None if answer.calls and not answer.text else "",
        "refusal": None,
    }
    frames = [_chunk(answer, first)]
    frames += [Frame(_chunk(answer, {"content": piece}).data, holds="text") for piece in split_text(answer.text)]
    for index, call in enumerate(answer.calls):
        frames.append(Frame(_chunk(answer, {"tool_calls": [{"index": index, **_call(call, "")}]}).data))
        key = "custom" if call.tool.freeform else "function"
        field = "input" if call.tool.freeform else "arguments"
        for piece in split_text(call.arguments):
            delta = {"tool_calls": [{"index": index, key: {field: piece}}]}
            frames.append(Frame(_chunk(answer, delta).data, holds="call"))
    frames.append(_chunk(answer, {}, _finish(answer)))
    if conversation.wants_usage:
        frames.append(Frame({**_head(answer, "chat.completion.chunk"), "choices": [], "usage": _usage(answer)}))
    return frames


def _head(answer: Answer, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{answer.id}", "object": kind, "created": _CREATED, "model": answer.model,
        "service_tier": "default", "system_fingerprint": _FINGERPRINT,
    }  # fmt: skip


def _chunk(answer: Answer, delta: dict[str, Any], finish: str | None = None) -> Frame:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return Frame({**_head(answer, "chat.completion.chunk"), "choices": [choice]})


def _call(call: Call, arguments: str) -> dict[str, Any]:
    if call.tool.freeform:
        return {"id": call.id, "type": "custom", "custom": {"name": call.tool.name, "input": arguments}}
    return {"id": call.id, "type": "function", "function": {"name": call.tool.name, "arguments": arguments}}


def _finish(answer: Answer) -> str:
    return "tool_calls" if answer.calls else "stop"


def _usage(answer: Answer) -> dict[str, Any]:
    return {
        "prompt_tokens": answer.input_tokens, "completion_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0, "audio_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0,
        },
    }  # fmt: skip
