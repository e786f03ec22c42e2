"""Connections before there is a request: heads that are too slow or too large, silent clients, ports in use."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from websockets.sync.client import connect

from penstock._http.uvicorn_server import GatewayServer, bind_socket, listen
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 20.0
GET = b"GET / HTTP/1.1\r\nhost: x\r\n"


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"]})
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@contextmanager
def listening(**serve: Any) -> Iterator[int]:
    """The port of a server in a thread."""
    ports: list[tuple[int, GatewayServer]] = []
    there = threading.Event()

    def ready(port: int, server: GatewayServer) -> None:
        ports.append((port, server))
        there.set()

    thread = threading.Thread(target=listen, args=(app, {"port": 0, "drain": 1.0, **serve}, ready), daemon=True)
    thread.start()
    assert there.wait(LIMIT)
    port, server = ports[0]
    yield port
    server.should_exit = True
    thread.join(LIMIT)


def said(port: int, *pieces: bytes) -> bytes:
    """All that the server says to these bytes until it closes, or has answered."""
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as wire:
        for piece in pieces:
            wire.sendall(piece)
        heard = b""
        while chunk := wire.recv(65536):
            heard += chunk
            if heard.endswith(b"ok"):
                break
        return heard


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with listening(read=0.3, headers=2000) as number:
        yield number


def test_a_request_is_answered(port: int) -> None:
    assert said(port, GET + b"\r\n").startswith(b"HTTP/1.1 200")
    assert said(port, GET, b"x: y\r\n", b"\r\n").startswith(b"HTTP/1.1 200")


def test_who_says_nothing_is_let_go(port: int) -> None:
    assert said(port) == b""


def test_a_head_that_does_not_end_is_given_up(port: int) -> None:
    assert said(port, GET).startswith(b"HTTP/1.1 408")


def test_a_head_that_grows_is_given_up(port: int) -> None:
    heard = said(port, GET, *[b"x: " + b"y" * 900 + b"\r\n"] * 3)
    assert heard.startswith((b"HTTP/1.1 431", b"HTTP/1.1 400"))


def test_a_second_head_has_the_same_limits(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as wire:
        wire.sendall(GET + b"\r\n")
        assert wire.recv(65536).startswith(b"HTTP/1.1 200")
        wire.sendall(GET)
        heard = b""
        while chunk := wire.recv(65536):
            heard += chunk
    assert heard.removeprefix(b"ok").startswith(b"HTTP/1.1 408")


def test_a_kept_connection_outlives_the_time_for_a_head(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as wire:
        for wait in (0.0, 0.5):
            threading.Event().wait(wait)
            wire.sendall(GET + b"\r\n")
            heard = b""
            while not heard.endswith(b"ok"):
                heard += wire.recv(65536)


def test_a_websocket_outlives_it_too(port: int) -> None:
    with connect(f"ws://127.0.0.1:{port}/", proxy=None) as wire:
        for wait in (0.0, 0.5):
            threading.Event().wait(wait)
            wire.send("hello")
            assert wire.recv(LIMIT) == "hello"


def test_a_taken_port_is_said(port: int) -> None:
    with pytest.raises(InputError, match=f"port {port} on 127.0.0.1 is taken; choose another with --port"):
        bind_socket("127.0.0.1", port)


def test_an_address_of_somebody_else_is_said() -> None:
    with pytest.raises(InputError, match=r"192\.0\.2\.1 is no address of this machine"):
        bind_socket("192.0.2.1", 0)
    with pytest.raises(InputError, match="is no address of this machine"):
        bind_socket("no.such.host.invalid", 0)
