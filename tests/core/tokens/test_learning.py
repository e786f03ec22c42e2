"""What providers' own figures are used for, what is learned from them, what is kept; the gateway's questions."""

from __future__ import annotations

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from penstock._messages.request_codecs import reader
from penstock._tokens.families import load_tables
from penstock.events import Finish, Usage
from penstock.request import Call, File, Message, Request, Result, Text, Tool, Turn
from penstock.stores import MemoryStore
from penstock.tokens import HybridTokenEstimator, TokenStore, warning
from tests.core.tokens.samples import JSON, PROSE
from tests.support.each_case import each

ASKED = Message("user", [Text(text=PROSE)])
TOOL = Tool("read_file", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (1024).to_bytes(4, "big") + (768).to_bytes(4, "big")).decode()


def total(request: Any, model: str = "gpt-4o") -> int:
    return HybridTokenEstimator().estimate_conversation(request, model).tokens


# ── what the provider said ────────────────────────────────────────────────────────────────────────────────────────────


def turn(text: str, **usage: Any) -> Turn:
    return Turn(parts=[Text(text=text)], usage=Usage(**usage), finish=Finish("stop"))


def answer(text: str) -> Message:
    return Message("assistant", [Text(text=text)])


def test_of_several_choices_the_output_is_not_the_reply_s() -> None:
    estimator = HybridTokenEstimator()
    seen = turn("Low water.", input=1000, output=800)  # the sum of both choices
    seen.parts.append(Text(text="High water. " * 300, choice=1))
    estimator.calibrate([ASKED], seen, "gpt-4o")
    assert estimator.estimate_conversation([ASKED], "gpt-4o").tokens == 1000
    again = [ASKED, answer("Low water."), Message("user", [Text(text="And tomorrow?")])]
    found = estimator.estimate_conversation(again, "gpt-4o")
    assert found.method == "hybrid"
    assert 1000 < found.tokens < 1040, "the reply is estimated"


def test_the_very_prompt_is_actual_and_the_next_is_hybrid() -> None:
    estimator = HybridTokenEstimator()
    estimator.calibrate([ASKED], turn("Low water.", input=1000, output=40, reasoning=30), "gpt-4o")
    known = estimator.estimate_conversation([ASKED], "gpt-4o")
    assert (known.tokens, known.method, known.confidence, known.low, known.high) == (1000, "actual", 1.0, 1000, 1000)
    again = [ASKED, answer("Low water."), Message("user", [Text(text="And tomorrow?")])]
    found = estimator.estimate_conversation(again, "gpt-4o")
    assert found.method == "hybrid"
    assert 1010 < found.tokens < 1030, "1,000 and the answer's 10 without its reasoning, and a short question"
    assert estimator.estimate_conversation([ASKED], "claude-3-opus").method == "estimated", "other models know nothing"
    changed = [Message("user", [Text(text=PROSE + "!")]), *again[1:]]
    assert estimator.estimate_conversation(changed, "gpt-4o").method == "estimated"
    assert estimator.estimate_conversation(again, "gpt-4o", tools=[TOOL]).method == "estimated", (
        "other tools, other prompt"
    )


def test_an_answer_that_comes_back_otherwise_is_estimated_and_nothing_counts_twice() -> None:
    estimator = HybridTokenEstimator()
    estimator.calibrate([ASKED], turn("Low water.", input=1000, output=500), "gpt-4o")
    found = estimator.estimate_conversation([ASKED, answer("Something else.")], "gpt-4o")
    assert (found.method, found.tokens < 1030) == ("hybrid", True)
    last = [ASKED, answer("Low water."), Message("user", [Text(text="Why?")])]
    estimator.calibrate(last, turn("Moon.", input=1512, output=3), "gpt-4o")
    assert estimator.estimate_conversation([*last, answer("Moon.")], "gpt-4o").tokens == pytest.approx(1515, abs=2)


