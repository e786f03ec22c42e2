"""Turns for the page to show: an upstream whose models are those of `sample_streams`, and clients that ask for them."""

from __future__ import annotations

import json
import threading
from functools import partial
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any

from penstock.testing import Reply
from tests.support import sample_streams
from tests.support.gateway import answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.testing import ReceivedRequest
    from tests.support.inspector import Inspected

LIMIT = 120.0
SLOWLY = "Take your time."
SSE = {"content-type": "text/event-stream"}
STREAMS: dict[str, Callable[[], list[bytes]]] = {
    "interleaved": sample_streams.interleaved, "hostile": sample_streams.hostile, "many": sample_streams.many,
    "fifty": partial(sample_streams.many, 50_000),
    **{name: partial(sample_streams.interleaved, name) for name in ("claude-opus-4-5", "claude-sonnet-4-5")},
}  # fmt: skip
PACES = {"slow": 0.02, "live": 0.06}
CLIENTS = {
    "anthropic": ("/v1/messages", "claude-cli/9.9"), "openai-chat": ("/v1/chat/completions", "OpenAI/Python 9.9"),
    "responses": ("/v1/responses", "OpenAI/JS 9.9"),
}  # fmt: skip


def wired(seen: ReceivedRequest) -> Reply:
    """What the upstream says: `interleaved`, `slow-interleaved` …; anything else is a packaged script.

    Asked to take its time, it does, as a model would.
    """
    reply = _wired(seen)
    if SLOWLY.encode() not in seen.body:
        return reply
    number = len(seen.body) % 7
    return reply.delayed(0.3 + 0.13 * number).slow(0.012 + 0.006 * number)


def _wired(seen: ReceivedRequest) -> Reply:
    model = str(seen.json.get("model", "")) if seen.body else ""
    pace, _, name = model.partition("-")
    if model in ("overloaded", "limited"):
        return Reply.error("anthropic", 529 if model == "overloaded" else 429, "the provider has too much to do")
    if model == "broken":
        return Reply(tuple(sample_streams.interleaved()), headers=SSE).disconnect(after=20_000)
    make = STREAMS.get(model) or STREAMS.get(name)
    if make is None:
        return answer(seen)
    return Reply(tuple(make()), headers=SSE, pace=PACES.get(pace, 0))


def send(
    running: Inspected, model: str, client: str = "anthropic", *, stream: bool = True, text: str = "Open?"
) -> bytes:
    """One turn, from its beginning to its end; what the client got."""
    return send_named(running, model, client, stream=stream, text=text)[1]


def send_named(
    running: Inspected, model: str, client: str = "anthropic", *, stream: bool = True, text: str = "Open?"
) -> tuple[str, bytes]:
    """The same, with the turn's id."""
    path, name = CLIENTS[client]
    body: dict[str, Any] = {"model": model, "stream": stream, "max_tokens": 2000}
    message = {"role": "user", "content": text}
    body |= {"input": text} if client == "responses" else {"messages": [message]}
    if client == "responses":
        body.pop("max_tokens")
    headers = {"content-type": "application/json", "user-agent": name}
    connection = HTTPConnection(running.url.removeprefix("http://"), timeout=LIMIT)
    try:
        connection.request("POST", path, json.dumps(body), headers)
        response = connection.getresponse()
        return response.headers["x-request-id"], response.read()
    finally:
        connection.close()


def sending(running: Inspected, model: str, client: str = "anthropic", text: str = "Open?") -> threading.Thread:
    """The same in a thread of its own: the page is looked at meanwhile."""
    thread = threading.Thread(target=send, args=(running, model, client), kwargs={"text": text}, daemon=True)
    thread.start()
    return thread
