"""The estimator takes what its callers have: host messages, bodies of any protocol, requests, messages, texts."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock import convert, convert_messages, fold_all, unfold
from penstock._fold import sum_usage
from penstock._protocols import detect_protocol
from penstock.errors import InputError
from penstock.events import Usage
from penstock.messages import read_request
from penstock.request import Message, Request, Text, Tool
from penstock.tokens import HybridTokenEstimator, TokenStore
from penstock.vscode import VSCodeStreamAdapter
from tests.core.tokens.samples import PROSE
from tests.support.each_case import each
from tests.support.paths import TESTS
from tests.support.stream_adapter import FINISH

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REQUESTS = TESTS / "requests"
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
HOST: list[Any] = [
    {"role": 1, "content": [{"value": PROSE}]},
    {"role": 2, "content": [{"value": "I look."}, {"callId": "a", "name": "read", "input": {"path": "x"}}]},
    {"role": 1, "content": [{"callId": "a", "content": [{"value": PROSE}]}, {"value": "And now?"}]},
]


@dataclass
class HostPart:
    value: str


@dataclass
class HostMessage:
    role: int
    content: list[Any]


# The same question in every form: one message of the user with this text, and one tool.
FORMS: dict[str, tuple[Any, Any]] = {
    "text": (PROSE, [Tool("read", "Reads.", SCHEMA)]),
    "texts": ([PROSE], [Tool("read", "Reads.", SCHEMA)]),
    "message": (Message("user", [Text(text=PROSE)]), [Tool("read", "Reads.", SCHEMA)]),
    "messages": ([Message("user", [Text(text=PROSE)])], [Tool("read", "Reads.", SCHEMA)]),
    "host": ([{"role": 1, "content": [{"value": PROSE}]}], [{"name": "read", "description": "Reads.", "inputSchema": SCHEMA}]),
    "host objects": (
        [HostMessage(1, [HostPart(PROSE)])],
        [SimpleNamespace(name="read", description="Reads.", inputSchema=SCHEMA)],
    ),
    "one host object": (HostMessage(1, [HostPart(PROSE)]), [Tool("read", "Reads.", SCHEMA)]),
    "chat messages": (
        [{"role": "user", "content": PROSE}],
        [{"type": "function", "function": {"name": "read", "description": "Reads.", "parameters": SCHEMA}}],
    ),
    "chat body": (
        {
            "messages": [{"role": "user", "content": PROSE}],
            "tools": [{"type": "function", "function": {"name": "read", "description": "Reads.", "parameters": SCHEMA}}],
        },
        [],
    ),
    "anthropic body": (
        {
            "max_tokens": 9,
            "messages": [{"role": "user", "content": [{"type": "text", "text": PROSE}]}],
            "tools": [{"name": "read", "description": "Reads.", "input_schema": SCHEMA}],
        },
        [],
    ),
    "gemini contents": (
        [{"role": "user", "parts": [{"text": PROSE}]}],
        [{"functionDeclarations": [{"name": "read", "description": "Reads.", "parametersJsonSchema": SCHEMA}]}],
    ),
    "responses body": (
        {"input": PROSE, "tools": [{"type": "function", "name": "read", "description": "Reads.", "parameters": SCHEMA}]},
        [],
    ),
    "converse messages": (
        [{"role": "user", "content": [{"text": PROSE}]}],
        [{"toolSpec": {"name": "read", "description": "Reads.", "inputSchema": {"json": SCHEMA}}}],
    ),
}  # fmt: skip


def ignore_part(_: object) -> None:
    """For a stream of which only the usage counts."""


@each("form", FORMS)
def test_every_form_of_a_conversation_is_counted_alike(form: str) -> None:
    given, tools = FORMS[form]
    estimator = HybridTokenEstimator()
    request = Request(messages=[Message("user", [Text(text=PROSE)])], tools=[Tool("read", "Reads.", SCHEMA)])
    expected = estimator.estimate_conversation(request, "gpt-4o")
    assert estimator.estimate_conversation(given, "gpt-4o", tools=tools) == expected
    assert estimator.breakdown(given, "gpt-4o", tools=tools).total == expected
    near = estimator.preflight(given, expected.tokens, "gpt-4o", tools=tools)
    assert near is not None
    assert near.code == "near-limit"
    estimator.calibrate(given, 999, "gpt-4o", tools=tools)
    known = estimator.estimate_conversation(given, "gpt-4o", tools=tools)
    assert (known.method, known.tokens) == ("actual", 999)


@each("form", ["text", "message", "one host object"])
def test_one_message_of_any_form(form: str) -> None:
    estimator = HybridTokenEstimator()
    expected = estimator.estimate_message(Message("user", [Text(text=PROSE)]), "gpt-4o")
    assert estimator.estimate_message(FORMS[form][0], "gpt-4o") == expected


def test_one_message_with_a_result_and_a_text_is_both() -> None:
    estimator = HybridTokenEstimator()
    both = estimator.estimate_message(HOST[2], "gpt-4o").tokens
    canonical = read_request({"messages": [HOST[2]]}, "vscode").messages
    assert len(canonical) == 2
    assert both == pytest.approx(sum(estimator.estimate_message(one, "gpt-4o").tokens for one in canonical), abs=1)


RECORDED = sorted((path for path in REQUESTS.glob("*/*.json") if path.stem not in ("canonical", "mended")), key=str)
# Bodies whose keys and messages could be of several protocols; what is taken is the likeliest.
AMBIGUOUS = {
    "gemini-from-chat/cohere", "bedrock-from-anthropic/cohere", "cohere-agent/cohere", "ollama-generate/ollama",
    "odd-inputs/openai-chat", "aisdk-prompts/aisdk", "refusals/anthropic", "empty-reasoning/anthropic",
    "gemini-interaction/gemini", "tools-without-function/openai-chat",
}  # fmt: skip


@each("path", RECORDED, name=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_body_of_any_protocol_is_recognised_and_counted(path: Path) -> None:
    body, protocol = json.loads(path.read_bytes()), path.stem.partition("@")[0]
    name = f"{path.parent.name}/{path.stem}"
    assert (detect_protocol(body) == protocol) == (name not in AMBIGUOUS)
    estimator = HybridTokenEstimator()
    expected = estimator.estimate_conversation(read_request(body, protocol), "gpt-4o")
    assert estimator.estimate_conversation(body, "gpt-4o", protocol=protocol) == expected
    if name not in AMBIGUOUS:
        assert estimator.estimate_conversation(body, "gpt-4o") == expected


@each("target", ["aisdk", "openai-chat", "anthropic", "gemini", "responses", "bedrock"])
def test_the_result_of_convert_messages_can_be_handed_over(target: str) -> None:
    estimator = HybridTokenEstimator()
    converted = convert_messages(HOST, target=target)
    expected = estimator.estimate_conversation(read_request(converted.body, target), "gpt-4o")
    assert estimator.estimate_conversation(converted, "gpt-4o") == expected
    assert (
        estimator.estimate_conversation(convert({"messages": HOST}, "vscode", target), "gpt-4o", protocol=target)
        == expected
    )
    assert expected.tokens == pytest.approx(estimator.estimate_conversation(HOST, "gpt-4o").tokens, rel=0.1)


def test_bodies_that_hold_objects_of_an_sdk() -> None:
    block = SimpleNamespace(type="text", text="It is high.", citations=None)
    messages = [{"role": "user", "content": PROSE}, {"role": "assistant", "content": [block]}]
    plain = [messages[0], {"role": "assistant", "content": [{"type": "text", "text": "It is high."}]}]
    estimator = HybridTokenEstimator()
    found = estimator.estimate_conversation(messages, "claude-sonnet-4-5", protocol="anthropic")
    assert found == estimator.estimate_conversation(plain, "claude-sonnet-4-5", protocol="anthropic")


WRONG: dict[str, tuple[Any, str]] = {
    "number": (3, "the conversation: expected a request, a list of messages or a text, found a number"),
    "none": (None, "the conversation: expected a request, a list of messages or a text, found null"),
    "bytes": (b"{}", "the conversation: expected a request, a list of messages or a text"),
    "no body": ({"a": 1}, "cannot tell whose request this is"),
    "number in a list": ([{"role": "user", "content": "x"}, 3], "messages[1]: expected a message like the others"),
    "mixed": ([{"role": "user", "content": "x"}, Message("user")], "messages[1]: expected a message like the others"),
    "wrong role": ([{"role": 7, "content": []}], "messages[0].role: expected 1 (user), 2 (assistant) or 3 (system)"),
    "wrong content": ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content: expected"),
}  # fmt: skip


@each("kind", WRONG)
def test_anything_else_is_an_input_error_that_names_the_place(kind: str) -> None:
    given, message = WRONG[kind]
    estimator = HybridTokenEstimator()
    calls: list[Callable[[], object]] = [
        lambda: estimator.estimate_conversation(given), lambda: estimator.breakdown(given), lambda: estimator.fit(given, 9),
        lambda: estimator.preflight(given, 9), lambda: estimator.calibrate(given, 9), lambda: estimator.estimate_message(given),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(InputError) as caught:
            call()
        assert message in str(caught.value)


def test_deep_objects_are_an_input_error() -> None:
    deep: Any = {"role": 1, "content": []}
    for _ in range(100_000):
        deep = {"role": 1, "content": [deep]}
    with pytest.raises(InputError):
        HybridTokenEstimator().estimate_conversation([deep])


def test_the_estimator_is_a_name_of_the_package() -> None:
    assert penstock.HybridTokenEstimator is HybridTokenEstimator


# ── usage of the adapter ──────────────────────────────────────────────────────────────────────────────────────────────


def step(number: int, tokens: int) -> list[dict[str, Any]]:
    usage = {"inputTokens": tokens, "outputTokens": 10, "totalTokens": tokens + 10}
    return [
        {"type": "start-step"}, {"type": "text-delta", "id": str(number), "text": "Hm."},
        {"type": "finish-step", "usage": usage, "finishReason": "stop"},
    ]  # fmt: skip


STEPS = [*step(1, 100), *step(2, 220), {"type": "finish", "finishReason": "stop", "totalUsage": {"inputTokens": 320}}]


@each("asynchronous", [False, True])
def test_the_usage_of_a_stream_with_steps_can_be_handed_to_calibrate(asynchronous: bool) -> None:
    async def chunks() -> Any:
        for chunk in STEPS:
            yield chunk

    adapter = VSCodeStreamAdapter()
    usage = asyncio.run(adapter.process_stream(chunks() if asynchronous else STEPS, ignore_part))
    assert usage.input == 320
    for seen in (usage, adapter.usage):
        estimator = HybridTokenEstimator()
        estimator.calibrate([PROSE], seen, "gpt-4o")
        known = estimator.estimate_conversation([PROSE], "gpt-4o")
        assert (known.tokens, known.method) == (220, "actual")
        assert estimator.factor("gpt-4o").turns == 0


def test_a_sum_over_steps_teaches_nothing() -> None:
    """Without its turn a sum does not tell how long any prompt was."""
    adapter = VSCodeStreamAdapter()
    asyncio.run(adapter.process_stream(STEPS, ignore_part))
    assert adapter.last.turn is not None
    steps = adapter.last.steps
    for seen in (
        adapter.last.usage,
        adapter.last.turn.usage,
        sum_usage(steps),
        fold_all(unfold(adapter.last.turn))[0].usage,
    ):
        assert seen is not None
        assert (type(seen), seen.input, seen.summed) == (Usage, 320, True)
        estimator = HybridTokenEstimator()
        estimator.calibrate([PROSE], seen, "gpt-4o")
        assert estimator.estimate_conversation([PROSE], "gpt-4o").method == "estimated"
        assert estimator.factor("gpt-4o").turns == 0
    assert [step.summed for step in steps] == [False, False]


def test_the_usage_of_a_stream_with_one_step_teaches() -> None:
    usage = asyncio.run(VSCodeStreamAdapter().process_stream([*step(1, 60), FINISH], ignore_part))
    estimator = HybridTokenEstimator()
    estimator.calibrate([PROSE], usage, "gpt-4o")
    assert estimator.factor("gpt-4o").turns == 1


# ── arguments ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@each("override", [2.0, 2, {"chars_per_token": 2.0}])
@each(
    "model, provider",
    [
        ("claude-sonnet-4-5", "anthropic"), ("anthropic/claude-sonnet-4-5", ""), ("claude-sonnet-4-5", ""),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", ""),
    ],
)  # fmt: skip
def test_an_override_works_by_the_name_of_the_model(model: str, provider: str, override: Any) -> None:
    estimator = HybridTokenEstimator(provider_overrides={"Anthropic": override})
    assert estimator.estimate_text("x" * 100, model, provider).tokens == 50
    assert estimator.estimate_text("x" * 100, "gpt-4o").tokens < 40
    assert estimator.estimate_text("x" * 100, model, "openrouter").tokens < 40, "another provider was given"


@each("override", [0, -1, "2", True, {}, {"factor": 2.0}, {"chars_per_token": 0}, None])
def test_an_override_that_is_no_number_is_refused(override: Any) -> None:
    with pytest.raises(InputError, match=r"provider_overrides\['openai'\]: expected"):
        HybridTokenEstimator(provider_overrides={"openai": override})
    if override is not None:
        with pytest.raises(InputError, match="chars_per_token: expected"):
            HybridTokenEstimator(override)


def test_a_store_takes_its_path_as_a_text(tmp_path: Path) -> None:
    store = TokenStore(str(tmp_path / "tokens.sqlite"))
    HybridTokenEstimator(counts=store, learned=store.factors).calibrate([PROSE], Usage(input=99), "gpt-4o")
    store.close()
    again = TokenStore(tmp_path / "tokens.sqlite")
    assert HybridTokenEstimator(counts=again).estimate_conversation([PROSE], "gpt-4o").method == "actual"
    again.close()
