"""What every golden case means for those who read what we write: laws of each protocol, held against all cases.

Cases of the protocol itself are left out where a law is ours and not the protocol's: they are replayed with all that is
odd about them.
"""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

from penstock import events as ev
from penstock.framing import EventStreamWriter
from tests.support import run_streams as running
from tests.support import small_streams as small
from tests.support import turn_facets as facets
from tests.support.case_loop import over
from tests.support.each_case import each
from tests.support.small_streams import DONE, chat, delta, fragment, tool_deltas
from tests.support.stream_cases import Case, cases
from tests.support.stream_laws import READABLE

pytestmark = pytest.mark.usefixtures("strict")
CASES, FINISHED = cases(), small.finished()
SSE = [case for case in FINISHED if case.framing == "sse"]
CALLED = [case for case in FINISHED if small.called(case.expected())]
FAULTS = [case for case in CASES if isinstance(case.expected()[-1], ev.Fault)]
FOREIGN = [case for case in CASES if case.protocol != "anthropic"]
BROKEN = b'data: {"type": "half\n\n'
LONG = "c2lnbmF0dXJl" * 80
WEATHER = {"name": "weather", "id": "call_1", "type": "function"}


# ── reading: what is odd around a stream costs it nothing ─────────────────────────────────────────


@over(SSE)
def test_an_end_mark_after_the_end_is_tolerated_everywhere(case: Case) -> None:
    for mark in (DONE, b"data:[DONE]\n\n", b"data:  [DONE] \n\n", b"event: done\ndata: [DONE]\n\n"):
        body = case.body + (b"" if case.body.endswith(b"\n\n") else b"\n\n") + mark
        assert running.decode(case.source, body, "sse", case.options) == case.expected(), mark


@over(FINISHED)
def test_what_follows_the_end_does_not_undo_it(case: Case) -> None:
    """A stream that was completed stays so, whatever the connection does then."""
    run = running.run(case.source, [[*case.frames, (b"", b"\xff garbage"), (b"", b"{")]], case.options)
    assert run.events == case.expected()


@over(SSE)
def test_a_strange_frame_costs_itself_alone(case: Case) -> None:
    """An event that nobody knows is kept or skipped, half a frame is left out and reported; neither is fatal."""
    news = b'event: weather.report\ndata: {"type":"weather.report","wind":"SW 5"}\n\n'
    for place in _between(case.body):
        said = running.decode(case.source, case.body[:place] + news + case.body[place:], "sse", case.options)
        assert facets.changed(case.expected(), said) <= {"unknown"}
        body = case.body[:place] + BROKEN + case.body[place:]
        run = running.run(case.source, running.batches([body], "sse"), case.options)
        assert run.events == case.expected()
        assert "malformed" in run.codes


def _between(body: bytes) -> list[int]:
    """The places between frames, the first and the last one left out."""
    blank = b"\r\n\r\n" if b"\r\n\r\n" in body else b"\n\n"
    places = [at + len(blank) for at in range(len(body)) if body.startswith(blank, at)]
    return places[:-1]


@over(FINISHED)
def test_frames_come_while_the_bytes_do(case: Case) -> None:
    found = [len(batch) for batch in running.batches(running.crumbs(case.body, 1), case.framing)]
    assert sum(found) == len(case.frames)
    assert max(found) == 1 or case.framing == "jsonarray"


@each("ping", [b'{"type": "ping"}', b'""', b"", b"{}", b"ping"])
def test_a_ping_says_nothing(ping: bytes) -> None:
    head, rest = small.message(small.block(0, {"type": "text", "text": "Hi."})).split(b"\n\n", 1)
    body = head + b"\n\nevent: ping\ndata: " + ping + b"\n\n" + rest
    assert small.turn("anthropic", body).text == "Hi."


def test_a_long_line_is_no_trouble() -> None:
    size = 1_200_000
    body = chat(delta({"content": "x" * size}, "stop"))
    said = running.run("openai-chat", running.batches(running.crumbs(body, 4096))).events
    assert sum(len(event.text) for event in said if isinstance(event, ev.TextDelta)) == size


