"""Every method takes its parameters by keyword, refuses other names with a suggestion, and means the same in both clients."""

from __future__ import annotations

import asyncio
import gc
import inspect
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from penstock.client import Client, LlmApi, RequestOptions, Stream, SyncClient, SyncStream, Timeouts
from penstock.errors import BadRequest, InputError, PenstockError, TimedOut, UnknownParameter
from penstock.request import Format, Message, Request, Text, Tool, ToolChoice
from penstock.testing import Reply, Upstream, play, scripted
from tests.support.each_case import each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KEY = "sk-test"
MODEL = "up/gpt-4o"
HELLO = [{"role": "user", "content": "hello"}]
CHAT, CHAT_WHOLE = Reply.of("openai-chat", play("text")), Reply.of("openai-chat", play("text"), stream=False)
RESPONSES = Reply.of("responses", play("text"))
TEXT = Reply.body({"choices": [{"index": 0, "text": "return 1", "finish_reason": "stop"}]})
VECTORS = Reply.body({"data": [{"index": 0, "embedding": [1, 2]}], "usage": {"prompt_tokens": 3}})
RANKS = Reply.body({"results": [{"index": 0, "relevance_score": 0.9}]})
MODELS = Reply.body({"data": [{"id": "gpt-4o"}]})
# method → the reply, its arguments by keyword, and a field of the body that must come of them
CALLS: dict[str, tuple[Reply, dict[str, Any], dict[str, Any]]] = {
    "chat": (CHAT_WHOLE, {"model": MODEL, "messages": HELLO}, {"messages": HELLO}),
    "chat_stream": (CHAT, {"model": MODEL, "messages": "hello"}, {"messages": HELLO, "stream": True}),
    "responses": (Reply.of("responses", play("text"), stream=False), {"model": MODEL, "input": "hello"}, {"input": "hello"}),
    "responses_stream": (RESPONSES, {"model": MODEL, "input": "hello"}, {"input": "hello", "stream": True}),
    "complete": (TEXT, {"model": MODEL, "prompt": "def"}, {"prompt": "def"}),
    "complete_stream": (TEXT, {"model": MODEL, "prompt": "def", "suffix": "end"}, {"prompt": "def", "suffix": "end"}),
    "fim_stream": (TEXT, {"model": MODEL, "prefix": "def", "suffix": "end"}, {"prompt": "def", "suffix": "end"}),
    "embed": (VECTORS, {"model": MODEL, "texts": ["a"]}, {"input": ["a"]}),
    "rerank": (RANKS, {"model": MODEL, "query": "q", "documents": ["d"], "top": 1}, {"query": "q", "documents": ["d"], "top_n": 1}),
    "list_models": (MODELS, {"provider": "up"}, {}),
}  # fmt: skip
FIELDS = {"fields": {"has": ["chat", "responses", "completions", "fim", "embeddings", "rerank", "models"]}}


def config(up: Upstream | Any) -> dict[str, Any]:
    return {
        "providers": {"up": {"base_url": f"{up.url}/v1", "key": KEY, "like": "openai-compatible", **FIELDS}},
        "retries": 0,
    }


def call_sync(client: SyncClient, method: str, *args: Any, **more: Any) -> Any:
    found = getattr(client, method)(*args, **more)
    return found.turn() if isinstance(found, SyncStream) else found


def call_async(given: Any, method: str, *args: Any, **more: Any) -> Any:
    async def talk() -> Any:
        async with Client(given, env={}) as client:
            found = getattr(client, method)(*args, **more)
            return await (found.turn() if isinstance(found, Stream) else found)

    return asyncio.run(talk())


def call(kind: str, given: Any, method: str, *args: Any, **more: Any) -> Any:
    if kind == "async":
        return call_async(given, method, *args, **more)
    with SyncClient(given, env={}) as client:
        return call_sync(client, method, *args, **more)


both = each("kind", ["async", "sync"])
each_method = each("method", CALLS)


# ── names ─────────────────────────────────────────────────────────────────────────────────────────


@both
@each_method
def test_content_is_given_by_keyword(kind: str, method: str) -> None:
    reply, arguments, sent = CALLS[method]
    with scripted(reply) as up:
        assert call(kind, config(up), method, **arguments)
    if sent:
        assert {name: up.requests[0].json.get(name) for name in sent} == sent


