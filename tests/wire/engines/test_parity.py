"""The two engines give equal events and equal errors from the same upstream bytes; the flag between them flips live.

What may differ between them is the written list of SDK defects: `tests/data/sdk_defects.toml` names each defect and the
recordings that show it; docs/engines.md tells of them.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from penstock.errors import AuthError, NetworkError, ProviderError, RateLimited, ServerError
from penstock.request import Request
from penstock.testing import Reply, Upstream, play, scripts
from tests.support import corpus
from tests.support.paths import PROJECT, TESTS
from tests.support.routed_client import (
    ENGINES,
    VENDORS,
    asking,
    events,
    pretend_sdk_version,
    quick,
    routed,
    run,
    staged,
    turn,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock import events as ev
    from tests.support.routed_client import RoutedClient

DEFECTS: dict[str, Any] = tomllib.loads((TESTS / "data/sdk_defects.toml").read_text())
# protocol of the corpus → the provider whose SDK reads it, and the operation
SPOKEN = {
    "openai-chat": ("openai", "chat"),
    "openai-responses": ("openai", "responses"),
    "anthropic-messages": ("anthropic", "chat"),
    "gemini": ("gemini", "chat"),
}
_MINTED = re.compile(r"\b(call|run)_[0-9a-f]{8,16}_")


def defect(name: str) -> str:
    """The defect that a recording is listed under, or nothing."""
    return next((code for code, row in DEFECTS.items() if name in row["entries"]), "")


def listed(protocol: str) -> set[str]:
    return {name for row in DEFECTS.values() for name in row["entries"] if name.startswith(f"{protocol}/")}


async def both(
    way: RoutedClient, up: Upstream, reply: Reply, provider: str, operation: str, *, stream: bool
) -> list[Any]:
    """What each engine makes of a reply: events, or an error's own words."""
    up.script(reply)
    made: list[Any] = []
    for engine in ENGINES:
        try:
            found = await way.open(asking(provider, stream=stream), operation, engine=engine, options=quick())
            assert found.engine == engine, found.record.lines()
            made.append(evened(await events(found)))
        except ProviderError as error:
            made.append((type(error), error.message, error.code, error.status, error.request_id, error.retry_after))
    return made


def evened(found: Iterable[ev.AnyEvent]) -> list[Any]:
    """What no SDK hands on is left out: the order of keys in raw JSON, and the bytes that our own ids are made of."""
    return [_evened(event) for event in found]


def _evened(event: Any) -> Any:
    value = msgspec.to_builtins(event)
    if "json" in value:
        value["json"] = _parsed(value["json"])
    return json.loads(_MINTED.sub(r"\1_minted_", json.dumps(value)))


def _parsed(raw: str) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return raw


FLAG = "PENSTOCK_ENGINE"
LANGUAGES = {
    "openai-chat": ("openai", "chat"), "responses": ("openai", "responses"), "anthropic": ("anthropic", "chat"),
    "gemini": ("gemini", "chat"),
}  # fmt: skip


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("protocol", LANGUAGES)
@staged
async def test_packaged_answers_are_equal(protocol: str, stream: bool) -> None:
    provider, operation = LANGUAGES[protocol]
    wrong: list[str] = []
    async with Upstream(Reply.no_response()) as up:
        way = routed(up, retries=0)
        for name in scripts():
            if name == "agent":
                continue
            reply = Reply.of(protocol, play(name), stream=stream)
            native, sdk = await both(way, up, reply, provider, operation, stream=stream)
            if native != sdk:
                wrong.append(f"{name}:\n  {native}\n  {sdk}")
    assert not wrong, "\n".join(wrong)


