"""The log of a scripted upstream: what was asked and answered, and messages that show what happened instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.errors import InputError
from penstock.testing import Reply, Upstream, scripted
from tests.support.each_case import each

if TYPE_CHECKING:
    from penstock.client import SyncClient

TOOLS = [{"type": "function", "function": {"name": "get_tide", "parameters": {"type": "object"}}}]
MODELS = [
    "openai/gpt-4o",
    "anthropic/claude-sonnet-4-5",
    "gemini/gemini-2.5-flash",
    "bedrock/m",
    "cohere/m",
    "ollama/m",
]


def run_tool_loop(client: SyncClient, model: str) -> str:
    """What a program does: ask, run the tool, ask again."""
    messages = [{"role": "user", "content": "When is high tide?"}]
    answer = client.chat(model, messages, tools=TOOLS)
    message = answer.to("openai-chat")["choices"][0]["message"]
    results = [{"role": "tool", "tool_call_id": call.id, "content": "at 06:12"} for call in answer.calls]
    return client.chat(model, [*messages, message, *results], tools=TOOLS).text


@each("model", MODELS)
def test_a_tool_loop(model: str) -> None:
    with scripted(
        Reply.calls([("get_tide", {"day": 1})], usage=(10, 2)), Reply.text("Soon.", usage=(20, 3)), keep_alive=False
    ) as up:
        with up.sync_client() as client:
            assert run_tool_loop(client, model) == "Soon."
        up.assert_request_count(2)
        assert up.requests[0].tools == ["get_tide"]
        assert up.assert_call("get_tide", {"day": 1}).json == '{"day":1}'
        assert "06:12" in up.assert_result("get_tide", "06:12")
        assert [turn.text for turn in up.turns] == ["", "Soon."]
        assert (up.usage.input, up.usage.output) == (30, 5)


def test_messages_show_what_happened() -> None:
    with scripted(Reply.calls([("get_tide", {"day": 1})]), "Soon.", keep_alive=False) as up:
        with up.sync_client() as client:
            run_tool_loop(client, "openai/gpt-4o")
        with pytest.raises(
            AssertionError,
            match=r"expected 3 requests, received 2:\n  1. POST /v1/chat/completions 'When is high tide\?'",
        ):
            up.assert_request_count(3)
        with pytest.raises(
            AssertionError, match=r'did not ask for get_tide with {"day":2}; .*:\n  get_tide\({"day":1}\)'
        ):
            up.assert_call("get_tide", {"day": 2})
        with pytest.raises(
            AssertionError, match=r"no result of get_tide that contains '07' was sent; .*:\n  get_tide: at 06:12"
        ):
            up.assert_result("get_tide", "07")


def test_nothing_happened() -> None:
    up = Upstream()
    up.assert_request_count(0)
    with pytest.raises(AssertionError, match="no request was received"):
        _ = up.last
    with pytest.raises(AssertionError, match="asked for: none"):
        up.assert_call("get_tide")
    with pytest.raises(AssertionError, match="were sent: none"):
        up.assert_result("get_tide")
    assert up.usage.input is None


def test_requests_that_are_not_turns() -> None:
    vectors = {"data": [{"index": 0, "embedding": [1.0]}], "usage": {"prompt_tokens": 1}}
    with scripted(Reply.body(vectors), keep_alive=False) as up, up.sync_client() as client:
        client.embed("openai/text-embedding-3-small", "text")
        up.assert_request_count(1)
        assert (up.last.dialect, up.last.turn, up.last.model) == (None, None, "text-embedding-3-small")
        assert up.last.json["input"] == ["text"]
        with pytest.raises(InputError, match="not a request for a turn"):
            _ = up.last.request


def test_clients_use_aliases_fallbacks_and_bare_names() -> None:
    config = {"aliases": {"fast": ["groq/a", "openai/b"]}}
    with scripted(Reply.error(status=401), "At six.", keep_alive=False) as up, up.sync_client(config) as client:
        assert client.chat("fast", "?").text == "At six."
        assert [(one.host, one.model) for one in up.requests] == [("api.groq.com", "a"), ("api.openai.com", "b")]
        assert client.chat("claude-sonnet-4-5", "?").text == "At six."
        assert up.last.headers["x-forwarded-host"] == "api.anthropic.com"


def test_no_key_of_this_machine_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-live-0123456789abcdef")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with scripted("At six.", keep_alive=False) as up, up.sync_client() as client:
        client.chat("openai/gpt-4o", "?")
        assert "sk-live" not in repr(up.last.headers)


def test_only_what_was_sent_is_in_the_log() -> None:
    reply = Reply.text("word " * 50, usage=(5, 50)).disconnect(after=0.5)
    with scripted(reply, keep_alive=False) as up, up.sync_client({"retries": 0}) as client:
        list(client.chat_stream("openai/gpt-4o", "?"))
        turn = up.turns[0]
        assert 10 < len(turn.text) < 200
        assert turn.fault is not None
        assert up.usage.input is None