def test_of_a_turn_in_steps_only_the_last_input_counts() -> None:
    estimator = HybridTokenEstimator()
    steps = [Usage(input=1000, output=20, step=1), Usage(input=1400, output=30, reasoning=10, step=2)]
    whole = Turn(parts=[Text(text="Done.")], usage=Usage(input=2400, output=50), steps=steps, finish=Finish("stop"))
    estimator.calibrate([ASKED], whole, "gpt-4o")
    known = estimator.estimate_conversation([ASKED], "gpt-4o")
    assert (known.tokens, known.method) == (1400, "actual")
    assert estimator.estimate_conversation([ASKED, answer("Done.")], "gpt-4o").tokens == pytest.approx(1420, abs=2)
    assert estimator.factor("gpt-4o").turns == 0, "what the steps added is no part of the request"
    single = Turn(parts=[Text(text="Done.")], usage=Usage(input=50, output=3), steps=steps[:1], finish=Finish("stop"))
    estimator.calibrate([Message("user", [Text(text=PROSE + "?")])], single, "gpt-4o")
    assert estimator.factor("gpt-4o").turns == 1


def test_a_call_comes_back_with_other_spaces_and_ids() -> None:
    estimator = HybridTokenEstimator()
    made = Turn(
        parts=[Call(id="a", name="f", json='{"x": 1}')], usage=Usage(input=900, output=33), finish=Finish("calls")
    )
    estimator.calibrate([ASKED], made, "gpt-4o")
    back = Message("assistant", [Call(id="b", name="f", json='{"x":1}')])
    assert estimator.estimate_conversation([ASKED, back], "gpt-4o").tokens == 933


def test_cache_marks_change_nothing() -> None:
    estimator = HybridTokenEstimator()
    estimator.calibrate([ASKED], 1000, "gpt-4o")
    marked = Message("user", [Text(text=PROSE, cache="5m")])
    assert estimator.estimate_conversation([marked], "gpt-4o").method == "actual"


def test_a_factor_learns_and_is_bounded_and_one_odd_sample_does_little() -> None:
    estimator = HybridTokenEstimator()
    messages = [Message("user", [Text(text=f"{number} {PROSE * 4}")]) for number in range(60)]
    plain = estimator.estimate_conversation([messages[0]], "gpt-4o", "p").tokens
    estimator.calibrate([messages[1]], plain * 50, "gpt-4o", "p")
    assert estimator.factor("gpt-4o", "p").value <= 1.13
    for message in messages[2:30]:
        estimator.calibrate([message], round(plain * 1.3), "gpt-4o", "p")
    assert estimator.factor("gpt-4o", "p").value == pytest.approx(1.3, rel=0.03)
    assert estimator.estimate_conversation([messages[40]], "gpt-4o", "p").tokens == pytest.approx(plain * 1.3, rel=0.03)
    assert estimator.factor("gpt-4o", "q").value == 1.0
    for message in messages[30:]:
        estimator.calibrate([message], plain * 40, "gpt-4o", "p")
    assert estimator.factor("gpt-4o", "p").value == 2.0


@each(
    "seen",
    [
        Turn(parts=[Call(id="1", name="search", by="provider")], usage=Usage(input=9000), finish=Finish("stop")),
        Turn(parts=[Text(text="x")], finish=Finish("stop")), Usage(input=9000, exact=False), Usage(),
    ],
)  # fmt: skip
def test_what_is_not_the_prompts_own_count_teaches_nothing(seen: Any) -> None:
    estimator = HybridTokenEstimator()
    estimator.calibrate([ASKED], seen, "gpt-4o")
    assert estimator.factor("gpt-4o").turns == 0
    assert estimator.estimate_conversation([ASKED], "gpt-4o").method == "estimated"


def test_a_prompt_can_be_remembered_without_teaching_the_factor() -> None:
    estimator = HybridTokenEstimator()
    estimator.calibrate([ASKED], turn("Low water.", input=1000, output=40), "gpt-4o", learn=False)
    assert estimator.factor("gpt-4o").turns == 0
    assert estimator.estimate_conversation([ASKED], "gpt-4o").method == "actual"
    assert estimator.estimate_conversation([ASKED, answer("Low water.")], "gpt-4o").tokens == 1040


