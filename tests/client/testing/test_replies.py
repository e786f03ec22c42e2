"""Replies from plain Python and from recordings: the same answer in every dialect, with every fault."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock import RequestOptions
from penstock import events as ev
from penstock.errors import (
    AuthError,
    BadAnswer,
    InputError,
    NetworkError,
    Overloaded,
    ProviderError,
    RateLimited,
    TimedOut,
)
from penstock.request import Call, Reasoning, Text
from penstock.testing import Dialect, RecordingHeader, Reply, Upstream, play, scripted, wire, write_recording
from tests.cli.command_runner import inside
from tests.support.client_parts import find_dialect
from tests.support.each_case import each

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from penstock.client import Client

# A model of a provider for every protocol that a provider can speak, and every framing.
MODELS = {
    "openai-chat": "openai/gpt-4o",
    "responses": "openai/o3-pro",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-2.5-flash",
    "bedrock": "bedrock/some.model",
    "cohere": "cohere/command-a",
    "ollama": "ollama/llama3",
    "sagemaker": "sagemaker/endpoint",
    "vertex-claude": "vertexai/claude-sonnet-4-5",
    "watsonx": "watsonx/granite",
    "azure": "azure/gpt-4o",
}
each_dialect = each("model", MODELS.values())
each_form = each("stream", [True, False])


def running(scene: Callable[[Upstream, Client], Awaitable[None]], *replies: Any, **options: Any) -> None:
    async def staged() -> None:
        async with Upstream(*replies, keep_alive=False) as up:
            async with up.client(**options) as client:
                await scene(up, client)
            assert up.problems == []

    asyncio.run(asyncio.wait_for(staged(), 30))


async def ask(client: Client, model: str, *, stream: bool) -> Any:
    return await (client.chat_stream(model, "When?").turn() if stream else client.chat(model, "When?"))


@each_dialect
@each_form
def test_a_text_is_an_answer_in_every_dialect(model: str, stream: bool) -> None:
    async def scene(up: Upstream, client: Client) -> None:
        answer = await ask(client, model, stream=stream)
        assert answer.text == "The tide turns at six."
        assert (answer.usage.input, answer.usage.output, answer.finish.reason) == (7, 9, "stop")
        seen = up.last
        assert (seen.model or "granite", seen.prompt) == (model.partition("/")[2], "When?")
        assert seen.dialect is not None
        assert seen.dialect.stream is stream
        assert up.turns[0].text == answer.text
        assert (up.usage.input, up.usage.output) == (7, 9)

    running(scene, Reply.text("The tide turns at six.", usage=(7, 9)))


@each_dialect
@each_form
def test_calls_are_asked_for_in_every_dialect(model: str, stream: bool) -> None:
    calls: Any = [("get_weather", {"city": "Oslo"}), {"name": "get_tide", "arguments": '{"day":1}', "id": "c9"}]

    async def scene(up: Upstream, client: Client) -> None:
        answer = await ask(client, model, stream=stream)
        assert [(call.name, call.json) for call in answer.calls] == [
            ("get_weather", '{"city":"Oslo"}'),
            ("get_tide", '{"day":1}'),
        ]
        assert answer.finish.reason == "calls"
        assert (answer.text, answer.reasoning) in {("Let me see.", "Hm."), ("Let me see.", "")}
        up.assert_call("get_weather", {"city": "Oslo"})

    running(scene, Reply.calls(calls, text="Let me see.", reasoning="Hm."))


@each_dialect
@each(
    "reply, error",
    [
        (Reply.rate_limit(retry_after=20), RateLimited),
        (Reply.error(status=401, message="who are you?"), AuthError),
        (Reply.error(status=503, message="busy"), Overloaded),
        (Reply.error(status=400, message="no such field"), ProviderError),
        (Reply.no_response(), NetworkError),
    ],
)
def test_errors_in_every_dialect(model: str, reply: Reply, error: type[ProviderError]) -> None:
    async def scene(up: Upstream, client: Client) -> None:
        with pytest.raises(error) as caught:
            await client.chat(model, "When?")
        if error is RateLimited:
            assert caught.value.retry_after == 20
        elif error is not NetworkError:
            words: dict[type[ProviderError], str] = {AuthError: "who are you?", Overloaded: "busy"}
            assert caught.value.message == words.get(error, "no such field")
        assert up.turns == []

    running(scene, reply, config={"retries": 0})


@each_dialect
def test_a_rate_limit_then_an_answer_takes_no_time(model: str) -> None:
    async def scene(up: Upstream, client: Client) -> None:
        assert (await client.chat(model, "When?")).text == "At six."
        up.assert_request_count(2)

    running(scene, Reply.rate_limit(retry_after=8), "At six.")


@each_dialect
@each_form
def test_an_answer_that_is_cut_in_the_middle(model: str, stream: bool) -> None:
    async def scene(_: Upstream, client: Client) -> None:
        with pytest.raises((NetworkError, BadAnswer)):
            await ask(client, model, stream=stream)

    running(scene, Reply.text("word " * 50).disconnect(after=0.5), config={"retries": 0})


@each_dialect
def test_an_answer_that_stalls(model: str) -> None:
    async def scene(_: Upstream, client: Client) -> None:
        with pytest.raises(TimedOut):
            await ask(client, model, stream=True)

    limits = RequestOptions.read({"timeouts": {"between_bytes": 0.1}})
    running(scene, Reply.text("word " * 50).stall(after=0.5), options=limits, config={"retries": 0})


def test_the_share_of_a_body_before_a_failure() -> None:
    body = Reply.body(b"0123456789")
    assert list(body.disconnect(0.3).steps()) == [b"012", "cut", b"3456789"]
    assert list(body.disconnect(3).steps()) == [b"012", "cut", b"3456789"]
    assert list(body.disconnect(-2).steps()) == [b"01234567", "cut", b"89"]
    assert list(body.stall(1.0).steps()) == [b"0123456789", "stall"]
    assert list(body.garbage(0.5, b"#").slow(0.5, size=5).steps()) == [b"01234", 0.5, b"", b"#", b"56789"]


def test_parts_keep_what_must_be_sent_back() -> None:
    signed = Reasoning("Hm.", extra={"anthropic": {"signature": "sig-1"}})

    async def scene(up: Upstream, client: Client) -> None:
        answer = await client.chat("anthropic/claude-sonnet-4-5", "When?")
        first: Any = answer.parts[0]
        assert first.extra == {"anthropic": {"signature": "sig-1"}}
        assert answer.calls[0].id == "toolu_1"
        assert up.last.model == "claude-sonnet-4-5"

    running(scene, Reply.parts([signed, Text("Let me see."), Call("toolu_1", "get_tide", "{}")]))


def test_a_protocol_that_is_named_is_kept() -> None:
    reply = Reply.text("At six.", protocol="anthropic", stream=False)
    written = reply.encode_for(Dialect("openai-chat", stream=True))
    assert written.headers == {"content-type": "application/json"}
    assert b'"type":"message"' in written.data.replace(b" ", b"")
    with pytest.raises(InputError, match="no bytes yet"):
        _ = reply.data


def test_events_of_a_script_in_the_dialect_of_the_request() -> None:
    async def scene(_: Upstream, client: Client) -> None:
        for model in MODELS.values():
            assert (await client.chat(model, "?")).calls[0].name

    running(scene, Reply.of("", play("tools")))


def test_a_call_without_a_name() -> None:
    with pytest.raises(InputError, match="needs a name"):
        Reply.calls([{"arguments": {}}])


def test_a_request_of_an_unknown_dialect_is_reported() -> None:
    async def staged() -> None:
        async with Upstream("At six.") as up, up.client(config={"retries": 0}) as client:
            with pytest.raises(ProviderError, match="dialect of a request to /v1/embeddings is not known"):
                await client.embed("openai/text-embedding-3-small", "text")
            assert "Reply.body" in up.problems[0]

    asyncio.run(staged())


# ── recordings ────────────────────────────────────────────────────────────────────────────────────


def _tape(folder: Path, protocol: str, data: list[tuple[float, bytes]], **more: Any) -> Path:
    path = folder / "answer.tape"
    kind = {"content-type": "text/event-stream", "transfer-encoding": "chunked", "x-request-id": "r1"}
    write_recording(path, RecordingHeader(protocol=protocol, headers=kind, **more), data)
    return path


def test_a_tape_is_a_reply(tmp_path: Path) -> None:
    data = wire("tools", "anthropic")
    path = _tape(tmp_path, "anthropic", [(0.25, data[:100]), (0.75, data[100:])])
    reply = Reply.tape(path)
    assert (reply.data, reply.chunks, reply.times) == (data, (data[:100], data[100:]), ())
    assert reply.headers == {"content-type": "text/event-stream", "x-request-id": "r1"}
    assert list(Reply.tape(str(path), speed=2).steps()) == [0.125, data[:100], 0.25, data[100:]]

    async def scene(up: Upstream, client: Client) -> None:
        answer = await client.chat_stream("anthropic/claude-sonnet-4-5", "?").turn()
        assert up.assert_call(answer.calls[0].name).json == answer.calls[0].json

    running(scene, reply)


@each_dialect
def test_a_tape_in_another_dialect(model: str, tmp_path: Path) -> None:
    path = _tape(tmp_path, "anthropic", [(0.0, wire("text", "anthropic"))])
    expected = "".join(event.text for event in play("text") if isinstance(event, ev.TextDelta))

    async def scene(up: Upstream, client: Client) -> None:
        up.script(Reply.tape(path, protocol=up_protocol(model)))
        assert (await client.chat_stream(model, "?").turn()).text == expected

    running(scene)


def up_protocol(model: str) -> str:
    protocol = next(name for name, one in MODELS.items() if one == model)
    return {
        "sagemaker": "openai-chat",
        "vertex-claude": "anthropic",
        "watsonx": "openai-chat",
        "azure": "openai-chat",
    }.get(protocol, protocol)


@each("protocol", ["openai-chat", "responses", "anthropic", "gemini", "bedrock", "cohere", "ollama"])
@each("stream", [True, False])
def test_a_tape_of_the_command_line(tmp_path: Path, protocol: str, stream: bool) -> None:
    """`penstock record` knows the bytes alone: no content type, and the protocol only if it can be told."""
    path, data = tmp_path / f"{protocol}-{stream}.tape", wire("tools", protocol, stream=stream)
    assert inside("record", str(path), "--quiet", given=data).returncode == 0

    async def scene(up: Upstream, client: Client) -> None:
        assert (await ask(client, MODELS[protocol], stream=stream)).calls[0].name == "read_gauge"
        assert up.requests[0].answer_data == data
        up.script(Reply.tape(path, protocol="anthropic"))
        assert (await ask(client, MODELS["anthropic"], stream=stream)).calls[0].name == "read_gauge"

    running(scene, Reply.tape(path))


def test_a_tape_of_an_error(tmp_path: Path) -> None:
    body = Reply.rate_limit("openai-chat").data
    path = _tape(tmp_path, "openai-chat", [(0.0, body)], status=429)

    async def scene(_: Upstream, client: Client) -> None:
        with pytest.raises(RateLimited):
            await client.chat("openai/gpt-4o", "?")

    running(scene, Reply.tape(path), config={"retries": 0})


# ── dialects ──────────────────────────────────────────────────────────────────────────────────────


@each(
    "path, query, body, dialect",
    [
        ("/v1/chat/completions", "", {"stream": True}, Dialect("openai-chat", stream=True)),
        ("/v1/chat/completions", "", {}, Dialect("openai-chat")),
        ("/openai/deployments/d/chat/completions", "api-version=1", {}, Dialect("openai-chat")),
        ("/v1/completions", "", {"stream": True}, Dialect("completions", stream=True)),
        ("/v1/fim/completions", "", {}, Dialect("openai-chat")),
        ("/v1/responses", "", {"stream": False}, Dialect("responses")),
        ("/v1/messages", "beta=true", {"stream": True}, Dialect("anthropic", stream=True)),
        ("/v1beta/models/g:generateContent", "", {}, Dialect("gemini")),
        ("/v1beta/models/g:streamGenerateContent", "alt=sse", {}, Dialect("gemini", stream=True)),
        ("/v1beta/models/g:streamGenerateContent", "", {}, Dialect("gemini", stream=True, framing="jsonarray")),
        ("/model/m/converse-stream", "", {}, Dialect("bedrock", stream=True)),
        ("/api/chat", "", {}, Dialect("ollama", stream=True)),
        ("/api/chat", "", {"stream": False}, Dialect("ollama")),
        ("/v2/chat", "", None, Dialect("cohere")),
        ("/v1/embeddings", "", {}, None),
        ("/v1/models", "", None, None),
        ("/v1/messages/count_tokens", "", {}, None),
    ],
)
def test_the_dialect_of_a_request(path: str, query: str, body: Any, dialect: Dialect | None) -> None:
    assert find_dialect(path, query, body) == dialect


def test_a_stream_of_gemini_as_a_json_array() -> None:
    with scripted("At six.", keep_alive=False) as up:
        answer = httpx.post(
            f"{up.url}/v1beta/models/g:streamGenerateContent", json={"contents": [{"parts": [{"text": "?"}]}]}
        )
        assert isinstance(answer.json(), list)
        assert up.turns[0].text == "At six."