def test_a_model_list_is_of_the_provider_that_is_named() -> None:
    with scripted(MODELS) as up:
        assert [one.provider for one in call_async(config(up), "list_models", provider="up")] == ["up"]


@each(
    "method, arguments",
    [("embed", {"model": MODEL, "input": "a"}), ("fim_stream", {"model": MODEL, "prompt": "def"}),
     ("rerank", {"model": MODEL, "query": "q", "documents": ["d"], "top_k": 3})],
)  # fmt: skip
def test_names_of_the_wire_work_too(method: str, arguments: dict[str, Any]) -> None:
    with scripted(CALLS[method][0]) as up:
        assert call_async(config(up), method, **arguments)


@both
@each_method
@each("wrong, right", [("timout", "timeout"), ("extraBody", "extra_body"), ("enginee", "engine")])
def test_an_unknown_name_is_refused_with_a_suggestion(kind: str, method: str, wrong: str, right: str) -> None:
    with scripted(CALLS[method][0]) as up, pytest.raises(UnknownParameter) as found:
        call(kind, config(up), method, **CALLS[method][1], **{wrong: 1})
    assert not up.requests
    assert isinstance(found.value, TypeError | InputError)
    assert f"{method} has no parameter {wrong!r}; did you mean {right!r}?" in str(found.value)
    assert "extra_body" in str(found.value)


WRONG = {
    "temprature": "'temperature'", "maxOutputTokens": "'max_output_tokens'", "max_new_tokens": "'max_", "tool": "'tools'",
    "message": "'messages'", "responseFormat": "'response_format'", "system": "role 'system'", "headers": "extra_headers",
    "response_model": "client.run", "zzz": "extra_body",
}  # fmt: skip


@each("wrong", WRONG)
def test_what_a_wrong_name_suggests(wrong: str) -> None:
    with SyncClient(env={}) as client, pytest.raises(UnknownParameter) as found:
        client.chat("replay/text", "q", **{wrong: 1})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert WRONG[wrong] in str(found.value)


def test_unknown_names_of_the_clients_themselves() -> None:
    for kind in (Client, SyncClient):
        with pytest.raises(UnknownParameter, match="did you mean 'options'"):
            kind(option={})  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def test_both_clients_and_the_interface_have_the_same_parameters() -> None:
    for method in CALLS:
        rows = [inspect.signature(getattr(kind, method)).parameters for kind in (LlmApi, Client, SyncClient)]
        assert rows[0] == rows[1] == rows[2], method
    assert inspect.signature(Client).parameters == inspect.signature(SyncClient).parameters
    with SyncClient(env={}) as client:
        assert isinstance(client, LlmApi)
        assert isinstance(client.client, LlmApi)
        assert not isinstance(object(), LlmApi)


# ── values ────────────────────────────────────────────────────────────────────────────────────────


def sent_by(*args: Any, method: str = "chat", **more: Any) -> Any:
    """The request that a call sends."""
    with scripted(CALLS[method][0]) as up:
        call_async(config(up), method, *args, **more)
        return up.requests[0]


def test_a_body_may_be_spread() -> None:
    body: dict[str, Any] = {"model": MODEL, "messages": HELLO, "temperature": 0.5, "stop": ["a"], "n": 1}
    assert sent_by(**body).json == sent_by(body).json == {**body, "model": "gpt-4o"}


def test_parameters_that_are_none_are_not_sent() -> None:
    assert set(sent_by(MODEL, "hello", temperature=None, tools=None, options=None).json) == {"model", "messages"}


def test_a_sequence_need_not_be_a_list() -> None:
    sent = sent_by(MODEL, tuple(HELLO), stop=("a", "b"), tools=(Tool("look", schema={"type": "object"}),)).json
    assert (sent["messages"], sent["stop"]) == (HELLO, ["a", "b"])
    assert sent["tools"][0]["function"]["name"] == "look"


