"""`penstock.Client`: every name of `LlmApi`, its forms of asking, wire shapes, usage, secrets; the same without `await`."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock import events as ev
from penstock.client import Client, LlmApi, SyncClient
from penstock.errors import AuthError, BadRequest, InputError, ProviderError, explain
from penstock.request import Message, Request, Settings, Text
from penstock.stores import MemoryStore
from penstock.testing import Reply, Upstream, play
from tests.support.each_case import each
from tests.wire.engines.router_setup import KEY, each_engine, quick, router

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

NAMES = (
    "chat", "chat_stream", "responses", "responses_stream", "complete", "complete_stream", "fim_stream", "embed",
    "rerank", "list_models",
)  # fmt: skip
TEXT = Reply.of("openai-chat", play("text"))
WHOLE = Reply.of("openai-chat", play("text"), stream=False)


def running(scene: Callable[[Upstream, Client], Awaitable[None]], *replies: Any, **accounts: Any) -> None:
    """A scene with an upstream that stands for these providers."""

    async def staged() -> None:
        async with Upstream(*replies) as up:
            way = router(dict.fromkeys(accounts or {"openai": {}}, up), **accounts)
            async with Client(router=way, options=quick()) as client:
                await scene(up, client)

    asyncio.run(staged())


def test_the_interface_has_exactly_these_names() -> None:
    for kind in (LlmApi, Client, SyncClient):
        assert {name for name in NAMES if callable(getattr(kind, name, None))} == set(NAMES)
    own = {name for name, _ in inspect.getmembers(LlmApi, inspect.isfunction) if not name.startswith("_")}
    assert own == set(NAMES)
    assert penstock.Client is Client
    assert penstock.LlmApi is LlmApi


FORMS: dict[str, Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "a question": lambda: (("openai/gpt-4o", "hello"), {"temperature": 0.5}),
    "messages": lambda: (("openai/gpt-4o", [{"role": "user", "content": "hello"}]), {"temperature": 0.5}),
    "a body": lambda: (({"model": "openai/gpt-4o", "messages": [{"role": "user", "content": "hello"}], "temperature": 0.5},), {}),
    "a request": lambda: ((Request("openai/gpt-4o", [Message("user", [Text("hello")])], settings=Settings(temperature=0.5)),), {}),
}  # fmt: skip


@each("form", FORMS)
def test_forms_of_asking_are_the_same(form: str) -> None:
    args, more = FORMS[form]()

    async def scene(up: Upstream, client: Client) -> None:
        assert (await client.chat_stream(*args, **more).turn()).text
        sent = up.requests[0].json
        assert sent["messages"] == [{"role": "user", "content": "hello"}]
        assert (sent["model"], sent["temperature"], sent["stream"]) == ("gpt-4o", 0.5, True)

    running(scene, TEXT)


def test_bad_forms_are_named() -> None:
    async def scene(_: Upstream, client: Client) -> None:
        with pytest.raises(BadRequest, match="messages"):
            client.chat_stream("openai/gpt-4o")
        with pytest.raises(InputError, match="says it all"):
            client.chat_stream(Request("openai/x"), "more")
        with pytest.raises(BadRequest, match=r"messages\[0\]"):
            client.chat_stream({"model": "openai/x", "messages": [7]})

    running(scene, TEXT)


@each("target", ["anthropic", "openai-chat", "responses", "gemini"])
def test_answers_in_any_wire_shape(target: str) -> None:
    async def scene(up: Upstream, client: Client) -> None:
        stream = b"".join([chunk async for chunk in client.chat_stream("openai/gpt-4o", "?").to(target)])
        assert b"penstock" in stream
        up.script(WHOLE)
        whole = (await client.chat("openai/gpt-4o", "?")).to(target)
        assert "penstock" in json.dumps(whole)

    running(scene, TEXT)


def test_a_wire_shape_that_has_no_whole_form() -> None:
    async def scene(_: Upstream, client: Client) -> None:
        answer = await client.chat("openai/gpt-4o", "?")
        with pytest.raises(InputError, match="target"):
            answer.to("bedrock")

    running(scene, WHOLE)


def test_responses_complete_and_fim() -> None:
    async def scene(up: Upstream, client: Client) -> None:
        up.script(Reply.of("responses", play("text"), stream=False))
        assert (await client.responses("openai/gpt-4o", "hello")).text
        assert up.requests[-1].path == "/v1/responses"
        up.script(Reply.of("responses", play("text")))
        assert (await client.responses_stream("openai/gpt-4o", "hello").turn()).text
        done = {"choices": [{"index": 0, "text": "return 1", "finish_reason": "stop"}]}
        up.script(Reply.body(done))
        assert (await client.complete("deepseek/deepseek-chat", "def one():")).text == "return 1"
        assert up.requests[-1].path.endswith("/completions")
        assert up.requests[-1].json["prompt"] == "def one():"
        chunk = f"data: {json.dumps(done)}\n\ndata: [DONE]\n\n".encode()
        up.script(Reply((chunk,), headers={"content-type": "text/event-stream"}))
        assert (await client.complete_stream("deepseek/deepseek-chat", "def one():").turn()).text == "return 1"
        assert (await client.fim_stream("deepseek/deepseek-chat", "def one():", "\n# end").turn()).text == "return 1"
        assert up.requests[-1].json["suffix"] == "\n# end"
        chat = {"choices": [{"index": 0, "delta": {"content": "x = 1"}, "finish_reason": "stop"}]}
        up.script(Reply((f"data: {json.dumps(chat)}\n\n".encode(),), headers={"content-type": "text/event-stream"}))
        assert (await client.fim_stream("mistral/codestral-latest", "a", "b").turn()).text == "x = 1"
        assert up.requests[-1].path.endswith("/fim/completions")

    running(scene, TEXT, openai={}, deepseek={}, mistral={})


VECTORS: dict[str, tuple[str, Any]] = {
    "openai": ("openai/text-embedding-3-small", {"data": [{"index": 1, "embedding": [3, 4]}, {"index": 0, "embedding": [1, 2]}], "usage": {"prompt_tokens": 7}}),
    "base64": ("openai/text-embedding-3-small", {"data": [{"index": 0, "embedding": "AACAPwAAAEA="}, {"index": 1, "embedding": "AABAQAAAgEA="}], "usage": {"prompt_tokens": 7}}),
    "cohere": ("cohere/embed-v4.0", {"embeddings": {"float": [[1, 2], [3, 4]]}, "meta": {"billed_units": {"input_tokens": 7}}}),
    "gemini": ("gemini/gemini-embedding-001", {"embeddings": [{"values": [1, 2]}, {"values": [3, 4]}]}),
    "voyage": ("voyage/voyage-3", {"data": [{"index": 0, "embedding": [1, 2]}, {"index": 1, "embedding": [3, 4]}], "usage": {"total_tokens": 7}}),
}  # fmt: skip


@each("case", VECTORS)
def test_embeddings(case: str) -> None:
    model, answer = VECTORS[case]

    async def scene(up: Upstream, client: Client) -> None:
        found = await client.embed(model, ["one", "two"])
        assert found.vectors == [[1, 2], [3, 4]]
        assert found.usage is None or found.usage.input == 7
        assert "one" in up.requests[0].body.decode()
        with pytest.raises(InputError, match="at least one"):
            await client.embed(model, [])

    running(scene, Reply.body(answer), **{model.partition("/")[0]: {}})


RANKED: dict[str, tuple[str, Any, str]] = {
    "cohere": ("cohere/rerank-v3.5", {"results": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.1}]}, "top_n"),
    "voyage": ("voyage/rerank-2", {"data": [{"index": 0, "relevance_score": 0.1}, {"index": 1, "relevance_score": 0.9}]}, "top_k"),
    "jina": ("jina/jina-reranker-v2", {"results": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.1}]}, "top_n"),
}  # fmt: skip


@each("case", RANKED)
def test_rankings(case: str) -> None:
    model, answer, limit = RANKED[case]

    async def scene(up: Upstream, client: Client) -> None:
        found = await client.rerank(model, "which?", ["bad", "good"], top=2)
        assert [(one.index, one.document) for one in found.results] == [(1, "good"), (0, "bad")]
        assert up.requests[0].json[limit] == 2

    running(scene, Reply.body(answer), **{model.partition("/")[0]: {}})


def test_models() -> None:
    async def scene(up: Upstream, client: Client) -> None:
        assert [one.id for one in await client.list_models("openai")] == ["gpt-4o"]
        assert (up.requests[0].method, up.requests[0].path) == ("GET", "/v1/models")
        up.script(Reply.error("openai-chat", 401))
        with pytest.raises(ProviderError):
            await client.list_models("openai")
        assert len(await client.list_models()) > 5, "the table answers for one that cannot be asked"

    running(scene, Reply.body({"data": [{"id": "gpt-4o"}]}))


def test_usage_is_counted_once_for_every_call() -> None:
    events: list[Any] = [
        ev.Start("a", "m"), ev.TextStart(0), ev.TextDelta(0, "hi"), ev.TextEnd(0),
        ev.Usage(100, 20, 60, 30, 5), ev.Finish("stop"),
    ]  # fmt: skip

    async def scene(up: Upstream, client: Client) -> None:
        for _ in range(2):
            await client.chat_stream("anthropic/claude-x", "?").turn()
        row = client.spending.by_model["anthropic", "claude-x"]
        assert (row.calls, row.input, row.output, row.cached, row.written) == (2, 200, 40, 120, 60)
        up.script(Reply.of("anthropic", play("error")))
        async for _ in client.chat_stream("anthropic/claude-x", "?"):
            pass
        assert client.spending.total.broken == 1
        assert client.spending.total.calls == 3

    running(scene, Reply.of("anthropic", events), anthropic={})


def test_state_that_messages_cannot_carry_is_kept() -> None:
    """Thinking with its signature is put back before the call it belongs to, though an OpenAI body has no place for it."""
    thought: list[Any] = [
        ev.Start("a", "m"), ev.ReasoningStart(0), ev.ReasoningDelta(0, "hm"),
        ev.ReasoningEnd(0, {"anthropic": {"signature": "sig-1"}}), ev.CallStart(1, "call_7", "look"),
        ev.CallDelta(1, "{}"), ev.CallEnd(1, "call_7", "look", "{}"), ev.Finish("calls"),
    ]  # fmt: skip

    async def staged() -> None:
        async with Upstream(Reply.of("anthropic", thought), Reply.of("anthropic", play("text"))) as up:
            way = router({"anthropic": up})
            async with Client(router=way, store=MemoryStore(lambda: 0.0), options=quick()) as client:
                turn = await client.chat_stream("anthropic/claude-x", "go").turn()
                message = turn.to("openai-chat")["choices"][0]["message"]
                plain = {"role": "assistant", "content": None, "tool_calls": message["tool_calls"]}
                result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "ok"}
                await client.chat_stream(
                    "anthropic/claude-x", [{"role": "user", "content": "go"}, plain, result]
                ).turn()
                assert "sig-1" in up.requests[1].body.decode()

    asyncio.run(staged())


@each_engine
def test_a_planted_key_is_seen_nowhere(engine: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The provider repeats the key in a body, a header and a stream: it is in no error, record, log or repr."""
    body = {"error": {"message": f"Incorrect API key provided: {KEY}", "code": "invalid_api_key"}}
    loud = Reply.body(body, status=401, headers={"x-echo": KEY, "set-cookie": KEY})
    said: list[str] = []

    async def scene(up: Upstream, client: Client) -> None:
        with pytest.raises(ProviderError) as found:
            await client.chat("openai/gpt-4o", "?", engine=engine)
        error = found.value
        said.extend([explain(error), repr(error), str(error), repr(error.fault), repr(vars(error))])
        up.script(
            Reply.of(
                "openai-chat",
                [*play("text")[:4], ev.Fault("auth", f"bad {KEY}", extra={"openai-chat": {"message": KEY}})],
            )
        )
        stream = client.chat_stream("openai/gpt-4o", "?", engine=engine)
        said.extend([repr(event) async for event in stream])
        said.extend([repr(stream.record), repr(client.router.config), repr(client.router.counts)])
        assert KEY in str(up.requests[0].headers), "it was sent"

    with caplog.at_level(logging.DEBUG, logger="penstock"):
        running(scene, loud)
    said.append("\n".join(row.getMessage() for row in caplog.records if row.name.startswith("penstock")))
    assert not [text for text in said if KEY in text]


