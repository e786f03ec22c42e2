"""Who is asked: names, retries, fallbacks, circuits, budgets; and that every decision is written down with its reason."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from penstock.engines.breaker import Breakers, Policy
from penstock.engines.config import Account, Config
from penstock.engines.naming import targets
from penstock.engines.options import RequestOptions
from penstock.engines.proxies import proxy_for
from penstock.engines.retrying import pause
from penstock.engines.routing import Router
from penstock.errors import AuthError, InputError, InvalidRequest, NotFound, Overloaded, RateLimited, provider_error
from penstock.events import Fault, Start
from penstock.providers.registry import Retry
from penstock.replay import play
from penstock.request import Message, Request, Text
from penstock.testing import Reply, Upstream
from tests.engines.asking import ENGINES, KEY, asking, events, no_wait, quick, router, turn

if TYPE_CHECKING:
    from penstock.engines.record import Decision

GOOD = Reply.of("openai-chat", play("text"))
BUSY = Reply.refusing("openai-chat", 503, "busy")


def models_of(names: str) -> Request:
    return Request(names, [Message("user", [Text("?")])], stream=True)


# ── names ─────────────────────────────────────────────────────────────────────────────────────────

OPENAI, ANTHROPIC = {"OPENAI_API_KEY": "k"}, {"ANTHROPIC_API_KEY": "k"}
NAMES: dict[str, tuple[str, dict[str, Any], dict[str, str], list[str]]] = {
    "provider and model": ("openai/gpt-4o", {}, OPENAI, ["openai gpt-4o"]),
    "another name of the provider": ("google/gemini-2.5-pro", {}, {"GEMINI_API_KEY": "k"}, ["gemini gemini-2.5-pro"]),
    "a model with a slash": ("openrouter/meta/llama", {}, {"OPENROUTER_API_KEY": "k"}, ["openrouter meta/llama"]),
    "bare, one lists it": ("gpt-4o", {}, {**OPENAI, **ANTHROPIC}, ["openai gpt-4o"]),
    "bare, its maker's": ("claude-some-day-9", {}, {**OPENAI, **ANTHROPIC}, ["anthropic claude-some-day-9"]),
    "bare, nothing configured": ("claude-sonnet-4-5", {}, {}, ["replay claude-sonnet-4-5"]),
    "an alias": ("fast", {"aliases": {"fast": "openai/gpt-4o-mini"}}, OPENAI, ["openai gpt-4o-mini"]),
    "an alias of several": ("any", {"aliases": {"any": ["openai/a", "groq/b"]}}, OPENAI, ["openai a", "groq b"]),
    "an alias of an alias": ("x", {"aliases": {"x": "y", "y": "openai/z"}}, OPENAI, ["openai z"]),
    "an alias of its own name": ("gpt-4o", {"aliases": {"gpt-4o": "openai/gpt-4o"}}, OPENAI, ["openai gpt-4o"]),
    "a fallback": ("openai/a", {"fallbacks": {"openai/a": ["groq/b"]}}, OPENAI, ["openai a", "groq b"]),
    "one's own": ("mine/m", {"providers": {"mine": {"base_url": "http://h/v1"}}}, {}, ["mine m"]),
    "bare, one's own lists it": ("m", {"providers": {"mine": {"base_url": "http://h", "models": ["m"]}}}, {}, ["mine m"]),
    "local needs no key": ("ollama/llama3", {}, {}, ["ollama llama3"]),
    "a maker without a key, listed elsewhere": ("anthropic/claude-sonnet-4.5", {}, {"OPENROUTER_API_KEY": "k"}, ["openrouter anthropic/claude-sonnet-4.5"]),
}  # fmt: skip


@pytest.mark.row("P1")
@pytest.mark.parametrize("case", NAMES)
def test_whom_a_name_means(case: str) -> None:
    name, config, env, expected = NAMES[case]
    found = targets(name, Config.read(config), env)
    assert [f"{one.provider.name} {one.model}" for one in found] == expected
    assert all(one.why for one in found)


NAMELESS: dict[str, tuple[str, dict[str, Any], dict[str, str], str]] = {
    "nothing": ("", {}, {}, "the name of a model"),
    "nobody lists it": ("whatsit-9", {}, OPENAI, "listed by no configured provider .openai.: write provider/model"),
    "a ring": ("a", {"aliases": {"a": "b", "b": "a"}}, {}, "circle"),
}


@pytest.mark.parametrize("case", NAMELESS)
def test_a_name_that_means_nothing(case: str) -> None:
    name, config, env, words = NAMELESS[case]
    with pytest.raises(InputError, match=words):
        targets(name, Config.read(config), env)


def test_several_list_it() -> None:
    config = {
        "providers": {"a": {"base_url": "http://h", "models": ["m"]}, "b": {"base_url": "http://h", "models": ["m"]}}
    }
    with pytest.raises(InputError, match="say which: a/m, b/m"):
        targets("m", Config.read(config), {})


# ── configuration ─────────────────────────────────────────────────────────────────────────────────

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "field": ({"alias": {}}, "unknown field `alias`"),
    "account": ({"providers": {"openai": {"keys": "x"}}}, "keys"),
    "nobody": ({"providers": {"whoever": {"key": "x"}}}, "unknown provider 'whoever'"),
    "options": ({"options": {"timeouts": {"total": -1}}}, "timeouts.total"),
    "options of an account": ({"providers": {"openai": {"options": {"proxy": "ftp://x"}}}}, "proxy"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_bad_configuration_says_where(case: str) -> None:
    given, words = WRONG[case]
    with pytest.raises(InputError, match=words):
        Config.read(given)


def test_an_account_does_not_show_its_key() -> None:
    account = Account(key=KEY, base_url="http://h")
    assert KEY not in f"{account!r} {list(account.__rich_repr__())} {Config(providers={'openai': account})!r}"


def test_a_provider_without_a_key_says_which_variable() -> None:
    async def scene() -> None:
        way = Router({}, env={}, sleep=no_wait)
        with pytest.raises(AuthError, match="OPENAI_API_KEY"):
            await way.open(models_of("openai/gpt-4o"))
        await way.aclose()

    asyncio.run(scene())


# ── retries and fallbacks ─────────────────────────────────────────────────────────────────────────


@pytest.mark.row("P5")
def test_the_next_provider_is_asked_and_the_record_says_why(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Decision] = []

    async def scene() -> None:
        bad, good = Upstream(BUSY), Upstream(Reply.of("anthropic", play("text")))
        async with bad, good:
            way = router({"openai": bad, "anthropic": good}, fallbacks={"openai/gpt-4o": ["anthropic/claude-x"]})
            way._recorder._report = seen.append
            reply = await way.open(asking(), options=quick())
            got = await events(reply)
            assert sum(isinstance(event, Start) for event in got) == 1
            assert (reply.provider, reply.model) == ("anthropic", "claude-x")
            assert [one.what for one in reply.record.decisions] == [
                "route", "retry", "retry", "give-up", "fallback", "route", "open",
            ]  # fmt: skip
            assert reply.record.tries == 4
            assert way.counts["fallback", "overloaded", "openai"] == 1
            assert (len(bad.seen), len(good.seen)) == (3, 1)
            await way.aclose()

    with caplog.at_level("INFO", logger="penstock.routing"):
        asyncio.run(scene())
    assert "fallback: anthropic is next" in caplog.text
    assert [one.what for one in seen if one.what == "fallback"]


@pytest.mark.row("P5")
def test_an_error_tells_of_all_who_were_asked() -> None:
    async def scene() -> None:
        async with Upstream(BUSY) as bad, Upstream(Reply.refusing("anthropic", 401, "who?")) as worse:
            way = router({"openai": bad, "anthropic": worse}, aliases={"any": ["openai/a", "anthropic/b"]}, retries=0)
            with pytest.raises(AuthError) as found:
                await way.open(models_of("any"), options=quick())
            assert [(one.provider, one.status) for one in found.value.attempts] == [("openai", 503)]
            await way.aclose()

    asyncio.run(scene())


@pytest.mark.row("P5")
def test_a_request_that_is_wrong_is_wrong_everywhere() -> None:
    async def scene() -> None:
        async with Upstream(Reply.refusing("openai-chat", 400, "not like this")) as bad, Upstream(GOOD) as other:
            way = router({"openai": bad, "groq": other}, aliases={"any": ["openai/a", "groq/b"]})
            with pytest.raises(InvalidRequest):
                await way.open(models_of("any"), options=quick())
            assert (len(bad.seen), len(other.seen)) == (1, 0)
            await way.aclose()

    asyncio.run(scene())


@pytest.mark.row("P5")
def test_a_wait_that_is_asked_for_is_kept() -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def scene() -> None:
        async with Upstream(Reply.limited("openai-chat", retry_after=3), GOOD) as up:
            way = router(up)
            way._sleep = sleep
            assert (await turn(await way.open(asking(), options=quick()))).text
            up.script(Reply.limited("openai-chat", retry_after=600))
            with pytest.raises(RateLimited) as found:
                await way.open(asking(), options=quick())
            assert found.value.retry_after == 600
            assert found.value.attempts == []
            await way.aclose()

    asyncio.run(scene())
    assert len(waits) == 1
    assert 3 <= waits[0] < 3.5


def test_waits_grow_and_vary() -> None:
    error = provider_error(Fault("server", "x", 500))
    low = [pause(error, tries, Retry(), lambda: 0.0) for tries in range(1, 8)]
    high = [pause(error, tries, Retry(), lambda: 1.0) for tries in range(1, 8)]
    assert low == [0.25, 0.5, 1.0, 2.0, 4.0, 4.0, 4.0]
    assert high == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]


@pytest.mark.row("P5")
def test_no_retry_past_the_total() -> None:
    async def scene() -> None:
        async with Upstream(Reply.limited("openai-chat", retry_after=5)) as up:
            way = router(up)
            begun = time.monotonic()
            with pytest.raises(RateLimited):
                await way.open(asking(), options=quick(timeouts={"total": 2}))
            assert time.monotonic() - begun < 2
            assert len(up.seen) == 1
            await way.aclose()

    asyncio.run(scene())


@pytest.mark.row("G7")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_field_that_we_added_is_done_without_where_it_is_refused(engine: str) -> None:
    no = Reply.refusing("openai-chat", 400, "Unrecognized request argument supplied: stream_options")

    async def scene() -> None:
        async with Upstream(no, GOOD) as up:
            way = router(up)
            reply = await way.open(asking(), engine=engine, options=quick())
            assert (await turn(reply)).text
            assert ["stream_options" in seen.json for seen in up.seen] == [True, False]
            assert way.counts["retry", "field", "openai"] == 1
            await way.aclose()

    asyncio.run(scene())


# ── circuits and budgets ──────────────────────────────────────────────────────────────────────────


@pytest.mark.row("P5")
def test_a_circuit_opens_and_a_single_request_tries_it() -> None:
    now = [0.0]
    circuits = Breakers(lambda: now[0], Policy(failures=2, cool=10))
    for _ in range(2):
        assert circuits.closed_for("a") == 0
        circuits.bad("a", "server")
    assert circuits.closed_for("a") == 10
    assert circuits.closed_for("b") == 0
    now[0] = 11
    assert circuits.closed_for("a") == 0
    assert circuits.closed_for("a") > 0, "one is trying"
    circuits.bad("a", "timeout")
    assert circuits.closed_for("a") == 10
    now[0] = 22
    assert circuits.closed_for("a") == 0
    circuits.left("a")
    assert circuits.closed_for("a") == 0, "the one that tried was called off"
    circuits.good("a")
    assert circuits.state() == {"a": "closed", "b": "closed"}


def test_what_is_not_the_providers_fault_closes_a_circuit() -> None:
    circuits = Breakers(lambda: 0.0, Policy(failures=2))
    circuits.bad("a", "server")
    circuits.bad("a", "invalid")
    circuits.bad("a", "server")
    assert circuits.closed_for("a") == 0


def test_retries_have_a_budget() -> None:
    circuits = Breakers(lambda: 0.0, Policy(reserve=2, share=0.5))
    assert [circuits.spend("a") for _ in range(3)] == [True, True, False]
    circuits.good("a")
    circuits.good("a")
    assert [circuits.spend("a") for _ in range(2)] == [True, False]


@pytest.mark.row("P5")
def test_an_open_circuit_is_not_asked_and_the_next_one_is() -> None:
    async def scene() -> None:
        async with Upstream(BUSY) as bad, Upstream(GOOD) as good:
            way = router(
                {"openai": bad, "groq": good}, retries=0, breaker={"failures": 2, "cool": 60},
                aliases={"any": ["openai/a", "groq/b"]},
            )  # fmt: skip
            for _ in range(4):
                reply = await way.open(models_of("any"), options=quick())
                assert reply.provider == "groq"
                await events(reply)
            assert len(bad.seen) == 2
            assert way.counts["skip", "circuit", "openai"] == 2
            with pytest.raises(Overloaded) as found:
                await way.open(models_of("openai/a"), options=quick())
            assert found.value.code == "circuit-open"
            assert 0 < (found.value.retry_after or 0) <= 60
            await way.aclose()

    asyncio.run(scene())


# ── operations ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.row("P5")
def test_a_model_that_is_only_to_be_had_by_responses() -> None:
    async def scene() -> None:
        async with Upstream(Reply.of("responses", play("text"))) as up:
            way = router(up)
            reply = await way.open(asking(model="o3-pro"), options=quick())
            assert up.seen[0].path == "/v1/responses"
            assert reply.operation == "responses"
            assert any("only to be had by Responses" in line for line in reply.record.lines())
            assert (await turn(reply)).text
            await way.aclose()

    asyncio.run(scene())


def test_what_a_provider_has_no_place_for() -> None:
    async def scene() -> None:
        async with Upstream(GOOD) as up:
            way = router({"anthropic": up, "deepseek": up})
            reply = await way.open(models_of("deepseek/x"), "responses", source="responses", options=quick())
            assert up.seen[0].path.endswith("/chat/completions")
            assert reply.operation == "chat"
            await events(reply)
            with pytest.raises(NotFound, match="anthropic has no rerank"):
                await way.fetch("anthropic/x", "rerank", lambda _t, _s: {}, options=quick())
            await way.aclose()

    asyncio.run(scene())


# ── proxies ───────────────────────────────────────────────────────────────────────────────────────

BYPASS: dict[str, tuple[str, str, bool]] = {
    "host": ("example.com", "http://example.com", True),
    "subdomain": ("example.com", "http://api.example.com", True),
    "dotted": (".example.com", "http://api.example.com", True),
    "starred": ("*.example.com", "http://api.example.com", True),
    "lookalike": ("example.com", "http://badexample.com", False),
    "port": ("example.com:8080", "http://example.com:8080", True),
    "other port": ("example.com:8080", "http://example.com:9090", False),
    "network": ("10.0.0.0/8", "http://10.1.2.3", True),
    "outside": ("10.0.0.0/8", "http://11.1.2.3", False),
    "six": ("[::1]", "http://[::1]:80", True),
    "case": ("EXAMPLE.com", "http://Example.COM.", True),
}


@pytest.mark.row("P3")
@pytest.mark.parametrize("case", BYPASS)
def test_who_needs_no_proxy(case: str) -> None:
    rule, url, straight = BYPASS[case]
    options = RequestOptions.read({"proxy": "http://p:1", "no_proxy": rule})
    assert (proxy_for(url, options, {}) is None) == straight
    env = {"HTTP_PROXY": "http://p:1", "no_proxy": rule}
    assert (proxy_for(url, RequestOptions(), env) is None) == straight


def test_a_header_of_a_request_is_no_proxy() -> None:
    env = {"HTTP_PROXY": "http://evil:1", "REQUEST_METHOD": "GET"}
    assert proxy_for("http://example.com", RequestOptions(), env) is None
