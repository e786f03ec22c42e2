"""What WebSockets may hold in memory: limited in bytes for each connection and for all, and free again afterwards."""

from __future__ import annotations

import json
import socket as sockets
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import ConnectionClosed

from tests.support import process
from tests.support.gateway import SERVERS, answer, gateway
from tests.support.openresponses import LIMIT, socket, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.testing import ReceivedRequest, Reply

MB = 10**6
LINUX = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="resident memory is read from /proc")
FRAMING_OVERHEAD = 64 * 1024  # bytes beside the largest message: frame headers, and the start of the next message
KEPT_TURNS = 32 * 2**20  # bytes of the newest turns that the inspector keeps


# ── what is remembered ────────────────────────────────────────────────────────────────────────────


def test_the_newest_responses_of_a_connection_are_remembered() -> None:
    """Responses that are not stored can be continued on their connection: the last sixteen, as many as have place."""
    serve = {"pace": 0.0, "websocket_bytes": 100_000, "body": 100_000}
    with gateway(serve=serve) as (running, up), socket(running.url) as ws:
        ids = [""]
        for number in range(20):
            past = {"previous_response_id": ids[-1]} if number else {}
            made = ws.get_response(model="openai-chat/text", input=f"Line {number}.", store=False, **past)
            ids.append(made["id"])
        assert [f"Line {number}." in str(up.requests[-1].json) for number in range(20)] == [True] * 20
        assert (
            ws.error(model="openai-chat/text", input="And?", store=False, previous_response_id=ids[1])["status"] == 400
        )
        assert ws.get_response(model="openai-chat/text", input="And?", store=False, previous_response_id=ids[10])
        large = ws.get_response(model="openai-chat/text", input="x" * 90_000, store=False)["id"]
        ws.get_response(model="openai-chat/text", input="y" * 90_000, store=False)
        gone = ws.error(model="openai-chat/text", input="And?", store=False, previous_response_id=large)
        assert gone["status"] == 400
        used = running.websocket_bytes
        assert 0 < used <= 100_000 + FRAMING_OVERHEAD
    until(lambda: running.websocket_bytes == 0)


# ── connections ───────────────────────────────────────────────────────────────────────────────────


