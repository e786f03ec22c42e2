"""Streams that are kept: resumed by `Last-Event-ID` and by `useChat`, followed by several, cancelled, expired."""

from __future__ import annotations

import json
import re
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import pytest

from penstock.testing import Reply
from tests.support.client_requests import ASKING, ask, get, post, read, told
from tests.support.each_case import each
from tests.support.gateway import answer, gateway, hash_key
from tests.support.openresponses import until

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from penstock.testing import ReceivedRequest, Upstream
    from tests.support.gateway import Running

SSE = ("openai-chat", "anthropic", "responses", "gemini", "uistream", "completions")
STAYS = {"x-penstock-resume": "background"}
KEPT = {"x-penstock-resume": "true"}
FAST = {"pace": 0.0}
_ID = re.compile(rb"\nid: ([0-9a-f]{32}-[0-9]+)\n\n")


def slow(seen: ReceivedRequest) -> Reply:
    return answer(seen).slow(0.01)


def stalled(seen: ReceivedRequest) -> Reply:
    return answer(seen).stall(after=900)


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Running, Upstream]]:
    with gateway(slow, serve=FAST) as found:
        yield found


@contextmanager
def streaming(url: str, client: str, model: str, headers: dict[str, str] | None = None) -> Generator[Any]:
    path, body = ASKING[client](model, True)
    with (
        httpx.Client(base_url=url, timeout=20, verify=False, trust_env=False) as http,  # noqa: S501 — loopback, no TLS
        http.stream("POST", path, json=body, headers=headers) as reply,
    ):
        yield reply


def begin(url: str, client: str, model: str, headers: dict[str, str]) -> tuple[bytes, str]:
    """Read the first frames and leave. Returns the complete ones, and the id of the last."""
    data = b""
    with streaming(url, client, model, headers) as reply:
        for chunk in reply.iter_raw():
            data += chunk
            if len(_ID.findall(data)) > 1:
                break
    last = list(_ID.finditer(data))[-1]
    return data[: last.end()], last[1].decode()


def resume(url: str, client: str, event: str, **headers: str) -> httpx.Response:
    """What a client sends that reconnects: the same request, and the last event that it has seen."""
    path, body = ASKING[client]("any", True)
    return post(url + path, json=body, headers={"last-event-id": event, **headers})


def first_event(event: str) -> str:
    return f"{event.partition('-')[0]}-0"


@each("client", SSE)
@each("upstream", ["openai-chat", "anthropic"])
def test_a_stream_is_resumed_without_gap_and_repetition(
    both: tuple[Running, Upstream], client: str, upstream: str
) -> None:
    running, up = both
    before = len(up.requests)
    first, event = begin(running.url, client, f"{upstream}/text", STAYS)
    rest = resume(running.url, client, event)
    whole = resume(running.url, client, first_event(event)).content
    assert first + rest.content == whole
    assert rest.headers["content-type"].startswith("text/event-stream")
    assert told(read(client, whole)) == told(read(client, ask(running.url, client, f"{upstream}/text").content))
    assert len(up.requests) == before + 2, "the resumed stream is the first one"
    assert resume(running.url, client, _ID.findall(whole)[-1].decode()).content == b""


@each("client", SSE)
def test_nothing_is_kept_unless_somebody_asks(both: tuple[Running, Upstream], client: str) -> None:
    running, _ = both
    reply = ask(running.url, client, "openai-chat/text")
    assert b"\nid: " not in reply.content
    assert resume(running.url, client, f"{reply.headers['x-request-id']}-0").status_code == 404
    # an id of somebody else starts a turn, as without it
    path, body = ASKING[client]("openai-chat/text", True)
    assert post(running.url + path, json=body, headers={"last-event-id": "17"}).status_code == 200


def test_leaving_cancels_the_turn_and_followers_hear_of_it(both: tuple[Running, Upstream]) -> None:
    running, up = both
    up.script(stalled)
    try:
        _, event = begin(running.url, "anthropic", "anthropic/text", KEPT)
        until(up.requests[-1].disconnected.is_set)
        events = read("anthropic", resume(running.url, "anthropic", event).content)
        assert events[-1].message == "the client has gone"
    finally:
        up.script(slow)


def test_the_configuration_keeps_every_stream() -> None:
    table = {"enabled": True, "background_on_disconnect": True}
    with gateway(slow, serve=FAST, resume=table) as (running, _):
        first, event = begin(running.url, "openai-chat", "anthropic/text", {})
        rest = resume(running.url, "openai-chat", event).content
        assert first + rest == resume(running.url, "openai-chat", first_event(event)).content
        assert running.rows()[0].status == "finish"
        refused = ask(running.url, "openai-chat", "openai-chat/text", headers={"x-penstock-resume": "false"})
        assert b"\nid: " not in refused.content
        assert b"\nid: " not in ask(running.url, "gemini", "gemini/text").content  # Google's SDKs cannot read it
        assert (
            ask(running.url, "openai-chat", "openai-chat/text", headers={"x-penstock-resume": "yes"}).status_code == 400
        )
        assert ask(running.url, "ollama", "openai-chat/text").status_code == 200  # no server-sent events


