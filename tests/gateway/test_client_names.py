"""What the journal calls the program that sent a request: a known client, or the product in its user agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anthropic
import pytest

from tests.support.asgi_gateway import AsgiGateway
from tests.support.each_case import each

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_AGENT, MAX_NAME = 200, 40  # characters
CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36"
KNOWN, OWN = "plain-words-are-a-key-as-well-and-they-are-long", "the-callers-own-words-are-secret-too"
MESSAGE = {"model": "replay/text", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}


@pytest.fixture(scope="module")
def made() -> Iterator[AsgiGateway]:
    lab = {"base_url": "http://127.0.0.1:9/v1", "key": KNOWN}
    with AsgiGateway(access={"keys": "forward"}, providers={"lab": lab}) as made:
        yield made


def name(made: AsgiGateway, agent: str | None, *, anthropic: bool = False) -> tuple[str, str]:
    """The client and the agent in the row of a request."""
    sent = {"user_agent": agent, "x_api_key": OWN, "anthropic_version": "2023-06-01" if anthropic else None}
    path = "/v1/messages" if anthropic else "/v1/chat/completions"
    assert made.status(path, MESSAGE, **sent) == 200
    row = made.rows()[0]
    return row.client, row.agent


@each(
    "agent, product",
    [
        ("curl/8.5.0", "curl"), ("curl/8.9.1", "curl"), ("node", "node"), ("Go-http-client/2.0", "Go-http-client"),
        ("Groq/Python 0.9.0", "Groq/Python"), ("my agent v3 (linux)", "my agent"), ("GPT-4-bot/1.2", "GPT-4-bot"),
        ("Python/3.11 aiohttp/3.9.1", "aiohttp"), ("Python/3.12", "Python"), (CHROME, "Chrome"),
        (CHROME.replace("Chrome/", "Code/1.95 Chrome/"), "Code"), ("Mozilla/5.0 (X11) Gecko/20100101 Firefox/1", "Firefox"),
        ("Apache-HttpClient/4.5.14 (Java/17.0.2)", "Apache-HttpClient"), ("", ""), ("((((", "(((("), ("/ /", "/ /"),
        ("a" * 300, "a" * (MAX_NAME - 1) + "…"),
    ],
)  # fmt: skip
def test_the_product_is_the_name(made: AsgiGateway, agent: str, product: str) -> None:
    assert name(made, agent)[0] == product


def test_known_clients_keep_their_name(made: AsgiGateway) -> None:
    assert name(made, "claude-cli/2.1 (external)", anthropic=True) == ("claude-code", "")
    for agent in ("Anthropic/JS 0.60", "", None, anthropic.Anthropic(api_key="k").user_agent,
                  anthropic.AsyncAnthropic(api_key="k").user_agent):  # fmt: skip
        assert name(made, agent, anthropic=True) == ("anthropic-sdk", ""), agent


def test_a_program_that_speaks_like_a_known_client_has_its_own_name(made: AsgiGateway) -> None:
    assert name(made, "curl/8.5", anthropic=True) == ("curl", "curl/8.5")
    assert name(made, None) == ("", "")


@each(
    "secret, before",
    [
        (secret, before)
        for secret in ("sk-ant-api03-" + "x" * 90, KNOWN, OWN)
        for before in ("", "bot/", "a" * (MAX_NAME - 11) + " ", "a " * (MAX_AGENT // 2 - 5))
    ],
)
def test_no_secret_is_in_a_name(made: AsgiGateway, secret: str, before: str) -> None:
    """Not a part of one either, where the text is cut."""
    found = "\n".join(name(made, before + secret))
    for place in range(len(secret) - 8):
        assert secret[place : place + 8] not in found


def test_control_characters_are_visible_and_names_are_bounded(made: AsgiGateway) -> None:
    assert name(made, "bad\x1b[31m\x85\tone/1") == ("bad⟨U+001B⟩[31m⟨U+0085⟩ one", "bad⟨U+001B⟩[31m⟨U+0085⟩ one/1")
    for piece in ("(", "/", " ", "a ", "a/1 ", "(a) ", "Mozilla/5.0 ", "sk-", "\x01"):
        client, agent = name(made, piece * 3_000)
        assert len(client) <= MAX_NAME
        assert len(agent) <= MAX_AGENT
