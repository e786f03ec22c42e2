"""Small streams written for the oracles' own tests: each says the same few things in its protocol's words."""

from __future__ import annotations

from typing import Any

from tests.oracles import wire
from tests.oracles.outcome import Outcome

Payload = dict[str, Any]

SAID = Outcome(
    text="See there.",
    reasoning="Hm.",
    calls=[("t", "look", {"at": [1, 2]})],
    sources=[("http://p.test", "P")],
    input=5,
    output=9,
)
"""What each of them says, less the finish and the usage object, which are the protocol's own."""


def events(*payloads: Any, named: bool = False, end: bytes = b"") -> bytes:
    return wire.rewrap(list(payloads), named=named) + end


def chat(delta: Payload, finish: str | None = None, **top: Any) -> Payload:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], **top}


def fragment(index: int, arguments: str, **more: Any) -> Payload:
    name = {"name": more.pop("name")} if "name" in more else {}
    return {"tool_calls": [{"index": index, **more, "function": {**name, "arguments": arguments}}]}


def chat_stream() -> bytes:
    return events(
        chat({"role": "assistant", "content": ""}, citations=["http://p.test"], search_results=[_PAGE]),
        chat({"reasoning_content": "H"}),
        chat({"reasoning": "m."}),
        chat({"content": "See "}),
        chat({"content": "there."}),
        chat(fragment(0, "", id="t", type="function", name="look")),
        chat(fragment(0, '{"at":')),
        chat(fragment(0, "[1,2]}")),
        chat({}, "tool_calls"),
        chat({}, choices=[], usage={"prompt_tokens": 5, "completion_tokens": 9, "total_tokens": 14}),
        end=b"data: [DONE]\n\n",
    )


def block(index: int, start: Payload, *deltas: Payload) -> list[Payload]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def message(*blocks: list[Payload], finish: str = "tool_use") -> bytes:
    start: Payload = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "content": []}
    start |= {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 5, "output_tokens": 1}}
    delta = {"stop_reason": finish, "stop_sequence": None}
    return events(
        {"type": "message_start", "message": start},
        *(payload for each in blocks for payload in each),
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
        named=True,
    )


def message_stream() -> bytes:
    citation = {"type": "web_search_result_location", **_PAGE, "cited_text": "c", "encrypted_index": "e"}
    return message(
        block(0, {"type": "thinking", "thinking": "", "signature": ""}, {"type": "thinking_delta", "thinking": "Hm."}),
        block(
            1,
            {"type": "text", "text": ""},
            {"type": "text_delta", "text": "See "},
            {"type": "text_delta", "text": "there."},
            {"type": "citations_delta", "citation": citation},
        ),
        block(2, {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
        block(
            3,
            {"type": "tool_use", "id": "t", "name": "look", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"at":'},
            {"type": "input_json_delta", "partial_json": "[1,2]}"},
        ),
    )


def item(index: int, bare: Payload, done: Payload, *between: Payload) -> list[Payload]:
    place = {"output_index": index, "item_id": done["id"]}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": {**done, **bare}},
        *({**event, **place} for event in between),
        {"type": "response.output_item.done", "output_index": index, "item": done},
    ]


def response_stream() -> bytes:
    empty: Payload = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    note = {"type": "url_citation", **_PAGE, "start_index": 0, "end_index": 3}
    said = {**empty, "text": "See there.", "annotations": [note]}
    thought: Payload = {"id": "r", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
    text: Payload = {"id": "x", "type": "message", "role": "assistant", "status": "completed", "content": [said]}
    call: Payload = {"id": "f", "type": "function_call", "call_id": "t", "name": "look", "status": "completed"}
    call |= {"arguments": '{"at":[1,2]}'}
    base: Payload = {"id": "q", "object": "response", "created_at": 1, "model": "m", "status": "in_progress"}
    base |= {"output": [], "usage": None}
    final = {**base, "status": "completed", "output": [thought, text, call], "usage": RESPONSE_USAGE}
    at = {"content_index": 0}
    rows = [
        {"type": "response.created", "response": base},
        *item(0, {"summary": []}, thought),
        *item(
            1,
            {"content": []},
            text,
            {"type": "response.content_part.added", **at, "part": empty},
            {"type": "response.output_text.delta", **at, "delta": "See ", "logprobs": []},
            {"type": "response.output_text.delta", **at, "delta": "there.", "logprobs": []},
            {"type": "response.output_text.done", **at, "text": "See there.", "logprobs": []},
        ),
        *item(
            2,
            {"arguments": ""},
            call,
            {"type": "response.function_call_arguments.delta", "delta": '{"at":'},
            {"type": "response.function_call_arguments.delta", "delta": "[1,2]}"},
        ),
        {"type": "response.completed", "response": final},
    ]
    return events(*({**row, "sequence_number": number} for number, row in enumerate(rows)), named=True)


def candidate(*parts: Payload, **more: Any) -> Payload:
    return {"candidates": [{"index": 0, "content": {"role": "model", "parts": list(parts)}, **more}]}


def gemini_stream() -> bytes:
    ground = {"groundingChunks": [{"web": {"uri": "http://p.test", "title": "P"}}]}
    call = {"functionCall": {"id": "t", "name": "look", "args": {"at": [1, 2]}}}
    return events(
        candidate({"text": "Hm.", "thought": True}),
        {**candidate({"text": "See "}), "usageMetadata": {"promptTokenCount": 5}},
        candidate({"text": "there."}, groundingMetadata=ground),
        {**candidate(call, finishReason="STOP"), "usageMetadata": {"candidatesTokenCount": 9}},
    )


def expected_parts() -> list[Payload]:
    usage = {"inputTokens": {"total": 5}, "outputTokens": {"total": 9}, "raw": {"in": 5}}
    return [
        {"type": "reasoning-delta", "id": "0", "delta": "Hm."},
        {"type": "text-delta", "id": "1", "delta": "See "},
        {"type": "text-delta", "id": "1", "delta": "there."},
        {"type": "source", "sourceType": "url", "id": "s", **_PAGE},
        {"type": "tool-call", "toolCallId": "p", "toolName": "web", "input": "{}", "providerExecuted": True},
        {"type": "tool-call", "toolCallId": "t", "toolName": "look", "input": '{"at":[1,2]}'},
        {"type": "finish", "finishReason": {"unified": "tool-calls", "raw": "tool_use"}, "usage": usage},
    ]


RESPONSE_USAGE = {"input_tokens": 5, "output_tokens": 9, "total_tokens": 14}
_PAGE = {"url": "http://p.test", "title": "P"}
