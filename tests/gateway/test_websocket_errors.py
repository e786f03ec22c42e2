"""Error frames of a WebSocket say what HTTP would say beside the body: the status, and when to come back."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.testing import Reply
from tests.gateway.openresponses import FAST, fits, socket
from tests.gateway.running import gateway
from tests.gateway.test_vendor_errors import begun
from tests.gateway.vendor_error_cases import SENT, UPSTREAMS, WANTED


@pytest.mark.finding("AGT-2")
@pytest.mark.row("G1")
@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_a_refusal_has_status_and_headers(upstream: str) -> None:
    status, body = SENT[upstream]["rate-limit"]
    reply = Reply.body(body, status=status, headers={"retry-after": "7", "x-request-id": "up-1"})
    with gateway(reply, serve=FAST) as (running, _), socket(running.url) as ws:
        (frame,) = ws.turn(model=f"{upstream}/text", input="Hi.")
        fits("WebSocketErrorEvent", frame)
        assert (frame["status"], frame["error"]["code"]) == (429, "rate_limit_exceeded")
        headers: dict[str, Any] = frame["headers"]
        assert (headers["retry-after"], headers["retry-after-ms"]) == ("7", "7000")
        assert (headers["x-penstock-refused-by"], headers["x-upstream-request-id"]) == ("provider", "up-1")
        assert not [name for name in headers if name.startswith("content-")]


@pytest.mark.finding("AGT-2")
@pytest.mark.parametrize("kind", ["rate-limit", "quota", "overflow", "server"])
@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_a_failure_in_mid_turn_has_them_too(upstream: str, kind: str) -> None:
    failing = Reply.body(
        begun(upstream, SENT[upstream][kind][1]["error"]), headers={"content-type": "text/event-stream"}
    )
    with gateway(failing, serve=FAST) as (running, _), socket(running.url) as ws:
        frames = ws.turn(model=f"{upstream}/text", input="Hi.")
        assert any(frame["type"] == "response.output_text.delta" for frame in frames)
        last = frames[-1]
        assert last["type"] == "response.failed"
        assert last["status"] == WANTED["responses"][kind][0]
        wait = "7" if kind == "rate-limit" and upstream != "anthropic" else None  # whose message gives no time
        assert last["headers"].get("retry-after") == wait


@pytest.mark.finding("AGT-2")
def test_the_gateways_own_refusal_has_status_and_headers() -> None:
    with gateway(serve=FAST) as (running, _), socket(running.url) as ws:
        for body in ({"model": "nobody", "input": "x"}, {"model": "nobody", "input": "x", "generate": False}):
            (frame,) = ws.turn(**body)
            fits("WebSocketErrorEvent", frame)
            assert (frame["status"], frame["headers"]["x-penstock-refused-by"]) == (404, "gateway")
