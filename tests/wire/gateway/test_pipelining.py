"""Requests that are sent ahead on one connection: a few wait for their turn, many end the connection."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock._input_limits import MAX_PIPELINED
from penstock.gateway import App, GatewayConfig
from tests.support.gateway import Running, hash_key
from tests.support.raw_upstream import LIMIT, exchange

if TYPE_CHECKING:
    from collections.abc import Iterator

STRANGER = b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n"
LAST = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    config = GatewayConfig(
        journal={"path": "memory"}, state={"path": "memory"}, serve={"pace": 0.0},
        keys={"one": {"hash": hash_key("pk-one-11111111")}},
    )  # fmt: skip
    app: Any = App(config, env={})
    with Running(app) as running:
        yield running.url


def sent_ahead(url: str, data: bytes) -> bytes:
    """What is answered until the connection ends, however it ends."""
    made = httpx.URL(url)
    answer = b""
    with socket.create_connection((made.host, made.port or 0), timeout=LIMIT) as connection, suppress(OSError):
        connection.sendall(data)
        while piece := connection.recv(65536):
            answer += piece
    return answer


def test_a_few_requests_are_answered_in_order(url: str) -> None:
    answer = exchange(url, STRANGER * MAX_PIPELINED + LAST)
    assert answer.count(b"HTTP/1.1 401 ") == MAX_PIPELINED
    assert answer.endswith(b'{"status":"ok"}')


@pytest.mark.parametrize("count", [MAX_PIPELINED + 2, 5000])
def test_many_requests_end_the_connection_at_once(url: str, count: int) -> None:
    began = time.process_time()
    answer = sent_ahead(url, STRANGER * count + LAST)
    spent = time.process_time() - began  # of the server too: it is a thread of this process
    assert answer.count(b"HTTP/1.1 ") <= MAX_PIPELINED + 1
    assert b'{"status":"ok"}' not in answer
    assert spent < 0.5
    assert httpx.get(f"{url}/healthz").status_code == 200
