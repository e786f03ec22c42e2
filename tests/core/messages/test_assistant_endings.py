"""Conversations that end with the assistant, and answers that hold nothing but reasoning."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import InputError
from penstock.messages import Converted, convert, profile_of
from tests.support.each_case import each
from tests.support.request_passes import CONTINUE

USER = {"role": "user", "content": "How deep?"}
HALF = {"role": "assistant", "content": "It is three me "}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]}
REFUSES = {
    "anthropic": "claude-opus-4-7", "bedrock": "anthropic.claude-sonnet-4-6", "gemini": "gemini-3.6-flash",
    "openai-chat": "mistral-large-2411",
}  # fmt: skip
TAKES = {"anthropic": "claude-sonnet-4-5", "gemini": "gemini-3.1-pro-preview", "openai-chat": "gpt-4.1"}


def from_responses(model: str, target: str, *items: Any, **more: Any) -> Converted:
    return convert({"model": model, "input": [USER, *items], "max_output_tokens": 5000, **more}, "responses", target)


def turns(made: Converted) -> list[tuple[str, str]]:
    """Who says what, whatever the protocol."""
    rows: list[Any] = made.body.get("messages") or made.body["contents"]
    return [(row["role"], _words(row.get("content") or row.get("parts"))) for row in rows]


def _words(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def codes(made: Converted) -> list[str]:
    return [row.code for row in made.diagnostics]


@each("target", REFUSES)
def test_a_user_turn_follows_half_an_answer_where_a_prefill_is_refused(target: str) -> None:
    made = from_responses(REFUSES[target], target, HALF)
    assert [words for _, words in turns(made)] == ["How deep?", "It is three me ", CONTINUE]
    assert turns(made)[-1][0] == "user"
    assert "changed-last-turn" in codes(made)


@each("target", TAKES)
def test_half_an_answer_stays_last_where_it_is_taken(target: str) -> None:
    made = from_responses(TAKES[target], target, HALF)
    assert [words.strip() for _, words in turns(made)] == ["How deep?", "It is three me"]


def test_claude_takes_no_white_space_at_the_end_of_a_prefill() -> None:
    made = from_responses("claude-sonnet-4-5", "anthropic", HALF)
    assert turns(made)[-1] == ("assistant", "It is three me")
    assert "changed-last-turn" in codes(made)


def test_claude_takes_no_prefill_while_it_thinks() -> None:
    made = from_responses("claude-sonnet-4-5", "anthropic", HALF, reasoning={"effort": "low"})
    assert made.body["thinking"]["type"] == "enabled"
    assert turns(made)[-1] == ("user", CONTINUE)


@each("target", ["openai-chat", "anthropic", "bedrock", "gemini", "cohere", "ollama", "completions"])
@each("after", [[], [USER]])
@each("summary", [REASONING["summary"], []])
def test_an_answer_of_nothing_but_reasoning_is_left_out(target: str, after: list[Any], summary: Any) -> None:
    item = {**REASONING, "summary": summary, "encrypted_content": "CIPHER"}
    made, without = from_responses("m", target, item, *after), from_responses("m", target, *after)
    assert made.body == without.body
    assert "loss-reasoning-only" in codes(made)


def test_reasoning_goes_into_the_answer_that_follows_it() -> None:
    said: list[Any] = [
        USER, {"role": "assistant", "content": None, "reasoning_content": "Hm."}, {"role": "assistant", "content": "3"}
    ]  # fmt: skip
    made = convert({"model": "command-a-reasoning", "messages": said}, "openai-chat", "cohere")
    assert [row["role"] for row in made.body["messages"]] == ["user", "assistant"]
    assert [part["type"] for part in made.body["messages"][1]["content"]] == ["thinking", "text"]


def test_a_compaction_that_the_target_cannot_read_is_told_as_lost_state() -> None:
    made = from_responses("llama3", "ollama", {"type": "compaction", "id": "c", "encrypted_content": "CIPHER"})
    assert [row["role"] for row in made.body["messages"]] == ["user"]
    assert codes(made) == ["loss-opaque"]


def test_a_tool_that_a_provider_ran_is_no_last_turn() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}
    made = from_responses("claude-opus-4-7", "anthropic", search)
    assert [block["type"] for block in made.body["messages"][-1]["content"]] == ["tool_result"]
    assert "changed-last-turn" not in codes(made)


def test_a_prefill_that_is_meant_as_one_is_a_loss_and_strict_refuses_it() -> None:
    body = {"model": "gemini-3.6-flash", "max_tokens": 50, "messages": [USER, HALF]}
    made = convert(body, "anthropic", "gemini")
    assert turns(made)[-1] == ("user", CONTINUE)
    assert "loss-prefill" in codes(made)
    with pytest.raises(InputError, match="prefill"):
        convert(body, "anthropic", "gemini", strict=True)


def test_in_its_own_protocol_a_client_answers_for_the_last_turn_of_a_model_it_named() -> None:
    body = {"model": "claude-opus-4-7", "max_tokens": 50, "messages": [USER, HALF]}
    profile = profile_of("anthropic")
    assert convert(body, "anthropic", "anthropic", profile=profile).body["messages"] == [USER, HALF]
    renamed = convert(body, "anthropic", "anthropic", profile=profile, renamed=True)
    assert turns(renamed)[-1] == ("user", CONTINUE)
