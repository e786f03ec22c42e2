"""Answers as Responses. https://platform.openai.com/docs/api-reference/responses-streaming"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tools.strict_upstream.frames import Frame, Holds, split_text
from tools.strict_upstream.seals import seal

if TYPE_CHECKING:
    from tools.strict_upstream.conversation import Answer, Call, Conversation

_CREATED = 1_780_000_000
_DEFAULTS: dict[str, Any] = {
    "background": False, "instructions": None, "max_output_tokens": None, "max_tool_calls": None, "metadata": {},
    "parallel_tool_calls": True, "previous_response_id": None, "prompt_cache_key": None, "safety_identifier": None,
    "service_tier": "default", "store": True, "temperature": 1.0, "tool_choice": "auto", "tools": [],
    "top_logprobs": 0, "top_p": 1.0, "truncation": "disabled", "user": None, "frequency_penalty": 0.0,
    "presence_penalty": 0.0, "text": {"format": {"type": "text"}, "verbosity": "medium"},
}  # fmt: skip


class ResponsesWriter:
    """Builds the events of one response and its final resource."""

    def __init__(self, answer: Answer, conversation: Conversation) -> None:
        self.answer = answer
        self.conversation = conversation
        self.frames: list[Frame] = []
        self.output: list[dict[str, Any]] = []

    def write(self) -> list[Frame]:
        """All events."""
        self._add("response.created", response=self.resource("in_progress"))
        self._add("response.in_progress", response=self.resource("in_progress"))
        if self.answer.thought:
            self._write_reasoning()
        if self.answer.text:
            self._write_message()
        for number, call in enumerate(self.answer.calls):
            self._write_call(number, call)
        self._add("response.completed", response=self.resource("completed"))
        return self.frames

    def resource(self, status: str) -> dict[str, Any]:
        """The response object as it is now."""
        asked = self.conversation.options
        given = {name: asked[name] for name in _DEFAULTS if asked.get(name) is not None and name != "text"}
        reasoning = asked.get("reasoning") or {}
        done = status == "completed"
        return {
            **_DEFAULTS, **given, "id": f"resp_{self.answer.id}", "object": "response", "created_at": _CREATED,
            "status": status, "completed_at": _CREATED + 1 if done else None, "error": None, "incomplete_details": None,
            "model": self.answer.model, "output": list(self.output) if done else [],
            "reasoning": {"effort": reasoning.get("effort"), "summary": reasoning.get("summary")},
            "usage": self._usage() if done else None,
        }  # fmt: skip

    def _add(self, name: str, holds: Holds = "", **fields: Any) -> None:
        data = {"type": name, "sequence_number": len(self.frames), **fields}
        self.frames.append(Frame(data, name, holds))

    def _write_reasoning(self) -> None:
        index, known = len(self.output), f"rs_{self.answer.id}"
        start: dict[str, Any] = {"id": known, "type": "reasoning", "summary": []}
        done = dict(start)
        if self.conversation.wants_sealed_reasoning:
            start["encrypted_content"] = done["encrypted_content"] = seal(f"{self.answer.id}: {self.answer.thought}")
        self._add("response.output_item.added", output_index=index, item=start)
        if self.conversation.wants_reasoning:
            place: dict[str, Any] = {"item_id": known, "output_index": index, "summary_index": 0}
            part = {"type": "summary_text", "text": self.answer.thought}
            self._add("response.reasoning_summary_part.added", **place, part={**part, "text": ""})
            for piece in split_text(self.answer.thought):
                self._add("response.reasoning_summary_text.delta", **place, delta=piece)
            self._add("response.reasoning_summary_text.done", **place, text=self.answer.thought)
            self._add("response.reasoning_summary_part.done", **place, part=part)
            done["summary"] = [part]
        self._finish(index, done)

    def _write_message(self) -> None:
        index, known = len(self.output), f"msg_{self.answer.id}"
        item = {"id": known, "type": "message", "status": "in_progress", "role": "assistant", "content": []}
        place: dict[str, Any] = {"item_id": known, "output_index": index, "content_index": 0}
        part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        self._add("response.output_item.added", output_index=index, item=item)
        self._add("response.content_part.added", **place, part=part)
        for piece in split_text(self.answer.text):
            self._add("response.output_text.delta", "text", **place, delta=piece, logprobs=[])
        whole = {**part, "text": self.answer.text}
        self._add("response.output_text.done", **place, text=self.answer.text, logprobs=[])
        self._add("response.content_part.done", **place, part=whole)
        self._finish(index, {**item, "status": "completed", "content": [whole]})

    def _write_call(self, number: int, call: Call) -> None:
        index, known = len(self.output), f"fc_{self.answer.id}_{number}"
        kind, field = ("custom_tool_call", "input") if call.tool.freeform else ("function_call", "arguments")
        known = f"ctc_{self.answer.id}_{number}" if call.tool.freeform else known
        item = {
            "id": known,
            "type": kind,
            "status": "in_progress",
            field: "",
            "call_id": call.id,
            "name": call.tool.name,
        }
        if call.tool.namespace:
            item["namespace"] = call.tool.namespace
        self._add("response.output_item.added", output_index=index, item=item)
        place: dict[str, Any] = {"item_id": known, "output_index": index}
        event = "response.custom_tool_call_input" if call.tool.freeform else "response.function_call_arguments"
        for piece in split_text(call.arguments):
            self._add(f"{event}.delta", "call", **place, delta=piece)
        place[field] = call.arguments
        self._add(f"{event}.done", **place)
        self._finish(index, {**item, "status": "completed", field: call.arguments})

    def _finish(self, index: int, item: dict[str, Any]) -> None:
        self.output.append(item)
        self._add("response.output_item.done", output_index=index, item=item)

    def _usage(self) -> dict[str, Any]:
        return {
            "input_tokens": self.answer.input_tokens, "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": self.answer.output_tokens, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": self.answer.input_tokens + self.answer.output_tokens,
        }  # fmt: skip
