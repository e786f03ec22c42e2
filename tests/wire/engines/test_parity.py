"""The two engines give equal events and equal errors from the same upstream bytes; the flag between them flips live."""

from __future__ import annotations

import json
import re
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from penstock._engines import sdk_vendors
from penstock._engines.sdk_vendors import VENDOR_SDKS as CLIENTS
from penstock._replay import describe_scripts
from penstock.errors import AuthError, NetworkError, RateLimited, ServerError
from penstock.request import Request
from penstock.testing import Reply, Upstream, play
from tests.support import corpus
from tests.support.paths import PROJECT
from tests.wire.engines.parity import DEFECTS, SPOKEN, both, defect, evened, listed
from tests.wire.engines.router_setup import ENGINES, VENDORS, asking, events, quick, router, run, turn

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = PROJECT
FLAG = "PENSTOCK_ENGINE"
LANGUAGES = {
    "openai-chat": ("openai", "chat"), "responses": ("openai", "responses"), "anthropic": ("anthropic", "chat"),
    "gemini": ("gemini", "chat"),
}  # fmt: skip


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("protocol", LANGUAGES)
def test_packaged_answers_are_equal(protocol: str, stream: bool) -> None:
    provider, operation = LANGUAGES[protocol]

    async def scene() -> None:
        wrong: list[str] = []
        async with Upstream(Reply.no_response()) as up:
            way = router(up, retries=0)
            for name in describe_scripts():
                if name == "agent":
                    continue
                reply = Reply.of(protocol, play(name), stream=stream)
                native, sdk = await both(way, up, reply, provider, operation, stream=stream)
                if native != sdk:
                    wrong.append(f"{name}:\n  {native}\n  {sdk}")
        assert not wrong, "\n".join(wrong)

    run(scene)


REFUSED = {
    "bad key": (Reply.error, 401, AuthError),
    "too much": (Reply.error, 429, RateLimited),
    "broken": (Reply.error, 500, ServerError),
}


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

    run(scene)


@pytest.mark.parametrize("provider", VENDORS)
def test_a_network_that_is_gone_is_told_alike(provider: str) -> None:
    async def scene() -> None:
        async with Upstream(Reply.no_response()) as up:
            way = router(up, retries=0)
        for engine in ENGINES:
            with pytest.raises(NetworkError):
                await way.open(asking(provider), engine=engine, options=quick())

    run(scene)


# ── flags ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_flag_flips_without_a_restart() -> None:
    env: dict[str, str] = {FLAG: ""}

    async def scene() -> None:
        async with Upstream(Reply.of("openai-chat", play("text"))) as up:
            way = router(up, env=env, openai={"engine": "sdk"}, engine="native")
            used: list[str] = []
            for setting in ({}, {FLAG: "native"}, {FLAG: "native", f"{FLAG}_OPENAI": "sdk"}, {FLAG: " SDK "}, {}):
                env.clear()
                env.update(setting)
                reply = await way.open(asking(), options=quick())
                used.append(reply.engine)
                await events(reply)
            assert used == ["sdk", "native", "sdk", "sdk", "sdk"]
            env[f"{FLAG}_OPENAI"] = "turbo"
            reply = await way.open(asking(), options=quick())  # a wrong flag is not the caller's error
            assert reply.engine == "native"
            await events(reply)
            with pytest.raises(ValueError, match=r"the call: expected native or sdk, found 'turbo'"):
                await way.open(asking(), engine="turbo", options=quick())

    run(scene)


def test_the_default_is_native() -> None:
    async def scene() -> None:
        async with Upstream(Reply.of("openai-chat", play("text"))) as up:
            way = router(up)
            reply = await way.open(asking(), options=quick())
            assert reply.engine == "native"
            await reply.aclose()

    run(scene)


def test_what_an_sdk_lacks_is_done_by_the_native_engine_and_said(caplog: pytest.LogCaptureFixture) -> None:
    """Cohere has no SDK here, and no SDK reranks: each goes on, with its reason in record and log."""

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
            up.script(Reply.body({"results": [{"index": 0, "relevance_score": 1}]}))
            other = router({"together": up}, env={FLAG: "sdk"})
            job, data, record = await other.fetch(
                "together/x", "rerank", lambda _t, _s: {"query": "x"}, options=quick()
            )
            assert json.loads(data)["results"]
            assert job.operation == "rerank"
            assert any("the SDK is not used for rerank" in line for line in record.lines())
            assert other.counts["engine", "lacks", "together"] == 1

    with caplog.at_level("INFO", logger="penstock.routing"):
        run(scene)
    assert "no SDK is used for cohere" in caplog.text


