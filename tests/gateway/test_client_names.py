"""The name of a program that is not a known client: the product in its user agent."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import anthropic
import pytest

from penstock._gateway.client_names import MAX_AGENT, MAX_NAME, ClientName, name_client, product_name
from penstock._providers.registry import client

CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36"
KNOWN = "plain-words-are-a-key-as-well-and-they-are-long"


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ("curl/8.5.0", "curl"), ("curl/8.9.1", "curl"), ("node", "node"), ("Go-http-client/2.0", "Go-http-client"),
        ("Groq/Python 0.9.0", "Groq/Python"), ("my agent v3 (linux)", "my agent"), ("GPT-4-bot/1.2", "GPT-4-bot"),
        ("Python/3.11 aiohttp/3.9.1", "aiohttp"), ("Python/3.12", "Python"), (CHROME, "Chrome"),
        (CHROME.replace("Chrome/", "Code/1.95 Chrome/"), "Code"), ("Mozilla/5.0 (X11) Gecko/20100101 Firefox/1", "Firefox"),
        ("Apache-HttpClient/4.5.14 (Java/17.0.2)", "Apache-HttpClient"), ("", ""), ("((((", "(((("), ("/ /", "/ /"),
        ("a" * 300, "a" * (MAX_NAME - 1) + "…"),
    ],
)  # fmt: skip
def test_the_product_is_the_name(agent: str, name: str) -> None:
    assert product_name(agent) == name


def name(headers: dict[str, str], secret: str = "") -> ClientName:
    services, caller = SimpleNamespace(secrets=(KNOWN,)), SimpleNamespace(secret=secret)
    made: Any = SimpleNamespace(client=client(headers), headers=headers, services=services, caller=caller)
    return name_client(made)


def test_known_clients_keep_their_name() -> None:
    assert name({"user-agent": "claude-cli/2.1 (external)", "anthropic-version": "2023-06-01"}) == ("claude-code", "")
    assert name({"user-agent": "Anthropic/JS 0.60", "anthropic-version": "2023-06-01"}) == ("anthropic-sdk", "")
    for agent in (anthropic.Anthropic(api_key="k").user_agent, anthropic.AsyncAnthropic(api_key="k").user_agent):
        assert name({"user-agent": agent, "anthropic-version": "2023-06-01"}) == ("anthropic-sdk", "")
    assert name({"anthropic-version": "2023-06-01"}) == ("anthropic-sdk", "")


def test_a_program_that_speaks_like_a_known_client_has_its_own_name() -> None:
    assert name({"user-agent": "curl/8.5", "anthropic-version": "2023-06-01"}) == ("curl", "curl/8.5")
    assert name({"user-agent": "", "anthropic-version": "2023-06-01"}) == ("anthropic-sdk", "")
    assert name({}) == ("", "")


@pytest.mark.parametrize("secret", ["sk-ant-api03-" + "x" * 90, KNOWN, "the-callers-own-words-are-secret-too"])
@pytest.mark.parametrize("before", ["", "bot/", "a" * (MAX_NAME - 11) + " ", "a " * (MAX_AGENT // 2 - 5)])
def test_no_secret_is_in_a_name(secret: str, before: str) -> None:
    """Not a part of one either, where the text is cut."""
    found = name({"user-agent": before + secret}, "the-callers-own-words-are-secret-too")
    for place in range(len(secret) - 8):
        assert secret[place : place + 8] not in "\n".join(found)


def test_control_characters_are_visible_and_the_work_is_bounded() -> None:
    assert name({"user-agent": "bad\x1b[31m\x85\tone/1"}) == (
        "bad⟨U+001B⟩[31m⟨U+0085⟩ one", "bad⟨U+001B⟩[31m⟨U+0085⟩ one/1",
    )  # fmt: skip
    began = time.thread_time()
    for piece in ("(", "/", " ", "a ", "a/1 ", "(a) ", "Mozilla/5.0 ", "sk-", "\x01"):
        found = name({"user-agent": piece * 60_000})
        assert len(found[0]) <= MAX_NAME
        assert len(found[1]) <= MAX_AGENT
    assert time.thread_time() - began < 2