REFUSED = {
    "bad key": (Reply.error, 401, AuthError),
    "too much": (Reply.error, 429, RateLimited),
    "broken": (Reply.error, 500, ServerError),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("provider", VENDORS)
@staged
async def test_errors_are_equal(provider: str, case: str) -> None:
    make, status, kind = REFUSED[case]
    headers = {"x-request-id": "req_42", "retry-after": "7"}
    reply = make(VENDORS[provider][0], status, "no, because", headers=headers)
    async with Upstream(reply) as up:
        way = routed(up, retries=0, breaker={"failures": 100})
        for stream in (True, False):
            native, sdk = await both(way, up, reply, provider, "chat", stream=stream)
            assert native == sdk
            assert native[0] is kind
            assert native[3:] == (status, "req_42", 7.0)


@pytest.mark.parametrize("provider", VENDORS)
@staged
async def test_a_network_that_is_gone_is_told_alike(provider: str) -> None:
    async with Upstream(Reply.no_response()) as up:
        way = routed(up, retries=0)
    for engine in ENGINES:
        with pytest.raises(NetworkError):
            await way.open(asking(provider), engine=engine, options=quick())


# ── flags ─────────────────────────────────────────────────────────────────────────────────────────


@staged
async def test_a_flag_flips_without_a_restart() -> None:
    env: dict[str, str] = {FLAG: ""}
    async with Upstream(Reply.of("openai-chat", play("text"))) as up:
        way = routed(up, env=env, openai={"engine": "sdk"}, engine="native")
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
        env.clear()
        assert (await way.open(asking(), options=quick())).engine == "sdk", "the configuration's own"
        plain = await routed(up).open(asking(), options=quick())
        assert plain.engine == "native", "the default"
        await plain.aclose()


def test_what_an_sdk_lacks_is_done_by_the_native_engine_and_said(caplog: pytest.LogCaptureFixture) -> None:
    """Cohere has no SDK here, and no SDK reranks: each goes on, with its reason in record and log."""

    async def scene() -> None:
        async with Upstream(Reply.of("cohere", play("text"))) as up:
            way = routed({"cohere": up})
            question = Request("cohere/command-a", asking().messages, stream=True)
            reply = await way.open(question, engine="sdk", options=quick())
            assert reply.engine == "native"
            found = [one for one in reply.record.decisions if one.what == "engine"]
            assert [one.code for one in found] == ["lacks"]
            assert "no SDK is used for cohere" in found[0].why
            assert (await turn(reply)).text
            up.script(Reply.body({"results": [{"index": 0, "relevance_score": 1}]}))
            other = routed({"together": up}, env={FLAG: "sdk"})
            ranking = await other.rerank("together/x", "x", ["one"], options=quick())
            assert ranking.results
            assert any("the SDK is not used for rerank" in one.why for one in other.decisions)
            assert other.counts["engine", "lacks", "together"] == 1

    with caplog.at_level("INFO", logger="penstock.routing"):
        run(scene)
    assert "no SDK is used for cohere" in caplog.text


FETCHED: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "openai embeddings": ("openai", "embed", "/v1/embeddings", {"data": [{"index": 0, "embedding": [1.5], "new": 1}], "usage": {"prompt_tokens": 7}, "more": {"a": None}}),
    "openai embeddings, packed": ("openai", "embed", "/v1/embeddings", {"data": [{"index": 0, "embedding": "AACAPwAAAEA="}]}),
    "openai models": ("openai", "models", "/v1/models", {"data": [{"id": "m", "context_window": 4096}]}),
    "anthropic models": ("anthropic", "models", "/v1/models", {"data": [{"id": "m", "type": "model"}], "has_more": False}),
    "gemini embeddings": ("gemini", "embed", "/v1beta/models/m:batchEmbedContents", {"embeddings": [{"values": [1, 2]}]}),
    "gemini models": ("gemini", "models", "/v1beta/models", {"models": [{"name": "models/m"}]}),
}  # fmt: skip


@pytest.mark.parametrize("case", FETCHED)
@staged
async def test_what_is_no_turn_is_fetched_by_either(case: str) -> None:
    """The same request and the same answer, every field of it; and the same error where it is refused."""
    provider, operation, path, answer = FETCHED[case]

    async def ask(way: RoutedClient, engine: Any) -> Any:
        if operation == "models":
            return await way.list_models(provider, options=quick())
        found = await way.embed(f"{provider}/m", ["x"], engine=engine, options=quick())
        return found.vectors, found.raw

    async with Upstream(Reply.body(answer)) as up:
        made: list[Any] = []
        for engine in ENGINES:
            way = routed(up, retries=0, breaker={"failures": 100}, engine=engine)
            up.script(Reply.body(answer))
            found = await ask(way, engine)
            assert way.decisions[-1].code == engine, [one.why for one in way.decisions]
            up.script(Reply.error(VENDORS[provider][0], 401, "who?", headers={"x-request-id": "req_9"}))
            with pytest.raises(AuthError) as refused:
                await ask(way, engine)
            seen = up.requests[-2]
            made.append((found, seen.method, seen.path, seen.query, seen.body and seen.json))
            made[-1] += (refused.value.message, refused.value.status, refused.value.request_id)
        assert made[0] == made[1]
        assert made[0][2] == path
        if operation == "embed":
            assert made[0][0][1] == answer


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@staged
async def test_mistral_is_read_by_the_client_of_those_it_imitates(stream: bool) -> None:
    async with Upstream(Reply.of("openai-chat", play("tools"), stream=stream)) as up:
        way = routed({"mistral": up})
        question = Request("mistral/mistral-large-latest", asking().messages, stream=stream)
        turns: list[Any] = []
        for engine in ENGINES:
            reply = await way.open(question, engine=engine, options=quick())
            assert reply.engine == engine, reply.record.lines()
            turns.append(evened(await events(reply)))
        assert turns[0] == turns[1]


# provider → the package, and whether versions later than those that were tried are used
SDKS = {"openai": ("openai", True), "anthropic": ("anthropic", True), "gemini": ("google-genai", False)}


@pytest.mark.parametrize("provider", SDKS)
@staged
async def test_a_version_that_was_not_tried_is_not_used(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older one than pyproject.toml asks for never; a newer one where only what is public is used."""
    package, later = SDKS[provider]
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    floors = dict(re.findall(r"([a-z-]+)>=(\d+)", " ".join(project["project"]["optional-dependencies"]["sdk"])))
    floor = int(floors[package])
    async with Upstream(Reply.of(VENDORS[provider][0], play("text"))) as up:
        for major, used in ((floor - 1, False), (floor, True), (99, later)):
            pretend_sdk_version(monkeypatch, major)
            way = routed(up)
            reply = await way.open(asking(provider), engine="sdk", options=quick())
            assert reply.engine == ("sdk" if used else "native"), major
            assert used or f"version {major} of {package} is not known" in "".join(reply.record.lines())
            await reply.aclose()


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
            way = routed(up, retries=0, breaker={"failures": 10**9})
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
