"""`features.direct_http` and `features.direct_send` switch to plain aiohttp and plain ASGI: clients get the same bytes."""

from __future__ import annotations

from itertools import product
from typing import Any

import httpx
import pytest

from penstock._gateway.config import FeaturesTable
from penstock._http.direct_response import ResponseChannel
from penstock.testing import Reply, play
from tests.support.gateway import gateway

STREAM = Reply.of("openai-chat", play("text", id="one", model="m", created=7), stream=True)
BODY = {"model": "openai-chat/m", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}


def answer(monkeypatch: pytest.MonkeyPatch, *, direct_http: bool, direct_send: bool) -> tuple[bytes, bool, bool]:
    """The stream a client gets, whether our own connections were used, and whether a channel wrote it."""
    ends: list[bytes] = []
    end_stream = ResponseChannel.end_stream

    def record(channel: ResponseChannel, data: bytes) -> bool:
        ends.append(data)
        return end_stream(channel, data)

    monkeypatch.setattr(ResponseChannel, "end_stream", record)
    features = FeaturesTable(direct_http=direct_http, direct_send=direct_send)
    with gateway(lambda _: STREAM, features=features) as (running, _):
        url = f"{running.url}/v1/chat/completions"
        first, second = (httpx.post(url, json=BODY, timeout=20) for _ in range(2))
        assert (first.status_code, second.status_code) == (200, 200)
        engine: Any = running.app.services.upstream.router.engines.by_name["native"]
        return second.content, engine._http._direct is not None, bool(ends)


@pytest.mark.parametrize(("direct_http", "direct_send"), list(product([True, False], repeat=2)))
def test_a_client_gets_the_same_bytes(monkeypatch: pytest.MonkeyPatch, *, direct_http: bool, direct_send: bool) -> None:
    body, own_connection, channel = answer(monkeypatch, direct_http=direct_http, direct_send=direct_send)
    assert (own_connection, channel) == (direct_http, direct_send)
    assert body == answer(monkeypatch, direct_http=True, direct_send=True)[0]
    assert body.endswith(b"data: [DONE]\n\n")
