"""What is captured of each attempt at a provider: the request as sent, the response, the decisions, the times."""

from __future__ import annotations

import json
import socket
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.client_requests import post
from tests.support.event_feed import ended
from tests.support.request_turns import COLD, PLANTED, UPSTREAM_KEY, ask_messages, watched_gateway

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._inspector.captured_attempts import CapturedAttempt
    from penstock._inspector.live_capture import TurnCapture
    from tests.support.inspector import Inspected


@pytest.fixture(scope="module")
def gateway() -> Iterator[Inspected]:
    with watched_gateway() as running:
        yield running


def capture_of(gateway: Inspected, name: str) -> TurnCapture:
    return gateway.inspector.watch.captures[name]


def attempts_of(gateway: Inspected, model: str, **fields: Any) -> list[CapturedAttempt]:
    return capture_of(gateway, ask_messages(gateway, model, **fields)).attempts


def test_headers_that_are_no_text_are_kept_as_they_are(gateway: Inspected, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = {"x-odd": "half a \udcff"}
    begin = gateway.inspector.watch.begin

    def begin_odd(turn: Any) -> Any:
        turn.incoming.headers.update(odd)
        return begin(turn)

    monkeypatch.setattr(gateway.inspector.watch, "begin", begin_odd)
    capture = capture_of(gateway, ask_messages(gateway, "openai-chat/text"))
    assert capture.client_headers["x-odd"] == odd["x-odd"]
    (attempt,) = capture.attempts
    assert attempt.response_headers["content-type"]
    assert [one.what for one in attempt.reasons] == ["route"]


def test_an_error_response_is_captured_with_its_body(gateway: Inspected) -> None:
    name = ask_messages(gateway, "openai-chat/broken")
    capture = capture_of(gateway, name)
    (attempt,) = capture.attempts
    assert (attempt.provider, attempt.model, attempt.engine, attempt.protocol) == (
        "openai-chat", "broken", "native", "openai-chat",
    )  # fmt: skip
    assert (attempt.method, attempt.url) == ("POST", f"{gateway.up.url}/openai-chat/chat/completions")
    assert json.loads(attempt.body)["messages"] == [{"role": "user", "content": "How high?"}]
    assert (attempt.status, attempt.error) == (500, "server")
    assert json.loads(attempt.error_body) == COLD
    assert attempt.response_headers["x-boiler"] == "7"
    assert [one.what for one in attempt.reasons] == ["route"]
    assert [one.what for one in attempt.decisions] == ["give-up", "give-up"]
    row = capture.to_row()
    assert (row.state, row.provider, row.model) == ("refused", "openai-chat", "broken")
    assert [line.partition(":")[0] for line in row.decisions] == ["route", "give-up", "give-up"]


def test_the_body_is_what_the_upstream_received(gateway: Inspected) -> None:
    (attempt,) = attempts_of(gateway, "openai-chat/text", system="Be brief.")
    received = gateway.up.requests[-1]
    assert attempt.body.encode() == received.body
    assert {name for name in attempt.headers if name != "content-length"} <= {name.lower() for name in received.headers}
    assert (attempt.status, attempt.error_body, attempt.error) == (200, "", "")
    assert [one.what for one in attempt.decisions] == ["open"]


def test_timing_of_a_new_and_of_a_reused_connection() -> None:
    with watched_gateway() as gateway:
        (first,) = attempts_of(gateway, "openai-chat/text")
        (second,) = attempts_of(gateway, "openai-chat/text")
    assert not first.timing.reused
    assert first.timing.dns is not None
    assert first.timing.connect is not None
    assert first.timing.tls is None  # it is HTTP
    assert second.timing.reused
    assert (second.timing.dns, second.timing.connect) == (None, None)
    for timing in (first.timing, second.timing):
        assert timing.first_byte is not None
        assert timing.first_byte > 0


def test_a_timeout_has_no_status_and_an_end(gateway: Inspected) -> None:
    (attempt,) = attempts_of(gateway, "openai-chat/stuck")
    assert (attempt.status, attempt.error, attempt.error_body) == (0, "timeout", "")
    assert "timeouts.first_byte" in attempt.message
    assert attempt.timing.end is not None
    assert attempt.timing.first_byte is None


def test_a_server_that_cannot_be_reached() -> None:
    with closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))  # it does not listen
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with watched_gateway(at=address) as gateway:
            (attempt,) = attempts_of(gateway, "openai-chat/text")
    assert (attempt.status, attempt.error) == (0, "network")
    assert attempt.timing.connect is None
    assert attempt.sent


