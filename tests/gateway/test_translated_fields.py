"""Fields of a translated answer that its provider did not give: times, ids, and the form of a call."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import aiohttp

from penstock.testing import Reply
from tests.support.client_requests import ASKING
from tests.support.each_case import each
from tests.support.gateway import gateway
from tests.support.stream_frames import ANTHROPIC_OPENING, GEMINI_OPENING, sse

SSE = {"content-type": "text/event-stream"}
TOLD = {
    "anthropic": ANTHROPIC_OPENING
    + sse({"type": "content_block_stop", "index": 0})
    + sse({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}})
    + sse({"type": "message_stop"}),
    "gemini": GEMINI_OPENING + sse({"candidates": [{"content": {"parts": []}, "finishReason": "STOP", "index": 0}]}),
    "cohere": sse({"type": "message-start", "id": "i", "delta": {"message": {"role": "assistant"}}})
    + sse({"type": "message-end", "delta": {"finish_reason": "COMPLETE"}}),
}


async def ask(url: str, client: str, model: str, *, stream: bool = True, **more: Any) -> str:
    path, body = ASKING[client](model, stream)
    async with aiohttp.ClientSession() as session, session.post(url + path, json={**body, **more}) as answer:
        return await answer.text()


def payloads(text: str) -> list[Any]:
    lines = [line[6:] for line in text.splitlines() if line.startswith("data: {")]
    return [json.loads(line) for line in lines]


@each("client", ["openai-chat", "completions"])
@each("protocol", TOLD)
def test_an_answer_without_a_time_was_created_now(protocol: str, client: str) -> None:
    before = int(time.time())
    with gateway(lambda _: Reply(chunks=(TOLD[protocol],), headers=SSE)) as (running, _):
        told = payloads(asyncio.run(ask(running.url, client, f"{protocol}/text")))
    assert told
    assert all(before <= chunk["created"] <= time.time() for chunk in told)


CUSTOM = b"".join(
    sse(payload)
    for payload in (
        {"type": "response.created", "response": {"id": "resp_1", "object": "response", "status": "in_progress"}},
        {
            "type": "response.output_item.done", "output_index": 0,
            "item": {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "sql", "input": "SELECT 1"},
        },
        {"type": "response.completed", "response": {"id": "resp_1", "object": "response", "status": "completed"}},
    )
)  # fmt: skip


@each("offered", [False, True])
def test_free_text_is_a_custom_call_only_for_clients_that_offered_custom_tools(offered: bool) -> None:
    tools: list[Any] = [{"type": "custom", "custom": {"name": "sql"}}] if offered else []
    with gateway(lambda _: Reply(chunks=(CUSTOM,), headers=SSE)) as (running, _):
        told = payloads(asyncio.run(ask(running.url, "openai-chat", "responses/text", tools=tools)))
    [call] = [call for chunk in told for choice in chunk["choices"] for call in choice["delta"].get("tool_calls", ())]
    if offered:
        assert call["custom"] == {"name": "sql", "input": "SELECT 1"}
    else:
        assert (call["type"], json.loads(call["function"]["arguments"])) == ("function", {"input": "SELECT 1"})


@each("stream", [True, False])
def test_two_equal_answers_of_gemini_have_calls_of_different_ids(stream: bool) -> None:
    part: dict[str, Any] = {"functionCall": {"name": "f", "args": {}}}
    body: dict[str, Any] = {
        "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}]
    }
    data, kind = (sse(body), SSE) if stream else (json.dumps(body).encode(), {"content-type": "application/json"})
    with gateway(lambda _: Reply(chunks=(data,), headers=kind)) as (running, _):
        answers = [asyncio.run(ask(running.url, "anthropic", "gemini/text", stream=stream)) for _ in range(2)]
    ids = {call for text in answers for call in text.split('"') if call.startswith("call_")}
    assert len(ids) == 2
