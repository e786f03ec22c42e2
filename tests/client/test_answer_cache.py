"""The response cache of a client: what is found, what is stored, and that different calls never share an answer."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from penstock import events as ev
from penstock import fold_all
from penstock.client import Client, MemoryCache, SqliteCache, SyncClient
from penstock.errors import InputError, ProviderError
from penstock.testing import Reply, Upstream, scripted
from tests.cli.command_runner import environment
from tests.client.observed_client import MODEL, TURN, by_stream, run
from tests.support.each_case import each
from tests.wire.engines.router_setup import KEY, quick, router

if TYPE_CHECKING:
    from pathlib import Path

RICH: list[ev.AnyEvent] = [
    ev.Start("id-1", "gpt-4o-2024", 1700000000),
    ev.ReasoningStart(0),
    ev.ReasoningDelta(0, "hm"),
    ev.ReasoningEnd(0),
    ev.TextStart(1),
    ev.TextDelta(1, "Wait."),
    ev.TextEnd(1),
    ev.CallStart(2, "call_1", "measure"),
    ev.CallDelta(2, '{"a":'),
    ev.CallDelta(2, "1}"),
    ev.CallEnd(2, "call_1", "measure", '{"a":1}'),
    ev.Usage(1000, 100, cached=10, reasoning=5),
    ev.Finish("calls"),
]


def test_the_second_call_is_not_sent() -> None:
    async def scene(up: Upstream, client: Client) -> None:
        first = await client.chat(MODEL, "How deep?", temperature=0.5)
        second = await client.chat(MODEL, "How deep?", temperature=0.5)
        assert len(up.requests) == 1
        assert (first.cached, second.cached) == (False, True)
        assert second.cost == 0.0
        assert first.cost
        assert second.parts == first.parts
        assert (second.id, second.model, second.provider) == (first.id, first.model, first.provider)
        assert second.usage is not None
        assert (second.usage.input, second.usage.output) == (1000, 100)
        assert (second.usage.extra or {})["penstock"] == {"cached": True}
        assert second.record is not None
        assert [one.code for one in second.record.decisions] == ["cache"]
        assert second.to("openai-chat")["choices"] == first.to("openai-chat")["choices"]
        row = client.spending.total
        assert (row.calls, row.hits, row.input, row.cost) == (2, 1, 1000, float(first.cost))

    run(scene, cache=MemoryCache())


@each("protocol", ["openai-chat", "anthropic", "uistream", "responses", "vscode"])
@each("first", ["stream", "whole"])
def test_streams_and_whole_answers_share_entries(first: str, protocol: str) -> None:
    async def scene(up: Upstream, client: Client) -> None:
        question = (MODEL, "How deep?")
        if first == "stream":
            known = (await client.chat_stream(*question).turn()).parts
        else:
            known = (await client.chat(*question)).parts
        whole = await client.chat(*question)
        stream = client.chat_stream(*question)
        events = [event async for event in stream]
        [turn] = fold_all(events)
        assert whole.parts == turn.parts == known
        assert stream.cached
        assert stream.cost == 0.0
        assert [type(event).__name__ for event in events][-1] == "Finish"
        chunks = b"".join([chunk async for chunk in client.chat_stream(*question).to(protocol)])
        assert b"measure" in chunks
        assert len(up.requests) == 1

    run(scene, by_stream(RICH), cache=MemoryCache())


def test_a_call_may_leave_the_cache_out_or_renew_it() -> None:
    answers = iter("abcdef")

    def reply(request: Any) -> Reply:
        turn: list[ev.AnyEvent] = [*TURN[:2], ev.TextDelta(0, next(answers)), *TURN[4:]]
        return Reply.of("openai-chat", turn, stream=bool(request.json.get("stream")))

    async def scene(_: Upstream, client: Client) -> None:
        async def ask(**more: Any) -> str:
            return (await client.chat(MODEL, "?", **more)).text

        assert [await ask(), await ask()] == ["a", "a"]
        assert [await ask(cache=False), await ask()] == ["b", "a"]
        assert [await ask(cache="refresh"), await ask(), await ask(cache=True)] == ["c", "c", "c"]
        with pytest.raises(InputError, match="cache"):
            await ask(cache="always")

    run(scene, reply, cache=MemoryCache())


LENGTH: list[ev.AnyEvent] = [*TURN[:-1], ev.Finish("length")]
FILTER: list[ev.AnyEvent] = [*TURN[:-1], ev.Finish("filter")]
EMPTY: list[ev.AnyEvent] = [TURN[0], ev.Usage(1, 0), ev.Finish("stop")]
CUT = Reply.of("openai-chat", TURN).data.index(b"metres")
FAULTY: dict[str, Any] = {
    "an error": Reply.error("openai-chat", 400),
    "a rate limit": Reply.rate_limit("openai-chat", retry_after=0),
    "cut by a limit": by_stream(LENGTH),
    "cut by a filter": by_stream(FILTER),
    "nothing": by_stream(EMPTY),
    "a broken stream": Reply.of("openai-chat", TURN).disconnect(after=CUT),
    "a fault in the stream": Reply.of("openai-chat", [*TURN[:3], ev.TextEnd(0, broken=True), ev.Fault("server", "oh")]),
}


STREAMS_ONLY = {"a broken stream", "a fault in the stream"}


@each("name, stream", [(name, how) for name in FAULTY for how in (True, False) if how or name not in STREAMS_ONLY])
def test_what_is_incomplete_is_never_stored(name: str, stream: bool) -> None:
    reply, cache = FAULTY[name], MemoryCache()

    async def scene(up: Upstream, client: Client) -> None:
        for _number in range(2):
            try:
                answer = await (client.chat_stream(MODEL, "?").turn() if stream else client.chat(MODEL, "?"))
                assert not answer.cached
            except ProviderError:
                pass
        assert len(cache) == 0
        assert len(up.requests) >= 2

    run(scene, reply, cache=cache)


def test_a_stream_that_is_left_early_is_not_stored() -> None:
    cache = MemoryCache()

    async def scene(_: Upstream, client: Client) -> None:
        async with client.chat_stream(MODEL, "?") as stream:
            async for event in stream:
                if isinstance(event, ev.TextDelta):
                    break
        assert len(cache) == 0

    run(scene, Reply.of("openai-chat", TURN).slow(0.05), cache=cache)


# ── attacks on the key ────────────────────────────────────────────────────────────────────────────

TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
OTHER_TOOL = {"type": "function", "function": {"name": "f", "description": "e", "parameters": {"type": "object"}}}
CALLS: dict[str, dict[str, Any]] = {
    "plain": {},
    "tools": {"tools": [TOOL]},
    "other tools": {"tools": [OTHER_TOOL]},
    "a choice": {"tools": [TOOL], "tool_choice": "required"},
    "temperature": {"temperature": 0.1},
    "another temperature": {"temperature": 0.2},
    "a limit": {"max_output_tokens": 100},
    "a seed": {"seed": 1},
    "a format": {"response_format": {"type": "json_object"}},
    "reasoning": {"reasoning": "high"},
    "vendor fields": {"extra_body": {"x": 1}},
    "other vendor fields": {"extra_body": {"x": 2}},
    "headers": {"extra_headers": {"x-team": "a"}},
    "another key": {"options": {"key": "sk-anothers-0123456789"}},
    "strict": {"strict": True},
    "logit bias": {"logit_bias": {"5": 1}},
    "a user": {"user": "u"},
}


def test_different_settings_never_share_an_answer() -> None:
    async def scene(up: Upstream, client: Client) -> None:
        for again in (False, True):
            for name, more in CALLS.items():
                answer = await client.chat(MODEL, "?", **more)
                assert answer.cached is again, name
        assert len(up.requests) == len(CALLS)

    run(scene, cache=MemoryCache())


def test_different_targets_never_share_an_answer() -> None:
    """Two clients with one cache: the same alias, but another model, server or setting behind it."""
    cache = MemoryCache()
    configs: list[dict[str, Any]] = [
        {"aliases": {"fast": "openai/gpt-4o"}},
        {"aliases": {"fast": "openai/gpt-4o-mini"}},
        {"aliases": {"fast": ["openai/gpt-4o", "openai/gpt-4o-mini"]}},
        {"aliases": {"fast": "openai/gpt-4o"}, "openai": {"options": {"extra_body": {"x": 1}}}},
        {"aliases": {"fast": "openai/gpt-4o"}, "options": {"extra_body": {"x": 2}}},
    ]

    async def scene() -> None:
        async with Upstream(by_stream()) as one, Upstream(by_stream()) as two:
            for again in (False, True):
                for up in (one, two):
                    for config in configs:
                        async with Client(router=router(up, **dict(config)), options=quick(), cache=cache) as client:
                            assert (await client.chat("fast", "?")).cached is again
            assert len(one.requests) == len(two.requests) == len(configs)

    asyncio.run(scene())


def test_tenants_never_share_an_answer() -> None:
    cache = MemoryCache()

    async def scene() -> None:
        async with Upstream(by_stream()) as up:
            for tenant, known in (("a", False), ("b", False), ("a", True), ("", False), ("b", True)):
                async with Client(router=router(up), options=quick(), cache=cache, tenant=tenant) as client:
                    assert (await client.chat(MODEL, "?")).cached is known

    asyncio.run(scene())


class Snoop(MemoryCache):
    def __init__(self) -> None:
        super().__init__()
        self.keys: list[str] = []

    async def put(self, tenant: str, key: str, value: bytes, /) -> None:
        self.keys.append(key)
        assert KEY.encode() not in value
        await super().put(tenant, key, value)


def test_no_key_is_stored_and_a_renewed_key_finds_the_same() -> None:
    cache = Snoop()

    async def scene() -> None:
        async with Upstream(by_stream()) as up:
            for known, key in ((False, KEY), (True, "sk-renewed-0123456789abcdef")):
                way = router(up, openai={"key": key})
                async with Client(router=way, options=quick(), cache=cache) as client:
                    assert (await client.chat(MODEL, "?")).cached is known

    asyncio.run(scene())
    [key] = cache.keys
    assert len(key) == 64


def test_large_requests_are_digested_too() -> None:
    async def scene(up: Upstream, client: Client) -> None:
        text = "x" * 400_000
        assert not (await client.chat(MODEL, text)).cached
        assert (await client.chat(MODEL, text)).cached
        assert not (await client.chat(MODEL, text + "y")).cached
        assert len(up.requests) == 2

    run(scene, cache=MemoryCache())


class BrokenCache:
    async def get(self, tenant: str, key: str, /) -> bytes | None:
        raise OSError("the disk is gone")

    async def put(self, tenant: str, key: str, value: bytes, /) -> None:
        raise OSError("the disk is gone")


class OddCache(BrokenCache):
    async def get(self, tenant: str, key: str, /) -> bytes | None:
        return b'{"provider":"openai","turn":5}'


@each("cache", [BrokenCache(), OddCache()])
def test_a_broken_cache_breaks_no_call(cache: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def scene(up: Upstream, client: Client) -> None:
        for _number in range(2):
            assert (await client.chat(MODEL, "?")).text == "12 metres"
        assert len(up.requests) == 2

    run(scene, cache=cache)
    assert "response cache" in caplog.text
    assert all(one.levelno == logging.WARNING for one in caplog.records)


def test_a_call_that_has_no_key_is_sent() -> None:
    async def scene(up: Upstream, client: Client) -> None:
        for _number in range(2):
            answer = await client.chat(MODEL, "?", convert={"count": lambda _: 1})
            assert not answer.cached or len(up.requests) == 1
        assert (await client.chat(MODEL, "?", cache=True)).text

    run(scene, cache=MemoryCache())


# ── files and processes ───────────────────────────────────────────────────────────────────────────

ASK = """
import asyncio, sys
from penstock.client import Client, SqliteCache
async def main():
    url, path = sys.argv[1:]
    with SqliteCache(path) as cache:
        config = {"providers": {"openai": {"base_url": url + "/v1", "key": "k"}}}
        async with Client(config, env={}, cache=cache) as client:
            answer = await client.chat("openai/gpt-4o", "How deep?")
            print(answer.cached, answer.text)