def stalled(seen: ReceivedRequest) -> Reply:
    """Half of an answer: it has not said how it ends, so that nobody stops waiting for the rest."""
    made = answer(seen)
    return made.stall(after=len(made.data) // 2)


@pytest.mark.parametrize("plain", SERVERS)
def test_more_than_may_wait_is_not_read(*, plain: bool) -> None:
    """The client is held up; every request is answered in the end, and nothing is counted afterwards."""
    serve = {"pace": 0.0, "websocket_bytes": 100_000, "body": 100_000}
    with gateway(serve=serve, plain=plain) as (running, up):
        up.script(lambda seen: answer(seen).delayed(0.5 if len(up.requests) == 1 else 0))  # all others wait meanwhile
        most = 0
        with socket(running.url) as ws:
            for _ in range(40):
                ws.send(model="openai-chat/text", input="x" * 60_000, store=False)
                most = max(most, running.websocket_bytes)
            for _ in range(40):
                assert ws.read()[-1]["type"] == "response.completed"
                most = max(most, running.websocket_bytes)
        # What arrives and what is remembered, each up to its limit; one read of a socket, and a message.
        assert most <= 2 * (100_000 + FRAMING_OVERHEAD) + 300_000
        until(lambda: running.websocket_bytes == 0)


def test_too_much_on_all_connections_closes_the_largest() -> None:
    serve = {"pace": 0.0, "body": 200_000, "websocket_total": 500_000}
    with gateway(stalled, serve=serve) as (running, _), ExitStack() as stack:
        small = stack.enter_context(socket(running.url))
        small.send(model="openai-chat/text", input="x" * 1000)
        codes = []
        for number in range(6):  # each is still being answered: only what waits can be given up
            ws = stack.enter_context(socket(running.url))
            ws.raw.close_timeout = 0.1
            codes.append(ws)
            with suppress(ConnectionClosed):  # it may be closed before all is sent
                ws.send(model="openai-chat/text", input="y" * 100_000)
                ws.send(model="openai-chat/text", input="z" * (60_000 + number))
        until(lambda: running.websocket_bytes > 0)
        closed = _closed(codes)
        assert closed
        assert (1013, "too many bytes wait on all WebSockets (serve.websocket_total)") in closed
        assert not _closed([small])


def _closed(connections: list[Any]) -> list[tuple[int, str]]:
    """The close frames of those that were closed."""
    found = []
    for ws in connections:
        ends = time.monotonic() + 0.5
        try:
            while time.monotonic() < ends:
                ws.raw.recv(timeout=max(ends - time.monotonic(), 0.01))
        except TimeoutError:
            continue
        except ConnectionClosed as error:
            found.append((error.rcvd.code, error.rcvd.reason) if error.rcvd is not None else (0, ""))
    return found


def test_half_a_message_counts_too() -> None:
    """Many connections that never finish what they send are closed, not kept."""
    serve = {"pace": 0.0, "body": 200_000, "websocket_total": 400_000}
    with gateway(serve=serve) as (running, _), ExitStack() as stack:
        for _ in range(10):
            ws = stack.enter_context(socket(running.url))
            ws.raw.close_timeout = 0.1  # inside a message no close frame is read
            ws.raw.socket.sendall(bytes([0x81, 0xFF]) + (150_000).to_bytes(8, "big") + b"\0\0\0\0" + b"x" * 100_000)
        until(lambda: running.websocket_bytes > 100_000)
        with socket(running.url) as ws:
            assert ws.get_response(model="openai-chat/text", input="Hi.")["status"] == "completed"
        assert running.websocket_bytes <= 400_000


def test_a_client_that_sends_on_after_the_close_is_dropped() -> None:
    """Uvicorn waits ten seconds for the client's close frame; what comes in its place is not kept."""
    serve = {"pace": 0.0, "websocket_age": 0.05}
    with gateway(serve=serve) as (running, _), connect(running.url) as raw:
        while not raw.recv(4096).endswith(b"\x03\xe8"):  # the close frame, with code 1000
            pass
        with suppress(OSError):  # dropped
            raw.sendall(bytes([0x81, 0xFF]) + (30 * MB).to_bytes(8, "big") + b"\0\0\0\0" + b"x" * (20 * MB))
        assert running.websocket_bytes < MB
        until(lambda: running.websocket_bytes == 0)


@contextmanager
def connect(url: str) -> Iterator[sockets.socket]:
    """A WebSocket over a bare socket, without anybody who answers for the client."""
    where = urlsplit(url)
    with sockets.create_connection((where.hostname, where.port), timeout=LIMIT) as made:
        head = (
            f"GET /v1/responses HTTP/1.1\r\nhost: {where.netloc}\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
            "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        made.sendall(head.encode())
        yield made


# ── memory ────────────────────────────────────────────────────────────────────────────────────────


def large(model: str, size: int = 10 * MB) -> str:
    return json.dumps({"type": "response.create", "model": model, "input": "x" * size, "store": False})


@LINUX
@pytest.mark.parametrize(
    ("count", "patience"), [(20, 1.0), *(pytest.param(31, one, marks=pytest.mark.nightly) for one in (3.0, 5.0))]
)
def test_many_messages_of_ten_megabytes_leave_memory_bounded(tmp_path: Path, count: int, patience: float) -> None:
    """Before, they raised it from 59 to 400 MB. A turn takes longer than we wait, or we send on after each."""
    with process.gateway(tmp_path, "[serve]\ndrain = 1\n") as running, socket(running.base) as ws:
        ws.raw.close_timeout = 0.1
        ws.get_response(model="replay/text", input="Hi.", store=False)
        before, message = running.memory, large("replay/text")
        ws.raw.socket.settimeout(patience)
        most = before
        ws.raw.send(message)
        try:
            for _ in range(count):  # the first turn goes on: the gateway stops reading, and we can send no more
                ws.raw.send(message)
                most = max(most, running.memory)
        except (OSError, ConnectionClosed):
            pass
        for _ in range(20):
            most = max(most, running.memory)
            time.sleep(0.05)
        kept = KEPT_TURNS  # the inspector keeps the newest turns
        assert most - before < 140 * MB + kept, f"from {before / MB:.0f} to {most / MB:.0f} MB"


@pytest.fixture(scope="module")
def full_speed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[process.Gateway]:
    config = f"[serve]\npace = 0.0\ndrain = 1\nwebsocket_total = {60 * MB}\n"
    with process.gateway(tmp_path_factory.mktemp("gateway"), config) as running:
        yield running


@LINUX
def test_memory_is_free_again_after_the_turns(full_speed: process.Gateway) -> None:
    with socket(full_speed.base) as ws:
        ws.get_response(model="replay/text", input="Hi.", store=False)
        before = full_speed.memory
        for _ in range(8):
            ws.raw.send(large("replay/text"))
            assert ws.read()[-1]["type"] == "response.completed"
        assert full_speed.memory - before < 140 * MB
    until(lambda: full_speed.memory - before < 60 * MB + KEPT_TURNS)


@LINUX
def test_many_connections_are_bounded_in_total(full_speed: process.Gateway) -> None:
    """Twenty connections, each with 20 MB that is not whole: 400 MB without a limit."""
    with ExitStack() as stack:
        with socket(full_speed.base) as ws:
            ws.get_response(model="replay/text", input="Hi.", store=False)
        before = most = full_speed.memory
        half = bytes([0x81, 0xFF]) + (30 * MB).to_bytes(8, "big") + b"\0\0\0\0" + b"x" * (20 * MB)
        for _ in range(20):
            connection = stack.enter_context(socket(full_speed.base)).raw
            connection.close_timeout = 0.1
            raw = connection.socket
            raw.settimeout(LIMIT)
            try:
                raw.sendall(half)
            except OSError:  # closed: it held most
                continue
            most = max(most, full_speed.memory)
        assert most - before < 160 * MB, f"from {before / MB:.0f} to {most / MB:.0f} MB"
