"""What cannot be carried: options of other providers, pictures in a prompt, and settings that `strict` refuses to lose."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.errors import BadRequest, InputError
from penstock.messages import convert
from tests.core.messages.test_convert import HELLO, PIXEL, codes
from tests.support.each_case import each


@each(
    "target, key",
    [("anthropic", "anthropic"), ("openai-chat", "openai"), ("responses", "openai"), ("gemini", "google"),
     ("bedrock", "bedrock"), ("cohere", "cohere")],
)  # fmt: skip
def test_options_under_the_targets_own_key_pass_and_others_are_reported(target: str, key: str) -> None:
    options = {key: {"odd": {"Knob": 5}}, "acme": {"x": 1}}
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "providerOptions": options}
    made = convert(body, "aisdk", target)
    assert made.body["odd"] == {"Knob": 5}
    assert [row.message for row in made.diagnostics if row.code == "loss-options"] == [
        "options for the provider 'acme' are left out: this is another"
    ]


@each(
    "target, key",
    [("anthropic", "anthropic"), ("openai-chat", "openai"), ("responses", "openai"), ("cohere", "cohere")],
)
def test_options_of_the_ai_sdk_get_the_names_of_the_protocol(target: str, key: str) -> None:
    options = {
        "topK": 5,
        "thinking": {"type": "enabled", "budgetTokens": 2000},
        "metadata": {"userId": "u"},
        "top_p": 1,
    }
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "providerOptions": {key: options}}
    made = convert(body, "aisdk", target)
    sent = {name: made.body.get(name) for name in ("top_k", "topK", "thinking", "metadata", "top_p")}
    assert sent == {
        "top_k": 5, "topK": None, "thinking": {"type": "enabled", "budget_tokens": 2000}, "metadata": {"userId": "u"},
        "top_p": 1,
    }  # fmt: skip
    (told,) = [row.message for row in made.diagnostics if row.code == "renamed-options"]
    assert "topK as top_k" in told
    assert "budgetTokens as budget_tokens" in told


def test_options_of_a_protocol_with_humps_stay() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "providerOptions": {"google": {"topK": 5}}}
    made = convert(body, "aisdk", "gemini")
    assert made.body["topK"] == 5
    assert [row for row in made.diagnostics if row.code == "renamed-options"] == []


@each("how, prompt", [("skip", "sys"), ("placeholder", "sys"), ("keep", "sys"), ("error", None)])
def test_a_prompt_with_a_picture_is_still_the_prompt(how: Any, prompt: str | None) -> None:
    picture = {"mimeType": "image/png", "data": PIXEL}
    said = [{"role": 2, "content": [{"value": "sys"}, picture]}, {"role": 1, "content": [{"value": "u"}]}]
    if prompt is None:
        with pytest.raises(BadRequest, match=r"messages\[0\]"):
            convert({"model": "m", "messages": said}, "vscode", "openai-chat", images=how)
        return
    made = convert({"model": "m", "messages": said}, "vscode", "openai-chat", images=how)
    assert made.body["messages"][0]["role"] == "system"
    assert prompt in json.dumps(made.body["messages"][0])
    assert codes(made) == ["file-refused"]


# ── strict ────────────────────────────────────────────────────────────────────────────────────────


@each("target", ["anthropic", "gemini", "bedrock", "cohere", "ollama", "responses"])
def test_strict_refuses_a_loss_that_changes_the_result_and_names_it(target: str) -> None:
    settings = {"logprobs": True, "top_logprobs": 3, "n": 2, "seed": 1, "user": "u", "metadata": {"a": "b"}}
    lax = convert({**HELLO, **settings}, "openai-chat", target)
    gone = {row.name for row in lax.diagnostics if row.code == "loss-setting"} & {"logprobs", "choices", "seed"}
    if not gone:
        assert convert({**HELLO, **settings}, "openai-chat", target, strict=True).body == lax.body
        return
    with pytest.raises(InputError, match="strict") as caught:
        convert({**HELLO, **settings}, "openai-chat", target, strict=True)
    assert all(name in str(caught.value) for name in gone)
    assert "metadata" not in str(caught.value)


def test_strict_lets_pass_what_means_the_same() -> None:
    settings = {"logprobs": False, "n": 1, "reasoning_effort": "high", "max_tokens": 50_000}
    body = {**HELLO, **settings, "model": "claude-sonnet-4-5"}
    assert convert(body, "openai-chat", "anthropic", strict=True).body["thinking"]["budget_tokens"] == 24576
    with pytest.raises(InputError, match="any-json"):
        convert({**HELLO, "response_format": {"type": "json_object"}}, "openai-chat", "anthropic", strict=True)


def test_strict_refuses_to_lose_a_tool_that_must_be_called() -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    body = {**HELLO, "tools": tools, "tool_choice": "required"}
    with pytest.raises(InputError, match="choice"):
        convert(body, "openai-chat", "ollama", strict=True)
    free = convert({**body, "tool_choice": "auto"}, "openai-chat", "ollama", strict=True)
    assert "loss-choice" not in codes(free)