def test_a_fallback_has_each_attempt_with_its_decisions(gateway: Inspected) -> None:
    first, second = attempts_of(gateway, "either")
    assert (first.provider, first.status, second.provider, second.status) == ("openai-chat", 500, "anthropic", 200)
    assert [one.what for one in first.decisions] == ["give-up", "fallback"]
    assert "text at anthropic is next" in first.decisions[-1].why
    assert [one.what for one in second.reasons] == ["route"]
    assert [one.what for one in second.decisions] == ["open"]
    assert first.timing.end is not None
    assert second.timing.start >= first.timing.end
    assert "messages" in json.loads(second.body)


def test_a_retry_is_an_attempt_with_the_same_body() -> None:
    with watched_gateway(retries=1) as gateway:
        capture = capture_of(gateway, ask_messages(gateway, "openai-chat/broken"))
        first, second = capture.attempts
    assert first.body == second.body
    assert [one.what for one in first.decisions] == ["retry"]
    assert [one.what for one in second.decisions] == ["give-up", "give-up"]


def test_an_error_inside_a_stream_before_content(gateway: Inspected) -> None:
    (attempt,) = attempts_of(gateway, "anthropic/faulty", stream=True)
    assert (attempt.status, attempt.error) == (200, "overloaded")
    assert '"too hot"' in attempt.error_body


def test_an_engine_without_http_sends_nothing(gateway: Inspected) -> None:
    (attempt,) = attempts_of(gateway, "replay/text")
    assert (attempt.engine, attempt.sent, attempt.url, attempt.headers, attempt.body) == ("replay", False, "", {}, "")


def test_losses_of_the_request_are_captured(gateway: Inspected) -> None:
    thinking = {"type": "enabled", "budget_tokens": 2048}
    fields: dict[str, Any] = {"top_k": 5, "thinking": thinking, "max_tokens": 4000}
    capture = capture_of(gateway, ask_messages(gateway, "openai-chat/text", **fields))
    assert {row.name or row.code for row in capture.losses} >= {"top_k", "loss-budget"}
    assert capture.losses == capture.attempts[-1].losses


@pytest.mark.parametrize(
    "body", [b"{", b'{"model": "openai-chat/text", "messages": 5}', b'{"model":"nobody/none","messages":[]}']
)
def test_a_turn_refused_before_any_attempt_is_captured(gateway: Inspected, body: bytes) -> None:
    response = post(f"{gateway.url}/v1/messages", content=body)
    name = str(response.headers["x-request-id"])
    ended(gateway, name)
    capture = capture_of(gateway, name)
    assert (capture.attempts, capture.losses, capture.request) == ([], [], body)
    assert capture.client_headers["user-agent"]
    assert capture.to_row().state == "refused"


def test_no_secret_is_in_an_attempt(gateway: Inspected) -> None:
    headers = {"x-api-key": PLANTED, "cookie": f"s={PLANTED}", "x-note": f"see {PLANTED}"}
    messages = [{"role": "user", "content": f"My key is {PLANTED}"}]
    for model in ("openai-chat/locked", "either", "gemini/text"):
        capture = capture_of(gateway, ask_messages(gateway, model, headers=headers, messages=messages))
        shown = repr((capture.attempts, capture.client_headers))
        assert "[secret]" in shown
        for secret in (PLANTED, UPSTREAM_KEY):
            assert secret not in shown