def test_reset_keeps_what_was_learned() -> None:
    estimator = HybridTokenEstimator()
    plain = estimator.estimate_conversation([ASKED], "gpt-4o").tokens
    estimator.calibrate([ASKED], plain * 2, "gpt-4o")
    learned = estimator.factor("gpt-4o")
    estimator.reset()
    assert len(estimator.cache) == 0
    found = estimator.estimate_conversation([ASKED], "gpt-4o")
    assert (found.method, estimator.factor("gpt-4o")) == ("estimated", learned)
    assert found.tokens > plain


# ── the cache ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_editing_one_message_counts_that_message_alone() -> None:
    estimator = HybridTokenEstimator()
    talk = [Message(("user", "assistant")[place % 2], [Text(text=f"{place} {PROSE}")]) for place in range(200)]
    first = estimator.estimate_conversation(talk, "gpt-4o").tokens
    assert estimator.cache.counted == 201
    edited = [*talk[:100], Message("user", [Text(text="Shorter.")]), *talk[101:]]
    found = estimator.estimate_conversation(edited, "gpt-4o").tokens
    assert estimator.cache.counted == 202
    assert found < first
    assert found == HybridTokenEstimator().estimate_conversation(edited, "gpt-4o").tokens


@each(
    "one, other",
    [
        (Call(id="1", name="f", json='{"a": 1}'), Call(id="1", name="f", json=JSON)),
        (Result(call="1", content=[Text(text="short")]), Result(call="1", content=[Text(text=PROSE)])),
        (File(media="image/png", data=PNG), File(media="image/png", data=PNG[:-4])),
    ],
)
def test_the_cache_tells_contents_apart(one: Any, other: Any) -> None:
    estimator = HybridTokenEstimator()
    for part in (one, other, one):
        estimator.estimate_message(Message("user", [part]), "gpt-4o")
    assert estimator.cache.counted == 2


def test_counts_of_one_family_are_not_those_of_another() -> None:
    store = MemoryStore(lambda: 0.0)
    models = ("gpt-4o", "claude-3-opus", "gemini-2.5-pro")
    shared = HybridTokenEstimator(counts=store)
    for model in models:
        fresh = HybridTokenEstimator().estimate_message(ASKED, model)
        assert shared.estimate_message(ASKED, model) == fresh
        assert HybridTokenEstimator(counts=store).estimate_message(ASKED, model) == fresh
    assert shared.cache.counted == len(models)
    assert HybridTokenEstimator(counts=store, tenant="other").cache.get([b"x" * 16]) == {}


def test_the_cache_is_bounded() -> None:
    estimator = HybridTokenEstimator()
    estimator.cache._max_rows = 10
    for place in range(40):
        estimator.estimate_message(Message("user", [Text(text=str(place))]), "gpt-4o")
    assert len(estimator.cache) == 10
    talk = [Message("user", [Text(text=f"m{place}")]) for place in range(50)]
    assert estimator.estimate_conversation(talk, "gpt-4o").tokens == total(talk)


def test_threads_may_share_an_estimator() -> None:
    """The cache has room for few rows, so that the threads remove each other's rows all the time."""
    estimator = HybridTokenEstimator(learned=TokenStore().factors)
    estimator.cache._max_rows = 3
    talks = [[Message("user", [Text(text=f"{number} {PROSE}")]), answer(f"{number}")] for number in range(8)]
    alone = {number: total(talk) for number, talk in enumerate(talks)}

    def work(thread: int) -> list[int]:
        wrong: list[int] = []
        for step in range(200):
            number = (thread * 3 + step) % len(talks)
            if estimator.estimate_conversation(talks[number], "gpt-4o").tokens != alone[number]:
                wrong.append(number)
            estimator.calibrate([ASKED, *talks[number]], 500, "gpt-4o", "another")
        return wrong

    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(work, range(4))] == [[], [], [], []]
    assert estimator.factor("gpt-4o", "another").turns == 800
    assert len(estimator.cache) <= 3


