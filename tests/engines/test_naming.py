"""Whom a name means, what a configuration may say, and which addresses are reached by a proxy: decisions without IO."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.engines.config import Account, Config
from penstock.engines.naming import targets
from penstock.engines.options import RequestOptions
from penstock.engines.proxies import proxy_for
from penstock.engines.routing import Router
from penstock.errors import AuthError, InputError
from tests.engines.asking import KEY, asking, no_wait, run

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
    "whoever, nothing configured": ("whoever/gpt-4o", {}, {}, r"no provider is called 'whoever'.* replay/agent, .*OPENAI_API_KEY.*base_url"),
    "a ring": ("a", {"aliases": {"a": "b", "b": "a"}}, {}, "circle"),
}  # fmt: skip


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
            await way.open(asking())

    run(scene)


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
