"""What our server offers beyond ASGI: chunks written at once, a head sent with the first chunk, disconnect notices."""

from __future__ import annotations

import gc
import json
import socket
from asyncio import Event
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httptools
import pytest

from penstock._http.direct_response import ResponseChannel, find_channel
from penstock.errors import InputError
from penstock.testing import Reply, play
from tests.support.gateway import gateway

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.gateway import Running

TEXT = Reply.of("openai-chat", play("text", id="one", model="m", created=7), stream=True)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with gateway(lambda _: TEXT) as (made, _):
        yield made


def asking(model: str, **more: Any) -> bytes:
    body = json.dumps(
        {"model": model, "stream": True, "messages": [{"role": "user", "content": "Hi"}], **more}
    ).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: %d\r\n\r\n" % len(body)
    return head + body


class Answers:
    """Whole answers of one connection, read as a client reads them."""

    def __init__(self, running: Running) -> None:
        where = urlsplit(running.url)
        self.socket = socket.create_connection((where.hostname, where.port), timeout=20)
        self.bodies: list[bytes] = []
        self.reads: list[bytes] = []
        self._parser: Any = httptools.HttpResponseParser(self)
        self._open = b""

    def on_body(self, body: bytes) -> None:
        self._open += body

    def on_message_complete(self) -> None:
        self.bodies.append(self._open)
        self._open = b""

    def read(self, count: int, *, last: int = 0) -> list[bytes]:
        while len(self.bodies) < count:
            data = self.socket.recv(2**16)
            assert data, "the connection was closed"
            self.reads.append(data)
            self._parser.feed_data(data)
        if count >= last:
            self.socket.close()
        return self.bodies


def test_a_head_leaves_with_the_first_chunk(running: Running) -> None:
    answers = Answers(running)
    answers.socket.sendall(asking("openai-chat/m"))
    (body,) = answers.read(1)
    assert answers.reads[0].startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"data: " in answers.reads[0]
    assert body.endswith(b"data: [DONE]\n\n")


def test_requests_in_one_go_are_answered_one_after_the_other(running: Running) -> None:
    answers = Answers(running)
    answers.socket.sendall(asking("openai-chat/m") + asking("nobody/m") + asking("openai-chat/m", stream=False))
    streamed, refused, whole = answers.read(3)
    assert streamed.endswith(b"data: [DONE]\n\n")
    assert "error" in json.loads(refused)
    assert whole.startswith((b"{", b"data: "))


def test_a_line_does_not_outlive_its_request(running: Running) -> None:
    """Those before the last are gone without the collector's help, however they were answered."""
    gc.disable()
    try:
        before = lines()
        answers = Answers(running)
        for count in range(1, 10):
            answers.socket.sendall(asking("openai-chat/m" if count % 3 else "nobody/m"))
            answers.read(count, last=9)
        assert lines() - before <= 3  # the last one, and what its task and the one before it are about to let go of
    finally:
        gc.enable()


def lines() -> int:
    return sum(type(one) is ResponseChannel for one in gc.get_objects())


