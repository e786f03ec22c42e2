"""Whole requests from one protocol to another, as providers will take them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from penstock import events as ev
from penstock import fold_all, unfold
from penstock import request as rq
from penstock.errors import BadRequest, UnknownProtocol
from penstock.messages import NINE, PROFILES, Converted, convert, profile_of, remember, write_request
from penstock.stores import MemoryStore
from penstock.testing import encode_events
from tests.support.each_case import each
from tests.support.request_laws import fits
from tests.support.request_protocols import WRITERS, quirks

WORDS = "one of many words " * 220
TARGETS = [name for name in WRITERS if name != "vscode"]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def codes(made: Converted) -> list[str]:
    return [one.code for one in made.diagnostics if not one.code.startswith(("loss-", "carr"))]


def test_twice_is_the_same() -> None:
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"type": "function", "function": {"name": "a.b"}}],
    }
    assert convert(body, "openai-chat", "anthropic").body == convert(body, "openai-chat", "anthropic").body


# ── one conversation with everything in it ────────────────────────────────────────────────────────

LONG = "call_" + "x" * 80
CHAT: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "Be terse."},
        {"role": "assistant", "content": "I begin."},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{PIXEL}"}}]},
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": LONG, "type": "function", "function": {"name": "fs.read", "arguments": '{"path":"a"}'}},
            {"id": "call_2", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}},
        ]},
        {"role": "system", "content": "A reminder."},
        {"role": "tool", "tool_call_id": LONG, "content": "text of a"},
        {"role": "tool", "tool_call_id": "lost", "content": "from long ago"},
        {"role": "user", "content": "go on"},
    ],
    "tools": [
        {"type": "function", "function": {"name": "fs.read", "parameters": {"type": "object"}}},
        {"type": "function", "function": {"name": "fs_read", "parameters": {"type": "object"}}},
        {"type": "custom", "custom": {"name": "patch", "description": "Patches."}},
    ],
    "tool_choice": {"type": "custom", "custom": {"name": "patch"}},
}  # fmt: skip


def test_a_conversation_with_everything_in_it() -> None:
    made = convert(CHAT, "openai-chat", "anthropic", max_output=8192)
    fits(made, "anthropic")
    body = made.body
    assert body["max_tokens"] == 4096
    assert body["messages"][0]["role"] == "user"
    [image] = next(one for one in body["messages"] if "image" in json.dumps(one))["content"]
    assert image["source"]["media_type"] == "image/png"
    names = [tool["name"] for tool in body["tools"]]
    assert len(set(names)) == 3
    assert names[1:] == ["fs_read", "patch"]
    assert body["tool_choice"]["name"] == "patch"
    calls = next(one for one in body["messages"] if "tool_use" in json.dumps(one))["content"]
    place = body["messages"].index(next(one for one in body["messages"] if one.get("content") == calls))
    answers = body["messages"][place + 1]["content"]
    assert [one["id"] for one in calls] == [one["tool_use_id"] for one in answers if one["type"] == "tool_result"]
    assert calls[1]["input"] == {"input": "*** Begin"}
    assert "from long ago" in json.dumps(body)
    assert set(codes(made)) >= {"names", "ids", "custom-tool", "orphan-result", "no-result", "media-type", "opened"}
    assert made.restore.ids == {calls[0]["id"]: LONG}


def restored(made: Converted, turn: rq.Turn) -> list[Any]:
    """The events of a turn as the client is told of them."""
    events: list[Any] = list(unfold(turn))
    for stage in made.restore.stages():
        events = [*stage.feed(events), *stage.finish()]
    return events


def test_an_answer_finds_its_way_back() -> None:
    made = convert(CHAT, "openai-chat", "anthropic")
    renamed = made.body["tools"][0]["name"]
    turn = rq.Turn(
        "t",
        parts=[rq.Call("x", renamed, "{}"), rq.Call("y", "patch", '{"input":"*** Begin\\n"}')],
        finish=ev.Finish("calls"),
    )
    assert [(call.name, call.form, call.json) for call in fold_all(restored(made, turn))[0].calls] == [
        ("fs.read", "json", "{}"),
        ("patch", "text", "*** Begin\n"),
    ]


def test_where_nothing_was_renamed_nothing_need_be_restored() -> None:
    made = convert({"model": "m", "messages": [{"role": "user", "content": "hi"}]}, "openai-chat", "anthropic")
    assert made.restore.stages() == ()


def test_a_provider_that_differs_is_a_profile_that_differs() -> None:
    mistral = msgspec.structs.replace(PROFILES["openai-chat"], ids=NINE, custom=False, alternate=True)
    made = convert(CHAT, "openai-chat", "openai-chat", profile=mistral)
    calls = [call for one in made.body["messages"] for call in one.get("tool_calls", [])]
    assert all(NINE.fits(call["id"]) and call["type"] == "function" for call in calls)
    answers = [one["tool_call_id"] for one in made.body["messages"] if one["role"] == "tool"]
    assert sorted(answers) == sorted(call["id"] for call in calls)


# ── options ───────────────────────────────────────────────────────────────────────────────────────

HELLO: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}],
}


def test_another_model() -> None:
    assert convert(HELLO, "openai-chat", "anthropic", model="other").body["model"] == "other"


def test_prompt_caching() -> None:
    made = convert(HELLO, "openai-chat", "anthropic", prompt_caching=True)
    assert json.dumps(made.body).count("cache_control") == 2
    assert "cache_control" not in json.dumps(convert(HELLO, "openai-chat", "openai-chat", prompt_caching=True).body)


def test_context_management() -> None:
    talk: list[Any] = [{"role": "user", "content": "begin"}]
    for number in range(8):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "t", "arguments": "{}"}}
        talk += [
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": WORDS},
        ]
    body = {"model": "m", "messages": talk}
    made = convert(body, "openai-chat", "anthropic", context_management=True, max_input=4000)
    assert 0 < json.dumps(made.body).count(WORDS) < 8
    assert "context-cleared" in codes(made)
    assert codes(convert(body, "openai-chat", "anthropic", context_management=True)) == ["context-unknown"]


def test_provider_options_pass_through_untouched() -> None:
    options = {"acme": {"deep": {"Knob": [1, None]}}, "other": {"x": 1}}
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "providerOptions": options}
    acme = msgspec.structs.replace(PROFILES["openai-chat"], provider="acme")
    made = convert(body, "aisdk", "openai-chat", profile=acme)
    assert made.request.options == options
    assert made.body["deep"] == {"Knob": [1, None]}
    assert "x" not in made.body


def test_the_output_limit() -> None:
    assert convert(HELLO, "openai-chat", "anthropic", max_output=10_000).body["max_tokens"] == 5000
    assert convert({**HELLO, "max_tokens": 7}, "openai-chat", "anthropic", max_output=10_000).body["max_tokens"] == 7


def test_a_low_output_limit_is_raised_only_where_the_vendor_refuses_it() -> None:
    made = convert({**HELLO, "max_tokens": 7}, "openai-chat", "responses")
    assert (made.body["max_output_tokens"], codes(made)) == (7, [])
    made = convert({**HELLO, "max_tokens": 7}, "openai-chat", "responses", quirks=quirks("responses", min_output=16))
    assert (made.body["max_output_tokens"], [row.code for row in made.diagnostics]) == (16, ["loss-max-output"])


def test_the_prefix_that_the_client_saw_is_taken_off() -> None:
    call = {"id": "gw-toolu_1", "type": "function", "function": {"name": "t", "arguments": "{}"}}
    body = {
        "model": "m",
        "messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "gw-toolu_1", "content": "ok"},
        ],
    }
    assert json.dumps(convert(body, "openai-chat", "anthropic", call_id_prefix="gw-").body).count('"toolu_1"') == 2
    assert json.dumps(convert(body, "openai-chat", "anthropic").body).count('"gw-toolu_1"') == 2


def test_state_is_kept_for_a_client_that_cannot_carry_it() -> None:
    store = MemoryStore(lambda: 0.0)
    thought = rq.Reasoning("hm", extra={"anthropic": {"signature": "c2ln"}})
    remember(rq.Turn("t", parts=[thought, rq.Call("c", "t", '{"a": 1}')]), store, "me")
    call = {"id": "c", "type": "function", "function": {"name": "t", "arguments": '{"a":1}'}}
    body = {
        "model": "m",
        "messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "ok"},
        ],
    }
    made = convert(body, "openai-chat", "anthropic", store=store, tenant="me")
    first = made.body["messages"][1]["content"][0]
    assert (first["thinking"], first["signature"]) == ("hm", "c2ln")
    assert "signature" not in json.dumps(convert(body, "openai-chat", "anthropic", store=store, tenant="you").body)


# ── what comes in ─────────────────────────────────────────────────────────────────────────────────


def test_bytes_and_text_are_read_too() -> None:
    data = json.dumps(HELLO)
    assert convert(data, "openai-chat", "anthropic").body == convert(data.encode(), "openai-chat", "anthropic").body
    assert (
        convert(bytearray(data.encode()), "openai-chat", "anthropic").body
        == convert(HELLO, "openai-chat", "anthropic").body
    )


@each("how", ["bytes", "object"])
def test_half_a_character_breaks_nothing(how: str) -> None:
    body: Any = {"model": "m", "messages": [{"role": "user", "content": "half \ud83d of it"}]}
    made = convert(json.dumps(body).encode() if how == "bytes" else body, "openai-chat", "anthropic")
    assert b"half \xef\xbf\xbd of it" in msgspec.json.encode(made.body)
    assert set(codes(made)) <= {"loose-json", "surrogates"}


@each("body", [b"", b"nonsense", b"[1]", b"null", "7", [1], None])
def test_what_is_no_request_is_an_error(body: Any) -> None:
    with pytest.raises(BadRequest, match="the body: expected"):
        convert(body, "openai-chat", "anthropic")


def test_names_that_are_no_protocols() -> None:
    with pytest.raises(UnknownProtocol, match=r"nobody.*openai-chat"):
        convert({}, "nobody", "anthropic")
    with pytest.raises(UnknownProtocol):
        write_request(rq.Request(), "events")


def test_every_protocol_with_a_profile_exists() -> None:
    assert all(profile_of(name).protocol == name for name in PROFILES)
    assert profile_of("aisdk@5") is PROFILES["aisdk"]
    assert profile_of("events").protocol == "events"


# ── an agent keeps its tools ──────────────────────────────────────────────────────────────────────

AGENT: dict[str, Any] = {
    "model": "m",
    "input": [
        {"type": "message", "role": "user", "content": "hi"},
        {"type": "function_call", "call_id": "c1", "name": "read", "namespace": "fs", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "ok"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "apply_patch", "input": "*** x"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "done"},
    ],
    "tools": [
        {"type": "namespace", "name": "fs", "description": "Files.", "tools": [{"type": "function", "name": "read", "parameters": {"type": "object"}}]},
        {"type": "custom", "name": "apply_patch", "description": "Patches."},
        {"type": "local_shell"},
        {"type": "function", "name": "run", "parameters": {"type": "object"}},
    ],
}  # fmt: skip


@each("target", ["openai-chat", "anthropic", "gemini", "bedrock", "cohere", "ollama"])
def test_an_agent_keeps_its_tools_with_any_provider(target: str) -> None:
    """All four are offered; the model calls each; the agent gets the items that it would have got from its own."""
    made = convert(AGENT, "responses", target, profile=msgspec.structs.replace(profile_of(target), custom=False))
    names = [tool.name for tool in made.request.tools]
    assert names == ["fs__read", "apply_patch", "local_shell", "run"]
    action = {"type": "exec", "command": ["ls"]}
    inputs = ['{"path":"a"}', '{"input":"*** y\\n"}', json.dumps({"action": action}), "{}"]
    calls = [rq.Call(f"x{place}", name, given) for place, (name, given) in enumerate(zip(names, inputs, strict=True))]
    turn = rq.Turn("t", "m", 1, parts=list(calls), finish=ev.Finish("calls"))
    sent = b"".join(encode_events("responses", restored(made, turn)))
    last = json.loads(sent.rpartition(b"data: {")[2].join([b"{", b""]).partition(b"\n")[0])
    items = [
        {key: item.get(key) for key in ("type", "call_id", "name", "namespace", "arguments", "input", "action")}
        for item in last["response"]["output"]
    ]
    said = [{key: value for key, value in item.items() if value is not None} for item in items]
    assert said == [
        {"type": "function_call", "call_id": "x0", "name": "read", "namespace": "fs", "arguments": '{"path":"a"}'},
        {"type": "custom_tool_call", "call_id": "x1", "name": "apply_patch", "input": "*** y\n"},
        {"type": "local_shell_call", "call_id": "x2", "action": action},
        {"type": "function_call", "call_id": "x3", "name": "run", "arguments": "{}"},
    ]
