"""One depth limit for JSON: what a client sends deeper is refused, a provider's payload is a fault, arguments pass."""

from __future__ import annotations

import json
import re
from itertools import product
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock import _input_limits as input_limits
from penstock import bridge, fold_all, translate, unfold
from penstock import events as ev
from penstock._diagnostics import Diagnostics
from penstock._grammar import Guard
from penstock._input_limits import (
    MAX_JSON_DEPTH,
    MAX_PARTS,
    NestingError,
    decode_bounded,
    decode_deep,
    exceeds_depth,
    is_valid,
    too_deep,
)
from penstock._ledger import Ledger
from penstock._lenient_json import (
    as_json,
    complete_json,
    decode_unless_too_deep,
    is_json,
    parse_lenient,
    replace_surrogates,
)
from penstock._pipeline import Pipe
from penstock._protocols.vscode.encode import PartObjectEncoder
from penstock._request_writer import collect_text
from penstock._strict_fields import parse_object
from penstock.errors import BadRequest, InputError, TooDeep
from penstock.messages import convert
from penstock.vscode import ToolCallPart
from tests.support import request_cases
from tests.support import run_streams as running
from tests.support import stream_cases as cases
from tests.support.each_case import each

if TYPE_CHECKING:
    from collections.abc import Callable


SOURCES, TARGETS = running.sources(), running.targets()
READERS = ("openai-chat", "responses", "anthropic", "gemini", "bedrock", "ollama", "cohere", "aisdk", "uistream", "vscode")  # fmt: skip


def lists(depth: int) -> str:
    return "[" * depth + "]" * depth


