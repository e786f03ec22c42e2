"""Turns for the page to show: an upstream whose models are streams of `wires`, and clients that ask for them."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from penstock.testing import Reply
from tests.gateway.running import answer
from tests.inspector import wires

if TYPE_CHECKING:
    from penstock.testing import Seen
    from tests.inspector.conftest import Inspected

LIMIT = 30.0
SSE = {"content-type": "text/event-stream"}
STREAMS = {"interleaved": wires.interleaved, "hostile": wires.hostile, "many": wires.many}
PACES = {"slow": 0.02, "live": 0.06}
CLIENTS = {
    "anthropic": ("/v1/messages", "claude-cli/9.9"), "openai-chat": ("/v1/chat/completions", "OpenAI/Python 9.9"),
    "responses": ("/v1/responses", "OpenAI/JS 9.9"),
}  # fmt: skip


def wired(seen: Seen) -> Reply:
    """What the upstream says: `interleaved`, `slow-interleaved` …; anything else is a packaged script."""
    model = str(seen.json.get("model", "")) if seen.body else ""
    pace, _, name = model.rpartition("-")
    if model in ("overloaded", "limited"):
        return Reply.refusing("anthropic", 529 if model == "overloaded" else 429, "the provider has too much to do")
    if model == "broken":
        return Reply(tuple(wires.interleaved()), headers=SSE).cut(after=20_000)
    make = STREAMS.get(name or model)
    if make is None:
        return answer(seen)
    return Reply(tuple(make()), headers=SSE, pace=PACES.get(pace, 0))


def send(
    running: Inspected, model: str, client: str = "anthropic", *, stream: bool = True, text: str = "Open?"
) -> bytes:
    """One turn, from its beginning to its end; what the client got."""
    path, name = CLIENTS[client]
    body: dict[str, Any] = {"model": model, "stream": stream, "max_tokens": 2000}
    message = {"role": "user", "content": text}
    body |= {"input": text} if client == "responses" else {"messages": [message]}
    if client == "responses":
        body.pop("max_tokens")
    headers = {"content-type": "application/json", "user-agent": name}
    request = urllib.request.Request(running.url + path, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=LIMIT) as reply:
            return bytes(reply.read())
    except urllib.error.HTTPError as refused:
        return refused.read()


def sending(running: Inspected, model: str, client: str = "anthropic") -> threading.Thread:
    """The same in a thread of its own: the page is looked at meanwhile."""
    thread = threading.Thread(target=send, args=(running, model, client), daemon=True)
    thread.start()
    return thread
