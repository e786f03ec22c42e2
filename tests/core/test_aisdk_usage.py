"""AI SDK streams: usage is never lost, steps are counted without their frames, ids are unique within a step."""

from __future__ import annotations

import asyncio
from typing import Any

from penstock import decoder, fold_all
from penstock import events as ev
from penstock import request as rq
from penstock.tokens import HybridTokenEstimator
from penstock.vscode import ToolCallPart, VSCodeStreamAdapter
from tests.support.each_case import each
from tests.support.stream_adapter import outcome

CALL: dict[str, Any] = {"type": "tool-call", "toolCallId": "c1", "toolName": "tide", "input": {}}
TEXT: dict[str, Any] = {"type": "text-delta", "text": "Ahoy"}
ERROR: dict[str, Any] = {"type": "error", "error": {"message": "no"}}
PIECES: list[dict[str, Any]] = [
    {"type": "tool-input-start", "id": "c1", "toolName": "tide"},
    {"type": "tool-input-delta", "id": "c1", "delta": "{}"},
    {"type": "tool-input-end", "id": "c1"},
]


def ignore(_: Any) -> None:
    """Report to nobody."""


def usage(read: int, made: int) -> dict[str, int]:
    return {"inputTokens": read, "outputTokens": made}


def finish(read: int | None = None, made: int = 0) -> dict[str, Any]:
    said = {"totalUsage": usage(read, made)} if read is not None else {}
    return {"type": "finish", "finishReason": "stop", **said}


def step_end(read: int, made: int) -> dict[str, Any]:
    return {"type": "finish-step", "finishReason": "stop", "usage": usage(read, made)}


# ── usage ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@each("before", [[], [{"type": "start"}], [{"type": "start"}, {"type": "start-step"}]])
@each(
    "content",
    [[CALL], [*PIECES, CALL], [{"type": "stream-start"}, *PIECES, CALL], [TEXT], [ERROR], [TEXT, ERROR], [CALL, ERROR],
     [{"type": "source", "url": "https://a.example"}], []],
)  # fmt: skip
def test_usage_is_known_whatever_comes_first(before: list[Any], content: list[Any]) -> None:
    for end in ([finish(10, 5)], [step_end(10, 5), finish()], [step_end(10, 5), finish(10, 5)]):
        _, last = outcome([*before, *content, *end])
        assert (last.usage.input, last.usage.output) == (10, 5), end


def test_usage_of_a_provider_stream_whose_first_content_is_a_call() -> None:
    said = {"inputTokens": {"total": 10}, "outputTokens": {"total": 5}}
    end = {"type": "finish", "finishReason": {"unified": "tool-calls"}, "usage": said}
    _, last = outcome([{"type": "stream-start"}, *PIECES, CALL, end])
    assert (last.usage.input, last.usage.output) == (10, 5)


@each("end", [[], [finish()], [{"type": "abort"}]])
def test_usage_of_a_step_is_known_without_the_start_of_the_step(end: list[Any]) -> None:
    _, last = outcome([TEXT, step_end(7, 2), *end])
    assert (last.usage.input, last.usage.output) == (7, 2)


@each("framed", [True, False])
def test_steps_are_counted_with_and_without_their_starts(framed: bool) -> None:
    start = [{"type": "start-step"}] if framed else []
    _, last = outcome([*start, TEXT, step_end(100, 5), *start, TEXT, step_end(220, 9), finish()])
    assert (last.usage.input, last.usage.output) == (320, 14)
    assert [(one.step, one.input, one.output) for one in last.steps] == [(1, 100, 5), (2, 220, 9)]


def test_usage_in_the_metadata_of_a_message_is_known_whatever_comes_first() -> None:
    told = {"type": "message-metadata", "messageMetadata": {"usage": usage(3, 1)}}
    _, last = outcome([told, CALL, finish()], source="uistream")
    assert (last.usage.input, last.usage.output) == (3, 1)