# ── for the gateway ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_warning_from_90_percent_of_the_limit_and_never_an_error() -> None:
    estimator = HybridTokenEstimator()
    estimator.calibrate([ASKED], 900, "gpt-4o")
    assert estimator.preflight([ASKED], 1001, "gpt-4o") is None
    near, over = estimator.preflight([ASKED], 1000, "gpt-4o"), estimator.preflight([ASKED], 500, "gpt-4o")
    assert near is not None
    assert over is not None
    assert (near.code, over.code) == ("near-limit", "over-limit")
    assert "900 of 1,000 tokens (90%; actual)" in near.message
    assert warning(estimator.estimate_conversation([ASKED], "gpt-4o"), 0) is None, "no limit is known"


def test_a_request_names_its_own_model() -> None:
    request = Request(model="claude-sonnet-4-5", messages=[ASKED], tools=[TOOL])
    assert total(request, "") == total(request, "claude-sonnet-4-5") != total(request, "gpt-4o")
    assert load_tables().find_family("claude-sonnet-4-5").name == "claude"


# ── what the provider counts and the request does not show ────────────────────────────────────────────────────────────

BODIES: dict[str, dict[str, Any]] = {
    "anthropic": {"model": "claude-sonnet-4", "max_tokens": 9, "messages": [{"role": "user", "content": PROSE}]},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": PROSE}]}], "generationConfig": {"temperature": 0.5}},
    "openai-chat": {"model": "gpt-4o", "messages": [{"role": "user", "content": PROSE}]},
    "responses": {"model": "gpt-4o", "input": PROSE},
}
CONTEXT: list[tuple[str, dict[str, Any]]] = [
    ("gemini", {"cachedContent": "cachedContents/1"}),
    ("responses", {"prompt": {"id": "pmpt_1"}}),
    ("responses", {"previous_response_id": "resp_1"}),
    ("responses", {"conversation": "conv_1"}),
    ("responses", {"conversation": {"id": "conv_1"}}),
    ("responses", {"input": [{"type": "item_reference", "id": "msg_1"}, {"role": "user", "content": PROSE}]}),
    ("anthropic", {"container": {"skills": [{"type": "anthropic", "skill_id": "pdf"}]}}),
    ("anthropic", {"container": "container_1"}),
]
COUNTED: list[tuple[str, dict[str, Any]]] = [
    ("gemini", {"generationConfig": {"temperature": 0.5, "mediaResolution": "MEDIA_RESOLUTION_LOW"}}),
    ("anthropic", {"mcp_servers": [{"type": "url", "url": "https://mcp.example.com", "name": "tides"}]}),
    ("anthropic", {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}),
    ("openai-chat", {"web_search_options": {}}),
    ("openai-chat", {"documents": [{"title": "Tides", "text": "Low water at noon."}]}),
    ("responses", {"truncation": "auto"}),
    ("openai-chat", {"a_field_of_tomorrow": {"b": 1, "a": 2}}),
]
FREE: list[tuple[str, dict[str, Any]]] = [
    ("gemini", {"generationConfig": {"temperature": 1, "seed": 5}, "labels": {"a": "b"}, "safetySettings": []}),
    ("anthropic", {"metadata": {"user_id": "u"}, "max_tokens": 500, "cache_control": {"type": "ephemeral"}}),
    ("anthropic", {"stream": True, "service_tier": "auto", "mcp_servers": None}),
    ("openai-chat", {"temperature": 0.2, "user": "u", "safety_identifier": "s", "logit_bias": {"1": 1}, "min_p": 0.1}),
    ("responses", {"include": ["reasoning.encrypted_content"], "background": True, "store": False}),
    ("responses", {"truncation": "disabled", "prompt_cache_retention": "24h", "previous_response_id": None}),
]


def read(protocol: str, fields: dict[str, Any]) -> Request:
    return reader(protocol)({**BODIES[protocol], **fields})


