"""The strict upstream refuses what the vendors refuse, in their words, and accepts what is right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.oracles.strict_upstream.valid_requests import accepted, read
from tests.support.each_case import each
from tools.strict_upstream.conversation import PROTOCOLS
from tools.strict_upstream.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable


@each("protocol", PROTOCOLS)
def test_a_right_request_is_read(protocol: str) -> None:
    conversation = read(protocol, accepted(protocol))
    assert [tool.name for tool in conversation.tools] == ["bash"]
    kinds = [item.kind for item in conversation.items if item.kind != "reasoning"]
    assert kinds == ["user", "call", "result"]
    assert "done" in conversation.results()[0].text


def drop(key: str, at: int) -> Callable[[dict[str, Any]], None]:
    """Leave out one message."""

    def change(body: dict[str, Any]) -> None:
        del body[key][at]

    return change


def add(key: str, *values: Any) -> Callable[[dict[str, Any]], None]:
    """Append messages."""

    def change(body: dict[str, Any]) -> None:
        body[key] += values

    return change


def set_field(*path: Any) -> Callable[[dict[str, Any]], None]:
    """Set a value: the path, then the value."""

    def change(body: dict[str, Any]) -> None:
        *steps, name, value = path
        place: Any = body
        for step in steps:
            place = place[step]
        place[name] = value

    return change


def remove(*path: Any) -> Callable[[dict[str, Any]], None]:
    """Remove a field."""

    def change(body: dict[str, Any]) -> None:
        *steps, name = path
        place: Any = body
        for step in steps:
            place = place[step]
        del place[name]

    return change


def double(key: str) -> Callable[[dict[str, Any]], None]:
    """A list with its first element twice."""

    def change(body: dict[str, Any]) -> None:
        body[key].append(body[key][0])

    return change


def rename_call(known: str) -> Callable[[dict[str, Any]], None]:
    """Another id for a call and its result."""

    def change(body: dict[str, Any]) -> None:
        body["messages"][1]["tool_calls"][0]["id"] = body["messages"][2]["tool_call_id"] = known

    return change


def sample_with_effort(body: dict[str, Any]) -> None:
    """A temperature for a model that reasons."""
    body |= {"temperature": 0.5, "reasoning": {"effort": "low"}}


def store_without_call(body: dict[str, Any]) -> None:
    """Reasoning whose call is missing, in a conversation that is stored."""
    body["store"] = True
    del body["input"][2]


ASSISTANT = {"role": "assistant", "content": "So"}
REFUSED: list[tuple[str, Any, str]] = [
    ("chat", set_field("messages", []), "Invalid 'messages': empty array"),
    ("chat", add("messages", {"role": "assistant", "content": None}), "expected a string, got null"),
    ("chat", add("messages", {"role": "assistant", "content": ""}), "expected a string, got null"),
    ("chat", drop("messages", 1), "must be a response to a preceeding message with 'tool_calls'"),
    ("chat", drop("messages", 2), "did not have response messages: call_1"),
    ("chat", add("messages", {"role": "tool", "tool_call_id": "call_1", "content": "x"}), "Duplicate value for"),
    ("chat", set_field("messages", 2, "tool_call_id", "call_2"), "must be a response to"),
    ("chat", add("messages", {**ASSISTANT, "tool_calls": []}), "Invalid 'messages[3].tool_calls': empty array"),
    ("chat", rename_call("c" * 41), "Expected a string with maximum length 40"),
    ("chat", set_field("thinking", {"type": "adaptive"}), "Unknown parameter: 'thinking'."),
    ("chat", set_field("messages", 1, "reasoning_content", "x"), "Unknown parameter: 'messages[1].reasoning_content'."),
    ("chat", set_field("messages", 0, "role", "model"), "Invalid value for 'messages[0].role'"),
    ("chat", set_field("reasoning_effort", "low"), "Unrecognized request argument supplied: reasoning_effort"),
    ("chat", double("tools"), "Duplicate tool name: 'bash'"),
    ("chat", set_field("tools", 0, "function", "name", "a.b"), "string does not match pattern"),
    ("chat", set_field("tools", []), "Invalid 'tools': empty array"),
    ("chat", set_field("stream_options", {"include_usage": True}), "only allowed when 'stream' is enabled"),
    ("responses", set_field("input", []), "Invalid 'input': empty array"),
    ("responses", add("input", {"role": "assistant", "content": ""}), "Invalid 'input[4].content'"),
    ("responses", drop("input", 2), "No tool call found for function call output with call_id call_1."),
    ("responses", store_without_call, "without its required following item"),
    ("responses", drop("input", 3), "No tool output found for function call call_1."),
    (
        "responses",
        set_field("input", 3, "call_id", "call_2"),
        "No tool call found for function call output with call_id",
    ),
    ("responses", set_field("input", 2, "id", "call_1"), "Expected an ID that begins with 'fc'"),
    ("responses", set_field("input", 1, "encrypted_content", "Zm9yZWlnbg=="), "could not be verified"),
    ("responses", set_field("input", 2, "call_id", "c" * 65), "No tool call found"),
    ("responses", set_field("thinking", {"type": "adaptive"}), "Unknown parameter: 'thinking'."),
    ("responses", set_field("input", 2, "signature", "x"), "Unknown parameter: 'input[2].signature'."),
    ("responses", sample_with_effort, "'temperature' is not supported with this model"),
    ("responses", set_field("previous_response_id", "resp_0"), "Previous response with id 'resp_0' not found."),
    ("responses", double("tools"), "Duplicate tool name"),
    ("messages", set_field("messages", []), "at least one message is required"),
    ("messages", set_field("messages", 0, "content", ""), "messages.0: all messages must have non-empty content"),
    (
        "messages",
        set_field("messages", 0, "content", [{"type": "text", "text": ""}]),
        "text content blocks must be non-empty",
    ),
    (
        "messages",
        set_field("messages", 0, "content", [{"type": "text", "text": " "}]),
        "must contain non-whitespace text",
    ),
    ("messages", drop("messages", 0), 'first message must use the "user" role'),
    ("messages", drop("messages", 1), "unexpected `tool_use_id` found in `tool_result` blocks: toolu_1"),
    ("messages", drop("messages", 2), "does not support assistant message prefill"),
    ("messages", add("messages", ASSISTANT), "does not support assistant message prefill"),
    (
        "messages",
        set_field("messages", 2, "content", "no result"),
        "`tool_use` ids were found without `tool_result` blocks",
    ),
    ("messages", remove("messages", 1, "content", 0, "signature"), "messages.1.content.0.signature: Field required"),
    ("messages", set_field("messages", 1, "content", 0, "signature", ""), "Invalid `signature` in `thinking` block"),
    (
        "messages",
        set_field("messages", 1, "content", 0, "thinking", "Other."),
        "Invalid `signature` in `thinking` block",
    ),
    ("messages", set_field("messages", 1, "content", 1, "id", "a.b"), "String should match pattern"),
    (
        "messages",
        set_field("thinking", {"type": "enabled", "budget_tokens": 2000}),
        '"thinking.type.enabled" is not supported',
    ),
    ("messages", set_field("temperature", 0.5), "`temperature` is not supported on this model."),
    ("messages", set_field("reasoning_effort", "low"), "reasoning_effort: Extra inputs are not permitted"),
    ("messages", remove("max_tokens"), "max_tokens: Field required"),
    ("messages", double("tools"), "tools: Tool names must be unique."),
    ("messages", set_field("tools", 0, "name", "a.b"), "tools.0.custom.name: String should match pattern"),
    ("gemini", set_field("contents", []), "contents is not specified"),
    ("gemini", set_field("contents", 0, "parts", []), "contents[0].parts: contents.parts must not be empty"),
    ("gemini", set_field("contents", 0, "parts", [{}]), "must have one initialized field"),
    ("gemini", drop("contents", 1), "function response turn comes immediately after a function call turn"),
    ("gemini", drop("contents", 2), "end with a user role or a function response"),
    ("gemini", remove("contents", 1, "parts", 0, "thoughtSignature"), "missing a thought_signature in functionCall"),
    (
        "gemini",
        set_field("contents", 1, "parts", 0, "thoughtSignature", "Zm9yZWlnbg=="),
        "Thought signature is not valid.",
    ),
    ("gemini", set_field("reasoning", {}), 'Unknown name "reasoning": Cannot find field.'),
    ("gemini", set_field("contents", 0, "parts", 0, "cache_control", {}), 'Unknown name "cache_control"'),
    ("gemini", double("tools"), "Duplicate function declaration found: bash"),
    (
        "gemini",
        set_field("generationConfig", {"thinkingConfig": {"thinkingLevel": "low", "thinkingBudget": 100}}),
        "only one of thinking budget and thinking level",
    ),
]


@each("protocol, change, words", REFUSED)
def test_a_wrong_request_is_refused(protocol: str, change: Callable[[dict[str, Any]], Any], words: str) -> None:
    body = accepted(protocol)
    change(body)
    with pytest.raises(Refusal) as caught:
        read(protocol, body)
    assert words in str(caught.value)
    assert 400 <= caught.value.status < 500


def test_a_model_that_does_not_reason_takes_a_temperature() -> None:
    assert read("responses", {**accepted("responses"), "temperature": 0.5}).results()


@each("signature", ["skip_thought_signature_validator", "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="])
def test_a_documented_dummy_is_a_signature(signature: str) -> None:
    body = accepted("gemini")
    body["contents"][1]["parts"][0]["thoughtSignature"] = signature
    assert read("gemini", body).results()


@each("model", ["gemini-3.6-flash", "gemini-3.5-flash-lite", "gemini-4-pro"])
def test_newer_gemini_models_take_no_last_turn_of_the_model(model: str) -> None:
    body = accepted("gemini")
    body["contents"].append({"role": "model", "parts": [{"text": "So"}]})
    assert read("gemini", body, "gemini-3.1-pro-preview").results()
    with pytest.raises(Refusal, match="Requests ending with a model turn are not supported"):
        read("gemini", body, model)


def test_gemini_2_needs_no_signature() -> None:
    body = accepted("gemini")
    del body["contents"][1]["parts"][0]["thoughtSignature"]
    assert read("gemini", body, "gemini-2.5-pro").results()


@each(
    "model, thinking, words",
    [
        ("claude-opus-4-5", {"type": "adaptive"}, "adaptive thinking is not supported on this model"),
        ("claude-opus-4-5", {"type": "enabled", "budget_tokens": 1}, "greater than or equal to 1024"),
        ("claude-opus-4-5", {"type": "enabled", "budget_tokens": 9000}, "`max_tokens` must be greater than"),
        ("claude-3-5-sonnet-20241022", {"type": "enabled", "budget_tokens": 2000}, "does not support thinking"),
    ],
)
def test_claude_models_differ_in_thinking(model: str, thinking: dict[str, Any], words: str) -> None:
    body = {**accepted("messages"), "model": model, "thinking": thinking}
    with pytest.raises(Refusal, match=words):
        read("messages", body)


def test_a_budget_wants_thinking_first() -> None:
    body = {**accepted("messages"), "model": "claude-opus-4-5", "thinking": {"type": "enabled", "budget_tokens": 2000}}
    assert read("messages", body).wants_reasoning
    del body["messages"][1]["content"][0]
    with pytest.raises(Refusal, match="Expected `thinking` or `redacted_thinking`, but found `tool_use`"):
        read("messages", body)
