"""Section G: usage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock import events as ev
from tests.support import run_streams as running
from tests.support import small_streams as small
from tests.support.case_loop import over
from tests.support.small_streams import chat, delta

if TYPE_CHECKING:
    from tests.support.stream_cases import Case

COUNTED = {"prompt_tokens": 5, "completion_tokens": 9, "total_tokens": 14}


def counted(source: str, body: bytes) -> ev.Usage:
    usage = small.turn(source, body).usage
    assert usage is not None
    return usage


def message(start: dict[str, Any], end: dict[str, Any]) -> bytes:
    """An Anthropic message with these counts at its start and at its end."""
    body = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": start}
    return small.response(
        {"type": "message_start", "message": body},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": end},
        {"type": "message_stop"},
    )


def test_counts_are_cumulative_and_not_added_up() -> None:
    usage = counted("anthropic", message({"input_tokens": 10, "output_tokens": 1}, {"output_tokens": 7}))
    assert (usage.input, usage.output) == (10, 7)
    growing = [delta({"content": "x"}, usage={**COUNTED, "completion_tokens": n}) for n in (1, 2, 3)]
    assert counted("openai-chat", chat(*growing, delta({}, "stop"))).output == 3


def test_a_prompt_in_one_number_may_be_split_later() -> None:
    end = {"input_tokens": 100, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 50, "output_tokens": 7}
    usage = counted("anthropic", message({"input_tokens": 1050, "output_tokens": 1}, end))
    assert (usage.input, usage.cached, usage.written) == (1050, 900, 50)


@pytest.mark.parametrize(
    ("source", "body"),
    [
        ("openai-chat", chat(delta({"content": "x"}, "stop"), {**delta({}), "choices": [], "usage": COUNTED})),
        ("openai-chat", chat(delta({"content": "x"}, "stop", x_groq={"usage": COUNTED}))),
        ("anthropic", message({"input_tokens": 5, "output_tokens": 1}, {"output_tokens": 9})),
        (
            "gemini",
            small.gemini(
                {
                    "candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"}],
                    "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 9},
                }
            ),
        ),
        (
            "ollama",
            b'{"message":{"content":"x"},"done":true,"done_reason":"stop","prompt_eval_count":5,"eval_count":9}\n',
        ),
    ],
)
def test_usage_is_read(source: str, body: bytes) -> None:
    usage = counted(source, body)
    assert (usage.input, usage.output) == (5, 9)


@over(small.finished())
def test_no_chunk_says_zero_before_anything_is_known(case: Case) -> None:
    for payload in small.sent("openai-chat", case.expected()):
        assert not payload.get("usage") or not payload["choices"]


@pytest.mark.parametrize("choices", [[], None])
def test_a_chunk_without_choices_may_come_first_and_last(choices: Any) -> None:
    bare = {**delta({}), "choices": choices, "usage": None}
    body = chat(bare, delta({"content": "Hi."}), bare, delta({}, "stop"), {**bare, "usage": COUNTED})
    found = small.turn("openai-chat", body)
    assert found.text == "Hi."
    assert found.usage is not None


def test_a_total_that_is_not_there_is_the_sum() -> None:
    said = small.events("anthropic", message({"input_tokens": 10, "output_tokens": 1}, {"output_tokens": 7}))
    (usage,) = [p["usage"] for p in small.sent("openai-chat", said) if not p["choices"]]
    assert usage["total_tokens"] == 17


@pytest.mark.parametrize("target", [name for name in running.targets() if running.row(name).decoder])
def test_what_was_counted_before_a_stream_broke_off_is_kept(target: str) -> None:
    said = small.events("openai-chat", chat(delta({"content": "Half"}, usage=COUNTED), end=b""))
    assert isinstance(said[-1], ev.Fault)
    (usage,) = [event for event in said if isinstance(event, ev.Usage)]
    assert (usage.input, usage.output) == (5, 9)
    encoder_frames = running.encode(target, said)
    again = [event for event in running.run(target, [encoder_frames]).events if isinstance(event, ev.Usage)]
    assert not again or again[-1].input in {0, 5}
