"""The answer that every upstream of the fault matrix gives, in its four dialects, streamed and whole.

Reasoning, text, one tool call and usage. Written by hand after the vendors' documentation, not by penstock's encoders.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Kind: TypeAlias = Literal["structure", "reasoning", "text", "call", "arguments", "finish", "usage", "end"]

REASONING = ("Look at ", "the gauge.")
TEXT = ("I will ", "read ", "it.")
ARGUMENTS = ('{"station":', '"upper","unit":"m"}')
NAME = "read_gauge"
USAGE = (11, 7)
MESSAGE = "upstream exploded"
GARBAGE = b'data: {"id":"c","choi\xff\xfe<<<\n\n'
# No JSON text holds a NUL, neither in a string nor outside.
BODY_GARBAGE = b'\x00"}]<<<'
SSE, JSON = "text/event-stream", "application/json"


@dataclass(frozen=True)
class Answer:
    """`frames` with the kind of each; `finish` and `end` are the places of the finish reason and of the last frame."""

    frames: tuple[bytes, ...]
    kinds: tuple[Kind, ...]
    body: bytes
    error_frame: bytes
    error_body: bytes
    marked: bool = True  # whether the dialect has a frame that says that the stream is over
    garbage: bytes = GARBAGE

    @property
    def finish(self) -> int:
        return self.kinds.index("finish")

    @property
    def end(self) -> int:
        return len(self.frames) - 1


def _encode(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _chat() -> Answer:
    def chunk(delta: Any, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return b"data: " + _encode({**head, "choices": [choice]}) + b"\n\n"

    def call(**more: Any) -> Any:
        return {"tool_calls": [{"index": 0, **more}]}

    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "m"}
    usage = {"prompt_tokens": USAGE[0], "completion_tokens": USAGE[1], "total_tokens": sum(USAGE)}
    called = {"id": "call_1", "type": "function", "function": {"name": NAME, "arguments": ""}}
    rows: list[tuple[Kind, bytes]] = [
        ("structure", chunk({"role": "assistant", "content": ""})),
        *(("reasoning", chunk({"reasoning_content": piece})) for piece in REASONING),
        *(("text", chunk({"content": piece})) for piece in TEXT),
        ("call", chunk(call(**called))),
        *(("arguments", chunk(call(function={"arguments": piece}))) for piece in ARGUMENTS),
        ("finish", chunk({}, "tool_calls")),
        ("usage", b"data: " + _encode({**head, "choices": [], "usage": usage}) + b"\n\n"),
        ("end", b"data: [DONE]\n\n"),
    ]
    whole_call = {"id": "call_1", "type": "function", "function": {"name": NAME, "arguments": "".join(ARGUMENTS)}}
    message = {
        "role": "assistant", "content": "".join(TEXT), "reasoning_content": "".join(REASONING),
        "tool_calls": [whole_call],
    }  # fmt: skip
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls"}
    body = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
    error = _encode({"error": {"message": MESSAGE, "type": "server_error", "param": None, "code": 500}})
    return _answer(rows, body, b"data: " + error + b"\n\n", error)


def _responses() -> Answer:
    rows: list[tuple[Kind, bytes]] = []

    def say(kind: Kind, type: str, **more: Any) -> None:
        value = {"type": type, "sequence_number": len(rows), **more}
        rows.append((kind, f"event: {type}\ndata: ".encode() + _encode(value) + b"\n\n"))

    def response(status: str, output: list[Any], usage: Any = None) -> Any:
        return {
            "id": "resp_1", "object": "response", "created_at": 7, "status": status, "model": "m", "output": output,
            "error": None, "incomplete_details": None, "instructions": None, "metadata": {}, "parallel_tool_calls": True,
            "temperature": 1.0, "tool_choice": "auto", "tools": [], "top_p": 1.0, "usage": usage,
        }  # fmt: skip

    summary = {"type": "summary_text", "text": "".join(REASONING)}
    reasoning = {"id": "rs_1", "type": "reasoning", "summary": [summary]}
    said = {"type": "output_text", "text": "".join(TEXT), "annotations": [], "logprobs": []}
    message = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [said]}
    call = {
        "id": "fc_1", "type": "function_call", "status": "completed", "call_id": "call_1", "name": NAME,
        "arguments": "".join(ARGUMENTS),
    }  # fmt: skip
    usage = {
        "input_tokens": USAGE[0], "input_tokens_details": {"cached_tokens": 0}, "output_tokens": USAGE[1],
        "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": sum(USAGE),
    }  # fmt: skip
    whole = response("completed", [reasoning, message, call], usage)

    say("structure", "response.created", response=response("in_progress", []))
    say("structure", "response.in_progress", response=response("in_progress", []))
    at: dict[str, Any] = {"item_id": "rs_1", "output_index": 0, "summary_index": 0}
    say("structure", "response.output_item.added", output_index=0, item={**reasoning, "summary": []})
    say("structure", "response.reasoning_summary_part.added", **at, part={**summary, "text": ""})
    for piece in REASONING:
        say("reasoning", "response.reasoning_summary_text.delta", **at, delta=piece)
    say("structure", "response.reasoning_summary_text.done", **at, text=summary["text"])
    say("structure", "response.reasoning_summary_part.done", **at, part=summary)
    say("structure", "response.output_item.done", output_index=0, item=reasoning)
    at = {"item_id": "msg_1", "output_index": 1, "content_index": 0}
    opened = {**message, "status": "in_progress", "content": []}
    say("structure", "response.output_item.added", output_index=1, item=opened)
    say("structure", "response.content_part.added", **at, part={**said, "text": ""})
    for piece in TEXT:
        say("text", "response.output_text.delta", **at, delta=piece, logprobs=[])
    say("structure", "response.output_text.done", **at, text=said["text"], logprobs=[])
    say("structure", "response.content_part.done", **at, part=said)
    say("structure", "response.output_item.done", output_index=1, item=message)
    at = {"item_id": "fc_1", "output_index": 2}
    say("call", "response.output_item.added", output_index=2, item={**call, "status": "in_progress", "arguments": ""})
    for piece in ARGUMENTS:
        say("arguments", "response.function_call_arguments.delta", **at, delta=piece)
    say("call", "response.function_call_arguments.done", **at, arguments=call["arguments"])
    say("call", "response.output_item.done", output_index=2, item=call)
    say("finish", "response.completed", response=whole)
    error = {"type": "error", "sequence_number": len(rows), "code": "server_error", "message": MESSAGE, "param": None}
    refusal = {"error": {"message": MESSAGE, "type": "server_error", "param": None, "code": "server_error"}}
    return _answer(rows, whole, b"event: error\ndata: " + _encode(error) + b"\n\n", _encode(refusal))


def _anthropic() -> Answer:
    rows: list[tuple[Kind, bytes]] = []

    def say(kind: Kind, type: str, **more: Any) -> None:
        rows.append((kind, f"event: {type}\ndata: ".encode() + _encode({"type": type, **more}) + b"\n\n"))

    def delta(kind: Kind, index: int, **more: Any) -> None:
        say(kind, "content_block_delta", index=index, delta=more)

    message: dict[str, Any] = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
        "stop_sequence": None, "usage": {"input_tokens": USAGE[0], "output_tokens": 1},
    }  # fmt: skip
    say("structure", "message_start", message=message)
    say(
        "structure", "content_block_start", index=0, content_block={"type": "thinking", "thinking": "", "signature": ""}
    )
    for piece in REASONING:
        delta("reasoning", 0, type="thinking_delta", thinking=piece)
    delta("structure", 0, type="signature_delta", signature="c2lnbmVk")
    say("structure", "content_block_stop", index=0)
    say("structure", "content_block_start", index=1, content_block={"type": "text", "text": ""})
    say("structure", "ping")
    for piece in TEXT:
        delta("text", 1, type="text_delta", text=piece)
    say("structure", "content_block_stop", index=1)
    tool = {"type": "tool_use", "id": "toolu_1", "name": NAME, "input": {}}
    say("call", "content_block_start", index=2, content_block=tool)
    for piece in ARGUMENTS:
        delta("arguments", 2, type="input_json_delta", partial_json=piece)
    say("call", "content_block_stop", index=2)
    ended = {"stop_reason": "tool_use", "stop_sequence": None}
    say("finish", "message_delta", delta=ended, usage={"input_tokens": USAGE[0], "output_tokens": USAGE[1]})
    say("end", "message_stop")
    content = [
        {"type": "thinking", "thinking": "".join(REASONING), "signature": "c2lnbmVk"},
        {"type": "text", "text": "".join(TEXT)},
        {**tool, "input": json.loads("".join(ARGUMENTS))},
    ]
    usage = {"input_tokens": USAGE[0], "output_tokens": USAGE[1]}
    error = _encode({"type": "error", "error": {"type": "api_error", "message": MESSAGE}})
    body = {**message, **ended, "content": content, "usage": usage}
    return _answer(rows, body, b"event: error\ndata: " + error + b"\n\n", error)


def _gemini() -> Answer:
    def chunk(part: Any, **more: Any) -> Any:
        candidate = {"content": {"role": "model", "parts": [part]}, "index": 0, **more}
        return {"candidates": [candidate], "modelVersion": "m", "responseId": "r1"}

    usage = {"promptTokenCount": USAGE[0], "candidatesTokenCount": USAGE[1], "totalTokenCount": sum(USAGE)}
    call = {"functionCall": {"id": "call_1", "name": NAME, "args": json.loads("".join(ARGUMENTS))}}
    made: list[tuple[Kind, Any]] = [
        *(("reasoning", chunk({"text": piece, "thought": True})) for piece in REASONING),
        *(("text", chunk({"text": piece})) for piece in TEXT),
        ("call", chunk(call)),
        ("finish", {**chunk({"text": ""}, finishReason="STOP"), "usageMetadata": usage}),
    ]
    # Google ends lines with CR LF.
    rows: list[tuple[Kind, bytes]] = [(kind, b"data: " + _encode(value) + b"\r\n\r\n") for kind, value in made]
    body = {**chunk(None, finishReason="STOP"), "usageMetadata": usage}
    thought = {"text": "".join(REASONING), "thought": True}
    body["candidates"][0]["content"]["parts"] = [thought, {"text": "".join(TEXT)}, call]
    error = _encode({"error": {"code": 500, "message": MESSAGE, "status": "INTERNAL"}})
    return _answer(rows, body, b"data: " + error + b"\r\n\r\n", error, marked=False)


def _answer(
    rows: list[tuple[Kind, bytes]], body: Any, error_frame: bytes, error_body: bytes, *, marked: bool = True
) -> Answer:
    kinds, frames = tuple(kind for kind, _ in rows), tuple(frame for _, frame in rows)
    return Answer(frames, kinds, _encode(body), error_frame, error_body, marked)


ANSWERS: dict[str, Answer] = {
    "openai-chat": _chat(), "responses": _responses(), "anthropic": _anthropic(), "gemini": _gemini(),
}  # fmt: skip
