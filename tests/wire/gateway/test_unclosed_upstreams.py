"""A provider ends its answer but keeps the connection open: the client still gets the end."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from penstock.testing import Reply
from tests.support.client_requests import ASKING
from tests.support.gateway import gateway
from tests.support.openresponses import until
from tests.support.stream_frames import (
    ANTHROPIC_OPENING,
    CHAT_OPENING,
    GEMINI_OPENING,
    RESPONSES_OPENING,
    chat,
    said,
    sse,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


GRACE = 2.0
END_MARKS = {"openai-chat": "data: [DONE]", "anthropic": 'data: {"type":"message_stop"}'}
SLACK = 2.5  # seconds that a busy machine may add
ERROR = sse({"type": "error", "sequence_number": 3, "code": "server_error", "message": "it exploded"}, "error")
DELTA = sse(
    {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": "a"}
)
FINISHED = {
    "openai-chat": CHAT_OPENING + said("a") + chat({"finish_reason": "stop"}),
    "anthropic": ANTHROPIC_OPENING
    + sse({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}})
    + sse({"type": "content_block_stop", "index": 0})
    + sse({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}}),
    "gemini": GEMINI_OPENING + sse({"candidates": [{"content": {"parts": []}, "finishReason": "STOP", "index": 0}]}),
    "cohere": sse({"type": "message-start", "id": "i", "delta": {"message": {"role": "assistant"}}})
    + sse({"type": "content-start", "index": 0, "delta": {"message": {"content": {"type": "text", "text": ""}}}})
    + sse({"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "a"}}}})
    + sse({"type": "message-end", "delta": {"finish_reason": "COMPLETE"}}),
    "ollama": b'{"model":"m","message":{"role":"assistant","content":"a"},"done":false}\n'
    b'{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}\n',
}


@contextmanager
def open_socket(protocol: str, data: bytes) -> Iterator[Any]:
    kind = "application/x-ndjson" if protocol == "ollama" else "text/event-stream"
    reply = Reply(chunks=(data, b"x"), headers={"content-type": kind}).stall(after=len(data))
    with gateway(lambda _: reply, serve={"ping": 60}) as (running, up):
        yield running, up


async def _asked(url: str, client: str, model: str) -> tuple[str, float, float]:
    """The whole answer, and when its last bytes and its end came, in seconds since its first."""
    path, body = ASKING[client](model, True)
    async with aiohttp.ClientSession() as session, session.post(url + path, json=body) as answer:
        text, last = await answer.content.readany(), time.monotonic()
        first = last
        while chunk := await answer.content.readany():
            text, last = text + chunk, time.monotonic()
        return text.decode(), last - first, time.monotonic() - first


@pytest.mark.parametrize("client", ["openai-chat", "anthropic", "gemini", "vscode", "responses", "uistream", "ollama"])
def test_an_error_of_responses_is_told_at_once(client: str) -> None:
    with open_socket("responses", RESPONSES_OPENING + DELTA + ERROR) as (running, up):
        text, told, ended = asyncio.run(asyncio.wait_for(_asked(running.url, client, "responses/text"), 8))
        assert "it exploded" in text
        assert told < 0.1 + SLACK
        assert ended < 0.1 + SLACK
        until(up.requests[0].disconnected.is_set)  # the connection is released
        [row] = running.rows()
        assert (row.status, row.fault_message) == ("fault", "it exploded")
    if client == "responses":
        assert text.count("it exploded") == 1  # passed through, and not told twice


FAILED = {
    "openai-chat": CHAT_OPENING + said("a") + sse({"error": {"message": "it exploded", "code": 500}}),
    "anthropic": ANTHROPIC_OPENING
    + sse({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}})
    + sse({"type": "error", "error": {"type": "api_error", "message": "it exploded"}}, "error"),
    "gemini": GEMINI_OPENING + sse({"error": {"code": 500, "message": "it exploded", "status": "INTERNAL"}}),
    "cohere": FINISHED["cohere"][: FINISHED["cohere"].index(b'data: {"type":"message-end"')]
    + sse({"type": "message-end", "delta": {"finish_reason": "ERROR", "error": "it exploded"}}),
    "ollama": b'{"model":"m","message":{"role":"assistant","content":"a"},"done":false}\n{"error":"it exploded"}\n',
}


@pytest.mark.parametrize(
    ("protocol", "client"),
    [
        (protocol, client)
        for protocol in FAILED
        for client in ("openai-chat", "anthropic", "responses", "vscode", "uistream")
        if (protocol, client) != ("ollama", "responses")  # such a client's requests go to Ollama's own Responses API
    ],
)
def test_an_error_in_band_is_told_at_once_though_the_connection_stays_open(protocol: str, client: str) -> None:
    with open_socket(protocol, FAILED[protocol]) as (running, up):
        text, told, ended = asyncio.run(asyncio.wait_for(_asked(running.url, client, f"{protocol}/text"), 8))
        times = 3 if client == "responses" else 1  # flat, nested, and in `response.failed`
        assert text.count("it exploded") == times
        assert max(told, ended) < SLACK
        until(up.requests[0].disconnected.is_set)
        [row] = running.rows()
        assert (row.status, row.fault_message) == ("fault", "it exploded")


@pytest.mark.parametrize("client", ["openai-chat", "anthropic", "vscode"])
@pytest.mark.parametrize("protocol", FINISHED)
def test_a_finished_answer_ends_though_the_connection_stays_open(protocol: str, client: str) -> None:
    with open_socket(protocol, FINISHED[protocol]) as (running, up):
        text, _, ended = asyncio.run(asyncio.wait_for(_asked(running.url, client, f"{protocol}/text"), 8))
        assert ended < GRACE + SLACK
        if client in END_MARKS:  # passed through or translated: the client has an end that it knows
            assert text.count(END_MARKS[client]) == 1
            assert text.rstrip().endswith(END_MARKS[client])
        until(up.requests[0].disconnected.is_set)
        [row] = running.rows()
        assert (row.status, row.finish) == ("finish", "stop")


UNFINISHED = {
    "openai-chat": [
        b"data: [DONE]\n", b"data: [DONE]",
        b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":9,"total_tokens":16}}\n',
        b": a comment\n", b'data: {"id":"c","cho',
    ],
    "anthropic": [b'event: message_stop\ndata: {"type":"message_stop"}\n', b"event: message_stop\n", b": a comment"],
}  # fmt: skip


@pytest.mark.parametrize(("protocol", "tail"), [(name, tail) for name, row in UNFINISHED.items() for tail in row])
def test_the_last_frame_is_no_part_of_the_one_before(protocol: str, tail: bytes) -> None:
    """A provider stops in the middle of a frame after it has said how the answer ends."""
    with open_socket(protocol, FINISHED[protocol] + tail) as (running, _):
        text, _, _ = asyncio.run(asyncio.wait_for(_asked(running.url, protocol, f"{protocol}/text"), 8))
    frames = [frame.splitlines() for frame in text.split("\n\n") if frame]
    data = [[line for line in lines if line.startswith("data")] for lines in frames]
    assert all(len(lines) <= 1 for lines in data)
    assert [END_MARKS[protocol] in lines for lines in frames].count(True) == 1
    for lines in data:
        assert not lines or lines[0] == "data: [DONE]" or json.loads(lines[0][6:])


def test_usage_that_comes_after_the_finish_is_counted() -> None:
    usage = sse({"id": "c", "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 9, "total_tokens": 16}})
    reply = Reply(
        chunks=(FINISHED["openai-chat"], usage + b"data: [DONE]\n\n"), headers={"content-type": "text/event-stream"}
    ).slow(pace=0.3)
    with gateway(lambda _: reply) as (running, _):
        asyncio.run(_asked(running.url, "anthropic", "openai-chat/text"))
        [row] = running.rows()
        assert (row.finish, row.input, row.output) == ("stop", 7, 9)


@pytest.mark.parametrize("client", ["openai-chat", "anthropic"])
def test_malformed_frames_are_in_the_journal(client: str, caplog: pytest.LogCaptureFixture) -> None:
    garbage = b'data: {"id":"c","choi\xff\xfe<<<\n\n'
    body = (
        CHAT_OPENING + said("a") + garbage + said("b") + garbage + chat({"finish_reason": "stop"}) + b"data: [DONE]\n\n"
    )
    reply = Reply(chunks=(body,), headers={"content-type": "text/event-stream"})
    with gateway(lambda _: reply) as (running, _):
        text, _, _ = asyncio.run(_asked(running.url, client, "openai-chat/text"))
        [row] = running.rows()
    assert (row.status, row.finish, row.malformed) == ("finish", "stop", 2)
    for line in text.splitlines():
        if line.startswith("data: {"):
            json.loads(line[6:])
    assert len([one for one in caplog.records if "malformed" in one.getMessage()]) == 1


def test_silence_is_measured_from_the_last_byte() -> None:
    """A chunk early in an interval does not delay the keep-alive beyond the interval."""
    every = 1.0

    async def signs(url: str) -> list[float]:
        path, body = ASKING["openai-chat"]("openai-chat/text", True)
        came: list[float] = []
        async with aiohttp.ClientSession() as session, session.post(url + path, json=body) as answer:
            while len(came) < 4:
                await answer.content.readany()
                came.append(time.monotonic())
        return came

    chunks = (CHAT_OPENING, said("a"), b"x")
    reply = Reply(chunks=chunks, headers={"content-type": "text/event-stream"}).slow(pace=0.2)
    reply = reply.stall(after=len(CHAT_OPENING) + len(said("a")))
    with gateway(lambda _: reply, serve={"ping": every}) as (running, _):
        came = asyncio.run(asyncio.wait_for(signs(running.url), 8))
    gaps = [after - before for before, after in pairwise(came)][-2:]
    assert all(every * 0.9 < gap < every * 1.5 for gap in gaps), gaps
