"""Six scenarios that must give the same result with both engines, native and sdk (`PENSTOCK_ENGINE_<PROVIDER>=sdk`).

Chat, tools, tools over several turns, request options, errors, models that are only to be had by Responses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock import events as ev
from penstock.client import Client
from penstock.errors import AuthError, NetworkError
from penstock.testing import Reply, Upstream, play
from tests.support.each_case import each
from tests.wire.engines.certificates import certified
from tests.wire.engines.proxy_server import Proxy
from tests.wire.engines.router_setup import VENDORS, router, run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.wire.engines.certificates import Papers

__all__ = ["certified"]
TOOLS = [{
    "type": "function",
    "function": {
        "name": "read_gauge", "description": "Reads a gauge.",
        "parameters": {"type": "object", "properties": {"station": {"type": "string"}}},
    },
}]  # fmt: skip
FIRST = [{"role": "user", "content": "How high is the water?"}]
SECOND: list[dict[str, Any]] = [
    *FIRST,
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "read_gauge", "arguments": '{"station":"upper"}'}},
    ]},
    {"role": "tool", "tool_call_id": "call_1", "content": "2.31 m"},
]  # fmt: skip


def scenes() -> Iterator[Any]:
    for provider in VENDORS:
        for flag in ("", "native", "sdk"):
            yield provider, flag


each_engine = each("provider, flag", scenes())


def client(up: Upstream, provider: str, flag: str, **more: Any) -> Client:
    env = {f"PENSTOCK_ENGINE_{provider.upper()}": flag} if flag else {}
    return Client(router=router(up, env=env, **more.pop("config", {})), **more)


def named(provider: str) -> str:
    return f"{provider}/{VENDORS[provider][1]}"


def engine(flag: str) -> str:
    return flag or "native"


@each_engine
def test_basic_chat(provider: str, flag: str) -> None:
    async def scene() -> None:
        async with Upstream(Reply.of(VENDORS[provider][0], play("text"))) as up, client(up, provider, flag) as asked:
            stream = asked.chat_stream(named(provider), "What is a penstock?")
            said = "".join([event.text async for event in stream if isinstance(event, ev.TextDelta)])
            up.script(Reply.of(VENDORS[provider][0], play("text"), stream=False))
            whole = await asked.chat(named(provider), "What is a penstock?")
            assert said == whole.text != ""
            assert stream.reply is not None
            assert stream.reply.engine == engine(flag)
            assert stream.usage is not None
            assert whole.usage is not None
            assert stream.usage.output == whole.usage.output

    run(scene)


@each_engine
def test_tool_calls(provider: str, flag: str) -> None:
    async def scene() -> None:
        async with Upstream(Reply.of(VENDORS[provider][0], play("tools"))) as up, client(up, provider, flag) as asked:
            turn = await asked.chat_stream(named(provider), FIRST, tools=TOOLS).turn()
            assert [call.name for call in turn.calls] == ["read_gauge"]
            assert turn.finish is not None
            assert turn.finish.reason == "calls"
            assert "read_gauge" in up.requests[0].body.decode()
            assert turn.to("openai-chat")["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "read_gauge"

    run(scene)


@each_engine
def test_multi_turn_tools(provider: str, flag: str) -> None:
    """Results in the history: no engine needs to hand them to the other."""

    async def scene() -> None:
        async with Upstream(Reply.of(VENDORS[provider][0], play("text"))) as up, client(up, provider, flag) as asked:
            turn = await asked.chat_stream(named(provider), SECOND, tools=TOOLS).turn()
            assert turn.text
            assert "2.31 m" in up.requests[0].body.decode()
            assert turn.record is not None
            assert not [one for one in turn.record.decisions if one.what == "engine"]

    run(scene)


@each_engine
def test_custom_options(provider: str, flag: str, certified: Papers) -> None:
    async def scene() -> None:
        protocol = VENDORS[provider][0]
        async with Upstream(Reply.of(protocol, play("text")), tls=certified.server) as up, Proxy() as proxy:
            options = {"headers": {"x-team": "blue"}, "proxy": proxy.url, "ca_bundle": certified.ca}
            async with client(up, provider, flag, options=options) as asked:
                assert (await asked.chat_stream(named(provider), "?").turn()).text
            assert up.requests[0].headers["x-team"] == "blue"
            assert proxy.seen[0].startswith("CONNECT")

    run(scene)


@each_engine
def test_error_handling(provider: str, flag: str) -> None:
    async def scene() -> None:
        no = Reply.error(VENDORS[provider][0], 401, "no such key", headers={"x-request-id": "req_5"})
        async with Upstream(no) as up:
            async with client(up, provider, flag, config={"retries": 0}) as asked:
                with pytest.raises(AuthError) as found:
                    await asked.chat(named(provider), "?")
                assert (found.value.status, found.value.request_id) == (401, "req_5")
            gone = client(up, provider, flag, config={"retries": 0})
        async with gone:
            with pytest.raises(NetworkError):
                await gone.chat_stream(named(provider), "?").turn()

    run(scene)


@each("flag", ["", "native", "sdk"])
@each("model", ["o3-pro", "gpt-5.1-codex"])
def test_responses_endpoint(model: str, flag: str) -> None:
    async def scene() -> None:
        async with Upstream(Reply.of("responses", play("tools"))) as up, client(up, "openai", flag) as asked:
            turn = await asked.chat_stream(f"openai/{model}", FIRST, tools=TOOLS).turn()
            assert [call.name for call in turn.calls] == ["read_gauge"]
            assert up.requests[0].path == "/v1/responses"
            assert turn.record is not None
            assert any(one.what == "operation" for one in turn.record.decisions)

    run(scene)
