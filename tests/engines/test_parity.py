"""The two engines give equal events and equal errors from the same upstream bytes; the flag between them flips live."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from penstock.errors import AuthError, NetworkError, RateLimited, ServerError
from penstock.replay import offered, play
from penstock.request import Request
from penstock.testing import Reply, Upstream
from tests import corpus
from tests.engines.asking import ENGINES, VENDORS, asking, events, quick, router, turn
from tests.engines.parity import DEFECTS, SPOKEN, both, defect, listed

if TYPE_CHECKING:
    from collections.abc import Callable

FLAG = "PENSTOCK_ENGINE"
LANGUAGES = {
    "openai-chat": ("openai", "chat"), "responses": ("openai", "responses"), "anthropic": ("anthropic", "chat"),
    "gemini": ("gemini", "chat"),
}  # fmt: skip


@pytest.mark.row("P4")
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("protocol", LANGUAGES)
def test_packaged_answers_are_equal(protocol: str, stream: bool) -> None:
    provider, operation = LANGUAGES[protocol]

    async def scene() -> None:
        wrong: list[str] = []
        async with Upstream(Reply.nothing()) as up:
            way = router(up, retries=0)
            for name in offered():
                if name == "agent":
                    continue
                reply = Reply.of(protocol, play(name), stream=stream)
                native, sdk = await both(way, up, reply, provider, operation, stream=stream)
                if native != sdk:
                    wrong.append(f"{name}:\n  {native}\n  {sdk}")
            await way.aclose()
        assert not wrong, "\n".join(wrong)

    asyncio.run(scene())


REFUSED = {
    "bad key": (Reply.refusing, 401, AuthError),
    "too much": (Reply.refusing, 429, RateLimited),
    "broken": (Reply.refusing, 500, ServerError),
}


@pytest.mark.row("P4", "P6")
@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("provider", VENDORS)
def test_errors_are_equal(provider: str, case: str) -> None:
    make, status, kind = REFUSED[case]
    headers = {"x-request-id": "req_42", "retry-after": "7"}
    reply = make(VENDORS[provider][0], status, "no, because", headers=headers)

    async def scene() -> None:
        async with Upstream(reply) as up:
            way = router(up, retries=0, breaker={"failures": 100})
            for stream in (True, False):
                native, sdk = await both(way, up, reply, provider, "chat", stream=stream)
                assert native == sdk
                assert native[0] is kind
                assert native[3:] == (status, "req_42", 7.0)
            await way.aclose()

    asyncio.run(scene())


@pytest.mark.row("P4")
@pytest.mark.parametrize("provider", VENDORS)
def test_a_network_that_is_gone_is_told_alike(provider: str) -> None:
    async def scene() -> None:
        async with Upstream(Reply.nothing()) as up:
            way = router(up, retries=0)
        for engine in ENGINES:
            with pytest.raises(NetworkError):
                await way.open(asking(provider), engine=engine, options=quick())
        await way.aclose()

    asyncio.run(scene())


# ── flags ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.row("P4")
def test_a_flag_flips_without_a_restart() -> None:
    env: dict[str, str] = {}

    async def scene() -> None:
        async with Upstream(Reply.of("openai-chat", play("text"))) as up:
            way = router(up, openai={"engine": "sdk"}, engine="native")
            way.env = env
            used: list[str] = []
            for setting in ({}, {FLAG: "native"}, {FLAG: "native", f"{FLAG}_OPENAI": "sdk"}, {FLAG: " SDK "}, {}):
                env.clear()
                env.update(setting)
                reply = await way.open(asking(), options=quick())
                used.append(reply.engine)
                await events(reply)
            assert used == ["sdk", "native", "sdk", "sdk", "sdk"]
            env[f"{FLAG}_OPENAI"] = "turbo"
            with pytest.raises(ValueError, match=r"PENSTOCK_ENGINE_OPENAI: expected native or sdk, found 'turbo'"):
                await way.open(asking(), options=quick())
            await way.aclose()

    asyncio.run(scene())


@pytest.mark.row("P4")
def test_the_default_is_native() -> None:
    async def scene() -> None:
        async with Upstream(Reply.of("openai-chat", play("text"))) as up:
            way = router(up)
            reply = await way.open(asking(), options=quick())
            assert reply.engine == "native"
            await reply.aclose()
            await way.aclose()

    asyncio.run(scene())


@pytest.mark.row("P5")
def test_what_an_sdk_lacks_is_done_by_the_native_engine_and_said(caplog: pytest.LogCaptureFixture) -> None:
    """Cohere has no SDK here, embeddings and rerank are no turns: each goes on, with its reason in record and log."""

    async def scene() -> None:
        async with Upstream(Reply.of("cohere", play("text"))) as up:
            way = router({"cohere": up})
            question = Request("cohere/command-a", asking().messages, stream=True)
            reply = await way.open(question, engine="sdk", options=quick())
            assert reply.engine == "native"
            found = [one for one in reply.record.decisions if one.what == "engine"]
            assert [one.code for one in found] == ["lacks"]
            assert "no SDK is used for cohere" in found[0].why
            assert (await turn(reply)).text
            up.script(Reply.body({"data": [{"embedding": [1.0], "index": 0}]}))
            openai = router({"openai": up}, env={FLAG: "sdk"})
            job, data, record = await openai.fetch(
                "openai/text-embedding-3-small", "embeddings", lambda _t, _s: {"input": ["x"]}, options=quick()
            )
            assert json.loads(data)["data"]
            assert job.operation == "embeddings"
            assert any("the SDK is not used for embeddings" in line for line in record.lines())
            assert openai.counts["engine", "lacks", "openai"] == 1
            await way.aclose()
            await openai.aclose()

    with caplog.at_level("INFO", logger="penstock.routing"):
        asyncio.run(scene())
    assert "no SDK is used for cohere" in caplog.text


# ── the recorded ones ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.corpus
@pytest.mark.slow
@pytest.mark.row("P4")
@pytest.mark.parametrize("protocol", SPOKEN)
def test_recorded_answers_are_equal(protocol: str, record_property: Callable[[str, object], None]) -> None:
    """Every stream and every whole answer, by both engines; where they differ, the list of defects says why."""
    corpus.corpus_or_skip()
    provider, operation = SPOKEN[protocol]
    differ: set[str] = set()
    count = 0

    async def scene() -> None:
        nonlocal count
        async with Upstream(Reply.nothing()) as up:
            way = router(up, retries=0, breaker={"failures": 10**9})
            for entry in [*corpus.streams(protocol), *corpus.responses(protocol)]:
                stream = entry.kind == "stream"
                if stream and entry.wire != "sse":
                    continue  # the SDKs read nothing else
                media = "text/event-stream" if stream else "application/json"
                reply = Reply((entry.body,), headers={"content-type": media})
                native, sdk = await both(way, up, reply, provider, operation, stream=stream)
                count += 1
                if native != sdk:
                    differ.add(entry.name)
            await way.aclose()

    asyncio.run(scene())
    record_property("table", f"engines over {protocol}: {count} answers, {len(differ)} differ, all listed")
    assert not {name for name in differ if not defect(name)}, "these differ and are not listed"
    assert not listed(protocol) - differ, "these are listed and no longer differ"


def test_every_defect_says_what_it_is() -> None:
    assert all(row["about"] and row["entries"] for row in DEFECTS.values())