FETCHED: dict[str, tuple[str, str, str, dict[str, Any], dict[str, Any]]] = {
    "openai embeddings": ("openai", "embeddings", "/v1/embeddings", {"input": ["x"], "model": "m"}, {"data": [{"index": 0, "embedding": [1.5], "new": 1}], "usage": {"prompt_tokens": 7}, "more": {"a": None}}),
    "openai embeddings, packed": ("openai", "embeddings", "/v1/embeddings", {"input": ["x"]}, {"data": [{"index": 0, "embedding": "AACAPwAAAEA="}]}),
    "openai models": ("openai", "models", "/v1/models", {}, {"data": [{"id": "m", "context_window": 4096}]}),
    "anthropic models": ("anthropic", "models", "/v1/models", {}, {"data": [{"id": "m", "type": "model"}], "has_more": False}),
    "gemini embeddings": ("gemini", "embeddings", "/v1beta/models/m:batchEmbedContents", {"requests": [{"content": {}}]}, {"embeddings": [{"values": [1, 2]}]}),
    "gemini models": ("gemini", "models", "/v1beta/models", {}, {"models": [{"name": "models/m"}]}),
}  # fmt: skip


@pytest.mark.parametrize("case", FETCHED)
def test_what_is_no_turn_is_fetched_by_either(case: str) -> None:
    """The same request and the same answer, every field of it; and the same error where it is refused."""
    provider, operation, path, body, answer = FETCHED[case]

    async def scene() -> None:
        async with Upstream(Reply.body(answer)) as up:
            way = router(up, retries=0, breaker={"failures": 100})
            made: list[Any] = []
            for engine in ENGINES:
                up.script(Reply.body(answer))
                _, data, record = await way.fetch(
                    f"{provider}/m", operation, lambda _t, _s: body, engine=engine, options=quick()
                )
                assert record.decisions[-1].code == engine, record.lines()
                up.script(Reply.error(VENDORS[provider][0], 401, "who?", headers={"x-request-id": "req_9"}))
                with pytest.raises(AuthError) as found:
                    await way.fetch(f"{provider}/m", operation, lambda _t, _s: body, engine=engine, options=quick())
                asked = up.requests[-2]
                made.append((json.loads(data), asked.method, asked.path, asked.query, asked.body and asked.json))
                made[-1] += (found.value.message, found.value.status, found.value.request_id)
            assert made[0] == made[1]
            assert made[0][0] == answer
            assert made[0][2] == path

    run(scene)


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_mistral_is_read_by_the_client_of_those_it_imitates(stream: bool) -> None:
    async def scene() -> None:
        async with Upstream(Reply.of("openai-chat", play("tools"), stream=stream)) as up:
            way = router({"mistral": up})
            question = Request("mistral/mistral-large-latest", asking().messages, stream=stream)
            turns: list[Any] = []
            for engine in ENGINES:
                reply = await way.open(question, engine=engine, options=quick())
                assert reply.engine == engine, reply.record.lines()
                turns.append(evened(await events(reply)))
            assert turns[0] == turns[1]

    run(scene)


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("major", [0, 99])
def test_a_version_that_was_not_tried_is_not_used(name: str, major: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older one never; a newer one where only what is public is used."""
    monkeypatch.setattr(sdk_vendors, "_major", lambda _: major)
    can = CLIENTS[name].capabilities
    said = can.version_problem(name)
    assert bool(said) == (major < can.oldest or can.newest is not None)
    assert not said or f"version {major} of {name} is not known" in said


def test_the_floors_are_what_was_tried() -> None:
    """What pyproject.toml asks for is what the engine takes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    floors = dict(re.findall(r"([a-z-]+)>=(\d+)", " ".join(project["project"]["optional-dependencies"]["sdk"])))
    assert floors == {name: str(kind.capabilities.oldest) for name, kind in CLIENTS.items()}


# ── the recorded ones ─────────────────────────────────────────────────────────────────────────────


@corpus.SHARES
@pytest.mark.parametrize("protocol", SPOKEN)
def test_recorded_answers_are_equal(protocol: str, share: int, record_property: Callable[[str, object], None]) -> None:
    """Every stream and every whole answer, by both engines; where they differ, the list of defects says why."""
    corpus.corpus_or_skip()
    provider, operation = SPOKEN[protocol]
    entries = corpus.take_share([*corpus.streams(protocol), *corpus.responses(protocol)], share)
    differ: set[str] = set()
    count = 0

    async def scene() -> None:
        nonlocal count
        async with Upstream(Reply.no_response()) as up:
            way = router(up, retries=0, breaker={"failures": 10**9})
            for entry in entries:
                stream = entry.kind == "stream"
                if stream and entry.wire != "sse":
                    continue  # the SDKs read nothing else
                media = "text/event-stream" if stream else "application/json"
                reply = Reply((entry.body,), headers={"content-type": media})
                native, sdk = await both(way, up, reply, provider, operation, stream=stream)
                count += 1
                if native != sdk:
                    differ.add(entry.name)

    run(scene)
    record_property("table", f"engines over {protocol}: {count} answers, {len(differ)} differ, all listed")
    assert not {name for name in differ if not defect(name)}, "these differ and are not listed"
    taken = {entry.name for entry in entries}
    assert not (listed(protocol) & taken) - differ, "these are listed and no longer differ"


def test_every_defect_says_what_it_is() -> None:
    assert all(row["about"] and row["entries"] for row in DEFECTS.values())