@each("protocol, fields", CONTEXT)
def test_a_context_on_the_server_teaches_nothing(protocol: str, fields: dict[str, Any]) -> None:
    estimator = HybridTokenEstimator()
    with_context, without = read(protocol, fields), read(protocol, {})
    estimator.calibrate(with_context, turn("Low water.", input=50_000, output=4), "m", "p")
    estimator.calibrate(with_context, 50_000, "m", "p", learn=False)
    assert estimator.factor("m", "p").turns == 0
    assert estimator.estimate_conversation(without, "m", "p").method == "estimated"
    assert estimator.estimate_conversation(with_context, "m", "p").method == "estimated"
    estimator.calibrate(without, 700, "m", "p")
    assert estimator.estimate_conversation(with_context, "m", "p").method != "actual", "there is more than it shows"


def test_a_context_in_provider_options_teaches_nothing() -> None:
    request = Request(messages=[ASKED], options={"openai": {"previousResponseId": "resp_1"}})
    estimator = HybridTokenEstimator()
    estimator.calibrate(request, 50_000, "gpt-4o")
    assert estimator.factor("gpt-4o").turns == 0
    assert estimator.estimate_conversation([ASKED], "gpt-4o").method == "estimated"


@each("protocol, fields", COUNTED)
def test_a_field_that_may_be_counted_makes_another_prompt(protocol: str, fields: dict[str, Any]) -> None:
    estimator = HybridTokenEstimator()
    estimator.calibrate(read(protocol, fields), 9000, "m", "p")
    assert estimator.factor("m", "p").turns == 0, "the estimate has nothing of it"
    assert estimator.estimate_conversation(read(protocol, {}), "m", "p").method == "estimated"
    again = json.dumps(fields, sort_keys=True)  # another order of names says the same
    found = estimator.estimate_conversation(read(protocol, json.loads(again)), "m", "p")
    assert (found.method, found.tokens) == ("actual", 9000)


@each("protocol, fields", FREE)
def test_a_field_that_changes_no_count_changes_nothing(protocol: str, fields: dict[str, Any]) -> None:
    estimator = HybridTokenEstimator()
    estimator.calibrate(read(protocol, fields), 700, "m", "p")
    assert estimator.factor("m", "p").turns == 1
    assert estimator.estimate_conversation(read(protocol, {}), "m", "p").method == "actual"


def tool_result(**mark: Any) -> dict[str, Any]:
    call = {"type": "tool_use", "id": "a", "name": "read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": PROSE, **mark}]}
    return {
        "model": "claude-sonnet-4-5", "max_tokens": 9,
        "messages": [{"role": "user", "content": PROSE}, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}],
    }  # fmt: skip


def function_call(**more: Any) -> dict[str, Any]:
    call = {"type": "function_call", "call_id": "a", "name": "read", "arguments": "{}", **more}
    output = {"type": "function_call_output", "call_id": "a", "output": PROSE}
    return {"model": "gpt-5", "input": [{"role": "user", "content": PROSE}, call, output]}


def with_tool(schema: dict[str, Any]) -> dict[str, Any]:
    return {**tool_result(), "tools": [{"name": "read", "description": "Reads.", "input_schema": schema}]}


FIELDS = {"path": {"type": "string", "title": "Path"}, "line": {"type": "integer"}}
SAME_PROMPTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a cache mark in a result": (tool_result(cache_control={"type": "ephemeral"}), tool_result()),
    "a new cache mark in a result": (tool_result(), tool_result(cache_control={"type": "ephemeral"})),
    "keys of a tool": (
        with_tool({"type": "object", "properties": FIELDS}),
        with_tool(
            {"properties": {key: dict(reversed(FIELDS[key].items())) for key in reversed(FIELDS)}, "type": "object"}
        ),
    ),
    "the id of a call": (function_call(), function_call(id="fc_1", status="completed")),
    "a call without its id": (function_call(id="fc_1", status="completed"), function_call()),
}


@each("case", SAME_PROMPTS)
def test_marks_ids_and_the_order_of_keys_do_not_lose_the_prompt(case: str) -> None:
    first, second = SAME_PROMPTS[case]
    estimator = HybridTokenEstimator()
    estimator.calibrate(first, 4_321, learn=False)
    found = estimator.estimate_conversation(second)
    assert (found.tokens, found.method) == (4_321, "actual")
