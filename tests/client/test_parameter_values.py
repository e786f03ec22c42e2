"""Values that a function of the client cannot use: the error names the parameter and what it takes, at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

import pytest
from msgspec import convert

import penstock
from penstock.client import (
    Client,
    Config,
    FunctionTool,
    McpServer,
    MemoryCache,
    OutputOf,
    RequestOptions,
    SqliteCache,
    SyncClient,
    Timeouts,
)
from penstock.errors import InputError
from penstock.testing import Reply, Upstream
from tests.support.each_case import each

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAN, INF = float("nan"), float("inf")
NOT_JSON = ({"a": object()}, {"a": [NAN]}, {"a": {"b": INF}}, {"a": {1: 2}}, {"a": {1, 2}}, {"a": b"x"})
SECONDS = ("5", NAN, INF, -1, 0, True)
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
COUNTS = ("3", 0, -1, 1.5, True, NAN)


def cases(*rows: tuple[str, tuple[Any, ...]]) -> list[Any]:
    """One case for each value of each parameter."""
    return [(name, value) for name, values in rows for value in values]


CLIENT = cases(
    ("budget", ("5", True, NAN, INF, -1, [])),
    ("prices", ("x", [1], {3: {}}, {"m": 3}, {"m": {"input": "1"}}, {"m": {"input": NAN}}, {"m": {"output": INF}})),
    ("tenant", (3, b"x")), ("store", (True, "x", 3)), ("env", ("x", [1], {"a": 1})), ("router", ("x", 3)),
    ("options", ("x", 3, [1], {"timeouts": {"total": INF}}, *({"extra_body": one} for one in NOT_JSON))),
    ("cache", (True, "x")), ("tracing", ("yes", 3)), ("on_request", (3, "x")),
)  # fmt: skip


@each("name, value", CLIENT)
def test_parameters_of_a_client(name: str, value: Any) -> None:
    given: Any = {name: value}
    with pytest.raises(InputError, match=rf"^({name}|request options|prices of)\b.*([Ee]xpected|found)"):
        Client(**given)


TURN = cases(
    ("timeout", (*SECONDS, [])), ("extra_body", (3, "x", *NOT_JSON)), ("extra_headers", (3, {"a": 3}, {"a\n": "x"})),
    ("engine", ("nativ", 3)), ("cache", ("x", 3)), ("convert", (3, "x")), ("options", (3, "x", [1])),
    ("prompt_caching", ("no", 3)), ("context_management", ("no", 3)), ("strict", ("no", 3)),
    ("temperature", ("hot", NAN, INF, True)), ("top_p", (NAN,)), ("max_output_tokens", ("3", 1.5, True)),
    ("reasoning", (1.5, {"max_tokens": "x"}, {"enabled": "x"}, {"max_tokens": True}, "hihg", {"effort": "hihg"})),
    ("reasoning_effort", ("hihg", "default", 3)),
    ("metadata", (3, *NOT_JSON)), ("logit_bias", (3, {"1": NAN})), ("audio", (3, {"a": object()})),
)  # fmt: skip


@each("name, value", TURN)
def test_parameters_of_a_turn(name: str, value: Any) -> None:
    given: Any = {name: value}
    with SyncClient(env={}) as sync:
        client: Any = sync
        calls: tuple[Callable[[], Any], ...] = (
            lambda: client.chat("replay/text", "q", **given),
            lambda: client.chat_stream("replay/text", "q", **given),
            lambda: client.run("replay/text", "q", **given),
            lambda: client.map(["q"], model="replay/text", **given),
        )
        for call in calls:
            with pytest.raises(InputError, match=rf"{name.removeprefix('extra_')}.*expected|header"):
                call()


EFFORT_WORDS = {"hihg": "did you mean 'high'?", "High": "did you mean 'high'?", "lots": "extra_body"}


@each("word", EFFORT_WORDS)
def test_an_unknown_effort_is_refused_with_the_known_ones(word: str) -> None:
    hint = EFFORT_WORDS[word]
    calls: dict[str, dict[str, Any]] = {
        "reasoning": {"reasoning": word},
        "reasoning.effort": {"reasoning": {"effort": word}},
        "reasoning_effort": {"reasoning_effort": word},
    }
    with SyncClient(env={}) as sync:
        client: Any = sync
        for name, given in calls.items():
            with pytest.raises(InputError) as raised:
                client.chat("replay/text", "q", **given)
            expected = f"{name}: expected one of {', '.join(EFFORTS)}, found {word!r}"
            assert str(raised.value).startswith(expected)
            assert hint in str(raised.value)
        with pytest.raises(InputError, match=r"^reasoning\.effort: expected one of"):
            client.responses("replay/text", "q", reasoning={"effort": word})


@each("word", [*EFFORTS, ""])
def test_every_known_effort_is_taken(word: Any) -> None:
    with SyncClient(env={}) as client:
        assert client.chat("replay/text", "q", reasoning=word).text
        assert client.chat("replay/text", "q", reasoning={"effort": word}).text
        assert client.chat("replay/text", "q", reasoning_effort=word).text


def test_a_body_may_have_an_effort_that_only_a_vendor_knows() -> None:
    async def send() -> list[Any]:
        async with Upstream(Reply.text("a"), Reply.text("b")) as up, up.client() as client:
            await client.chat({"model": "openai/some-model", "messages": "q", "reasoning_effort": "default"})
            await client.chat("openai/some-model", "q", extra_body={"reasoning_effort": "default"})
            return [one.json.get("reasoning_effort") for one in up.requests]

    assert asyncio.run(send()) == ["default", "default"]


AMOUNTS: dict[str, tuple[dict[str, Any], ...]] = {
    "retries": ({"retries": -1}, {"retries": -(10**400)}),
    "breaker.failures": ({"breaker": {"failures": -1}},),
    "breaker.cool": ({"breaker": {"cool": NAN}}, {"breaker": {"cool": INF}}, {"breaker": {"cool": -0.5}}),
}


@each("name", AMOUNTS)
def test_amounts_of_the_configuration(name: str) -> None:
    for config in AMOUNTS[name]:
        with pytest.raises(InputError, match=rf"^{name}: expected a number of at least 0, found"):
            Client(config)
        with pytest.raises(InputError, match=rf"^{name}: expected"):
            Client(convert(config, Config))
    assert Client({"retries": 0, "breaker": {"cool": 0}}).router.config.retries == 0


OTHERS: dict[str, Callable[[Any, Any], Any]] = {
    "batch_size": lambda client, value: client.embed("openai/m", "x", batch_size=value),
    "dimensions": lambda client, value: client.embed("openai/m", "x", dimensions=value),
    "encoding_format": lambda client, value: client.embed("openai/m", "x", encoding_format=value),
    "texts": lambda client, value: client.embed("openai/m", value),
    "model": lambda client, value: client.embed(value, "x"),
    "query": lambda client, value: client.rerank("cohere/m", value, ["a"]),
    "documents": lambda client, value: client.rerank("cohere/m", "q", value),
    "top": lambda client, value: client.rerank("cohere/m", "q", ["a"], value),
    "top_n": lambda client, value: client.rerank("cohere/m", "q", ["a"], top_n=value),
    "top_k": lambda client, value: client.rerank("cohere/m", "q", ["a"], top_k=value),
    "provider": lambda client, value: client.list_models(value),
    "chat": lambda client, value: client.list_models("replay", chat=value),
    "concurrency": lambda client, value: client.map(["q"], model="replay/text", concurrency=value),
    "return_errors": lambda client, value: client.map(["q"], model="replay/text", return_errors=value),
    "progress": lambda client, value: client.map(["q"], model="replay/text", progress=value),
    "requests": lambda client, value: client.map(value, model="replay/text"),
    "tool_timeout": lambda client, value: client.run("replay/text", "q", tool_timeout=value),
}
OTHER_VALUES = cases(
    ("batch_size", COUNTS), ("dimensions", COUNTS), ("encoding_format", ("x", 3)),
    ("texts", (3, b"x", [object()], {"a": 1}, [None])), ("model", (3, b"x")), ("query", (3, b"x")),
    ("documents", ("abc", [3], 3)), ("top", COUNTS), ("top_n", COUNTS), ("top_k", COUNTS), ("provider", (3,)),
    ("chat", ("x", 3)), ("concurrency", COUNTS), ("return_errors", ("no", 3)), ("progress", ("x", 3)),
    ("requests", ("x", 3)), ("tool_timeout", SECONDS),
)  # fmt: skip


@each("name, value", OTHER_VALUES)
def test_parameters_of_other_calls(name: str, value: Any) -> None:
    with SyncClient(env={}) as client, pytest.raises(InputError, match=rf"^{name}\b.*expected"):
        OTHERS[name](client, value)


@each("name, value", cases(("ttl", ("x", NAN, INF, -1, 0, True, None)), ("size", COUNTS), ("rows", COUNTS)))
def test_parameters_of_caches(name: str, value: Any, tmp_path: Path) -> None:
    given: Any = {name: value}
    with pytest.raises(InputError, match=f"{name}: expected"):
        MemoryCache(**given)
    with pytest.raises(InputError, match=f"{name}: expected"):
        SqliteCache(tmp_path / "a.sqlite", **given)
    assert not (tmp_path / "a.sqlite").exists()


def test_options_that_are_created_directly() -> None:
    for seconds in (*SECONDS, None):
        given: Any = {"total": seconds}
        with pytest.raises(InputError, match=r"timeouts\.total: expected seconds"):
            Timeouts(**given)
    wrong: dict[str, Any] = {"headers": 3, "proxy": 3, "verify_ssl": "no", "key": 3, "timeouts": 3}
    for name, value in wrong.items():
        with pytest.raises(InputError, match=f"{name}: expected"):
            RequestOptions(**{name: value})
    with pytest.raises(InputError, match=r"extra_body: .* found an object of type object at a\[0\]"):
        RequestOptions(extra_body={"a": [object()]})


TOOLS = cases(
    ("timeout", SECONDS), ("name", (3,)), ("description", (3,)), ("needs_approval", ("no", 3)),
)  # fmt: skip


@each("name, value", TOOLS)
def test_parameters_of_tools(name: str, value: Any) -> None:
    def look() -> str:
        return ""

    given: Any = {name: value}
    with pytest.raises(InputError, match=rf"^{name}: expected"):
        penstock.tool(**given)(look)
    with pytest.raises(InputError, match="tool: expected a function"):
        FunctionTool(value)


SERVERS = cases(
    ("timeout", SECONDS), ("name", (3,)), ("only", ("find", [3])), ("needs_approval", ("no",)), ("env", (3, {"a": 1})),
)  # fmt: skip


@each("name, value", SERVERS)
def test_parameters_of_servers(name: str, value: Any) -> None:
    given: Any = {name: value}
    with pytest.raises(InputError, match=rf"^{name}: expected"):
        McpServer.stdio("program", **given)


def test_addresses_and_commands_of_servers() -> None:
    wrong: Any = 3
    for address in ("nowhere", wrong):
        with pytest.raises(InputError, match=r"^url: expected an http"):
            McpServer.http(address)
    with pytest.raises(InputError, match=r"^headers: expected"):
        McpServer.http("https://example.org", headers={"a": wrong})
    with pytest.raises(InputError, match=r"^command: expected"):
        McpServer.stdio(wrong)
    with pytest.raises(InputError, match=r"^args: expected"):
        McpServer.stdio("program", wrong)


async def read_outputs(client: Client) -> tuple[Literal["yes", "no"], int | None]:
    first = await client.run("openai/gpt-4o", "q", output=OutputOf[Literal["yes", "no"]])
    second = await client.run("openai/gpt-4o", "q", output=OutputOf[int | None])
    return first.output, second.output


async def _outputs() -> None:
    async with Upstream(Reply.text('{"value": "yes"}'), Reply.text('{"value": null}')) as up, up.client() as client:
        assert await read_outputs(client) == ("yes", None)


def test_outputs_of_types_that_are_not_classes() -> None:
    asyncio.run(_outputs())