def test_vendor_fields_go_into_extra_body() -> None:
    sent = sent_by(MODEL, "hello", extra_body={"repetition_penalty": 1.1}, extra_headers={"x-team": "blue"})
    assert sent.json["repetition_penalty"] == 1.1
    assert sent.headers["x-team"] == "blue"
    assert sent_by(MODEL, ["a"], method="embed", extra_body={"late_chunking": True}).json["late_chunking"] is True


LIMITS: dict[str, Any] = {"seconds": 0.2, "Timeouts": Timeouts(first_byte=0.2), "fields": {"first_byte": 0.2}}


@both
@each("form", LIMITS)
def test_a_timeout_is_obeyed(kind: str, form: str) -> None:
    with scripted(CHAT_WHOLE.delayed(30.0)) as up, pytest.raises(TimedOut):
        call(kind, config(up), "chat", MODEL, "hello", timeout=LIMITS[form])
    assert up.requests


def test_a_timeout_lies_over_the_options() -> None:
    options = RequestOptions(headers={"x-team": "blue"}, timeouts=Timeouts(first_byte=30, total=30))
    with scripted(CHAT_WHOLE.delayed(30.0)) as up, pytest.raises(TimedOut):
        call("async", config(up), "chat", MODEL, "hello", timeout=0.2, options=options)
    assert up.requests[0].headers["x-team"] == "blue"


@each("wrong", [0, -1, "soon", True])
def test_a_timeout_that_is_none(wrong: Any) -> None:
    with pytest.raises(InputError, match="timeout"):
        call_async({}, "chat", "replay/text", "q", timeout=wrong)


SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "limit": ({"max_output_tokens": 9}, {"max_tokens": 9}),
    "effort": ({"reasoning": "high"}, {"reasoning_effort": "high"}),
    "reasoning fields": ({"reasoning": {"effort": "low"}}, {"reasoning_effort": "low"}),
    "reasoning on": ({"reasoning": True}, {"reasoning_effort": "medium"}),
    "choice": ({"tool_choice": ToolChoice("required"), "tools": [Tool("t")]}, {"tool_choice": "required"}),
    "format": ({"response_format": Format("json")}, {"response_format": {"type": "json_object"}}),
}


@each("case", SETTINGS)
def test_canonical_settings(case: str) -> None:
    given, wanted = SETTINGS[case]
    sent = sent_by("up/some-model", "hello", **given).json
    assert {name: sent.get(name) for name in wanted} == wanted


def test_responses_take_the_same_settings() -> None:
    form = {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "object"}}}
    sent = sent_by(
        "up/some-model", "hello", method="responses", response_format=form, max_output_tokens=9, reasoning="low"
    ).json
    assert (sent["max_output_tokens"], sent["reasoning"]["effort"]) == (9, "low")
    assert sent["text"]["format"]["name"] == "s"


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no content": ({"model": MODEL}, "messages: expected what to ask"),
    "no model": ({"model": 7, "messages": "q"}, "model: expected a name, a body or a Request, found int"),
    "a type as format": ({"model": MODEL, "messages": "q", "response_format": dict}, "client.run"),
    "a function as tool": ({"model": MODEL, "messages": "q", "tools": [Tool("a"), print]}, r"tools\[1\].*client.run"),
    "limit": ({"model": MODEL, "messages": "q", "max_output_tokens": "9"}, "max_output_tokens: expected a whole number"),
    "reasoning": ({"model": MODEL, "messages": "q", "reasoning": 1.5}, "reasoning: expected an effort"),
    "reasoning name": ({"model": MODEL, "messages": "q", "reasoning": {"efort": "low"}}, "did you mean 'effort'"),
    "more than a Request": ({"model": Request("m"), "messages": "q"}, "says it all"),
    "message": ({"model": MODEL, "messages": [Message("user", [Text("a")]), *HELLO, {"role": "x"}]}, r"messages\[2\].role"),
    "stream": ({"model": MODEL, "messages": "q", "stream": True}, "call chat_stream"),
}  # fmt: skip


@each("case", BAD)
def test_bad_values_are_named(case: str) -> None:
    given, message = BAD[case]
    with pytest.raises(PenstockError, match=message):
        call_async({}, "chat", **given)


def test_a_stream_is_not_a_whole_answer() -> None:
    with pytest.raises(InputError, match=r"call chat$"):
        call_async({}, "chat_stream", MODEL, "q", stream=False)