def test_a_head_alone_does_not_wait_for_ever(running: Running) -> None:
    """An answer without a body, such as one to HEAD."""
    answers = Answers(running)
    answers.socket.sendall(b"HEAD /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
    assert answers.socket.recv(2**16).startswith(b"HTTP/1.1 200")
    answers.socket.close()


class Cycle:
    """As much of uvicorn's as a line looks at."""

    def __init__(self) -> None:
        self.flow = self
        self.write_paused = self.response_complete = self.response_started = self.access_log = False
        self.chunked_encoding = self.keep_alive = True
        self.waiting_for_100_continue = False
        self.default_headers = [(b"date", b"today")]
        self.scope: dict[str, Any] = {}
        self.transport: Any = None
        self.message_event = Event()
        self.resumed = self.told = 0

    def resume_reading(self) -> None:
        self.resumed += 1

    def on_response(self) -> None:
        self.told += 1

    async def send(self, message: Any) -> None:
        """What ASGI offers."""


class Wire:
    """A transport, and a loop: what is called soon is called when the test says so."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.soon: list[Any] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        self.written.append(b"closed")

    def call_soon(self, call: Any) -> None:
        self.soon.append(call)


def test_a_chunk_is_pushed_only_where_it_can_be() -> None:
    cycle, wire = Cycle(), Wire()
    line = ResponseChannel(cycle, wire, wire)
    line.write(b"HTTP/1.1 200 OK\r\n\r\n")
    assert wire.written == []
    assert line.write_chunk(b"one")
    assert wire.written == [b"HTTP/1.1 200 OK\r\n\r\n3\r\none\r\n"]
    for name, bad in (("write_paused", True), ("response_complete", True), ("chunked_encoding", False)):
        setattr(cycle, name, bad)
        assert not line.write_chunk(b"two")
        setattr(cycle, name, not bad)
    line.connection_lost()
    assert not line.write_chunk(b"three")
    assert len(wire.written) == 1


TYPE = (b"content-type", b"text/event-stream")
HEAD = b"HTTP/1.1 200 OK\r\ndate: today\r\ncontent-type: text/event-stream\r\n"


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "closed"])
def test_head_and_end_leave_without_uvicorn_which_is_told(kept: bool) -> None:
    cycle, wire = Cycle(), Wire()
    cycle.keep_alive, cycle.chunked_encoding = kept, False
    line = ResponseChannel(cycle, wire, wire)
    assert line.start_stream([TYPE])
    assert cycle.response_started
    assert cycle.chunked_encoding
    assert not line.start_stream([TYPE]), "a head goes out once"
    assert line.end_stream(b"one")
    last = b"" if kept else b"connection: close\r\n"
    assert wire.written[0] == HEAD + last + b"transfer-encoding: chunked\r\n\r\n3\r\none\r\n0\r\n\r\n"
    assert wire.written[1:] == ([] if kept else [b"closed"])
    assert cycle.response_complete
    assert cycle.message_event.is_set()
    assert cycle.told == 1
    assert not line.end_stream(b"two"), "an answer ends once"


def test_an_end_without_words_and_after_others() -> None:
    cycle, wire = Cycle(), Wire()
    line = ResponseChannel(cycle, wire, wire)
    line.start_stream([TYPE])
    assert line.write_chunk(b"one")
    assert line.end_stream(b"")
    assert wire.written[0].startswith(HEAD)
    assert wire.written[0].endswith(b"\r\n\r\n3\r\none\r\n")
    assert wire.written[1:] == [b"0\r\n\r\n"]


@pytest.mark.parametrize("name", ["write_paused", "response_started", "access_log", "lost"])
def test_what_a_line_does_not_begin_is_sent(name: str) -> None:
    cycle, wire = Cycle(), Wire()
    line = ResponseChannel(cycle, wire, wire)
    if name == "lost":
        line.connection_lost()
    else:
        setattr(cycle, name, True)
    assert not line.start_stream([TYPE])
    assert wire.written == []


@pytest.mark.parametrize("header", [(b"x-model", b"a\r\nset-cookie: b"), (b"x a", b"b"), (b"x", b"a\0"), (b"", b"a")])
def test_a_header_that_is_none_is_not_written(header: tuple[bytes, bytes]) -> None:
    cycle, wire = Cycle(), Wire()
    line = ResponseChannel(cycle, wire, wire)
    with pytest.raises(InputError, match="response header is not valid"):
        line.start_stream([TYPE, header])
    assert wire.written == []


def test_a_send_that_somebody_has_wrapped_sees_the_head() -> None:
    cycle, wire = Cycle(), Wire()

    async def around(message: Any) -> None:
        await cycle.send(message)

    line = ResponseChannel(cycle, wire, wire)
    assert line.owns_send(cycle.send)
    assert not line.owns_send(around)


def test_a_head_that_nothing_follows_leaves_alone() -> None:
    wire = Wire()
    line = ResponseChannel(Cycle(), wire, wire)
    line.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    line.write(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert wire.written == [b"HTTP/1.1 100 Continue\r\n\r\n"]
    (call,) = wire.soon
    call()
    assert wire.written[1:] == [b"HTTP/1.1 204 No Content\r\n\r\n"]


@pytest.mark.parametrize("before", [True, False], ids=["already gone", "goes"])
def test_leaving_is_told_once_it_is_watched_for(before: bool) -> None:
    cycle, wire, told = Cycle(), Wire(), list[str]()
    line = ResponseChannel(cycle, wire, wire)
    if before:
        line.connection_lost()
    line.watch_disconnect(lambda: told.append("gone"))
    assert cycle.resumed == 1
    if not before:
        line.connection_lost()
    for call in wire.soon:
        call()
    assert told == ["gone"]


def test_a_scope_of_another_server_has_no_line() -> None:
    assert find_channel({}) is None
    assert find_channel({"penstock.line": "something else"}) is None
