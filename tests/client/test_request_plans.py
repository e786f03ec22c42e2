"""A plan of a request is used again only while what it was made of is unchanged, and keeps nothing of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import hypothesis
from hypothesis import strategies as st

from penstock import request as rq
from penstock.client import Client
from penstock.errors import PenstockError
from penstock.providers import providers
from penstock.testing import Reply, Upstream, play
from tests.support.each_case import each
from tests.support.routed_client import RoutedClient, asking, good, routed, staged, turn

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

# Providers whose requests differ in form: one for each protocol, and those with rows of their own.
ROWS = ("openai", "anthropic", "gemini", "bedrock", "cohere", "ollama", "mistral", "deepseek", "openrouter", "groq")
WORDS = st.one_of(
    st.text(max_size=8), st.sampled_from(["json", "a\tb", " ", "", "<x>", "\\n", 'say "no"', "é", "\x00"])
)
SETTINGS = st.builds(
    rq.Settings, max_output=st.sampled_from([None, 1, 16, 10**6]), temperature=st.sampled_from([None, 0.0, 2.0]),
    top_k=st.sampled_from([None, 3]), stop=st.lists(st.sampled_from(["a", "b"]), max_size=2),
    choices=st.sampled_from([None, 1]), effort=st.sampled_from(["", "low", "none"]), seed=st.sampled_from([None, 1]),
    format=st.sampled_from([None, rq.Format("json")]), user=st.sampled_from(["", "u"]),
)  # fmt: skip
MESSAGES = st.lists(st.tuples(st.sampled_from(["system", "user", "user", "assistant"]), WORDS), min_size=1, max_size=4)


def keys(up: Upstream) -> list[str]:
    return [seen.headers.get("authorization", "") for seen in up.requests]


async def ask(client: RoutedClient, **said: Any) -> None:
    await turn(await client.open(asking(), **said))


@each("change, expected", [({"OPENAI_API_KEY": "sk-second"}, "sk-second"), ({"EDITOR": "ed"}, "sk-first")])
@each("own", [True, False])
@staged
async def test_a_key_that_changes_in_the_environment_is_taken_up(
    change: Mapping[str, str], expected: str, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Upstream() as up:
        up.script(*[good("openai-chat", stream=True)] * 4)
        env = {"OPENAI_API_KEY": "sk-first"}
        config = {"providers": {"openai": {"base_url": up.url + "/v1"}}}
        if not own:
            monkeypatch.setenv("OPENAI_API_KEY", "sk-first")
        client = RoutedClient(config, env=env) if own else Client(config, store=False)
        for number in range(4):
            await turn(await client.chat_stream(asking()).open())
            if number == 1 and own:
                env.update(change)
            elif number == 1:
                monkeypatch.setenv(*next(iter(change.items())))
        await client.aclose()
        assert keys(up) == [f"Bearer {key}" for key in ("sk-first", "sk-first", expected, expected)]


@staged
async def test_a_call_with_a_key_of_its_own_leaves_the_plan_alone() -> None:
    async with Upstream() as up:
        up.script(*[good("openai-chat", stream=True)] * 3)
        client = routed(up, openai={"key": "sk-ours"})
        await ask(client)
        await ask(client, options={"key": "sk-theirs", "headers": {"x-one": "1"}})
        await ask(client)
        assert keys(up) == ["Bearer sk-ours", "Bearer sk-theirs", "Bearer sk-ours"]
        assert ["x-one" in seen.headers for seen in up.requests] == [False, True, False]


@staged
async def test_streams_and_whole_answers_are_planned_apart() -> None:
    async with Upstream() as up:
        client = routed(up)
        for stream in (True, False, True):
            up.script(good("openai-chat", stream=stream))
            await turn(await client.open(asking(stream=stream, text=f"stream {stream}")))
        assert [seen.json.get("stream", False) for seen in up.requests] == [True, False, True]
        said = [seen.json["messages"][0]["content"] for seen in up.requests]
        assert said == ["stream True", "stream False", "stream True"]


@staged
async def test_each_request_is_signed_for_its_own_body() -> None:
    """AWS signs what is sent: the head of one request does not fit the next one."""
    async with Upstream(Reply.of("bedrock", play("text"))) as up:
        env = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "eu-west-1"}
        client = RoutedClient({"providers": {"bedrock": {"base_url": up.url}}}, env=env)
        for text in ("one", "two", "one"):
            await turn(await client.open(asking("bedrock", model="anthropic.claude-x", text=text)))
        signed = [seen.headers["authorization"].partition("Signature=")[2] for seen in up.requests]
        assert len({*signed}) >= 2
        assert signed[0] != signed[1]


async def sent(client: RoutedClient, up: Upstream, request: rq.Request) -> tuple[Any, ...] | str:
    """The body that a request becomes, and what is said of it; or why there is none."""
    before = len(up.requests)
    try:
        reply = await client.open(request)
        told = [(row.code, row.message) for row in reply.diagnostics]
        await reply.aclose()
    except PenstockError as error:
        if len(up.requests) == before:
            return str(error)
        told = [("error", type(error).__name__)]
    body = [*up.requests[-1].json.items()] if up.requests[-1].body else []
    return body, told


def said(row: str, rows: list[tuple[str, str]], settings: rq.Settings) -> rq.Request:
    messages = [rq.Message(role, [rq.Text(text=words)]) for role, words in rows]  # type: ignore[arg-type]
    return rq.Request(f"{row}/some-model", messages, settings=settings, stream=True)


@hypothesis.given(st.sampled_from(ROWS), st.lists(MESSAGES, min_size=2, max_size=3), SETTINGS)
@hypothesis.settings(deadline=None, max_examples=40)
@staged
async def test_a_plan_keeps_nothing_of_earlier_requests(
    row: str, several: list[list[tuple[str, str]]], settings: rq.Settings
) -> None:
    """What a client sends after others is what a new client sends."""
    async with Upstream(Reply.error("openai-chat", 500)) as up:
        found = providers()[row]
        account = {"base_url": up.url, "key": "k", "settings": dict.fromkeys(found.settings, "x1")}
        config = {"providers": {row: account}, "retries": 0, "breaker": {"failures": 1000}}
        env = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
        shared = RoutedClient(config, env=env)
        for rows in [*several, [("user", "second")], [("system", "a"), ("user", "third")]]:
            request = said(row, rows, settings)
            assert await sent(shared, up, request) == await sent(RoutedClient(config, env=env), up, request)


@staged
async def test_a_required_limit_is_said_for_the_second_request_too() -> None:
    async with Upstream(Reply.of("anthropic", play("text"))) as up:
        client = routed(up)
        for text in ("one", "two"):
            reply = await client.open(asking("anthropic", text=text))
            assert [row.code for row in reply.diagnostics] == ["output-limit"]
            await turn(reply)
        first, second = (seen.json for seen in up.requests)
        assert first["max_tokens"] == 32_000
        assert second == {**first, "messages": second["messages"]}
        assert list(second) == list(first)