def test_a_configuration_by_path(tmp_path: Any) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text('[aliases]\nfast = "replay/text"\n')
    for given in (file, str(file)):
        for kind in ("async", "sync"):
            assert call(kind, given, "chat", "fast", "q").text


# ── streams without await ─────────────────────────────────────────────────────────────────────────


def public_names(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_a_sync_stream_has_the_surface_of_a_stream() -> None:
    assert public_names(Stream) - {"aclose"} <= public_names(SyncStream)
    assert public_names(Client) - {"aclose"} <= public_names(SyncClient)


READ: dict[str, Callable[[SyncStream], Any]] = {
    "iteration": list,
    "batches": lambda stream: list(stream.batches()),
    "text": lambda stream: "".join(stream.text()),
    "to": lambda stream: b"".join(stream.to("anthropic")),
    "turn": lambda stream: stream.turn(),
}


@each("how", READ)
def test_a_sync_stream_can_be_read_in_every_way(how: str) -> None:
    with scripted(CHAT) as up, SyncClient(config(up), env={}) as client:
        stream = client.chat_stream(MODEL, "q")
        assert (stream.reply, stream.usage, stream.record, stream.end, stream.diagnostics) == (
            None,
            None,
            None,
            None,
            [],
        )
        assert READ[how](stream)
        assert stream.usage is not None
        assert stream.end is not None
        assert stream.record is not None
        assert stream.turn().text == client.chat_stream(MODEL, "q").turn().text != ""
        assert client.spending.total.calls == 2
        assert client.router is client.client.router


def test_a_sync_stream_is_a_context_manager() -> None:
    with scripted(CHAT.slow(0.05)) as up, SyncClient(config(up), env={}) as client:
        with client.chat_stream(MODEL, "q") as stream:
            assert stream.reply is not None
            assert next(iter(stream.text()))
        with pytest.raises(PenstockError, match="closed before its end"):
            stream.turn()


def test_a_closed_client_says_so() -> None:
    client = SyncClient(env={})
    client.chat("replay/text", "q")
    stream = client.chat_stream("replay/text", "q")
    client.close()
    client.close()
    stream.close()
    for use in (lambda: client.chat("replay/text", "q"), stream.turn, lambda: list(stream)):
        with pytest.raises(RuntimeError, match="the client is closed"):
            use()


def test_works_inside_a_running_loop() -> None:
    async def notebook() -> str:
        with SyncClient(env={}) as client:
            return client.chat("replay/text", "q").text

    assert asyncio.run(notebook())


# ── closing ───────────────────────────────────────────────────────────────────────────────────────


def warned(make: Callable[[], object]) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        make()
        gc.collect()
    return [str(one.message) for one in found if one.category is ResourceWarning and "unclosed" in str(one.message)]


def use_and_forget_sync() -> None:
    SyncClient(env={}).chat("replay/text", "q")


def use_and_forget_async() -> None:
    async def talk() -> None:
        await Client(env={}).chat("replay/text", "q")

    asyncio.run(talk())


def use_and_close() -> None:
    with SyncClient(env={}) as client:
        client.chat("replay/text", "q")


@each(
    "use, name",
    [(use_and_forget_sync, "SyncClient"), (use_and_forget_async, "Client"), (use_and_close, ""), (lambda: SyncClient(env={}), "")],
)  # fmt: skip
def test_a_client_that_is_not_closed_gives_a_warning(use: Callable[[], object], name: str) -> None:
    found = warned(use)
    assert [text.split()[1].rstrip(":") for text in found] == ([name] if name else [])


def test_the_thread_of_a_forgotten_client_ends() -> None:
    import threading

    def threads() -> Iterator[threading.Thread]:
        return (one for one in threading.enumerate() if one.name == "penstock-client")

    before = set(threads())
    warned(use_and_forget_sync)
    for thread in set(threads()) - before:
        thread.join(5)
        assert not thread.is_alive()


def test_bad_requests_of_a_mixed_list_count_from_its_start() -> None:
    with pytest.raises(BadRequest) as found:
        call_async({}, "chat", "replay/text", [Message("user", [Text("a")]), {"role": "user", "content": 7}])
    assert found.value.path == "messages[1].content"
