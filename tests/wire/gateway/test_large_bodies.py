"""Large requests are read and converted in a thread: the event loop serves others meanwhile."""

from __future__ import annotations

import json
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import httpx

from penstock.testing import Reply, play, scripted
from tests.support import process
from tests.support.client_requests import metric
from tests.support.gateway import gateway
from tests.support.openresponses import LIMIT, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.testing import ReceivedRequest

LARGE_BODY = 256 * 1024  # bytes beyond which a thread reads a body: docs/limits.md
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


def test_a_small_stream_keeps_its_pace_beside_a_large_body(tmp_path: Path) -> None:
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
            for path, model in (
                ("/v1/messages", "chat/text"), ("/v1/messages", "messages/text"),
                ("/v1/messages/count_tokens", "replay/text"),
            ):  # fmt: skip
                body = conversation(8 * MB, model)
                del gaps[:]
                began = time.monotonic()
                assert httpx.post(f"{running.base}{path}", content=body, timeout=LIMIT).status_code == 200
                took, worst = time.monotonic() - began, max(gaps)
                # On the event loop, the large body would hold the small stream for most of its own time.
                assert worst < took / 2, f"{path}: {worst:.2f} of {took:.2f} seconds without a chunk\n{running.said}"
        finally:
            over.set()
            listening.join(LIMIT)


def _gaps(stream: httpx.Response) -> Iterator[float]:
    last = time.monotonic()
    for _ in stream.iter_raw():
        now = time.monotonic()
        yield now - last
        last = now


def test_who_leaves_while_a_body_is_read_leaves_nothing_behind() -> None:
    """The thread finishes what it has begun, and is free for the next request."""
    body = conversation(4 * MB, "openai-chat/text")
    with gateway() as (running, up):
        where = httpx.URL(running.url)
        head = f"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        for _ in range(2):
            with socket.create_connection((where.host, where.port or 0), timeout=LIMIT) as wire:
                wire.sendall(head + body)
                until(lambda: metric(running.url, "body_bytes") >= len(body))
        said = [{"role": "user", "content": "Hi."}]
        small = {"model": "openai-chat/text", "messages": said}
        assert httpx.post(f"{running.url}/v1/chat/completions", json=small, timeout=LIMIT).status_code == 200
        until(lambda: metric(running.url, "body_bytes") == 0)
        running.settle()
        assert sorted(row.status for row in running.rows()) == ["cancelled", "cancelled", "finish"]
        assert httpx.post(f"{running.url}/v1/messages", content=body, timeout=LIMIT).status_code == 200
        assert len(up.requests[-1].body) > LARGE_BODY


def test_a_large_body_that_is_wrong_is_refused_as_a_small_one() -> None:
    with gateway() as (running, _):
        for size in (10, LARGE_BODY + 1):
            asked = {"model": "openai-chat/text", "messages": "y" * size}
            refused = httpx.post(f"{running.url}/v1/chat/completions", json=asked, timeout=LIMIT)
            assert refused.status_code == 400
            assert "messages" in refused.json()["error"]["message"]
        broken = httpx.post(f"{running.url}/v1/chat/completions", content=b"{" * (LARGE_BODY + 1), timeout=LIMIT)
        assert broken.status_code == 400
