"""A provider ends its answer but keeps the connection open: the client still gets the end."""

from __future__ import annotations

import asyncio
import json
import time
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
    from collections.abc import Iterable, Iterator

    from penstock.testing import ReceivedRequest, Upstream
    from tests.support.gateway import Running


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


def stays_open(protocol: str, data: bytes) -> Reply:
    kind = "application/x-ndjson" if protocol == "ollama" else "text/event-stream"
    return Reply(chunks=(data, b"x"), headers={"content-type": kind}).stall(after=len(data))


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Running, Upstream]]:
    with gateway(Reply.no_response(), serve={"ping": 60}, breaker={"failures": 10**9}) as found:
        yield found


class Heard:
    """What a client got, when its last bytes and its end came, in seconds since its first; the row in the journal."""

    def __init__(self, text: str, told: float, ended: float, row: Any) -> None:
        self.text, self.told, self.ended, self.row = text, told, ended, row


def ask_all(
    both: tuple[Running, Upstream], answers: dict[str, bytes], cells: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], Heard]:
    """Have clients ask upstreams (protocol, client) all at once. The upstreams keep their connections open; they are
    released afterwards.
    """
    running, up = both
    before = len(up.requests)

    def answer(seen: ReceivedRequest) -> Reply:
        protocol = seen.path.lstrip("/").partition("/")[0]
        return stays_open(protocol, answers[protocol])

    async def scene() -> list[tuple[str, float, float]]:
        async with asyncio.timeout(12):
            asking = [_asked(running.url, client, f"{protocol}/{client}") for protocol, client in chosen]
            return await asyncio.gather(*asking)

    chosen = list(cells)
    up.script(answer)
    heard = asyncio.run(scene())
    seen = up.requests[before:]
    assert len(seen) == len(chosen)
    for one in seen:
        until(one.disconnected.is_set)
    running.settle()
    rows = {row.asked: row for row in reversed(running.rows())}
    return {
        (protocol, client): Heard(*found, rows[f"{protocol}/{client}"])
        for (protocol, client), found in zip(chosen, heard, strict=True)
    }


async def _asked(url: str, client: str, model: str) -> tuple[str, float, float]:
    """The whole answer, and when its last bytes and its end came, in seconds since its first."""
    path, body = ASKING[client](model, True)
    async with aiohttp.ClientSession() as session, session.post(url + path, json=body) as answer:
        text, last = await answer.content.readany(), time.monotonic()
        first = last
        while chunk := await answer.content.readany():
            text, last = text + chunk, time.monotonic()
        return text.decode(), last - first, time.monotonic() - first


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


def test_an_error_in_band_is_told_at_once_though_the_connection_stays_open(both: tuple[Running, Upstream]) -> None:
    responses = {"responses": RESPONSES_OPENING + DELTA + ERROR}
    cells = [
        (protocol, client)
        for protocol in FAILED
        for client in ("openai-chat", "anthropic", "responses", "vscode", "uistream")
        if (protocol, client) != ("ollama", "responses")  # such a client's requests go to Ollama's own Responses API
    ]
    clients = ("openai-chat", "anthropic", "gemini", "vscode", "responses", "uistream", "ollama")
    found = ask_all(both, FAILED | responses, [*cells, *(("responses", client) for client in clients)])
    problems = []
    for cell, one in found.items():
        times = one.text.count("it exploded")
        # Flat, nested, and in `response.failed`; what is passed through is not told twice.
        wanted = 1 if cell[1] != "responses" or cell[0] == "responses" else 3
        told = times == wanted if cell[0] != "responses" or cell[1] == "responses" else times > 0
        if not told or max(one.told, one.ended) > SLACK or (one.row.status, one.row.fault_message) != (
            "fault", "it exploded",
        ):  # fmt: skip
            problems.append((cell, times, one.told, one.ended, one.row.status, one.row.fault_message))
    assert problems == []


def test_a_finished_answer_ends_though_the_connection_stays_open(both: tuple[Running, Upstream]) -> None:
    cells = [(protocol, client) for protocol in FINISHED for client in ("openai-chat", "anthropic", "vscode")]
    problems = []
    for cell, one in ask_all(both, FINISHED, cells).items():
        mark = END_MARKS.get(cell[1], "")  # passed through or translated: the client has an end that it knows
        ends = not mark or (one.text.count(mark) == 1 and one.text.rstrip().endswith(mark))
        if not ends or one.ended > GRACE + SLACK or (one.row.status, one.row.finish) != ("finish", "stop"):
            problems.append((cell, one.text, one.ended, one.row.status, one.row.finish))
    assert problems == []


UNFINISHED = {
    "openai-chat": [
        b"data: [DONE]\n", b"data: [DONE]",
        b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":9,"total_tokens":16}}\n',
        b": a comment\n", b'data: {"id":"c","cho',
    ],
    "anthropic": [b'event: message_stop\ndata: {"type":"message_stop"}\n', b"event: message_stop\n", b": a comment"],
}  # fmt: skip


def test_the_last_frame_is_no_part_of_the_one_before(both: tuple[Running, Upstream]) -> None:
    """A provider stops in the middle of a frame after it has said how the answer ends."""
    running, up = both
    tails = [(protocol, tail) for protocol, row in UNFINISHED.items() for tail in row]

    def answer(seen: ReceivedRequest) -> Reply:
        protocol, tail = tails[int(seen.json["model"])]
        return stays_open(protocol, FINISHED[protocol] + tail)

    async def scene() -> list[tuple[str, float, float]]:
        async with asyncio.timeout(12):
            asking = [_asked(running.url, name, f"{name}/{number}") for number, (name, _) in enumerate(tails)]
            return await asyncio.gather(*asking)

    up.script(answer)
    for (protocol, tail), (text, _, _) in zip(tails, asyncio.run(scene()), strict=True):
        frames = [frame.splitlines() for frame in text.split("\n\n") if frame]
        data = [[line for line in lines if line.startswith("data")] for lines in frames]
        assert all(len(lines) <= 1 for lines in data), tail
        assert [END_MARKS[protocol] in lines for lines in frames].count(True) == 1, tail
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