def test_streams_belong_to_a_tenant() -> None:
    keys = {name: {"hash": hash_key(f"secret-of-{name}")} for name in ("ann", "bob")}
    ann, bob = ({"authorization": f"Bearer secret-of-{name}"} for name in ("ann", "bob"))
    with gateway(slow, serve=FAST, keys=keys) as (running, _):
        _, event = begin(running.url, "uistream", "anthropic/text", {**STAYS, **ann})
        refused = resume(running.url, "openai-chat", event, **bob)
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "stream_not_found")
        assert get(f"{running.url}/api/chat/c1/stream", headers=bob).status_code == 204
        assert get(f"{running.url}/api/chat/c1/stream").status_code == 401
        assert get(f"{running.url}/api/chat/c1/stream?ended=true", headers=ann).status_code == 200


def test_a_page_is_reloaded(both: tuple[Running, Upstream]) -> None:
    """`useChat` asks for the running stream of its chat, and gets it from the beginning."""
    running, _ = both
    where = f"{running.url}/api/chat/c1/stream"
    first, event = begin(running.url, "uistream", "anthropic/text", STAYS)
    reply = get(where)
    assert reply.status_code == 200
    assert reply.headers["x-vercel-ai-ui-message-stream"] == "v1"
    assert reply.content.startswith(first)
    assert reply.content == resume(running.url, "uistream", first_event(event)).content
    over = get(where)
    assert (over.status_code, over.content, over.headers.get("content-length")) == (204, b"", None)
    assert get(f"{where}?ended=true").content == reply.content
    assert first + get(f"{where}?ended=true", headers={"last-event-id": event}).content == reply.content
    assert get(f"{running.url}/api/chat/c2/stream").status_code == 204


def test_a_page_stops_its_stream(both: tuple[Running, Upstream]) -> None:
    running, up = both
    up.script(stalled)
    try:
        begin(running.url, "uistream", "anthropic/text", STAYS)
        where = f"{running.url}/api/chat/c1/stream"
        with httpx.Client(timeout=20, verify=False, trust_env=False) as http:  # noqa: S501
            assert http.delete(where).status_code == 204
        until(up.requests[-1].disconnected.is_set)
        events = read("uistream", get(f"{where}?ended=true").content)
        assert (events[-1].message, get(where).status_code) == ("the stream was cancelled", 204)
    finally:
        up.script(slow)


def test_a_request_that_is_refused_is_refused_for_followers() -> None:
    with gateway(Reply.error("openai-chat", 400, "no such thing"), serve=FAST) as (running, _):
        refused = ask(running.url, "uistream", "openai-chat/text", headers=STAYS)
        assert refused.status_code == 400
        events = read("uistream", get(f"{running.url}/api/chat/c1/stream?ended=true").content)
        assert "no such thing" in events[-1].message


@each("client", ["openai-chat", "responses"])
def test_a_stream_that_is_too_long_is_not_kept(client: str) -> None:
    with gateway(slow, serve=FAST, resume={"size": 1000}) as (running, _):
        reply = ask(running.url, client, "anthropic/text", headers=STAYS)
        assert told(read(client, reply.content))[2] == "stop", "the client itself loses nothing"
        refused = resume(running.url, client, f"{reply.headers['x-request-id']}-0")
        assert refused.status_code == 410
        assert "resume.size" in refused.json()["error"]["message"]


def test_a_follower_of_a_stream_that_grows_too_long_gets_an_error() -> None:
    with gateway(slow, serve=FAST, resume={"size": 1500}) as (running, _):
        _, event = begin(running.url, "anthropic", "openai-chat/text", STAYS)
        events = read("anthropic", resume(running.url, "anthropic", event).content)
        assert "resume.size" in events[-1].message


def test_a_stream_is_gone_some_time_after_its_end() -> None:
    with gateway(slow, serve=FAST, resume={"keep": 0.2}) as (running, _):
        first, event = begin(running.url, "openai-chat", "anthropic/text", STAYS)
        assert first + resume(running.url, "openai-chat", event).content
        until(lambda: resume(running.url, "openai-chat", event).status_code == 404)


def test_several_readers_follow_one_stream_and_do_not_wait_for_each_other(both: tuple[Running, Upstream]) -> None:
    running, _ = both
    with streaming(running.url, "openai-chat", "anthropic/text", KEPT) as reply:
        chunks = reply.iter_raw()
        first = next(chunks)
        while not (found := _ID.search(first)):
            first += next(chunks)
        start = first_event(found[1].decode())
        path, body = ASKING["openai-chat"]("any", True)
        where, data = urlsplit(running.url), json.dumps(body).encode()
        with socket.create_connection((where.hostname, where.port), timeout=20) as lazy:
            head = f"POST {path} HTTP/1.1\r\nhost: {where.netloc}\r\nlast-event-id: {start}\r\n"
            lazy.sendall(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)  # and never reads
            followed = resume(running.url, "openai-chat", start).content
        assert first + b"".join(chunks) == followed


def test_a_client_that_stops_reading_does_not_stop_its_turn() -> None:
    def large(_: ReceivedRequest) -> Reply:
        return Reply.text("x" * 8_000_000)

    serve = {"ping": 0.05, "write": 0.2, "pace": 0.0}
    with gateway(large, serve=serve) as (running, _):
        path, body = ASKING["openai-chat"]("anthropic/text", True)
        where, data = urlsplit(running.url), json.dumps(body).encode()
        with socket.create_connection((where.hostname, where.port), timeout=20) as stuck:
            stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            head = f"POST {path} HTTP/1.1\r\nhost: {where.netloc}\r\nx-penstock-resume: background\r\n"
            stuck.sendall(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)
            row = until(running.rows)[0]
        assert (row.status, row.finish) == ("finish", "stop")
        whole = resume(running.url, "openai-chat", f"{row.request_id}-0").content
        assert len(told(read("openai-chat", whole))[0]) == 8_000_000