asyncio.run(main())
"""


def test_processes_share_answers(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    with scripted(by_stream()) as up:
        said = [
            subprocess.run(
                [sys.executable, "-c", ASK, up.url, str(path)],
                env=environment(),
                capture_output=True,
                timeout=60,
                check=True,
            ).stdout.decode()
            for _ in range(2)
        ]
        with (
            SqliteCache(path) as cache,
            SyncClient(
                {"providers": {"openai": {"base_url": f"{up.url}/v1", "key": "k"}}}, env={}, cache=cache
            ) as client,
        ):
            assert client.chat(MODEL, "How deep?").cached
            assert not client.chat(MODEL, "How deep?", cache=False).cached
        assert len(up.requests) == 2
    assert said == ["False 12 metres\n", "True 12 metres\n"]


def test_a_file_finds_the_answer_at_once(tmp_path: Path) -> None:
    """Also before the writer has committed it."""
    with SqliteCache(tmp_path / "a.sqlite") as cache:

        async def scene(up: Upstream, client: Client) -> None:
            for number in range(20):
                assert (await client.chat(MODEL, f"{number // 2}")).cached is bool(number % 2)
            assert len(up.requests) == 10

        run(scene, cache=cache)


def test_stored_answers_are_turns() -> None:
    """The form of a row is not public, but another version must not misread it."""
    cache = Snoop()

    async def scene(_: Upstream, client: Client) -> None:
        await client.chat(MODEL, "?")
        row = await cache.get("", cache.keys[0])
        assert row is not None
        assert set(msgspec.json.decode(row)) == {"provider", "model", "protocol", "turn"}

    run(scene, cache=cache)
