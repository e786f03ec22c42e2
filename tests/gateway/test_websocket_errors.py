"""Error frames of a WebSocket say what HTTP would say beside the body: the status, and when to come back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from penstock.testing import Reply
from tests.oracles.gateway.test_vendor_errors import begun
from tests.oracles.gateway.vendor_error_cases import SENT, UPSTREAMS, WANTED
from tests.support.gateway import gateway
from tests.support.openresponses import FAST, fits, socket


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


def test_the_gateways_own_refusal_has_status_and_headers() -> None:
    with gateway(serve=FAST) as (running, _), socket(running.url) as ws:
        for body in ({"model": "nobody", "input": "x"}, {"model": "nobody", "input": "x", "generate": False}):
            (frame,) = ws.turn(**body)
            fits("WebSocketErrorEvent", frame)
            assert (frame["status"], frame["headers"]["x-penstock-refused-by"]) == (404, "gateway")


def _broken_off(*rows: dict[str, Any]) -> Reply:
    """A Responses stream that says one word, then the rows, and ends without the end of its response."""
    said = begun("responses", {"code": "", "message": "gone"})
    opening = said[: said.index(b"event: response.failed")] if b"event: " in said else said[: said.rindex(b"data: ")]
    more = b"".join(b"data: %b\n\n" % msgspec.json.encode(row) for row in rows)
    return Reply.body(opening + more, headers={"content-type": "text/event-stream"})


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        ({"code": "server_error", "message": "boom"}, (500, "server_error", "server_error")),
        ({"code": "rate_limit_exceeded", "message": "slow"}, (429, "rate_limit_error", "rate_limit_exceeded")),
        (
            {"error": {"type": "insufficient_quota", "code": "insufficient_quota", "message": "spent"}},
            (429, "insufficient_quota", "insufficient_quota"),
        ),
    ],
)
def test_an_error_that_no_failed_response_follows_has_its_own_type(
    error: dict[str, Any], wanted: tuple[int, str, str]
) -> None:
    """In the stream it may be flat, beside the type of the event, which is not the type of the error."""
    with gateway(_broken_off({"type": "error", **error}), serve=FAST) as (running, _), socket(running.url) as ws:
        frame = ws.turn(model="responses/text", input="Hi.")[-1]
        fits("WebSocketErrorEvent", frame)
        assert (frame["status"], frame["error"]["type"], frame["error"]["code"]) == wanted


def test_a_response_that_is_cut_fails_under_the_id_that_it_began_with() -> None:
    with gateway(_broken_off(), serve=FAST) as (running, _), socket(running.url) as ws:
        frames = ws.turn(model="responses/text", input="Hi.")
        assert frames[-1]["type"] == "response.failed"
        assert {frame["response"]["id"] for frame in frames if "response" in frame} == {"resp_1"}
