"""Requests as bytes: heads that are too slow or too large, bodies that break off, requests that are sent ahead."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.support.gateway import gateway, hash_key
from tests.support.openresponses import socket as websocket
from tests.support.openresponses import until
from tests.support.raw_upstream import LIMIT, exchange

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.testing import Upstream
    from tests.support.gateway import Running

MAX_PIPELINED = 32  # docs/limits.md
GET = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"
LAST = GET + b"connection: close\r\n\r\n"
OK = b'{"status":"ok"}'


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Running, Upstream]]:
    """A gateway that gives a head 0.3 seconds and 2,000 bytes."""
    with gateway(serve={"read": 0.3, "headers": 2000, "pace": 0.0}) as found:
        yield found


@pytest.fixture(scope="module")
def address(both: tuple[Running, Upstream]) -> tuple[str, int]:
    where = httpx.URL(both[0].url)
    return where.host, where.port or 0


def said(address: tuple[str, int], *pieces: bytes) -> bytes:
    """All that the server says to these bytes until the connection ends, however it ends, or it has said OK."""
    heard = b""
    with socket.create_connection(address, timeout=LIMIT) as wire, suppress(ConnectionError):
        for piece in pieces:
            wire.sendall(piece)
        while not heard.endswith(OK) and (chunk := wire.recv(65536)):
            heard += chunk
    return heard


# ── heads ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_head_may_come_in_pieces(address: tuple[str, int]) -> None:
    assert said(address, GET + b"\r\n").startswith(b"HTTP/1.1 200")
    assert said(address, GET, b"x: y\r\n", b"\r\n").startswith(b"HTTP/1.1 200")


def test_a_head_that_does_not_end_is_given_up(address: tuple[str, int]) -> None:
    assert said(address) == b""  # who says nothing is let go
    assert said(address, GET).startswith(b"HTTP/1.1 408")


def test_a_head_that_grows_is_given_up(address: tuple[str, int]) -> None:
    heard = said(address, GET, *[b"x: " + b"y" * 900 + b"\r\n"] * 3)
    assert heard.startswith((b"HTTP/1.1 431", b"HTTP/1.1 400"))


def test_a_kept_connection_outlives_the_time_for_a_head_and_a_second_head_has_the_same_limits(
    address: tuple[str, int],
) -> None:
    with socket.create_connection(address, timeout=LIMIT) as wire:
        for wait in (0.0, 0.5):
            threading.Event().wait(wait)
            wire.sendall(GET + b"\r\n")
            heard = b""
            while not heard.endswith(OK):
                heard += wire.recv(65536)
            assert heard.startswith(b"HTTP/1.1 200")
        wire.sendall(GET)
        heard = b""
        while chunk := wire.recv(65536):
            heard += chunk
    assert heard.startswith(b"HTTP/1.1 408")
    assert b"connection: close\r\ncontent-length: 0\r\n\r\n" in heard


def test_a_websocket_outlives_it_too(both: tuple[Running, Upstream]) -> None:
    with websocket(both[0].url) as wire:
        for wait in (0.0, 0.5):
            threading.Event().wait(wait)
            assert wire.get_response(model="openai-chat/text", input="Hi.")["status"] == "completed"


# ── bodies ────────────────────────────────────────────────────────────────────────────────────────

BEGUN = b'{"model":"openai-chat/text","messages":[{"role":"user","content":"x"}]}'


def test_a_body_that_breaks_off_is_not_read(both: tuple[Running, Upstream], address: tuple[str, int]) -> None:
    """What came may be JSON by itself, but it is not known to be what the client meant."""
    running, up = both
    before, head = len(up.requests), b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
    for pieces in ((head, b"content-length: 500\r\n\r\n"), (head + b"content-length: 500\r\n\r\n", BEGUN),
                   (head + b"transfer-encoding: chunked\r\n\r\n", b"%x\r\n%b\r\n" % (len(BEGUN), BEGUN))):  # fmt: skip
        rows = len(running.rows())
        with socket.create_connection(address, timeout=LIMIT) as wire:
            for piece in pieces:
                wire.sendall(piece)
        until(lambda rows=rows: len(running.rows()) > rows)  # type: ignore[misc]
        assert running.rows()[0].http == 400
    assert len(up.requests) == before


# ── requests that are sent ahead ──────────────────────────────────────────────────────────────────

STRANGER = b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def keyed() -> Iterator[Running]:
    with gateway(keys={"one": {"hash": hash_key("pk-one-11111111")}}) as (running, _):
        yield running


def test_a_few_requests_are_answered_in_order(keyed: Running) -> None:
    answer = exchange(keyed.url, STRANGER * MAX_PIPELINED + LAST)
    assert answer.count(b"HTTP/1.1 401 ") == MAX_PIPELINED
    assert answer.endswith(OK)


@pytest.mark.parametrize("count", [MAX_PIPELINED + 2, 5000])
def test_many_requests_end_the_connection_at_once(keyed: Running, count: int) -> None:
    where = httpx.URL(keyed.url)
    began = time.process_time()
    answer = said((where.host, where.port or 0), STRANGER * count + LAST)
    spent = time.process_time() - began  # of the server too: it is a thread of this process
    assert answer.count(b"HTTP/1.1 ") <= MAX_PIPELINED + 1
    assert OK not in answer
    assert spent < 0.5
    assert httpx.get(f"{keyed.url}/healthz").status_code == 200
