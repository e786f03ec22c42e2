"""A revoked key ends within a second everywhere: streams, WebSockets, background responses, feeds of the inspector."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from contextlib import ExitStack, contextmanager
from itertools import product
from typing import TYPE_CHECKING, Any

import httpx
import msgspec
import pytest
from websockets.exceptions import ConnectionClosed

from tests.support.client_requests import ASKING
from tests.support.gateway import SERVERS, answer, gateway, hash_key
from tests.support.inspector import inspected
from tests.support.key_file import KeyFile, key_file
from tests.support.openresponses import LIMIT, asking, lawful, socket, until

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from penstock.testing import ReceivedRequest, Reply

DAVE, EVE = "pk-penstock-of-dave", "pk-penstock-of-eve"
SECOND = 1.0
SLACK = 1.0  # for a busy machine
ERRORS = {  # what the last frame of a stream must hold, by the client's dialect
    "openai-chat": b'"error"', "anthropic": b'"authentication_error"', "responses": b"response.failed",
    "gemini": b'"error"', "ollama": b'"error"',
}  # fmt: skip


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    file = key_file(tmp_path)
    file.add("dave", {"hash": hash_key(DAVE), "inspect": "all"})
    file.add("eve", {"hash": hash_key(EVE)})
    return file


def stalled(seen: ReceivedRequest) -> Reply:
    """All but the end of an answer, then nothing more."""
    return answer(seen).stall(after=-60)


def silent(seen: ReceivedRequest) -> Reply:
    """No head yet."""
    return answer(seen).delayed(LIMIT)


@contextmanager
def ends_within_a_second() -> Generator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < SECOND + SLACK


# ── HTTP ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("plain", SERVERS)
def test_streams_end_in_their_dialects_error_form(tmp_path: Path, keys: KeyFile, *, plain: bool) -> None:
    """Both where bytes are handed on and where they are translated; the stream of another key goes on."""
    cells = list(product(ERRORS, ("openai-chat", "anthropic")))
    with gateway(stalled, data=tmp_path, plain=plain) as (running, up), httpx.Client(timeout=LIMIT) as http:
        with ExitStack() as stack:

            def begin(client: str, upstream: str, key: str) -> tuple[bytes, Iterator[bytes]]:
                path, body = ASKING[client](f"{upstream}/text", True)
                reply = http.stream("POST", running.url + path, json=body, headers=bearer(key))
                chunks = stack.enter_context(reply).iter_bytes()
                return next(chunks), chunks

            theirs = begin("openai-chat", "openai-chat", EVE)
            begun = [begin(client, upstream, DAVE) for client, upstream in cells]
            keys.revoke("dave")
            with ends_within_a_second():
                ended = [first + b"".join(chunks) for first, chunks in begun]
            for cell, got in zip(cells, ended, strict=True):
                error = ERRORS[cell[0]]
                last = [frame for frame in got.replace(b"\n\n", b"\n").splitlines() if error in frame]
                assert b"was revoked" in last[-1], cell
            until(lambda: [seen.disconnected.is_set() for seen in up.requests] == [False] + [True] * len(cells))
            assert theirs
        assert {row.fault for row in running.rows() if row.key == "dave"} == {"auth"}


@pytest.mark.parametrize("plain", SERVERS)
def test_a_request_that_is_not_answered_yet_is_refused(tmp_path: Path, keys: KeyFile, *, plain: bool) -> None:
    with gateway(silent, data=tmp_path, plain=plain) as (running, up), httpx.Client(timeout=LIMIT) as http:

        def wait_and_revoke() -> None:
            until(lambda: up.requests)
            keys.revoke("dave")

        path, body = ASKING["anthropic"]("anthropic/text", plain)
        reply = _while(wait_and_revoke, lambda: http.post(running.url + path, json=body, headers=bearer(DAVE)))
        assert (reply.status_code, reply.json()["error"]["type"]) == (401, "authentication_error")
        assert "was revoked" in reply.json()["error"]["message"]
        until(up.requests[0].disconnected.is_set)


def test_what_is_not_a_turn_ends_too(tmp_path: Path, keys: KeyFile) -> None:
    with gateway(silent, data=tmp_path) as (running, up), httpx.Client(timeout=LIMIT) as http:

        def wait_and_revoke() -> None:
            until(lambda: up.requests)
            keys.revoke("dave")

        body = {"model": "openai-chat/text", "input": ["a"]}
        reply = _while(
            wait_and_revoke, lambda: http.post(f"{running.url}/v1/embeddings", json=body, headers=bearer(DAVE))
        )
        assert reply.status_code == 401
        assert "was revoked" in reply.text
        until(lambda: running.rows()[0].fault == "auth")


def _while(meanwhile: Any, work: Any) -> httpx.Response:
    """Do one thing in a thread while the other is waited for; the waiting must be over a second later."""
    done: list[float] = []

    def run() -> None:
        meanwhile()
        done.append(time.monotonic())

    thread = threading.Thread(target=run)
    thread.start()
    reply: httpx.Response = work()
    ended = time.monotonic()
    thread.join(LIMIT)
    assert ended - done[0] < SECOND + SLACK
    return reply


def test_a_client_that_does_not_read_does_not_keep_the_provider(tmp_path: Path, keys: KeyFile) -> None:
    def long(seen: ReceivedRequest) -> Reply:
        made = answer(seen)
        return msgspec.structs.replace(
            made, chunks=made.chunks[:3] + made.chunks[2:3] * 200_000, failure="stall", after=-1
        )

    with gateway(long, data=tmp_path) as (running, up):
        path, body = ASKING["openai-chat"]("openai-chat/text", True)
        with httpx.Client(timeout=LIMIT) as http, http.stream("POST", running.url + path, json=body,
                                                               headers=bearer(DAVE)) as reply:  # fmt: skip
            next(reply.iter_bytes())
            sent = -1
            while sent != up.requests[0].sent:  # until everybody waits for the reader
                sent = up.requests[0].sent
                time.sleep(0.3)
            keys.revoke("dave")
            with ends_within_a_second():
                until(up.requests[0].disconnected.is_set)


# ── WebSocket ─────────────────────────────────────────────────────────────────────────────────────


def closed(ws: Any) -> tuple[int, str]:
    with pytest.raises(ConnectionClosed) as raised:
        deque(iter(lambda: ws.raw.recv(timeout=LIMIT), None))
    assert raised.value.rcvd is not None
    return raised.value.rcvd.code, raised.value.rcvd.reason


def test_an_idle_websocket_is_closed(tmp_path: Path, keys: KeyFile) -> None:
    with (
        gateway(data=tmp_path) as (running, _),
        socket(running.url, **bearer(DAVE)) as dave,
        socket(running.url, **bearer(EVE)) as eve,
    ):
        dave.get_response(model="openai-chat/text", input="Hi.")
        keys.revoke("dave")
        with ends_within_a_second():
            assert closed(dave) == (1008, "the gateway key 'dave' was revoked")
        assert eve.get_response(model="openai-chat/text", input="Hi.")["status"] == "completed"


def test_a_turn_on_a_websocket_ends_with_an_error_and_its_connection_is_closed(tmp_path: Path, keys: KeyFile) -> None:
    with gateway(stalled, data=tmp_path) as (running, up), socket(running.url, **bearer(DAVE)) as dave:
        dave.send(model="openai-chat/text", input="Hi.")
        dave.send(model="openai-chat/text", input="This one waits.")
        until(lambda: up.requests)
        while json.loads(dave.raw.recv(timeout=LIMIT))["type"] != "response.output_text.delta":
            pass
        keys.revoke("dave")
        with ends_within_a_second():
            last = dave.read()[-1]
            assert closed(dave)[0] == 1008
        assert last["type"] == "response.failed"
        assert "was revoked" in last["response"]["error"]["message"]
        until(up.requests[0].disconnected.is_set)
        assert len(up.requests) == 1


def _may_use(url: str, model: str) -> bool:
    """Whether a list of models for Dave has this one."""
    rows = httpx.get(f"{url}/v1/models", headers=bearer(DAVE), timeout=LIMIT).json()["data"]
    return model in {row["id"] for row in rows}


def test_each_turn_of_a_websocket_is_let_in_anew(tmp_path: Path, keys: KeyFile) -> None:
    """What a key may use, and whose it is, counts from the next turn on."""
    with gateway(data=tmp_path) as (running, _), socket(running.url, **bearer(DAVE)) as dave:
        assert dave.get_response(model="openai-chat/text", input="Hi.")["status"] == "completed"
        keys.edit("dave", {"models": ["anthropic/*"], "tenant": "team", "limits": {"requests": 1}})
        until(lambda: not _may_use(running.url, "openai-chat/text"))
        assert dave.error(model="openai-chat/text", input="Hi.")["status"] == 403
        assert dave.get_response(model="anthropic/text", input="Hi.")["status"] == "completed"
        assert dave.error(model="anthropic/text", input="Hi.")["status"] == 429
        assert [row.tenant for row in running.rows()] == ["team", "team", "team", "dave"]


def test_a_websocket_that_came_without_a_key_is_closed_by_the_first(tmp_path: Path) -> None:
    path, body = ASKING["openai-chat"]("openai-chat/text", True)
    with (
        gateway(stalled, data=tmp_path) as (running, up),
        socket(running.url) as ws,
        httpx.Client(timeout=LIMIT) as http,
        http.stream("POST", running.url + path, json=body) as begun,
    ):
        chunks = begun.iter_bytes()
        assert next(chunks)
        key_file(tmp_path).add("dave", {"hash": hash_key(DAVE)})
        with ends_within_a_second():
            assert closed(ws)[0] == 1008
        assert not up.requests[0].disconnected.is_set()  # a turn that was begun without a key may be finished


def test_a_websocket_has_a_greatest_age() -> None:
    with gateway(serve={"websocket_age": 0.3, "pace": 0.0}) as (running, _), socket(running.url) as ws:
        assert lawful(ws.turn(model="openai-chat/text", input="Hi."))
        last = ws.read()[-1]
        assert last["error"]["code"] == "websocket_connection_limit_reached"
        assert "serve.websocket_age" in last["error"]["message"]
        assert closed(ws)[0] == 1000


# ── in the background, and feeds ──────────────────────────────────────────────────────────────────


def test_a_response_in_the_background_ends(tmp_path: Path, keys: KeyFile) -> None:
    keys.add("colleague", {"hash": hash_key("of-a-colleague"), "tenant": "dave"})
    with gateway(stalled, data=tmp_path) as (running, up), asking(running.url) as http:
        body = {"model": "openai-chat/text", "input": "Hi.", "background": True}
        id = http.post("/responses", json=body, headers=bearer(DAVE)).json()["id"]  # noqa: A001
        until(lambda: up.requests)
        with http.stream("GET", f"/responses/{id}?stream=true", headers=bearer(DAVE)) as following:
            chunks = following.iter_bytes()
            got = next(chunks)
            keys.revoke("dave")
            with ends_within_a_second():
                got += b"".join(chunks)
        assert b"was revoked" in got
        until(up.requests[0].disconnected.is_set)
        found = http.get(f"/responses/{id}", headers=bearer("of-a-colleague")).json()
        assert (found["status"], "was revoked" in found["error"]["message"]) == ("failed", True)


def test_feeds_of_the_inspector_end(tmp_path: Path, keys: KeyFile) -> None:
    with inspected(stalled, data=tmp_path) as running, httpx.Client(base_url=running.url, timeout=LIMIT) as http:
        path, body = ASKING["openai-chat"]("openai-chat/text", True)
        with (
            http.stream("GET", "/inspector/live", headers=bearer(DAVE)) as live,
            http.stream("POST", path, json=body, headers=bearer(EVE)) as eve,
        ):
            feed = live.iter_lines()
            until(lambda: running.up.requests)
            theirs = eve.iter_bytes()  # held: a reader that is dropped closes its connection
            assert next(theirs)
            name = eve.headers["x-request-id"]
            with http.stream("GET", f"/inspector/turns/{name}/follow", headers=bearer(DAVE)) as follow:
                lines = follow.iter_lines()
                assert next(lines)
                keys.revoke("dave")
                with ends_within_a_second():
                    said, heard = "\n".join(lines), "\n".join(feed)
            assert "event: error" in said
            assert "was revoked" in said
            assert "was revoked" in heard


def test_a_feed_that_came_without_a_key_ends_with_the_first(tmp_path: Path) -> None:
    with (
        inspected(data=tmp_path) as running,
        httpx.Client(base_url=running.url, timeout=LIMIT) as http,
        http.stream("GET", "/inspector/live") as live,
    ):
        feed = live.iter_lines()
        assert next(feed)
        key_file(tmp_path).add("dave", {"hash": hash_key(DAVE)})
        with ends_within_a_second():
            assert "requires a key" in "\n".join(feed)
