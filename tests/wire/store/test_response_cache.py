"""Caches of answers: bounds, expiry, several processes on one file; and the key, which keeps different requests apart."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec.structs import replace

from penstock._store.response_cache import MemoryCache, SqliteCache, response_key
from penstock.errors import InputError
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
from tests.cli.command_runner import environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.stores import ResponseCache


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(params=["memory", "sqlite"])
def open_cache(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    opened: list[SqliteCache] = []

    def make(**more: Any) -> MemoryCache | SqliteCache:
        if request.param == "memory":
            return MemoryCache(**more)
        opened.append(SqliteCache(tmp_path / "answers.sqlite", **more))
        return opened[-1]

    yield make
    for cache in opened:
        cache.close()


def get(cache: ResponseCache, key: str, tenant: str = "") -> bytes | None:
    return asyncio.run(cache.get(tenant, key))


def put(cache: ResponseCache, key: str, value: bytes, tenant: str = "") -> None:
    asyncio.run(cache.put(tenant, key, value))
    if isinstance(cache, SqliteCache):
        assert cache.flush()


def test_a_row_is_found_until_it_expires(open_cache: Any) -> None:
    clock = Clock()
    cache = open_cache(ttl=60, clock=clock)
    assert get(cache, "k") is None
    put(cache, "k", b"one")
    put(cache, "k", b"two")
    assert get(cache, "k") == b"two"
    for _ in range(3):  # use does not prolong it: an answer is as old as it is
        clock.now += 19.9
        assert get(cache, "k") == b"two"
    clock.now += 0.4
    assert get(cache, "k") is None


def test_tenants_do_not_see_each_other(open_cache: Any) -> None:
    cache = open_cache()
    put(cache, "k", b"a", "a")
    assert get(cache, "k", "b") is None
    assert get(cache, "k") is None
    assert get(cache, "k", "a") == b"a"


def test_the_size_is_bounded(open_cache: Any) -> None:
    cache = open_cache(size=5_000, rows=10_000)
    for number in range(50):
        put(cache, f"k{number}", b"x" * 1_000)
    assert get(cache, "k49") is not None
    assert get(cache, "k0") is None
    assert len(cache) <= 5
    put(cache, "large", b"x" * 6_000)
    assert get(cache, "large") is None
    assert get(cache, "k49") is not None  # a row that cannot fit costs no other


@pytest.mark.parametrize("wrong", [{"ttl": 0}, {"size": -1}, {"rows": 0}, {"ttl": float("nan")}])
def test_wrong_bounds(open_cache: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        open_cache(**wrong)


def test_a_file_outlives_its_process_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    with SqliteCache(path) as first:
        put(first, "k", b"kept")
    with SqliteCache(path) as second:
        assert get(second, "k") == b"kept"
    if sys.platform != "win32":
        assert path.stat().st_mode & 0o077 == 0


WRITER = """
import asyncio, sys
from penstock._store.response_cache import SqliteCache
path, name, others = sys.argv[1], sys.argv[2], sys.argv[3].split(",")
async def main():
    with SqliteCache(path) as cache:
        for number in range(200):
            await cache.put("t", f"{name}{number}", name.encode() * 50)
        assert cache.flush()
        for other in others:  # each process finds what the others write, while all of them write
            async with asyncio.timeout(30):
                while await cache.get("t", f"{other}199") is None:
                    await asyncio.sleep(0.01)
        wrong = [one for one in others for n in range(200) if await cache.get("t", f"{one}{n}") != one.encode() * 50]
        assert not wrong, wrong
asyncio.run(main())
"""


def test_processes_share_a_file(tmp_path: Path) -> None:
    names = ["a", "b", "c"]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "answers.sqlite"), name, ",".join(names)],
            env=environment(),
            stderr=subprocess.PIPE,
        )
        for name in names
    ]
    for process in running:
        _, problems = process.communicate(timeout=60)
        assert process.returncode == 0, problems.decode()


# ── the key ───────────────────────────────────────────────────────────────────────────────────────

BASE = Request(
    "openai/gpt-5",
    [
        Message("system", [Text(text="Be brief.")]),
        Message("user", [Text(text="How deep?"), File(media="image/png", data="aGk=")]),
        Message("assistant", [Reasoning(text="hm"), Call(id="call_1", name="measure", json='{"a":1}')]),
        Message("tool", [Result(call="call_1", name="measure", content=[Text(text="12 m")])]),
    ],
    tools=[Tool("measure", "Measures.", {"type": "object", "properties": {"a": {}, "b": {}}})],
    settings=Settings(temperature=0.5, format=Format("schema", "f", {"type": "object"})),
)
SETTINGS = {"operation": "chat", "targets": [["openai", "https://x", "gpt-5"]], "options": {}, "convert": {}}


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


@pytest.mark.parametrize("name", SAME)
def test_what_changes_no_answer_changes_no_key(name: str) -> None:
    assert response_key(SAME[name], SETTINGS) == response_key(BASE, SETTINGS) != ""


def test_different_requests_never_share_a_key() -> None:
    keys = {name: response_key(request, SETTINGS) for name, request in DIFFERENT.items()}
    keys["itself"] = response_key(BASE, SETTINGS)
    keys |= {
        "tenant": response_key(BASE, SETTINGS, "b"),
        "provider": response_key(BASE, {**SETTINGS, "targets": [["azure", "https://x", "gpt-5"]]}),
        "server": response_key(BASE, {**SETTINGS, "targets": [["openai", "https://y", "gpt-5"]]}),
        "model": response_key(BASE, {**SETTINGS, "targets": [["openai", "https://x", "gpt-5-mini"]]}),
        "a fallback": response_key(BASE, {**SETTINGS, "targets": [*SETTINGS["targets"], ["b", "https://x", "m"]]}),
        "operation": response_key(BASE, {**SETTINGS, "operation": "responses"}),
        "options": response_key(BASE, {**SETTINGS, "options": {"extra_body": {"x": 1}}}),
        "conversion": response_key(BASE, {**SETTINGS, "convert": {"strict": True}}),
    }
    assert "" not in keys.values()
    assert len(set(keys.values())) == len(keys)


@pytest.mark.parametrize(
    ("one", "other"),
    [
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
    ],
)
def test_forged_content_has_a_key_of_its_own(one: dict[str, Any], other: dict[str, Any]) -> None:
    keys = {response_key(Request("m", **fields), {}) for fields in (one, other)}
    assert len(keys) == 2
    assert "" not in keys


def test_tenants_and_settings_cannot_be_shifted() -> None:
    assert response_key(BASE, {"a": "b"}, "t") != response_key(BASE, {"a": "bt"}, "")


def test_what_has_no_canonical_form_has_no_key() -> None:
    assert response_key(Request("m", extra={"x": {"y": object()}}), {}) == ""
    assert response_key(Request("m", [Message("user", [Text(text="\ud800")])]), {}) == ""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert response_key(Request("m", extra={"x": {"y": deep}}), {}) == ""


def test_the_key_changes_no_request() -> None:
    before = msgspec.json.encode(BASE)
    response_key(BASE, SETTINGS)
    assert msgspec.json.encode(BASE) == before
