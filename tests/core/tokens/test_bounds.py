"""Bounds: narrow for plain text, wider for what is uncertain, and found in time that grows with the text."""

from __future__ import annotations

import sys

import pytest

from penstock._tokens.text_features import average_out
from penstock.request import Format, Message, Request, Settings, Text, Tool
from penstock.tokens import Estimate, HybridTokenEstimator
from tests.core.tokens.samples import ALONE, JSON, PROSE
from tests.support.each_case import each

KNOWN = [
    "gpt-4o", "gpt-4-turbo", "gpt-5", "gpt-5-nano", "gpt-oss-120b", "claude-3-opus", "claude-sonnet-4-5", "claude-opus-4-8",
    "gemini-2.0-flash", "gemini-2.5-flash", "gemini-3-pro-preview", "mistral-large-latest", "mistral-small-latest", "qwen3-8b",
    "qwen3.5-9b", "deepseek-chat", "grok-4", "grok-4.3", "llama-3.3-70b", "llama-4-scout", "glm-4.7", "kimi-k2", "amazon.nova-lite-v1",
]  # fmt: skip
WORDS = " ".join((PROSE * 20).split()[:500])


def counted(model: str, text: str = WORDS, tools: list[Tool] | None = None, **settings: Format) -> Estimate:
    request = Request(messages=[Message("user", [Text(text=text)])], settings=Settings(**settings))  # type: ignore[arg-type]
    return HybridTokenEstimator().estimate_conversation(request, model, tools=tools or [])


def widths(found: Estimate) -> tuple[float, float]:
    """By how much of the count the bounds are below and above it."""
    return 1 - found.low / found.tokens, found.high / found.tokens - 1


@each("model", KNOWN)
def test_500_plain_words_are_within_15_percent(model: str) -> None:
    below, above = widths(counted(model))
    assert 0.03 < below <= 0.155
    assert 0.03 < above <= 0.155


def test_a_model_that_no_rule_knows_is_less_sure() -> None:
    below, above = widths(counted("never-seen-1"))
    assert below <= 0.2
    assert 0.15 < above <= 0.35


@each("model", KNOWN)
def test_tools_and_formats_are_less_sure_than_text(model: str) -> None:
    plain = counted(model)
    tools = [Tool(f"tool_{place}", PROSE, {"type": "object"}) for place in range(4)]
    schema = Format("schema", schema={"type": "object", "properties": {"a": {"type": "string", "description": PROSE}}})
    for more in (counted(model, tools=tools), counted(model, format=schema)):
        assert more.high - more.low >= plain.high - plain.low - 1, "but for rounding"
        assert more.tokens >= plain.tokens


@each("text", [JSON, ALONE])
def test_marks_and_emoji_are_less_sure_than_words(text: str) -> None:
    estimator = HybridTokenEstimator()
    odd = estimator.estimate_text(text, "gpt-4o")
    plain = estimator.estimate_text(" ".join(WORDS.split()[: odd.tokens]), "gpt-4o")
    assert sum(widths(odd)) > 1.3 * sum(widths(plain))


def test_the_share_of_an_error_falls_with_the_length_of_a_text_and_never_below_that_of_its_kind() -> None:
    shares = [average_out(tokens) / tokens for tokens in (1, 30, 100, 1_000, 1_000_000)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == pytest.approx(1, abs=0.02)
    assert shares[-1] == pytest.approx(0.6, abs=0.01)
    assert average_out(2_000) > average_out(1_000), "more text is never surer in tokens"


def calls_for(text: str) -> int:
    """Python and C functions that are called to count a text, which a clock does not tell so surely."""
    estimator, number = HybridTokenEstimator(), 0
    estimator.estimate_text("", "gpt-4o")

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal number
        number += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        estimator.estimate_text(text, "gpt-4o")
    finally:
        sys.setprofile(None)
    return number


def test_a_longer_text_takes_no_more_passes() -> None:
    assert calls_for(PROSE * 1_000) == calls_for(PROSE) < 120


def test_messages_and_tools_grow_one_by_one() -> None:
    """Each message is counted once, and its tokens add up, however many there are."""
    message, tool = Message("user", [Text(text=PROSE)]), Tool("read", PROSE, {"type": "object"})
    totals = [
        HybridTokenEstimator().estimate_conversation(Request(messages=[message] * n, tools=[tool] * n), "gpt-4o").tokens
        for n in (100, 200, 400)
    ]
    assert totals[2] - totals[1] == pytest.approx(2 * (totals[1] - totals[0]), rel=0.01)
