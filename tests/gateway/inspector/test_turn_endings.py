"""Who ended a turn, and why it has no frames: the gateway by itself, or a provider; in memory and read from disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock._inspector.turn_endings import LastAttempt, explain_no_frames, find_fault_party
from penstock.events import Fault
from tests.support.client_requests import get, post
from tests.support.event_feed import ended
from tests.support.request_turns import ask_messages, failing_gateway

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.inspector import Inspected

INVALID, LEFT = Fault("invalid", "no"), Fault("cancelled", "gone")
CIRCUIT, REVOKED = Fault("overloaded", "open", code="circuit-open"), Fault("auth", "revoked", code="key_revoked")


def attempt(status: int = 0, error: str = "", engine: str = "native", *, sent: bool = True) -> LastAttempt:
    return LastAttempt("lab", status, error, engine, sent)


@pytest.mark.parametrize(
    ("fault", "last", "party"),
    [
        (None, None, ""),
        (None, attempt(200), ""),
        (INVALID, None, "gateway"),
        (INVALID, attempt(400, "invalid"), "provider"),
        (INVALID, attempt(0, "timeout"), "provider"),
        (INVALID, attempt(0, "auth", sent=False), "unsent"),
        (INVALID, attempt(0, "", "", sent=False), "unsent"),
        (INVALID, attempt(0, "server", "sdk", sent=False), "provider"),
        (INVALID, attempt(200), "gateway"),  # it ended an answer that had begun
        (CIRCUIT, attempt(500, "server"), "gateway"),
        (REVOKED, attempt(200), "gateway"),
    ],
)
def test_who_made_the_error(fault: Fault | None, last: LastAttempt | None, party: str) -> None:
    assert find_fault_party(fault, last) == party


@pytest.mark.parametrize(
    ("fault", "last", "why"),
    [
        (None, None, "no provider was asked: there are no frames"),
        (INVALID, None, "the gateway refused it: no provider was asked"),
        (LEFT, None, "the client left before a provider was asked: there are no frames"),
        (LEFT, attempt(), "the client left before the provider lab answered: there are no frames"),
        (INVALID, attempt(429, "rate-limit"), "the provider lab answered 429: there are no frames"),
        (INVALID, attempt(200, "overloaded"), "the provider lab answered with an error: there are no frames"),
        (INVALID, attempt(0, "timeout"), "the provider lab did not answer in time: there are no frames"),
        (INVALID, attempt(0, "other"), "the provider lab gave no answer: there are no frames"),
        (INVALID, attempt(sent=False), "the gateway could not send it to the provider lab: there are no frames"),
    ],
)
def test_why_there_are_no_frames(fault: Fault | None, last: LastAttempt | None, why: str) -> None:
    assert explain_no_frames(fault, last, finished=True) == why
    assert "yet" in explain_no_frames(fault, last, finished=False)


# ── a gateway ─────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def gateway() -> Iterator[Inspected]:
    with failing_gateway() as running:
        yield running


def trace_of(gateway: Inspected, name: str) -> dict[str, Any]:
    response = get(f"{gateway.url}/inspector/turns/{name}")
    assert response.status_code == 200, response.text
    return dict(response.json())


ENDINGS = [
    ("openai-chat/broken", "provider", "the provider openai-chat answered 500: there are no frames"),
    ("openai-chat/locked", "provider", "the provider openai-chat answered 401: there are no frames"),
    ("openai-chat/stuck", "provider", "the provider openai-chat did not answer in time: there are no frames"),
    ("nobody", "provider", "the provider anthropic answered 401: there are no frames"),
    ("nobody/none", "gateway", "the gateway refused it: no provider was asked"),
]


@pytest.mark.parametrize(("model", "party", "why"), ENDINGS)
def test_a_failed_turn_names_the_true_party(gateway: Inspected, model: str, party: str, why: str) -> None:
    trace = trace_of(gateway, ask_messages(gateway, model))
    assert (trace["fault_by"], trace["lost"]) == (party, why)


@pytest.mark.parametrize("body", [b"{", b'{"model": "openai-chat/text", "messages": 5}'])
def test_a_body_that_the_gateway_refuses(gateway: Inspected, body: bytes) -> None:
    name = str(post(f"{gateway.url}/v1/messages", content=body).headers["x-request-id"])
    ended(gateway, name)
    trace = trace_of(gateway, name)
    assert (trace["fault_by"], trace["lost"]) == ("gateway", "the gateway refused it: no provider was asked")
    assert trace["title"] == "no model · anthropic"


def test_an_answer_without_an_error_has_no_party(gateway: Inspected) -> None:
    trace = trace_of(gateway, ask_messages(gateway, "openai-chat/text"))
    assert not {"fault_by", "lost", "request_lost"} & trace.keys()


def test_the_same_is_told_of_turns_that_were_read_from_disk(tmp_path: Path) -> None:
    journal = {"path": str(tmp_path / "journal.sqlite")}
    options: dict[str, Any] = {
        "inspector": {"keep": True},
        "data": tmp_path,
        "journal": journal,
    }
    with failing_gateway(**options) as gateway:
        names = [ask_messages(gateway, model) for model, _, _ in ENDINGS]
        gateway.inspector.watch.close_files()
    with failing_gateway(**options) as again:
        traces = [trace_of(again, name) for name in names]
    assert [(trace["fault_by"], trace["lost"]) for trace in traces] == [(party, why) for _, party, why in ENDINGS]