# ── the result of a stream ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_result_knows_steps_calls_cuts_and_usage() -> None:
    half = {"type": "tool-input-delta", "toolCallId": "c2", "toolName": "tide", "inputTextDelta": '{"po'}
    stream = [{"type": "start-step"}, TEXT, step_end(100, 5), {"type": "start-step"}, CALL, half, step_end(220, 9),
              finish()]  # fmt: skip
    adapter = VSCodeStreamAdapter()
    used = asyncio.run(adapter.process_stream(stream, ignore))
    assert isinstance(used, ev.Usage)
    assert (used.input, used.output) == (320, 14)
    turn = used.turn
    assert turn is not None
    assert [one.input for one in turn.steps] == [100, 220]
    assert turn.text == "Ahoy"
    last = adapter.last
    assert [call.id for call in last.calls] == ["c1"]
    assert [call.id for call in last.cut] == ["c2"]
    assert last.turn is not None
    assert adapter.usage == used


def test_calibrate_learns_from_the_result_of_a_stream() -> None:
    request = rq.Request(messages=[rq.Message("user", [rq.Text("The tide at Oban " * 40)])], model="gpt-4o")
    estimator = HybridTokenEstimator()
    used = asyncio.run(VSCodeStreamAdapter().process_stream([TEXT, finish(200, 3)], ignore))
    estimator.calibrate(request, used, "gpt-4o", "openai")
    said = estimator.estimate_conversation(request, model="gpt-4o", provider="openai")
    assert (said.tokens, said.method) == (200, "actual")


def test_calibrate_does_not_take_the_sum_of_steps_for_a_prompt() -> None:
    request = rq.Request(messages=[rq.Message("user", [rq.Text("The tide at Oban " * 40)])], model="gpt-4o")
    stream = [{"type": "start-step"}, TEXT, step_end(100, 5), {"type": "start-step"}, TEXT, step_end(220, 9), finish()]
    used = asyncio.run(VSCodeStreamAdapter().process_stream(stream, ignore))
    estimator = HybridTokenEstimator()
    estimator.calibrate(request, used, "gpt-4o", "openai")
    assert estimator.estimate_conversation(request, model="gpt-4o", provider="openai").tokens == 220
    assert estimator.factor("gpt-4o", "openai").value == 1.0


def test_a_stream_of_several_turns_teaches_nothing() -> None:
    used = asyncio.run(VSCodeStreamAdapter().process_stream([TEXT, finish(9, 1), {"type": "start"}, TEXT, finish(9, 1)],
                                                            ignore))  # fmt: skip
    assert (used.input, used.turn) == (18, None)


# ── ids ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def step(call: str, answer: bool, **more: Any) -> list[dict[str, Any]]:
    made = [{"type": "start-step"}, {**CALL, "toolCallId": call, **more}]
    return [*made, *([{"type": "tool-result", "toolCallId": call, "toolName": "tide", "output": 1}] if answer else []),
            step_end(1, 1)]  # fmt: skip


@each("framed", [True, False])
@each("streamed", [True, False])
def test_a_call_id_may_be_used_again_in_a_later_step(framed: bool, streamed: bool) -> None:
    again = step("c1", answer=False, input={"port": "Oban"})
    if streamed:
        again[1:2] = [PIECES[0], {**PIECES[1], "delta": '{"port":"Oban"}'}, PIECES[2], again[1]]
    stream = [
        chunk for chunk in [*step("c1", answer=True), *again, finish()] if framed or chunk["type"] != "start-step"
    ]
    parts, last = outcome(stream)
    assert parts == [ToolCallPart("gw-c1", "tide", {"port": "Oban"})]
    assert last.why == ""


def test_a_call_that_was_refused_may_be_tried_again_under_its_id() -> None:
    refused = [{"type": "start-step"}, {**CALL, "invalid": True, "error": "no"}, step_end(1, 1)]
    parts, _ = outcome([*refused, *step("c1", answer=False), finish()])
    assert parts == [ToolCallPart("gw-c1", "tide", {})]


def test_an_id_is_used_once_within_a_step() -> None:
    parts, last = outcome([{"type": "start-step"}, CALL, {**CALL, "input": {"port": "Oban"}}, step_end(1, 1), finish()])
    assert parts == [ToolCallPart("gw-c1", "tide", {"port": "Oban"})]
    assert "conflict" in [found.code for found in last.diagnostics]


def test_results_of_both_steps_stay_with_their_calls() -> None:
    decode = decoder("aisdk")
    events = [
        event
        for chunk in [*step("c1", answer=True), *step("c1", answer=True), finish()]
        for event in decode.read_payload(chunk)
    ]
    [turn] = fold_all([*events, *decode.finish()])
    assert [type(part) for part in turn.parts] == [rq.Call, rq.Result, rq.Call, rq.Result]
