"""Who may open a WebSocket, and what ends one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.support import process
from tests.support.gateway import gateway, hash_key
from tests.support.openresponses import FAST, LIMIT, socket

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with gateway(serve=FAST) as (running, _):
        yield running.url


def test_a_key_is_asked_for_at_the_door() -> None:
    keys = {name: {"hash": hash_key(f"secret-of-{name}")} for name in ("ann", "ben")}
    with gateway(keys=keys) as (running, _):
        with pytest.raises(InvalidStatus) as refused, socket(running.url):
            pass
        assert refused.value.response.status_code in {401, 403}
        with socket(running.url, Authorization="Bearer secret-of-ann") as ann:
            first = ann.get_response(model="openai-chat/text", input="Hi.")
        with socket(running.url, Authorization="Bearer secret-of-ben") as ben:
            error = ben.error(model="openai-chat/text", input="Hi.", previous_response_id=first["id"])
        assert error["code"] == "previous_response_not_found"
        assert [(row.key, row.http) for row in running.rows()] == [("ben", 400), ("ann", 200), ("", 401)]


def test_a_page_of_another_site_may_not_connect(url: str) -> None:
    with pytest.raises(InvalidStatus), socket(url, Origin="https://elsewhere.example"):
        pass


def test_there_is_no_socket_elsewhere(url: str) -> None:
    with pytest.raises(InvalidStatus), socket(url, "/v1/chat/completions"):
        pass


def test_a_message_that_is_too_large_ends_the_connection() -> None:
    with gateway(serve={"body": 1000}) as (running, _), socket(running.url) as ws:
        ws.send(model="openai-chat/text", input="x" * 2000)
        with pytest.raises(ConnectionClosed) as closed:
            ws.raw.recv(timeout=LIMIT)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009


def test_a_connection_outlives_the_time_that_a_request_has_to_come(tmp_path: Path) -> None:
    """`penstock serve` gives up on a head that does not come; a WebSocket's has come."""
    with process.gateway(tmp_path, "[serve]\nread = 0.3\npace = 0.0\n") as running, socket(running.base) as ws:
        first = ws.get_response(model="replay/text", input="Hi.", store=False)
        time.sleep(0.5)
        assert ws.get_response(model="replay/text", input="And?", store=False, previous_response_id=first["id"])
