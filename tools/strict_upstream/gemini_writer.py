"""Answers as Gemini. https://ai.google.dev/api/generate-content#v1beta.GenerateContentResponse"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tools.strict_upstream.frames import Frame, Holds, split_text
from tools.strict_upstream.model_facts import gemini_generation
from tools.strict_upstream.seals import seal

if TYPE_CHECKING:
    from tools.strict_upstream.conversation import Answer, Conversation

_SIGNED_FROM = 2  # the first generation that signs its thoughts


def write_gemini_body(answer: Answer, conversation: Conversation) -> dict[str, Any]:
    """A whole answer."""
    return _response(answer, [part for part, _ in _parts(answer, conversation, pieces=1)], finish="STOP")


def write_gemini_frames(answer: Answer, conversation: Conversation) -> list[Frame]:
    """A stream. A call comes whole; the last chunk has the finish reason and an empty text, as Google sends it."""
    frames = [Frame(_response(answer, [part]), holds=holds) for part, holds in _parts(answer, conversation, pieces=4)]
    return [*frames, Frame(_response(answer, [{"text": ""}], finish="STOP"))]


def _parts(answer: Answer, conversation: Conversation, pieces: int) -> list[tuple[dict[str, Any], Holds]]:
    parts: list[tuple[dict[str, Any], Holds]] = []
    if answer.thought and conversation.wants_reasoning:
        parts += [({"text": piece, "thought": True}, "") for piece in split_text(answer.thought, pieces)]
    parts += [({"text": piece}, "text") for piece in split_text(answer.text, pieces)]
    for number, call in enumerate(answer.calls):
        part: dict[str, Any] = {
            "functionCall": {"name": call.tool.name, "args": json.loads(call.arguments), "id": call.id}
        }
        # Only the first of parallel calls is signed.
        if number == 0 and gemini_generation(answer.model) >= _SIGNED_FROM:
            part["thoughtSignature"] = seal(f"{answer.id}: {answer.thought}")
        parts.append((part, "call"))
    return parts


def _response(answer: Answer, parts: list[dict[str, Any]], finish: str = "") -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    usage = {
        "promptTokenCount": answer.input_tokens, "candidatesTokenCount": answer.output_tokens,
        "totalTokenCount": answer.input_tokens + answer.output_tokens,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": answer.input_tokens}],
    }  # fmt: skip
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": answer.model, "responseId": answer.id}
