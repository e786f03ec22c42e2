"""Large requests are read and converted in a thread: the event loop serves others meanwhile."""

from __future__ import annotations

import asyncio
import contextvars
import json
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock._gateway.endpoints import LARGE_BODY, read_request, turn_endpoints
from penstock._gateway.request_body import ConversionThread
from penstock.testing import Reply, play, scripted
from tests.support import process
from tests.support.gateway import gateway
from tests.support.openresponses import LIMIT, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.testing import ReceivedRequest

MB = 10**6
CODE = 'def add(a, b):\n    """Adds two numbers, and says so."""\n    return a + b  # näher\n' * 8
CONFIG = """
[serve]
pace = 0.0
[providers.chat]
like = "openai-compatible"
base_url = "{url}/chat"
key = "sk-up-000000"
[providers.messages]
like = "anthropic"
base_url = "{url}/messages"
key = "sk-up-000000"
"""


def conversation(size: int, model: str) -> bytes:
    """A long agent session as Messages, with tools that were called and answered."""
    rows: list[Any] = []
    while len(rows) * len(CODE) < size:
        call = f"toolu_{len(rows)}"
        tool = {"type": "tool_use", "id": call, "name": "read", "input": {"path": call, "text": CODE[:300]}}
        rows += [
            {"role": "user", "content": [{"type": "text", "text": CODE}]},
            {"role": "assistant", "content": [{"type": "text", "text": CODE}, tool]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": CODE}]},
            {"role": "assistant", "content": "Done."},
        ]
    tools = [{"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}]
    return json.dumps({"model": model, "stream": True, "max_tokens": 9, "tools": tools, "messages": rows}).encode()


def paced(seen: ReceivedRequest) -> Reply:
    """The small stream takes its time; the answer to a large request comes at once."""
    protocol = "anthropic" if seen.path.startswith("/messages") else "openai-chat"
    reply = Reply.of(protocol, play("text"), stream=True)
    return reply.slow(0.02) if len(seen.body) < MB else reply


@pytest.mark.parametrize(
    ("path", "model"),
    [("/v1/messages", "chat/text"), ("/v1/messages", "messages/text"), ("/v1/messages/count_tokens", "replay/text")],
)
def test_a_small_stream_keeps_its_pace_beside_a_large_body(tmp_path: Path, path: str, model: str) -> None:
    body = conversation(16 * MB, model)
    assert 16 * MB < len(body) < 20 * MB
    with scripted(paced) as up, process.gateway(tmp_path, CONFIG.format(url=up.url)) as running:
        small = {"model": "chat/text", "stream": True, "messages": [{"role": "user", "content": "Hi."}]}
        gaps: list[float] = []
        over = threading.Event()

        def listen() -> None:
            with httpx.Client(base_url=running.base, timeout=LIMIT) as client:
                while not over.is_set():
                    with client.stream("POST", "/v1/chat/completions", json=small) as stream:
                        gaps.extend(_gaps(stream))

        listening = threading.Thread(target=listen)
        listening.start()
        try:
            until(lambda: len(gaps) > 10)  # also warms up what is done once
            del gaps[:]
            began = time.monotonic()
            assert httpx.post(f"{running.base}{path}", content=body, timeout=LIMIT).status_code == 200
            took, worst = time.monotonic() - began, max(gaps)
        finally:
            over.set()
            listening.join(LIMIT)
        # On the event loop, the large body would hold the small stream for most of its own time.
        assert worst < took / 2, f"{worst:.2f} of {took:.2f} seconds without a chunk\n{running.said}"


def _gaps(stream: httpx.Response) -> Iterator[float]:
    last = time.monotonic()
    for _ in stream.iter_raw():
        now = time.monotonic()
        yield now - last
        last = now


def test_who_leaves_while_a_body_is_read_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread finishes what it has begun, and is free for the next request."""
    began, go = threading.Event(), threading.Event()

    def waiting(visit: Any, protocol: str) -> Any:
        if len(visit.raw) > LARGE_BODY:
            began.set()
            assert go.wait(LIMIT)
        return read_request(visit, protocol)

    monkeypatch.setattr(turn_endpoints, "read_request", waiting)
    said = [{"role": "user", "content": "x" * (LARGE_BODY + 1)}]
    asked = {"model": "openai-chat/text", "messages": said}
    with gateway() as (running, up):
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{running.url}/v1/chat/completions", json=asked, timeout=0.5)
        assert began.is_set()
        small = {**asked, "messages": [{"role": "user", "content": "Hi."}]}
        assert httpx.post(f"{running.url}/v1/chat/completions", json=small, timeout=LIMIT).status_code == 200
        until(lambda: running.app.services.body_bytes.used == 0)
        assert sorted(row.status for row in running.rows()) == ["cancelled", "finish"]
        go.set()
        assert httpx.post(f"{running.url}/v1/chat/completions", json=asked, timeout=LIMIT).status_code == 200
        assert len(up.requests) == 2  # the first was never sent


def test_a_large_body_that_is_wrong_is_refused_as_a_small_one() -> None:
    with gateway() as (running, _):
        for size in (10, LARGE_BODY + 1):
            asked = {"model": "openai-chat/text", "messages": "y" * size}
            refused = httpx.post(f"{running.url}/v1/chat/completions", json=asked, timeout=LIMIT)
            assert refused.status_code == 400
            assert "messages" in refused.json()["error"]["message"]
        broken = httpx.post(f"{running.url}/v1/chat/completions", content=b"{" * (LARGE_BODY + 1), timeout=LIMIT)
        assert broken.status_code == 400


# ── the thread ────────────────────────────────────────────────────────────────────────────────────

NAME: contextvars.ContextVar[str] = contextvars.ContextVar("NAME")


def test_work_sees_the_context_of_its_caller_in_another_thread() -> None:
    async def main() -> None:
        thread = ConversionThread()
        NAME.set("mine")
        assert await thread.run(lambda: (NAME.get(), threading.get_ident() == threading.main_thread().ident)) == (
            "mine",
            False,
        )
        with pytest.raises(ZeroDivisionError):
            await thread.run(lambda: 1 // 0)
        thread.close()

    asyncio.run(main())


def test_work_whose_request_is_cancelled_is_not_begun() -> None:
    async def main() -> None:
        thread, go, done = ConversionThread(), threading.Event(), list[int]()
        first = asyncio.create_task(thread.run(lambda: go.wait(LIMIT)))
        waiting = [asyncio.create_task(thread.run(partial(done.append, number))) for number in range(3)]
        await asyncio.sleep(0)
        first.cancel()  # it runs on, and nobody else is let in meanwhile
        waiting[1].cancel()
        await asyncio.sleep(0)
        assert done == []
        go.set()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert done == [0, 2]
        thread.close()

    asyncio.run(main())
