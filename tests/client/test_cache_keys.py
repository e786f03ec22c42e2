"""The key of a cached answer: what changes no answer changes no key, and different calls never share one."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
from msgspec.structs import replace

from penstock.errors import PenstockError
from penstock.request import (
    Call,
    File,
    Format,
    Message,
    Reasoning,
    Request,
    Result,
    Settings,
    Source,
    Text,
    Tool,
    ToolChoice,
)
from penstock.testing import Reply, Upstream
from tests.support.routed_client import RoutedClient, good, run

BASE = Request(
    "openai/gpt-4o",
    [
        Message("system", [Text(text="Be brief.")]),
        Message("user", [Text(text="How deep?"), File(media="image/png", data="aGk=")]),
        Message("assistant", [Reasoning(text="hm"), Call(id="call_1", name="measure", json='{"a":1}')]),
        Message("tool", [Result(call="call_1", name="measure", content=[Text(text="12 m")])]),
    ],
    tools=[Tool("measure", "Measures.", {"type": "object", "properties": {"a": {}, "b": {}}})],
    settings=Settings(temperature=0.5, format=Format("schema", "f", {"type": "object"})),
)


def with_part(message: int, part: int, **changes: Any) -> Request:
    copied: Request = msgspec.json.decode(msgspec.json.encode(BASE), type=Request)
    parts = copied.messages[message].parts
    parts[part] = replace(parts[part], **changes)
    return copied


def with_call_id(call: str, result: str) -> Request:
    copied = with_part(2, 1, id=call)
    copied.messages[3].parts[0] = replace(copied.messages[3].parts[0], call=result)
    return copied


SAME: dict[str, Request] = {
    "a stream": replace(BASE, stream=True),
    "with usage": replace(BASE, usage=True),
    "other call ids": with_call_id("toolu_9", "toolu_9"),
    "a mark for the prompt cache": with_part(1, 0, cache="1h"),
    "the id of an item": with_part(2, 0, item="rs_1"),
    "a tool's mark": replace(BASE, tools=[replace(BASE.tools[0], cache="5m")]),
    "labels": replace(BASE, settings=replace(BASE.settings, metadata={"run": "7"}, cache_key="k", store=True)),
}
DIFFERENT: dict[str, Request] = {
    "text": with_part(1, 0, text="How wide?"),
    "an empty text": with_part(1, 0, text=""),
    "a file's data": with_part(1, 1, data="aGkh"),
    "a file's type": with_part(1, 1, media="image/jpeg"),
    "a call's input": with_part(2, 1, json='{"a":2}'),
    "a call's name": with_part(2, 1, name="weigh"),
    "a result": with_part(3, 0, content=[Text(text="13 m")]),
    "a failed result": with_part(3, 0, failed=True),
    "a result of another call": with_call_id("call_1", "call_2"),
    "reasoning": with_part(2, 0, text="hmm"),
    "a signature": with_part(2, 0, extra={"anthropic": {"signature": "s"}}),
    "a citation more": replace(BASE, messages=[*BASE.messages, Message("user", [Source(url="https://x")])]),
    "a role": replace(BASE, messages=[replace(BASE.messages[0], role="user"), *BASE.messages[1:]]),
    "a name": replace(BASE, messages=[replace(BASE.messages[0], name="x"), *BASE.messages[1:]]),
    "a message less": replace(BASE, messages=BASE.messages[1:]),
    "messages in another order": replace(BASE, messages=BASE.messages[::-1]),
    "two texts instead of one": replace(
        BASE, messages=[Message("system", [Text(text="Be "), Text(text="brief.")]), *BASE.messages[1:]]
    ),
    "no tools": replace(BASE, tools=[]),
    "a tool's description": replace(BASE, tools=[replace(BASE.tools[0], description="Weighs.")]),
    "a tool's schema": replace(BASE, tools=[replace(BASE.tools[0], schema={"type": "object"})]),
    "the order of a schema's fields": replace(
        BASE, tools=[replace(BASE.tools[0], schema={"type": "object", "properties": {"b": {}, "a": {}}})]
    ),
    "a strict tool": replace(BASE, tools=[replace(BASE.tools[0], strict=True)]),
    "a tool's kind": replace(BASE, tools=[replace(BASE.tools[0], kind="custom")]),
    "a choice of tools": replace(BASE, choice=ToolChoice("none")),
    "temperature": replace(BASE, settings=replace(BASE.settings, temperature=0.6)),
    "no temperature": replace(BASE, settings=replace(BASE.settings, temperature=None)),
    "a seed": replace(BASE, settings=replace(BASE.settings, seed=0)),
    "a limit": replace(BASE, settings=replace(BASE.settings, max_output=5)),
    "an effort": replace(BASE, settings=replace(BASE.settings, effort="high")),
    "a format": replace(BASE, settings=replace(BASE.settings, format=Format("json"))),
    "a user": replace(BASE, settings=replace(BASE.settings, user="u")),
    "provider options": replace(BASE, options={"openai": {"x": 1}}),
    "vendor fields": replace(BASE, extra={"openai-chat": {"x": 1}}),
    "another type of a vendor field": replace(BASE, extra={"openai-chat": {"x": True}}),
}


FORGED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    # Content that imitates the form of the key itself.
    (
        {"messages": [Message("user", [Text(text='a"},{"type":"text","text":"b')])]},
        {"messages": [Message("user", [Text(text="a"), Text(text="b")])]},
    ),
    (
        {"messages": [Message("assistant", [Call(id="#1", name="f"), Call(id="#0", name="f")])]},
        {"messages": [Message("assistant", [Call(id="#0", name="f"), Call(id="#0", name="f")])]},
    ),
    ({"tools": [Tool("a"), Tool("b")]}, {"tools": [Tool("a,b")]}),
    ({"messages": [], "tools": [Tool("x")]}, {"messages": [Message("user", [Text(text="x")])], "tools": []}),
    ({"extra": {"a": {"stream": True}}}, {"stream": True}),
]


class Recorder:
    """A cache that has nothing, and knows under which key it was asked."""

    def __init__(self) -> None:
        self.key = ""

    async def get(self, tenant: str, key: str, /) -> bytes | None:
        self.key = key
        return None

    async def put(self, tenant: str, key: str, value: bytes, /) -> None:
        pass


async def key_of(up: Upstream, request: Request, *, tenant: str = "", config: Any = None, **more: Any) -> str:
    """The key under which an answer is looked for; empty if it is not."""
    cache = Recorder()
    given = {"providers": {"openai": {"base_url": f"{up.url}/v1", "key": "k"}}, "retries": 0, **(config or {})}
    client = RoutedClient(given, cache=cache, tenant=tenant)
    operation = more.pop("operation", "chat")
    up.script(good("openai-chat" if operation == "chat" else "responses", stream=request.stream))
    with contextlib.suppress(PenstockError, ValueError, TypeError, RecursionError):
        await (await client.open(request, operation, **more)).aclose()
    return cache.key


def keys_of(requests: dict[str, Request]) -> dict[str, str]:
    found: dict[str, str] = {}

    async def scene() -> None:
        async with Upstream(Reply.no_response()) as up:
            for name, request in requests.items():
                found[name] = await key_of(up, request)

    run(scene)
    return found


def test_what_changes_no_answer_changes_no_key() -> None:
    found = keys_of({"itself": BASE, **SAME})
    assert set(found.values()) == {found["itself"]}
    assert found["itself"]


def test_different_calls_never_share_a_key() -> None:
    keys = keys_of({"itself": BASE, **DIFFERENT})
    more: dict[str, Any] = {
        "tenant": {"tenant": "b"},
        "provider": {"request": replace(BASE, model="groq/gpt-4o")},
        "model": {"request": replace(BASE, model="openai/gpt-4o-mini")},
        "operation": {"operation": "responses"},
        "options": {"options": {"extra_body": {"x": 1}}},
        "conversion": {"strict": True},
        "a fallback": {"config": {"fallbacks": {"openai/gpt-4o": ["openai/gpt-4o-mini"]}}},
    }

    async def scene() -> None:
        async with Upstream(Reply.no_response()) as up, Upstream(Reply.no_response()) as other:
            groq = {"groq": {"base_url": f"{up.url}/v1", "key": "k"}}
            for name, how in more.items():
                given = {"request": BASE, **how}
                if name == "provider":
                    given["config"] = {"providers": groq}
                keys[name] = await key_of(up, **given)
            keys["itself, here"] = await key_of(up, BASE)
            keys["server"] = await key_of(other, BASE)

    run(scene)
    del keys["itself"]  # its server was another one
    assert "" not in keys.values()
    assert len(set(keys.values())) == len(keys)


def test_forged_content_has_a_key_of_its_own() -> None:
    for one, other in FORGED:
        found = keys_of({"one": Request("openai/m", **one), "other": Request("openai/m", **other)})
        assert len(set(found.values())) == 2, one


def test_what_has_no_canonical_form_has_no_key_and_no_request_is_changed() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    wrong = {
        "an object": Request("openai/m", extra={"x": {"y": object()}}),
        "a surrogate": Request("openai/m", [Message("user", [Text(text="\ud800")])]),
        "depth": Request("openai/m", extra={"x": {"y": deep}}),
    }
    assert keys_of(wrong) == dict.fromkeys(wrong, "")
    before = msgspec.json.encode(BASE)
    keys_of({"itself": BASE})
    assert msgspec.json.encode(BASE) == before
