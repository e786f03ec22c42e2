"""Responses that our server writes, read by h11 as a client at every split: whole, and the same whichever way they take.

Three ways lead to a client: past ASGI, where our own server offers it; past it for chunks only, because somebody has
wrapped `send`; and plain ASGI, because a switch is off or the server is uvicorn as it is.
"""

from __future__ import annotations

import json
import re
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, cast

import h11
import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock import events as ev
from penstock.gateway import App
from penstock.testing import Reply, play, scripted
from tests.support.client_requests import ASKING, post
from tests.support.gateway import Running, answer, config, gateway
from tests.support.http_internals import all_splits, read_with_h11
from tests.support.raw_upstream import exchange, request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.testing import ReceivedRequest, Upstream

LIMIT = 20.0
CONTENT_TYPES = {
    "openai-chat": b"text/event-stream; charset=utf-8", "responses": b"text/event-stream; charset=utf-8",
    "ollama": b"application/x-ndjson", "gemini": b"application/json",
}  # fmt: skip
TEXT = Reply.of("openai-chat", play("text", id="one", model="m", created=7), stream=True)


def at_once(seen: ReceivedRequest) -> Reply:
    reply = answer(seen)
    return replace(reply, chunks=(reply.data,))


class Wrapped:
    """An application whose `send` is not the server's own."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.services = app.services

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def around(message: Any) -> None:
            await send(message)

        await self._app(scope, receive, around)


@pytest.fixture(scope="module")
def ways() -> Iterator[tuple[dict[str, Running], Upstream]]:
    """The same gateway, once for each way."""
    with ExitStack() as stack:
        up = stack.enter_context(scripted(answer))

        def app(**tables: Any) -> App:
            return App(config(up.url, serve={"pace": 0.0}, **tables), env={})

        switched_off = app(features={"direct_send": False, "direct_http": False})
        made = {
            "past ASGI": Running(app()), "chunks past ASGI": Running(cast("App", Wrapped(app()))),
            "switched off": Running(switched_off), "another server": Running(app(), plain=True),
        }  # fmt: skip
        yield {name: stack.enter_context(running) for name, running in made.items()}, up


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Running, Upstream]]:
    with gateway(lambda _: TEXT) as found:
        yield found


def asking(client: str, model: str = "openai-chat/text", *, stream: bool = True, close: bool = False) -> bytes:
    path, body = ASKING[client](model, stream)
    if client == "gemini":
        path = path.partition("?")[0]  # an array, as it was before there were events
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(data)}\r\n"
    return head.encode() + (b"connection: close\r\n" if close else b"") + b"\r\n" + data


class Connection:
    """A connection, and the responses that h11 reads from it: status, headers and body of each."""

    def __init__(self, url: str) -> None:
        where = httpx.URL(url)
        self.socket = socket.create_connection((where.host, where.port or 0), timeout=LIMIT)
        self.reads: list[bytes] = []
        self._client = h11.Connection(h11.CLIENT)

    def read(self, method: str = "POST") -> tuple[int, dict[bytes, bytes], bytes]:
        self._client.send(h11.Request(method=method, target="/", headers=[("host", "x"), ("content-length", "0")]))
        self._client.send(h11.EndOfMessage())
        status, headers, body = 0, dict[bytes, bytes](), b""
        while not isinstance(event := self._client.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                self.reads.append(self.socket.recv(2**16))
                self._client.receive_data(self.reads[-1])
            elif isinstance(event, h11.Response):
                status, headers = event.status_code, dict(event.headers)
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
        self._client.start_next_cycle()
        return status, headers, body


IDS_AND_TIMES = re.compile(rb'(?:resp|msg|rs|fc)_[0-9a-f]+|"(?:created|[a-z]+_at|[a-z_]+_duration)":(?:\d+|"[^"]*")')


def without_ids(body: bytes) -> bytes:
    """A response has ids and times of its own."""
    return IDS_AND_TIMES.sub(b"", body)


@pytest.mark.parametrize("joined", [False, True], ids=["in chunks", "at once"])
@pytest.mark.parametrize("client", CONTENT_TYPES)
def test_a_stream_is_read_at_every_split_and_is_the_same_by_every_way(
    ways: tuple[dict[str, Running], Upstream], client: str, *, joined: bool
) -> None:
    bodies = {}
    ways[1].script(at_once if joined else answer)
    for name, running in ways[0].items():
        for close in (False, True):
            if close:
                data = exchange(running.url, asking(client, close=True))
            else:
                connection = Connection(running.url)
                connection.socket.sendall(asking(client))
                connection.read()
                data = b"".join(connection.reads)
                connection.socket.close()
            cuts = all_splits(data) if len(data) < 2000 else [[data], [data[:300], data[300:]]]
            [message] = {read_with_h11(pieces) for pieces in cuts}
            headers = dict(message.headers)
            assert (message.accepted, message.status) == (True, 200), name
            assert (data.endswith(b"\r\n0\r\n\r\n"), data.count(b"HTTP/1.1 ")) == (True, 1), name
            assert headers[b"content-type"] == CONTENT_TYPES[client]
            assert headers[b"transfer-encoding"] == b"chunked"
            assert headers[b"cache-control"] == b"no-cache, no-transform"
            assert (headers.get(b"connection") == b"close") is close
            assert b"date" in headers
            bodies[name, close] = without_ids(message.body)
    assert len(set(bodies.values())) == 1, bodies


def test_a_complete_response_is_read_at_every_split(ways: tuple[dict[str, Running], Upstream]) -> None:
    asked = {
        "whole": (200, asking("openai-chat", stream=False, close=True)),
        "refused": (404, asking("openai-chat", "nobody/m", close=True)),
        "not JSON": (400, request(b"/v1/chat/completions", b"{")),
        "HEAD": (200, request(b"/healthz", method=b"HEAD")),
        "no content": (204, request(b"/api/chat/c1/stream", method=b"GET")),
    }
    for name, (status, data) in asked.items():
        method = "HEAD" if name == "HEAD" else "POST"
        bodies = set()
        for way, running in ways[0].items():
            answered = exchange(running.url, data)
            [message] = {read_with_h11(pieces, method) for pieces in all_splits(answered)}
            headers = dict(message.headers)
            assert (message.accepted, message.status) == (True, status), (name, way)
            if name == "no content":
                assert (message.body, b"content-length" in headers) == (b"", False)
            elif name == "HEAD":
                assert (message.body, int(headers[b"content-length"])) == (b"", len(b'{"status":"ok"}'))
            else:
                assert int(headers[b"content-length"]) == len(message.body)
            bodies.add(without_ids(message.body))
        assert len(bodies) == 1, bodies


def test_a_value_of_a_provider_that_is_no_header_is_left_out(ways: tuple[dict[str, Running], Upstream]) -> None:
    running, up = ways[0]["past ASGI"], ways[1]
    for value, wanted in (("req_1", "req_1"), ("r\xe9q", None), ("r\x01q", None)):
        up.script(Reply.error("openai-chat", 400, "no").with_headers(x_request_id=value))
        path, body = ASKING["openai-chat"]("openai-chat/text", True)
        answered = post(f"{running.url}{path}", json=body)
        assert answered.headers.get("x-upstream-request-id") == wanted
    up.script(answer)


TEXTS = st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(texts=TEXTS)
def test_any_text_arrives_whole_by_every_way(ways: tuple[dict[str, Running], Upstream], texts: list[str]) -> None:
    deltas = [ev.TextDelta(0, text) for text in texts]
    said: list[ev.AnyEvent] = [ev.Start("one", "m", 7), ev.TextStart(0), *deltas, ev.TextEnd(0), ev.Finish("stop")]
    reply = Reply.of("openai-chat", said, stream=True)
    running, up = ways
    up.script(lambda _: reply)
    try:
        for one in running.values():
            message = read_with_h11([exchange(one.url, asking("ollama", close=True))])
            assert message.accepted
            lines = [json.loads(line) for line in message.body.splitlines()]
            assert "".join(line["message"]["content"] for line in lines) == "".join(texts)
    finally:
        up.script(answer)


# ── one connection ────────────────────────────────────────────────────────────────────────────────


def test_a_head_leaves_with_the_first_chunk(both: tuple[Running, Upstream]) -> None:
    connection = Connection(both[0].url)
    connection.socket.sendall(asking("openai-chat"))
    _, _, body = connection.read()
    assert connection.reads[0].startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"data: " in connection.reads[0]
    assert body.endswith(b"data: [DONE]\n\n")
    connection.socket.close()


def test_requests_in_one_go_are_answered_one_after_the_other(ways: tuple[dict[str, Running], Upstream]) -> None:
    for running in ways[0].values():
        connection = Connection(running.url)
        whole = asking("openai-chat", stream=False)
        connection.socket.sendall(asking("openai-chat") + asking("openai-chat", "nobody/m") + whole + asking("ollama"))
        found = [connection.read() for _ in range(4)]
        assert [status for status, _, _ in found] == [200, 404, 200, 200]
        assert found[0][2].endswith(b"data: [DONE]\n\n")
        assert "error" in json.loads(found[1][2])
        assert json.loads(found[2][2])["object"] == "chat.completion"
        assert json.loads(found[3][2].splitlines()[-1])["done"] is True
        connection.socket.close()


def test_a_client_that_waits_for_100_continue_is_told_to_go_on(ways: tuple[dict[str, Running], Upstream]) -> None:
    for running in ways[0].values():
        head, _, body = asking("openai-chat", close=True).partition(b"\r\n\r\n")
        where = httpx.URL(running.url)
        with socket.create_connection((where.host, where.port or 0), timeout=LIMIT) as wire:
            wire.sendall(head + b"\r\nexpect: 100-continue\r\n\r\n")
            assert wire.recv(2**16) == b"HTTP/1.1 100 Continue\r\n\r\n"
            wire.sendall(body)
            data = b""
            while piece := wire.recv(2**16):
                data += piece
        assert read_with_h11([data]).body.endswith(b"data: [DONE]\n\n")


# ── errors that clients look for in a read of their own ───────────────────────────────────────────


def test_no_keep_alive_comes_between_an_error_and_its_event() -> None:
    """They are sent apart: on a busy machine there is time for a keep-alive in between."""
    events: list[ev.AnyEvent] = [ev.Start("one", "m", 7), ev.TextStart(0), ev.TextDelta(0, "a")]
    reply = Reply.of("openai-chat", [*events, ev.Fault("overloaded", "too much")], stream=True)

    def failing(_: ReceivedRequest) -> Reply:
        return reply

    with gateway(failing, serve={"pace": 0.0, "ping": 0.02}) as (running, _):
        path, body = ASKING["gemini"]("openai-chat/text", True)
        answered = post(f"{running.url}{path}", json=body).text
    frames = [frame for frame in answered.split("\n\n") if frame.strip()]
    bare = next(number for number, frame in enumerate(frames) if frame.startswith("{"))
    assert json.loads(frames[bare])["error"]
    assert json.loads(frames[bare + 1].removeprefix("data: ")) == json.loads(frames[bare])
    assert bare + 2 == len(frames)
