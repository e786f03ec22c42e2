"""State without a store: it travels in fields of the protocol, and only to the provider that it came from."""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace

from penstock import translate
from penstock.messages import convert, profile_of, remember
from penstock.request import Reasoning, Text, Turn
from penstock.stores import MemoryStore
from tests.support.each_case import each
from tests.support.request_protocols import quirks

SIGNED = {"google": {"thought_signature": "SIG=="}}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ASK: dict[str, Any] = {"role": "user", "content": "x"}


def history(model: str, *said: dict[str, Any]) -> dict[str, Any]:
    return {"model": model, "messages": [ASK, *said, ASK]}


def called(**more: Any) -> list[dict[str, Any]]:
    return [
        {"role": "assistant", "content": None, "tool_calls": [{**CALL, **more}]},
        {"role": "tool", "tool_call_id": "c1", "content": "1"},
    ]


def codes(made: Any) -> list[str]:
    return [row.code for row in made.diagnostics]


# ── Gemini's signatures in Chat ───────────────────────────────────────────────────────────────────


def test_a_signature_in_a_chat_history_reaches_gemini() -> None:
    said: dict[str, Any] = {"role": "assistant", "content": "hi", "extra_content": SIGNED}
    made = convert(history("gemini-3-pro-preview", *called(extra_content=SIGNED), said), "openai-chat", "gemini")
    parts = [part for content in made.body["contents"] for part in content["parts"]]
    assert [part["thoughtSignature"] for part in parts if "thoughtSignature" in part] == ["SIG==", "SIG=="]
    assert "functionCall" in next(part for part in parts if "thoughtSignature" in part)
    assert codes(made) == []


def test_a_chat_history_keeps_its_signatures_among_chat_servers() -> None:
    said: dict[str, Any] = {"role": "assistant", "content": "hi", "extra_content": {**SIGNED, "other": 1}}
    body = history("gemini-3-pro-preview", *called(extra_content={"google": {"thought_signature": "S", "x": 1}}), said)
    assert convert(body, "openai-chat", "openai-chat", profile=profile_of("openai-chat")).body == body


