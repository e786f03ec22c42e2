"""Sampling settings of models that refuse them."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import InputError
from penstock.messages import convert, profile_of
from tests.support.each_case import each

ASK: dict[str, Any] = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 5000}
REFUSING = ["claude-opus-4-7", "claude-fable-5", "claude-sonnet-5", "claude-haiku-5-5"]


def sent(model: str, source: str, target: str, **settings: Any) -> tuple[dict[str, Any], list[str]]:
    made = convert({"model": model, **ASK, **settings}, source, target)
    kept = {name: made.body[name] for name in settings if name in made.body}
    return kept, [row.code for row in made.diagnostics if row.code.startswith("loss-")]


@each("model", REFUSING)
def test_newer_claude_models_are_sent_none(model: str) -> None:
    kept, lost = sent(model, "openai-chat", "anthropic", temperature=0.2, top_p=0.9)
    assert kept == {}
    assert lost == ["loss-temperature", "loss-top_p"]


@each("model", ["gpt-5", "o3", "gpt-5.5", "gpt-5.2-codex", "gpt-5.4-pro"])
@each("target", ["openai-chat", "responses"])
def test_openai_models_that_reason_are_sent_none(model: str, target: str) -> None:
    kept, lost = sent(model, "anthropic", target, temperature=0.2, top_k=5)
    assert kept == {}
    assert lost[:2] == ["loss-temperature", "loss-top_k"]


@each(
    "model, effort, taken",
    [("gpt-5.4", None, True), ("gpt-5.4", "none", True), ("gpt-5.4", "high", False), ("gpt-5.5", "none", True)],
)
def test_from_gpt_5_1_on_it_depends_on_the_effort(model: str, effort: str | None, taken: bool) -> None:
    kept, _ = sent(
        model, "openai-chat", "responses", temperature=0.2, **({"reasoning_effort": effort} if effort else {})
    )
    assert ("temperature" in kept) is taken


def test_claude_4_5_takes_a_temperature_or_top_p() -> None:
    assert sent("claude-sonnet-4-5", "openai-chat", "anthropic", temperature=0.2, top_p=0.9) == (
        {"temperature": 0.2}, ["loss-top_p"],
    )  # fmt: skip
    assert sent("claude-sonnet-4-5", "openai-chat", "anthropic", top_p=0.9)[0] == {"top_p": 0.9}
    assert sent("claude-sonnet-4-0", "openai-chat", "anthropic", temperature=0.2, top_p=0.9)[0] == {
        "temperature": 0.2, "top_p": 0.9,
    }  # fmt: skip


@each("model", ["gpt-4.1", "gpt-oss-20b", "orca-2"])
def test_other_models_are_sent_all(model: str) -> None:
    assert sent(model, "anthropic", "openai-chat", temperature=0.2, top_p=0.9)[0] == {"temperature": 0.2, "top_p": 0.9}


def test_a_value_that_is_the_default_is_no_loss() -> None:
    assert sent("claude-opus-4-7", "openai-chat", "anthropic", temperature=1, top_p=1, presence_penalty=0) == ({}, [])


def test_strict_refuses_the_request() -> None:
    with pytest.raises(InputError, match="temperature"):
        convert({"model": "gpt-5", **ASK, "temperature": 0.2}, "anthropic", "responses", strict=True)


def test_in_its_own_protocol_a_client_answers_for_a_model_it_named() -> None:
    body = {"model": "gpt-5", "messages": ASK["messages"], "temperature": 0.2}
    profile = profile_of("openai-chat")
    assert convert(body, "openai-chat", "openai-chat", profile=profile).body["temperature"] == 0.2
    assert "temperature" not in convert(body, "openai-chat", "openai-chat", profile=profile, renamed=True).body