def objects(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


def sse(*payloads: Any) -> bytes:
    rows = [one if isinstance(one, str) else json.dumps(one) for one in payloads]
    return "".join(f"data: {row}\n\n" for row in rows).encode()


def events(data: bytes, source: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in b"".join(translate(data, source, "events")).splitlines()]


# ── the limit itself ──────────────────────────────────────────────────────────────────────────────


@each("form", [lists, objects])
def test_the_limit_is_exact(form: Callable[[int], str]) -> None:
    at, beyond = form(MAX_JSON_DEPTH).encode(), form(MAX_JSON_DEPTH + 1).encode()
    assert not too_deep(at)
    assert too_deep(beyond)
    assert decode_bounded(at) is not None
    with pytest.raises(NestingError):
        decode_bounded(beyond)
    assert parse_lenient(at) is not None
    assert parse_lenient(beyond) is None


def test_brackets_in_strings_are_not_levels() -> None:
    data = json.dumps({"a": "[" * 1000, "b": ['\\"[{' * 300], "c": {"]" * 999: "{" * 999}}).encode()
    assert not too_deep(data)
    assert decode_bounded(data) == json.loads(data)


@each("depth", [MAX_JSON_DEPTH + 1, 990, 1100, 20_000])
@each("form", [lists, objects])
def test_validity_at_any_depth(form: Callable[[int], str], depth: int) -> None:
    text = form(depth)
    assert is_json(text)
    assert complete_json(text) == text
    assert bytes(decode_unless_too_deep(text)) == text.encode()
    for wrong in (text[:-1], text + "]", text[1:], text.replace("1", "").replace("[]", "[,]"), text[:-1] + "x"):
        assert not is_json(wrong)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('ab"\\[]{}é', max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('a"\\]}', max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(JSON, JSON, st.integers(0, 300), st.integers(0, 300), st.binary(max_size=2), st.integers(0))
def test_pieces_are_judged_as_the_whole_would_be(one: Any, two: Any, n: int, m: int, noise: bytes, at: int) -> None:
    text = b'[{"k":' * n + b"[%b,%b]" % (json.dumps(one).encode(), json.dumps(two).encode()) + b"}]" * n
    text = b"[" * m + text + b"]" * m
    place = at % (len(text) + 1)
    for data in (text, text[:place] + noise + text[place:], text[:place] + text[place + 1 :]):
        try:
            msgspec.json.decode(data, type=msgspec.Raw)
            expected = True
        except (msgspec.DecodeError, RecursionError) as error:
            if isinstance(error, RecursionError):
                continue
            expected = False
        assert input_limits.is_valid_in_pieces(data) == expected
        assert is_valid(data) == expected


@given(JSON, st.integers(0, 1200))
@settings(max_examples=60)
def test_a_deep_value_is_decoded_and_written_back(value: Any, depth: int) -> None:
    data = msgspec.json.encode({"v": value, "w": ["deep-0", "deep-x1"]})
    deep = b'{"a":[' * depth + data + b"]}" * depth
    assert msgspec.json.encode(decode_deep(deep)) == deep


def test_walks_are_not_recursive() -> None:
    value: Any = {"text": "in", "x": "\ud800"}
    for _ in range(20_000):
        value = [value, {"text": "out"}]
    assert collect_text(value).startswith("in\nout\nout")
    assert exceeds_depth(value)
    cleaned = replace_surrogates(value)
    for _ in range(20_000):
        cleaned = cleaned[0]
    assert cleaned["x"] == "\ufffd"


# ── the rows of the finding ───────────────────────────────────────────────────────────────────────


@each("target", TARGETS)
def test_numbers_no_float_can_hold(target: str) -> None:
    for number in ("1e999", "-1e999", "1" + "0" * 5000, "-1" + "0" * 5000, "NaN", "Infinity", "-0", "1e12", "1.5"):
        for source in SOURCES:
            data = sse(f'{{"a":{number},"type":3,"index":{number},"usage":{{"input_tokens":{number}}}}}')
            assert b"".join(translate(data, source, target, framing="sse")), (source, number)


@each("depth", [300, 1100, 100_000])
def test_events_with_a_deep_call(depth: int) -> None:
    rows = [
        {"type": "start", "id": "t"},
        {"type": "call-start", "index": 0, "id": "c", "name": "f"},
        {"type": "call-delta", "index": 0, "json": objects(depth)},
        {"type": "call-end", "index": 0, "id": "c", "name": "f", "json": objects(depth)},
    ]
    data = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
    told = events(data, "events")
    assert [row["type"] for row in told] == ["start", "call-start", "call-delta", "call-end", "fault"]
    assert told[3]["json"] == objects(depth)


def test_a_lone_surrogate_beside_a_deep_value() -> None:
    for depth in (200, 500, 5000):
        start = (
            '{"type":"message_start","message":{"id":"\\ud800","type":"message","role":"assistant","model":"m",'
            f'"content":[],"usage":{{"input_tokens":1,"output_tokens":1}},"x":{lists(depth)}}}}}'
        )
        told = events(sse(start, {"type": "message_stop"}), "anthropic")
        if depth > MAX_JSON_DEPTH:
            assert (told[-1]["type"], told[-1]["kind"]) == ("fault", "malformed")
            assert "deeper than 256 levels" in told[-1]["message"]
        else:
            assert told[0]["id"] == "\ufffd"


@each("target", READERS)
def test_a_deep_part_without_a_word(target: str) -> None:
    def body(depth: int) -> bytes:
        part = f'{{"type":"weird","x":{lists(depth)},"text":"hello"}}'
        return f'{{"model":"m","messages":[{{"role":"user","content":[{part}]}}]}}'.encode()

    made = convert(body(240), "openai-chat", target)
    assert msgspec.json.encode(made.body)
    for depth in (330, 2000):
        with pytest.raises(TooDeep, match=r"deeper than 256 levels at messages\[0\]\.content\[0\]\.x"):
            convert(body(depth), "openai-chat", target)


def chat_history(arguments: str, *, result: str = "ok") -> bytes:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return msgspec.json.encode({
        "model": "m",
        "messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": result},
            {"role": "user", "content": "go on"},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    })  # fmt: skip


@each("source, target", product(READERS, READERS))
def test_a_history_with_deep_arguments_stays_sendable(source: str, target: str) -> None:
    """Through every protocol: what a client of `source` sends back, written for `target`, and read again as Chat."""
    for depth in (300, 1100):
        check_deep_history(source, target, depth)


@each("source, target", zip(READERS[::2], READERS[1::2], strict=True))
def test_a_history_with_very_deep_arguments_stays_sendable(source: str, target: str) -> None:
    check_deep_history(source, target, 100_000)


def check_deep_history(source: str, target: str, depth: int) -> None:
    given = f'{{"deep":{lists(depth)},"n":1}}'
    asked = as_json(convert(chat_history(given), "openai-chat", source).body)
    sent = as_json(convert(asked, source, target).body)
    assert lists(depth) in sent.replace("\\", "")
    back = convert(sent, target, "openai-chat").body
    calls = [call for message in back["messages"] for call in message.get("tool_calls", ())]
    assert [call["function"]["arguments"].replace(" ", "") for call in calls] == [given]


@each("target", TARGETS)
@each("depth", [300, 1100, 100_000])
def test_an_answer_with_a_deep_call_is_delivered(target: str, depth: int) -> None:
    given = f'{{"deep":{lists(depth)}}}'

    def chunk(delta: Any, finish: str | None = None) -> dict[str, Any]:
        return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}  # fmt: skip

    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": given[:50]}}
    more = {"index": 0, "function": {"arguments": given[50:]}}
    data = sse(chunk({"tool_calls": [call]}), chunk({"tool_calls": [more]}), chunk({}, "tool_calls"), "[DONE]")
    told = running.decode("openai-chat", data)
    assert [type(event).__name__ for event in told][-2:] == ["CallEnd", "Finish"]
    assert [event.json for event in unfold(fold_all(told)[0]) if isinstance(event, ev.CallEnd)] == [given]
    options = {"whole_calls": True} if target == "openai-chat" else {}
    write = running.pipe_to(target, options)
    frames = [*write.feed(told), *write.finish()]
    assert not [row for row in write.diagnostics if row.code == "wrong-shape"]
    text = b"".join(data for _, data in frames).decode()
    if target != "completions":  # it has no calls
        assert lists(depth)[:1000] in text or '\\"deep\\":[[' in text
    make = running.row(target).body
    if make is not None and target != "completions":
        assert lists(depth) in make(frames).decode()


@each("source", ["aisdk", "uistream"])
@each("depth", [200, 300, 1100])
def test_a_deep_input_of_the_sdk(source: str, depth: int) -> None:
    """As an object it is a payload that is too deep, hence a fault; the turn is closed by the grammar's rules."""
    tail = '"toolCallId":"c1","toolName":"f"'
    data = sse(
        '{"type":"start"}' if source == "uistream" else '{"type":"stream-start","warnings":[]}',
        f'{{"type":"tool-input-start",{tail},"id":"c1"}}',
        f'{{"type":"tool-input-available",{tail},"input":{{"x":{lists(depth)}}}}}'
        if source == "uistream"
        else f'{{"type":"tool-call",{tail},"input":{{"x":{lists(depth)}}}}}',
        '{"type":"finish","finishReason":"tool-calls"}',
    )
    told = events(data, source)
    assert told[-1]["type"] == ("finish" if depth < MAX_JSON_DEPTH else "fault"), told
    if told[-1]["type"] == "fault":
        assert "deeper than 256 levels" in told[-1]["message"]


def test_a_deep_call_as_a_part_of_the_editor() -> None:
    """Python objects of any depth would break whoever walks them: the input is its text, and a finding says so."""
    given = objects(1100)
    encoder = PartObjectEncoder()
    parts = encoder.encode_parts([
        ev.Start("t"), ev.CallStart(0, "c", "f"), ev.CallDelta(0, given), ev.CallEnd(0, "c", "f", given),
        ev.Finish("calls"),
    ])  # fmt: skip
    calls = [part for part in parts if isinstance(part, ToolCallPart)]
    assert [part.input for part in calls] == [{"ps:json": given}]
    assert "too-deep" in [row.code for row in encoder.diagnostics]


# ── bodies ────────────────────────────────────────────────────────────────────────────────────────


@each("source", READERS)
@each("depth", [300, 5000])
def test_a_deep_body_is_refused_with_its_place(source: str, depth: int) -> None:
    data = f'{{"model":"m","tools":[{{"x":1}},{{"schema":{objects(depth)}}}]}}'.encode()
    with pytest.raises(TooDeep, match=r"nests deeper than 256 levels at tools\[1\]\.schema\.a"):
        convert(data, source, "openai-chat")
    with pytest.raises(TooDeep):
        parse_object(data)


def test_plain_objects_too_deep_to_write_are_refused() -> None:
    value: Any = {}
    for _ in range(3000):
        value = {"type": "object", "properties": {"a": value}}
    tool = {"type": "function", "function": {"name": "f", "parameters": value}}
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": [tool]}
    for target in READERS:
        try:
            convert(body, "openai-chat", target)
        except TooDeep:
            continue


@each("target", READERS)
def test_a_schema_at_the_limit_reaches_every_target(target: str) -> None:
    inner: Any = {"type": "string"}
    for _ in range(120):
        inner = {"type": "object", "properties": {"a": inner}}
    tool = {"type": "function", "function": {"name": "f", "parameters": inner}}
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": [tool]}
    assert b'"f"' in msgspec.json.encode(convert(json.dumps(body), "openai-chat", target).body)


# ── amounts ───────────────────────────────────────────────────────────────────────────────────────


def test_more_parts_than_a_turn_may_have_are_a_fault() -> None:
    ledger = Ledger(Diagnostics())
    for number in range(MAX_PARTS + 10):
        ledger.open_text(number)
        ledger.close(number)
    told = Guard(strict=True).feed(ledger.drain())
    assert told[-1].kind == "malformed"
    assert "more than 100,000 parts" in told[-1].message
    assert sum(type(event).__name__ == "TextStart" for event in told) == MAX_PARTS


TOOL_CALL = (
    '{"choices":[{"index":0,"delta":{"tool_calls":[{"index":9,"id":"c","function":{"name":"f","arguments":"{}"}}]},'
    '"finish_reason":"tool_calls"}]}'
)


def test_indexes_and_choices_of_any_size() -> None:
    for index in (10**12, -1, 10**400, 2**63):
        for source, payload in (
            ("openai-chat", f'{{"choices":[{{"index":{index},"delta":{{"content":"a"}},"finish_reason":"stop"}}]}}'),
            ("openai-chat", TOOL_CALL.replace("9", str(index))),
            ("anthropic", f'{{"type":"content_block_start","index":{index},"content_block":{{"type":"text","text":""}}}}'),
            ("gemini", f'{{"candidates":[{{"index":{index},"content":{{"parts":[{{"text":"a"}}]}}}}]}}'),
            ("responses", f'{{"type":"response.output_text.delta","output_index":{index},"content_index":{index},"delta":"a"}}'),
        ):  # fmt: skip
            for target in TARGETS:
                assert b"".join(translate(sse(payload), source, target))


@each("count", ["-5", "1" + "0" * 25, "1e999", "1.5", "NaN", '"7"'])
def test_counts_of_tokens_are_credible(count: str) -> None:
    usage = f'{{"prompt_tokens":{count},"completion_tokens":3,"total_tokens":{count}}}'
    chunk = f'{{"id":"c","created":{count},"choices":[{{"index":0,"delta":{{"content":"a"}},"finish_reason":"stop"}}],"usage":{usage}}}'
    told = events(sse(chunk, "[DONE]"), "openai-chat")
    assert told[-1]["type"] == "finish"
    assert [row.get("input") for row in told if row["type"] == "usage"] in ([None], [7])
    assert [row.get("output") for row in told if row["type"] == "usage"] == [3]
    for target in TARGETS:
        assert b"".join(translate(sse(chunk, "[DONE]"), "openai-chat", target))


# ── anything, anywhere ────────────────────────────────────────────────────────────────────────────

HUGE = [lists(257), objects(300), lists(1100), "1e999", "1" + "0" * 5000, "NaN", "-0", "1" + "0" * 25, '"\\ud800"', '"\\u0000"', "-1e12",
        "1.5", "null", "[]", "{}", '""', "true", '"' + "[" * 600 + '"', '{"a":1,"a":2}']  # fmt: skip


def spoilt(data: bytes, at: int, value: str) -> bytes:
    """A stream or body with one of its JSON values replaced."""
    places = list(
        re.finditer(rb'(?<=[:\[,])\s*("(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|true|false|null|\{\}|\[\])(?=\s*[,\]}])', data)
    )
    if not places:
        return data
    found = places[at % len(places)]
    return data[: found.start(1)] + value.encode() + data[found.end(1) :]


WIRES = [case for case in cases.cases() if case.protocol in SOURCES]
REQUESTS = request_cases.cases()


@given(st.sampled_from(WIRES), st.integers(0, 10**6), st.sampled_from(HUGE), st.sampled_from(TARGETS))
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
def test_huge_values_in_golden_streams(case: Any, at: int, value: str, target: str) -> None:
    stages = bridge(case.protocol, target).stages
    pipe = Pipe(*stages[:2], Guard(strict=True), *stages[3:])
    try:
        out = [*pipe.feed([spoilt(case.body, at, value)]), *pipe.finish()]
    except InputError:
        return
    assert all(isinstance(chunk, bytes) for chunk in out)


@given(st.sampled_from(REQUESTS), st.integers(0, 10**6), st.sampled_from(HUGE), st.sampled_from(READERS))
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
def test_huge_values_in_golden_requests(case: Any, at: int, value: str, target: str) -> None:
    try:
        made = convert(spoilt(msgspec.json.encode(case.body(case.source)), at, value), case.source, target)
    except BadRequest:
        return
    assert as_json(made.body)
