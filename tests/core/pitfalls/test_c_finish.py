"""Section C: the finish reason and the end."""

from __future__ import annotations

import pytest

from penstock import events as ev
from tests.support import run_streams as running
from tests.support import small_streams as small
from tests.support.small_streams import chat, delta, fragment
from tests.support.stream_cases import cases

CALL = fragment(0, "{}", id="c1", type="function", name="put")
TOOL = {"type": "tool_use", "id": "t", "name": "put", "input": {}}


def finish(source: str, body: bytes) -> ev.Finish:
    found = small.turn(source, body).finish
    assert found is not None
    return found


@pytest.mark.parametrize("word", ["stop", "tool_calls", "end_turn"])
def test_a_turn_with_calls_ends_in_calls(word: str) -> None:
    assert finish("openai-chat", chat(delta(CALL), delta({}, word))).reason == "calls"


def test_one_without_calls_does_not() -> None:
    assert finish("openai-chat", chat(delta({"content": "Hi."}), delta({}, "tool_calls"))).reason == "stop"


@pytest.mark.parametrize("target", ["anthropic", "openai-chat", "responses"])
def test_text_and_a_call_end_in_a_call(target: str) -> None:
    body = chat(delta({"content": "Let me see."}), delta(CALL), delta({}, "stop"))
    payloads = small.translated("openai-chat", target, body)
    words = {"anthropic": "tool_use", "openai-chat": "tool_calls", "responses": "function_call"}
    assert f'"{words[target]}"' in str(payloads).replace("'", '"')


def test_a_finish_sent_twice_is_one_and_late_usage_counts() -> None:
    usage = {"prompt_tokens": 4, "completion_tokens": 1, "total_tokens": 5}
    body = chat(delta({"content": "Hi."}), delta({}, "stop"), delta({}, "stop", usage=usage), delta({}, "stop"))
    said = small.events("openai-chat", body)
    assert sum(isinstance(event, ev.Finish) for event in said) == 1
    (last,) = small.of_type(small.sent("anthropic", said), "message_delta")
    assert last["usage"]["input_tokens"] == 4


def test_a_finish_beside_content_is_not_lost_and_usage_follows_it() -> None:
    usage = {"prompt_tokens": 4, "completion_tokens": 1, "total_tokens": 5}
    body = chat(delta({"content": "Hi."}, "length"), {**delta({}), "choices": [], "usage": usage})
    payloads = small.translated("openai-chat", "openai-chat", body)
    kinds = ["usage" if not p["choices"] else p["choices"][0]["finish_reason"] or "content" for p in payloads]
    assert kinds == ["content", "content", "length", "usage"]


@pytest.mark.parametrize(("why", "reason"), [("max_output_tokens", "length"), ("content_filter", "filter")])
def test_an_incomplete_response_says_why_and_keeps_its_usage(why: str, reason: str) -> None:
    usage = {"input_tokens": 5, "output_tokens": 9, "total_tokens": 14}
    final = {"id": "r", "status": "incomplete", "incomplete_details": {"reason": why}, "output": [], "usage": usage}
    body = small.response({"type": "response.created", "response": {"id": "r"}},
                          {"type": "response.incomplete", "response": final})  # fmt: skip
    found = small.turn("responses", body)
    assert found.finish is not None
    assert found.finish.reason == reason
    assert found.usage is not None
    assert found.usage.output == 9


def test_a_gemini_answer_of_thoughts_alone_has_an_end() -> None:
    """Without a finish reason nothing says that it is whole; what every target gets is an end all the same."""
    body = small.gemini({"candidates": [{"content": {"parts": [{"text": "Hm.", "thought": True}]}}]})
    said = small.events("gemini", body)
    assert isinstance(said[-1], ev.Finish | ev.Fault)
    for target in running.targets():
        assert running.encode(target, said)


@pytest.mark.parametrize(
    ("word", "reason"),
    [("pause_turn", "pause"), ("refusal", "refusal"), ("model_context_window_exceeded", "length"), ("novel", "stop")],
)
def test_stop_reasons_are_an_open_set(word: str, reason: str) -> None:
    found = finish("anthropic", small.message(small.block(0, {"type": "text", "text": "Hi."}), finish=word))
    assert (found.reason, found.raw) == (reason, word)


@pytest.mark.parametrize("source", ["openai-chat", "anthropic", "gemini"])
def test_an_unknown_but_complete_end_is_a_stop(source: str) -> None:
    bodies = {
        "openai-chat": chat(delta({"content": "Hi."}), delta({}, "novel")),
        "anthropic": small.message(small.block(0, {"type": "text", "text": "Hi."}), finish="novel"),
        "gemini": small.gemini({"candidates": [{"content": {"parts": [{"text": "Hi."}]}, "finishReason": "novel"}]}),
    }
    found = finish(source, bodies[source])
    assert (found.reason, found.raw) == ("stop", "novel")
    decoder = running.run(source, running.batches([bodies[source]]))
    assert "unknown-reason" in decoder.codes


@pytest.mark.parametrize("target", [name for name in running.targets() if running.row(name).decoder])
def test_every_stream_that_leaves_has_its_end(target: str) -> None:
    """Read again by a reader of the target, it ends as it did: well, or with a fault."""
    for case in cases():
        said = case.expected()
        again = running.run(target, [running.encode(target, said)]).events
        assert isinstance(again[-1], type(said[-1])), case.id
