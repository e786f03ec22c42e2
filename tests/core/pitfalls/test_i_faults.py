"""Section I: errors in the middle of a stream. What concerns connections waits for the gateway (data/rows.toml)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock import events as ev
from penstock.framing import EventStreamWriter
from tests.support import run_streams as running
from tests.support import small_streams as small
from tests.support.case_loop import over
from tests.support.small_streams import DONE, chat, delta
from tests.support.stream_cases import Case, cases

BUSY: dict[str, Any] = {"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}
FAULTS = [case for case in cases() if isinstance(case.expected()[-1], ev.Fault)]


def begun(*more: dict[str, Any]) -> bytes:
    """A message that has begun to speak."""
    whole = small.message(small.block(0, {"type": "text", "text": "Half"}))
    frames = whole.split(b"\n\n")[:2]
    return b"\n\n".join(frames) + b"\n\n" + small.response(*more)


@pytest.mark.parametrize("end", [b"", DONE])
def test_an_error_in_mid_stream_is_a_fault_of_its_kind_and_no_success(end: bytes) -> None:
    found = small.turn("anthropic", begun(BUSY) + end)
    assert found.fault is not None
    assert (found.fault.kind, found.fault.message, found.text) == ("overloaded", "Busy", "Half")
    assert found.finish is None
    frames = running.encode("openai-chat", small.events("anthropic", begun(BUSY) + end))
    assert frames[-1][1] != b"[DONE]"
    assert json.loads(frames[-1][1])["error"]["code"] == "server_is_overloaded"


@over(FAULTS)
def test_an_error_leaves_in_the_family_s_own_way(case: Case) -> None:
    """Named `error` for Anthropic, whose SDK looks at the name; an error object for Chat."""
    said = case.expected()
    name, data = running.encode("anthropic", said)[-1]
    assert (name, json.loads(data)["type"]) == (b"error", "error")
    assert "error" in json.loads(running.encode("openai-chat", said)[-1][1])


@pytest.mark.parametrize("source", ["bedrock", "anthropic"])
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("throttlingException", "rate-limit"),
        ("modelStreamErrorException", "server"),
        ("validationException", "invalid"),
    ],
)
def test_an_aws_exception_is_a_fault(source: str, name: str, kind: str) -> None:
    (body,) = EventStreamWriter().feed([(name.encode(), b'{"message":"No."}')])
    fault = running.steady(source, body, "eventstream")[-1]
    assert isinstance(fault, ev.Fault)
    assert (fault.kind, fault.message) == (kind, "No.")


@pytest.mark.parametrize("target", ["uistream", "aisdk", "anthropic", "responses"])
def test_a_second_start_in_one_turn_is_not_passed_on(target: str) -> None:
    """A fallback that begins anew inside a stream: one preamble, and the output of both."""
    start: dict[str, Any] = {
        "type": "message_start",
        "message": {"id": "m2", "type": "message", "role": "assistant", "content": []},
    }
    rest = small.message(small.block(0, {"type": "text", "text": " Whole."})).split(b"\n\n", 1)[1]
    said = small.events("anthropic", begun(start) + rest)
    assert sum(isinstance(event, ev.Start) for event in said) == 1
    preambles = {"uistream": "start", "aisdk": "start", "anthropic": "message_start", "responses": "response.created"}
    payloads = small.sent(target, said)
    assert len(small.of_type(payloads, preambles[target])) == 1
    assert " Whole." in str(payloads)


@pytest.mark.parametrize("target", running.targets())
def test_a_failure_in_mid_stream_is_an_error_frame_and_an_end(target: str) -> None:
    said = small.events("openai-chat", chat(delta({"content": "Half"}), {"error": {"message": "Guarded", "code": 500}}))
    assert isinstance(said[-1], ev.Fault)
    assert b"Guarded" in b"".join(data for _, data in running.encode(target, said))


@over(small.finished())
def test_what_follows_the_end_does_not_undo_it(case: Case) -> None:
    """A stream that was completed stays so, whatever the connection does then."""
    frames = [frame for batch in running.batches([case.body], case.framing) for frame in batch]
    run = running.run(case.source, [[*frames, (b"", b"\xff garbage"), (b"", b"{")]], case.options)
    assert run.events == case.expected()
