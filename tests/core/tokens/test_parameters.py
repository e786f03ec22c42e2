"""Wrong parameters are named, impossible counts are not learned, and tools are read by their own shape."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import InputError
from penstock.events import Usage
from penstock.request import Message, Request, Text, Tool
from penstock.tokens import HybridTokenEstimator
from tests.core.tokens.samples import PROSE
from tests.support.each_case import each

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
SEEN_WRONG = [-5, 0, True, 10**30, 10**400, -(10**400), None, 1.5, "7", float("nan"), {"prompt_tokens": 5}]


@each("seen", SEEN_WRONG)
def test_a_report_that_is_no_count_is_refused_and_nothing_is_learned(seen: Any) -> None:
    estimator = HybridTokenEstimator()
    with pytest.raises(InputError, match=r"^seen: expected .*tokens.*found"):
        estimator.calibrate(PROSE, seen, "gpt-4o")
    assert estimator.estimate_conversation(PROSE, "gpt-4o").method == "estimated"
    assert estimator.factor("gpt-4o").turns == 0


@each("count, method", [(1, "actual"), (2**53 - 1, "actual")])
def test_every_count_that_a_prompt_can_have_is_taken(count: int, method: str) -> None:
    estimator = HybridTokenEstimator()
    for seen in (count, Usage(input=count)):
        estimator.calibrate(PROSE, seen, "gpt-4o", learn=False)
        found = estimator.estimate_conversation(PROSE, "gpt-4o")
        assert (found.tokens, found.method) == (count, method)


@each("count", [0, -3, 10**30])
def test_a_usage_that_no_prompt_can_have_is_passed_over(count: int) -> None:
    estimator = HybridTokenEstimator()
    estimator.calibrate(PROSE, Usage(input=count), "gpt-4o")
    assert estimator.estimate_conversation(PROSE, "gpt-4o").method == "estimated"


@each(
    "method, parameters, name",
    [
        ("estimate_text", {"text": 5}, "text"),
        ("estimate_text", {"text": None}, "text"),
        ("estimate_conversation", {"request": PROSE, "tools": None}, "tools"),
        ("breakdown", {"request": PROSE, "tools": {"name": "read"}}, "tools"),
        ("calibrate", {"request": PROSE, "seen": 5, "tools": "read"}, "tools"),
        ("fit", {"request": PROSE, "limit": None}, "limit"),
        ("fit", {"request": PROSE, "limit": float("nan")}, "limit"),
        ("fit", {"request": PROSE, "limit": True}, "limit"),
        ("fit", {"request": PROSE, "limit": 5, "reserve": None}, "reserve"),
        ("preflight", {"request": PROSE, "limit": None}, "limit"),
        ("preflight", {"request": PROSE, "limit": float("nan")}, "limit"),
    ],
)
def test_a_wrong_parameter_is_named(method: str, parameters: dict[str, Any], name: str) -> None:
    with pytest.raises(InputError, match=f"^{name}: expected"):
        getattr(HybridTokenEstimator(), method)(**parameters)


@each("count, tokens", [(1, 1), (2, 1), (100, 1), (10_000, 79), (100_000, 782)])  # o200k
def test_runs_of_spaces_are_tokens(count: int, tokens: int) -> None:
    found = HybridTokenEstimator().estimate_text(" " * count, "gpt-4o")
    assert found.tokens == pytest.approx(tokens, abs=1 + tokens * 0.05)
    assert found.low <= tokens <= found.high
    assert found.high > 0


TOOL_FORMS: dict[str, dict[str, Any]] = {
    "openai-chat": {"type": "function", "function": {"name": "read", "description": "Reads.", "parameters": SCHEMA}},
    "responses": {"type": "function", "name": "read", "description": "Reads.", "parameters": SCHEMA},
    "anthropic": {"name": "read", "description": "Reads.", "input_schema": SCHEMA},
    "gemini": {"functionDeclarations": [{"name": "read", "description": "Reads.", "parameters": SCHEMA}]},
    "bedrock": {"toolSpec": {"name": "read", "description": "Reads.", "inputSchema": {"json": SCHEMA}}},
    "vscode": {"name": "read", "description": "Reads.", "inputSchema": SCHEMA},
}
BODIES: dict[str, tuple[Any, str]] = {
    "text": (PROSE, ""),
    "text of gemini": (PROSE, "gemini"),
    "request": (Request(messages=[Message("user", [Text(text=PROSE)])]), ""),
    "chat messages": ([{"role": "user", "content": PROSE}], ""),
    "chat": ({"messages": [{"role": "user", "content": PROSE}]}, ""),
    "responses": ({"input": PROSE}, ""),
    "anthropic": ({"messages": [{"role": "user", "content": PROSE}], "system": []}, "anthropic"),
    "gemini": ({"contents": [{"role": "user", "parts": [{"text": PROSE}]}]}, ""),
    "bedrock": ({"messages": [{"role": "user", "content": [{"text": PROSE}]}]}, "bedrock"),
    "completions": ({"prompt": PROSE}, ""),
}


@each("body", BODIES)
@each("form", TOOL_FORMS)
def test_tools_are_read_by_their_own_shape(body: str, form: str) -> None:
    given, protocol = BODIES[body]
    estimator = HybridTokenEstimator()
    expected = estimator.estimate_conversation(
        given, "gpt-4o", tools=[Tool("read", "Reads.", SCHEMA)], protocol=protocol
    )
    mixed = [TOOL_FORMS[form], Tool("write", "Writes.", SCHEMA)]
    assert estimator.estimate_conversation(given, "gpt-4o", tools=[TOOL_FORMS[form]], protocol=protocol) == expected
    assert estimator.estimate_conversation(given, "gpt-4o", tools=mixed, protocol=protocol).tokens > expected.tokens + 5


@each("tool", [5, None, "read", {"type": "function", "function": 5}, {"toolSpec": 5}, {"functionDeclarations": 5}])
@each("given", [PROSE, {"contents": [{"role": "user", "parts": [{"text": PROSE}]}]}])
def test_a_tool_that_cannot_be_read_is_named(given: Any, tool: Any) -> None:
    with pytest.raises(InputError, match=r"^tools\[1\]"):
        HybridTokenEstimator().estimate_conversation(given, tools=[TOOL_FORMS["openai-chat"], tool])
