"""A request line by line: which lines there are, and that they add up to the estimate."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given, settings

from penstock.request import File, Format, Message, Request, Result, Settings, Text, Tool, ToolChoice
from penstock.tokens import Breakdown, HybridTokenEstimator
from tests.core.tokens.samples import PROSE
from tests.core.tokens.test_pictures import png
from tests.support import conversations
from tests.support.each_case import each

MODELS = ["gpt-4o", "claude-sonnet-4-5", "gemini-2.5-flash", "qwen3-8b", "never-seen-1"]
TOOL = Tool("read", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
PICTURE = File(media="image/png", data=base64.b64encode(png(1024, 1024)).decode())
MESSAGES = [
    Message("system", [Text(text="Be kind.")]),
    Message("user", [Text(text=PROSE), PICTURE]),
    Message("assistant", [Text(text="It is high.")]),
    Message("tool", [Result(call="a", content=[Text(text=PROSE), PICTURE])]),
]
WHOLE = Request(
    messages=MESSAGES,
    tools=[TOOL],
    choice=ToolChoice("required"),
    settings=Settings(format=Format("schema", schema={"type": "object"})),
)


def check_sums(found: Breakdown) -> None:
    assert sum(line.estimate.tokens for line in found.lines) == found.total.tokens
    if found.total.tokens:
        assert sum(line.share for line in found.lines) == pytest.approx(1.0)
    for line in found.lines:
        assert 0 <= line.estimate.low <= line.estimate.tokens <= line.estimate.high
        assert 0 <= line.share <= 1


@each("model", MODELS)
def test_every_part_of_a_prompt_has_its_line(model: str) -> None:
    found = HybridTokenEstimator().breakdown(WHOLE, model)
    hidden = [("hidden", "added by the provider", None)] if model != "gemini-2.5-flash" else []  # it adds nothing
    assert [(line.kind, line.what, line.message) for line in found.lines] == [
        ("system", "system", 0),
        ("tools", "tools", None),
        ("message", "user", 1),
        ("message", "assistant", 2),
        ("message", "tool", 3),
        ("images", "images and files", None),
        ("framing", "framing", None),
        *hidden,
    ]
    check_sums(found)


def test_lines_that_cost_nothing_are_left_out() -> None:
    found = HybridTokenEstimator().breakdown([Message("user", [Text(text=PROSE)])], "gpt-4o")
    assert [line.kind for line in found.lines] == ["message", "framing"]


def test_pictures_are_not_in_the_lines_of_messages() -> None:
    estimator = HybridTokenEstimator()
    lines = {line.message: line for line in estimator.breakdown(WHOLE, "gpt-4o").lines if line.message is not None}
    for position, message in enumerate(MESSAGES):
        texts = Message(message.role, [part for part in message.parts if part is not PICTURE])
        if position == 3:
            texts = Message("tool", [Result(call="a", content=[Text(text=PROSE)])])
        expected = estimator.estimate_message(texts, "gpt-4o").tokens
        assert lines[position].estimate.tokens == pytest.approx(expected, abs=1)


@each("actual", [10, 2_000, 50_000])
def test_lines_add_up_to_a_count_of_the_provider_too(actual: int) -> None:
    estimator = HybridTokenEstimator()
    estimator.calibrate(WHOLE, actual, "gpt-4o")
    found = estimator.breakdown(WHOLE, "gpt-4o")
    assert (found.total.method, found.total.tokens) == ("actual", actual)
    check_sums(found)
    longer = Request(messages=[*MESSAGES, Message("user", [Text(text=PROSE)])], tools=WHOLE.tools, choice=WHOLE.choice)
    longer.settings = WHOLE.settings
    found = estimator.breakdown(longer, "gpt-4o")
    assert found.total.method == "hybrid"
    check_sums(found)


@settings(max_examples=60, deadline=None)
@given(conversations.requests())
def test_lines_of_any_request_add_up(request: Request) -> None:
    estimator = HybridTokenEstimator()
    for model in ("gpt-4o", "claude-sonnet-4-5"):
        found = estimator.breakdown(request, model)
        check_sums(found)
        assert found.total == estimator.estimate_conversation(request, model)
        positions = [line.message for line in found.lines if line.message is not None]
        assert sorted(positions) == [*range(len(request.messages))]


def test_a_conservative_breakdown_adds_up_to_the_upper_bound() -> None:
    found = HybridTokenEstimator(conservative=True).breakdown(WHOLE, "gpt-4o")
    assert found.total.tokens == found.total.high
    check_sums(found)


def test_a_breakdown_of_a_body_reads_it_first() -> None:
    body: dict[str, Any] = {"system": "Be kind.", "messages": [{"role": "user", "content": PROSE}], "max_tokens": 9}
    found = HybridTokenEstimator().breakdown(body, "claude-sonnet-4-5")
    assert [(line.kind, line.message) for line in found.lines][:2] == [("system", 0), ("message", 1)]