def test_a_model_without_a_key_is_never_played() -> None:
    schema = {"type": "object", "properties": {"fraud": {"type": "boolean"}}, "required": ["fraud"]}
    form = {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}

    async def scene() -> None:
        async with Client(env={}) as client:
            with pytest.raises(AuthError, match="ANTHROPIC_API_KEY"):
                await client.chat("claude-sonnet-4-5", "Classify", response_format=form)
            with pytest.raises(InputError, match="no provider is configured"):
                await client.chat("team", "hi")

    asyncio.run(scene())


def test_a_limit_that_the_protocol_requires_is_said() -> None:
    async def scene() -> None:
        async with Upstream(Reply.of("anthropic", play("text")), Reply.of("anthropic", play("text"))) as up:
            config = {"providers": {"anthropic": {"base_url": f"{up.url}/v1", "key": "k"}}}
            async with Client(config, env={}) as client:
                cases: list[tuple[dict[str, Any], list[str]]] = [({}, ["output-limit"]), ({"max_tokens": 99}, [])]
                for more, said in cases:
                    stream = client.chat_stream("anthropic/claude-sonnet-4-5", "hello", **more)
                    await stream.turn()
                    assert [row.code for row in stream.diagnostics if row.code == "output-limit"] == said
            assert [seen.json["max_tokens"] for seen in up.requests] == [32_000, 99]

    asyncio.run(scene())


def test_with_nothing_configured_packaged_streams_answer() -> None:
    async def scene() -> None:
        async with Client(env={}) as client:
            for asked in ("replay/text", {"messages": [{"role": "user", "content": "hello"}]}):
                answer = await client.chat(asked, "hello") if isinstance(asked, str) else await client.chat(asked)
                assert answer.text
                assert answer.provider == "replay"
            assert "text" in [one.id for one in await client.list_models()]

    asyncio.run(scene())