@each("name, kind", [("throttling", "rate-limit"), ("modelStreamError", "server"), ("validation", "invalid")])
def test_an_aws_exception_is_a_fault(name: str, kind: str) -> None:
    (body,) = EventStreamWriter().feed([(f"{name}Exception".encode(), b'{"message":"No."}')])
    for source in ("bedrock", "anthropic"):
        fault = running.steady(source, body, "eventstream")[-1]
        assert isinstance(fault, ev.Fault)
        assert (fault.kind, fault.message) == (kind, "No.")


# ── Chat ──────────────────────────────────────────────────────────────────────────────────────────


@over([case for case in CASES if case.streamed])
def test_chat_ends_with_one_end_mark_after_a_finish_and_none_after_a_fault(case: Case) -> None:
    said = case.expected()
    data = [frame[1] for frame in running.encode("openai-chat", said)]
    assert data.count(b"[DONE]") == sum(isinstance(event, ev.Finish) for event in said)
    assert (data[-1] == b"[DONE]") == isinstance(said[-1], ev.Finish)


@over(FINISHED)
def test_no_chunk_counts_before_the_end(case: Case) -> None:
    for payload in small.sent("openai-chat", case.expected()):
        assert not payload.get("usage") or not payload["choices"]


@over(CALLED)
def test_chat_calls_have_their_index_and_no_null_identity(case: Case) -> None:
    heads: dict[tuple[str, int], list[int]] = {}
    payloads = small.sent("openai-chat", case.expected())
    for call in tool_deltas(payloads):
        assert all(call[key] for key in ("id", "type") if key in call)
        assert "name" not in call.get("function", {}) or call["function"]["name"]
    for payload in payloads:
        for choice in payload.get("choices", ()):
            for call in choice["delta"].get("tool_calls", ()):
                assert isinstance(call["index"], int)
                if "id" in call:
                    heads.setdefault((payload["id"], choice["index"]), []).append(call["index"])
    assert all(found == list(range(len(found))) for found in heads.values())


# ── Messages ──────────────────────────────────────────────────────────────────────────────────────


@over(FOREIGN)
def test_blocks_of_a_message_come_one_after_the_other_and_are_numbered_through(case: Case) -> None:
    open_block, number = None, 0
    for name, data in running.encode("anthropic", case.expected()):
        payload = json.loads(data)
        kind = payload["type"]
        assert name.decode() == kind
        if kind == "message_start":
            open_block, number = None, 0
        elif kind == "content_block_start":
            assert open_block is None
            assert payload["index"] == number
            open_block, number = number, number + 1
        elif kind.startswith("content_block"):
            assert payload["index"] == open_block
            open_block = None if kind == "content_block_stop" else open_block
        elif kind != "error" and payload.get("delta", {}).get("stop_reason"):
            assert open_block is None


@over([case for case in FAULTS if case.protocol != "anthropic"])
def test_a_block_that_is_open_at_an_error_stays_open(case: Case) -> None:
    """Claude Code acts on the close: it takes half a call for a call.

    See docs/decisions/2026-11-16-faults-leave-parts-open.md.
    """
    kinds = [payload["type"] for payload in small.sent("anthropic", case.expected())]
    assert kinds[-1] == "error"
    broken = [event for event in case.expected() if getattr(event, "broken", False)]
    assert 0 <= kinds.count("content_block_start") - kinds.count("content_block_stop") <= min(1, len(broken))
    assert "message_stop" not in kinds[len(kinds) - 1 - kinds[::-1].index("message_start") :]


@over(FAULTS)
def test_an_error_leaves_in_the_family_s_own_way(case: Case) -> None:
    """Named `error` for Anthropic, whose SDK looks at the name; an error object for Chat."""
    name, data = running.encode("anthropic", case.expected())[-1]
    assert (name, json.loads(data)["type"]) == (b"error", "error")
    assert "error" in json.loads(running.encode("openai-chat", case.expected())[-1][1])


# ── the AI SDK ────────────────────────────────────────────────────────────────────────────────────

STEPS = {"tool-input-start": 0, "tool-input-delta": 1, "tool-input-available": 2, "tool-input-error": 2,
         "tool-output-available": 3, "tool-output-error": 3}  # fmt: skip