def test_a_gemini_history_reaches_googles_chat_server() -> None:
    call: dict[str, Any] = {"functionCall": {"id": "c1", "name": "f", "args": {}}, "thoughtSignature": "SIG=="}
    contents: list[Any] = [{"role": "user", "parts": [{"text": "x"}]}, {"role": "model", "parts": [call]}]
    contents += [{"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "f", "response": {}}}]}]
    body: dict[str, Any] = {"model": "gemini-3-pro-preview", "contents": contents}
    made = convert(body, "gemini", "openai-chat", quirks=quirks("openai-chat", signatures=True))
    assert made.body["messages"][1]["tool_calls"][0]["extra_content"] == SIGNED
    assert "SIG==" not in json.dumps(convert(body, "gemini", "openai-chat").body)


CHUNK: dict[str, Any] = {"candidates": [{"content": {"role": "model", "parts": [
    {"functionCall": {"id": "c1", "name": "f", "args": {}}, "thoughtSignature": "SIG=="}]}, "finishReason": "STOP"}]}  # fmt: skip


def deltas(wire: bytes) -> list[dict[str, Any]]:
    rows = [json.loads(line[6:]) for line in wire.decode().splitlines() if line.startswith("data: {")]
    return [choice["delta"] for row in rows for choice in row["choices"]]


def test_a_chat_client_of_gemini_gets_the_signature_and_gemini_gets_it_back() -> None:
    wire = b"data: " + json.dumps(CHUNK).encode() + b"\n\n"
    out = b"".join(translate([wire], "gemini", "openai-chat"))
    call = next(delta["tool_calls"][0] for delta in deltas(out) if "tool_calls" in delta)
    assert call["extra_content"] == SIGNED
    back = b"".join(translate([out], "openai-chat", "gemini"))
    assert b'"thoughtSignature":"SIG=="' in back


def test_a_signature_that_comes_behind_the_first_piece_of_a_call() -> None:
    pieces: list[Any] = [{"index": 0, **CALL, "function": {"name": "f", "arguments": ""}}]
    pieces += [{"index": 0, "function": {"arguments": "{}"}}, {"index": 0, "extra_content": SIGNED}]
    rows: list[Any] = [{"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]} for piece in pieces]
    rows.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    wire = b"".join(b"data: " + json.dumps({"id": "a", "model": "m", **row}).encode() + b"\n\n" for row in rows)
    assert b'"thoughtSignature":"SIG=="' in b"".join(translate([wire], "openai-chat", "gemini"))
    again = deltas(b"".join(translate([wire], "openai-chat", "openai-chat")))
    assert [
        call["extra_content"] for one in again for call in one.get("tool_calls", ()) if "extra_content" in call
    ] == [SIGNED]


# ── reasoning details ─────────────────────────────────────────────────────────────────────────────

CLAUDE = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant",'
    b'"model":"claude-sonnet-4-5","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}\n\n'
    b'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"thinking",'
    b'"thinking":"","signature":""}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta",'
    b'"thinking":"Hm."}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta",'
    b'"signature":"c2ln"}}\n\n'
    b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}'
    b'\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n'
)


def test_a_chat_client_can_carry_the_signature_of_a_claude_upstream() -> None:
    got = deltas(b"".join(translate([CLAUDE], "anthropic", "openai-chat")))
    thought = "".join(delta.get("reasoning_content", "") for delta in got)
    details = [detail for delta in got for detail in delta.get("reasoning_details", ())]
    said: dict[str, Any] = {
        "role": "assistant",
        "content": "hi",
        "reasoning_content": thought,
        "reasoning_details": details,
    }
    made = convert(history("claude-sonnet-4-5", said), "openai-chat", "anthropic")
    block = made.body["messages"][1]["content"][0]
    assert block == {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}


@each(
    "form, field, model, foreign",
    [
        ("anthropic-claude-v1", "signature", "claude-sonnet-4-5", "gpt-5"),
        ("openai-responses-v1", "data", "gpt-5", "claude-sonnet-4-5"),
    ],
)
def test_reasoning_details_go_to_nobody_but_their_maker(form: str, field: str, model: str, foreign: str) -> None:
    kind = "reasoning.text" if field == "signature" else "reasoning.encrypted"
    detail = {"type": kind, "text": "Hm.", field: "CIPHER", "format": form, "index": 0}
    said: dict[str, Any] = {"role": "assistant", "content": "hi", "reasoning_details": [detail]}
    profile = profile_of("openai-chat")
    kept = convert(history(model, said), "openai-chat", "openai-chat", profile=profile)
    assert kept.body["messages"][1]["reasoning_details"] == [detail]
    made = convert(history(foreign, said), "openai-chat", "openai-chat", profile=profile)
    assert "CIPHER" not in json.dumps(made.body)
    assert "state-foreign" in codes(made)


def test_a_signature_of_gemini_is_not_sent_to_another_makers_model() -> None:
    profile = profile_of("openai-chat")
    made = convert(history("gpt-5", *called(extra_content=SIGNED)), "openai-chat", "openai-chat", profile=profile)
    assert "SIG==" not in json.dumps(made.body)
    assert codes(made) == ["state-foreign"]


def test_state_in_a_store_knows_the_provider_that_gave_it() -> None:
    """The words go to another provider, what only the first can read does not."""
    store = MemoryStore(lambda: 0.0)
    sealed = Reasoning("Hm.", extra={"responses": {"encrypted_content": "CIPHER"}}, item="rs_1")
    remember(Turn(parts=[sealed, Text("hi")]), store, "t", origin="openai")
    body = history("m", {"role": "assistant", "content": "hi"})
    profile = profile_of("responses")
    for provider, sent in (("openai", True), ("xai", False)):
        named = replace(profile, provider=provider)
        made = convert(body, "openai-chat", "responses", profile=named, store=store, tenant="t")
        assert ("CIPHER" in json.dumps(made.body), "state-foreign" in codes(made)) == (sent, not sent)


# ── ciphertext ────────────────────────────────────────────────────────────────────────────────────

SEARCHED: list[Any] = [
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "tides"}},
    {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [
        {"type": "web_search_result", "url": "https://example.org", "title": "Tides", "encrypted_content": "CIPHER1"}]},
    {"type": "redacted_thinking", "data": "CIPHER2"},
    {"type": "compaction", "content": "earlier words", "encrypted_content": "CIPHER4"},
    {"type": "text", "text": "High.", "citations": [
        {"type": "web_search_result_location", "url": "https://example.org", "title": "Tides", "cited_text": "High",
         "encrypted_index": "CIPHER3"}]},
]  # fmt: skip


@each("target", ["openai-chat", "responses", "gemini", "bedrock", "cohere", "ollama", "completions"])
def test_ciphertext_of_a_search_never_becomes_words(target: str) -> None:
    body: dict[str, Any] = {
        "model": "m",
        "max_tokens": 50,
        "messages": [ASK, {"role": "assistant", "content": SEARCHED}, ASK],
    }
    made = convert(body, "anthropic", target)
    written = json.dumps(made.body)
    assert "CIPHER" not in written
    assert "https://example.org" in written
    assert convert(body, "anthropic", "anthropic").body == body
