"""Errors in AI SDK streams keep their details, and the adapter's logger is told of every fault."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from penstock import encoder
from penstock import events as ev
from penstock.errors import StreamFault
from penstock.vscode import VSCodeStreamAdapter
from tests.support.each_case import each
from tests.support.stream_adapter import Log, outcome

KEY = "sk-proj-abcdefghij1234567890"
API_ERROR: dict[str, Any] = {
    "name": "AI_APICallError",
    "message": "too long",
    "statusCode": 400,
    "url": f"https://api.example/v1/chat?key={KEY}",
    "requestBodyValues": {"messages": ["a prompt that nobody should log"]},
    "responseHeaders": {"Retry-After": "3", "x-request-id": "req_7", "set-cookie": "session=1", "X-Api-Key": KEY},
    "responseBody": json.dumps({"error": {"code": "context_length_exceeded", "message": f"with {KEY}: too long"}}),
    "isRetryable": False,
    "cause": {"name": "TypeError", "message": f"fetch failed for {KEY}", "cause": {"code": "ECONNRESET"}},
}


def ignore(_: Any) -> None:
    """Report to nobody."""


def fault(error: Any) -> ev.Fault:
    _, last = outcome([{"type": "error", "error": error}, {"type": "finish", "finishReason": "error"}])
    assert last.fault is not None
    return last.fault


def test_details_of_an_api_call_error_are_kept() -> None:
    found = fault(API_ERROR)
    assert (found.kind, found.status, found.code) == ("too-large", 400, "context_length_exceeded")
    assert (found.retry_after, found.request_id, found.message) == (3.0, "req_7", "too long")
    assert found.extra is not None
    kept = found.extra["aisdk"]["error"]
    assert kept["name"] == "AI_APICallError"
    assert kept["url"].startswith("https://api.example/v1/chat")
    assert kept["responseHeaders"]["retry-after"] == "3"
    assert "context_length_exceeded" in kept["responseBody"]
    assert kept["cause"]["cause"] == {"code": "ECONNRESET"}
    assert kept["isRetryable"] is False


def test_details_hold_no_secret_and_no_prompt() -> None:
    text = repr(fault(API_ERROR).extra)
    assert KEY not in text
    assert "session=1" not in text
    assert "nobody should log" not in text


@each(
    "error, kind, wait",
    [
        ({"name": "AI_APICallError", "message": "slow down", "statusCode": 429, "responseHeaders": {"retry-after-ms": "1500"}}, "rate-limit", 1.5),
        ({"name": "AI_RetryError", "message": "Failed after 3 attempts", "reason": "maxRetriesExceeded",
          "lastError": {"name": "AI_APICallError", "statusCode": 529, "responseHeaders": {"retry-after": "20s"}}}, "overloaded", 20.0),
        ({"name": "AI_RetryError", "message": "Failed", "errors": [{"statusCode": 500}, {"statusCode": 401}]}, "auth", None),
        ({"message": "no", "statusCode": 503, "retryAfter": 2}, "overloaded", 2.0),
        ({"message": "x" * 100, "responseBody": "<html>" + "y" * 100_000, "statusCode": 502}, "server", None),
        ({"message": "no", "responseHeaders": "none", "cause": 7, "responseBody": 5, "data": []}, "other", None),
    ],
)  # fmt: skip
def test_what_errors_tell(error: Any, kind: str, wait: float | None) -> None:
    found = fault(error)
    assert (found.kind, found.retry_after) == (kind, wait)
    assert len(repr(found.extra)) < 10_000


def test_details_survive_a_way_through_penstock() -> None:
    encode = encoder("aisdk")
    frames = encode.feed([ev.Start(), fault(API_ERROR)])
    sent = next(json.loads(data) for _, data in frames if b'"error"' in data)["error"]
    assert sent["responseHeaders"]["retry-after"] == "3"
    again = fault(sent)
    assert (again.status, again.retry_after, again.request_id) == (400, 3.0, "req_7")


def test_a_raised_fault_has_the_details() -> None:
    adapter = VSCodeStreamAdapter(errors="raise")
    with pytest.raises(StreamFault) as caught:
        asyncio.run(adapter.process_stream([{"type": "error", "error": API_ERROR}], ignore))
    assert caught.value.fault.retry_after == 3.0


# ── the log ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class WarnOnly:
    """A logger as extensions have it: `warn`, and nothing else."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def warn(self, message: str) -> None:
        self.lines.append(message)


async def broken() -> Any:
    yield {"type": "text-delta", "text": "Ahoy"}
    raise ConnectionResetError("gone")


@each("errors", ["text", "raise"])
@each(
    "stream, words",
    [
        ([{"type": "error", "error": API_ERROR}], ["too-large: too long", "status 400", "retry after 3.0"]),
        ([{"type": "text-delta", "text": "Ahoy"}], ["truncated: the stream ended before"]),
        (broken, ["network: gone"]),
        ([b"\x00\x01 no framing at all"], ["the stream ended"]),
        ([{"type": "abort", "reason": "stopped by the user"}], ["cancelled: stopped by the user"]),
    ],
)
def test_every_fault_is_logged_once(stream: Any, words: list[str], errors: Any) -> None:
    for logger in (Log(), WarnOnly()):
        adapter = VSCodeStreamAdapter(logger=logger, errors=errors)
        try:
            asyncio.run(adapter.process_stream(stream() if callable(stream) else stream, ignore))
        except StreamFault:
            assert errors == "raise"
        lines = [line if isinstance(line, str) else line[1] for line in logger.lines]
        assert len([line for line in lines if all(word in line for word in words)]) == 1, lines


def test_a_logger_with_warn_alone_hears_of_cut_calls() -> None:
    log = WarnOnly()
    half = {"type": "tool-input-delta", "toolCallId": "c2", "toolName": "tide", "inputTextDelta": '{"po'}
    outcome([half, {"type": "finish", "finishReason": "length"}], logger=log)
    assert any("call-cut" in line for line in log.lines)


def test_the_log_holds_no_secret() -> None:
    log = WarnOnly()
    outcome([{"type": "error", "error": {"message": f"bad key {KEY}"}}], logger=log)
    assert log.lines
    assert not any(KEY in line for line in log.lines)


def test_a_logger_of_the_standard_library(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "adapter"):
        outcome([{"type": "error", "error": "no"}], logger=logging.getLogger("adapter"))
    assert [record.levelname for record in caplog.records] == ["ERROR"]