@over(FINISHED)
def test_a_tool_starts_once_before_it_is_available_and_that_before_its_output(case: Case) -> None:
    seen: dict[str, int] = {}
    for payload in small.sent("uistream", case.expected()):
        if payload["type"] == "start":
            seen = {}
        if payload["type"] not in STEPS:
            continue
        call, step = payload["toolCallId"], STEPS[payload["type"]]
        assert step >= seen.get(call, 0)
        assert step > 0 or call not in seen
        assert step < 3 or seen.get(call, 0) >= 2
        seen[call] = step


@over(FINISHED)
def test_what_opens_closes_before_the_end(case: Case) -> None:
    for target in ("uistream", "aisdk"):
        opened: list[str] = []
        for payload in small.sent(target, case.expected()):
            kind = payload.get("type")
            if kind in ("text-start", "reasoning-start"):
                opened.append(payload["id"])
            elif kind in ("text-end", "reasoning-end"):
                opened.remove(payload["id"])
            elif kind in ("finish-step", "finish"):
                assert opened == []


def test_a_text_ends_before_a_tool_begins_where_the_source_says_so() -> None:
    call = delta(fragment(0, "{}", id="c1", type="function", name="put"))
    body = chat(delta({"content": "Let me see."}), call, delta({}, "tool_calls"))
    kinds = [payload["type"] for payload in small.translated("openai-chat", "uistream", body)]
    assert kinds.index("text-end") < kinds.index("tool-input-start")


# ── every target ──────────────────────────────────────────────────────────────────────────────────


def test_a_call_that_the_provider_runs_is_never_the_clients_whatever_comes_with_it() -> None:
    """State that claims to be the target's own, and to be an ordinary call, changes nothing."""
    given, found = json.dumps({"query": "tides"}), list[object]()
    for owner, kind in product(
        [*running.NAMES, ""], ["tool_use", "function_call", "functionCall", "server_tool_use", ""]
    ):
        extra = {owner: {"type": kind, "item": {"type": kind, "name": "search", "call_id": "c"}}} if owner else None
        events: list[ev.AnyEvent] = [
            ev.Start("t", "m"), ev.CallStart(0, "c", "search", "provider", extra=extra), ev.CallDelta(0, given),
            ev.CallEnd(0, "c", "search", given, "provider", extra=extra), ev.Result(1, "c", "search", '"found"', extra=extra),
            ev.Finish("stop", "stop"),
        ]  # fmt: skip
        found += [(owner, kind, leaks) for target in READABLE if (leaks := running.leaked(target, events))]
    assert found == []


def test_opaque_state_stays_out_of_ids() -> None:
    call = {"functionCall": {"name": "put", "args": {}}, "thoughtSignature": LONG}
    body = small.gemini({"candidates": [{"content": {"parts": [call]}, "finishReason": "STOP"}], "responseId": "r"})
    said = small.events("gemini", body)
    for target in running.targets():
        for payload in small.sent(target, said):
            ids = [value for key, value in _pairs(payload) if key.lower().endswith("id") and isinstance(value, str)]
            assert all(LONG not in value and len(value) <= 64 for value in ids), target


def _pairs(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [*value.items(), *(pair for inner in value.values() for pair in _pairs(inner))]
    return [pair for inner in value for pair in _pairs(inner)] if isinstance(value, list) else []


def test_encrypted_reasoning_of_another_protocol_is_left_out_and_nothing_malformed_comes_of_it() -> None:
    (said,) = (case.expected() for case in CASES if case.id == "responses/reasoning-encrypted")
    # AI SDK providers and the host carry it as metadata, Chat in `reasoning_details`; no other target has a field for it
    carrying = {"responses", "events", "aisdk", "uistream", "vscode", "openai-chat"}
    for target in running.targets():
        told = b"".join(data for _, data in running.encode(target, said))
        assert (b"enc-done" in told) == (target in carrying), target


def test_a_refusal_arrives_everywhere() -> None:
    said = small.events("openai-chat", chat(delta({"refusal": "No."}), delta({}, "stop")))
    for target in READABLE:
        again = running.read_back(target, running.encode(target, said))
        words = [event.text for event in again if isinstance(event, ev.RefusalDelta | ev.TextDelta)]
        assert "".join(words).endswith("No."), target
