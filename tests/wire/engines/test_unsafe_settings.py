"""Settings that could not be written into a request are refused when they are read, by the name of the setting."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import InputError, PenstockError
from penstock.file_fetch import FetchError, FetchLimits, fetch
from penstock.gateway import Config, load_config
from tests.support.raw_upstream import raw_upstream
from tests.support.routed_client import RoutedClient, asking, send_unchecked, staged

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "sk-secret"
# TOML of a provider → what the message must say.
SETTINGS = {
    'key = "sk-secret\\nx: y"': "key has a line break at position 10",
    'key = "sk-secret\\u0000"': "key has a control character at position 10",
    'key = "sk-secreté"': "key has a character outside ASCII at position 10",
    'base_url = "http://x/a\\r\\nb"': "base_url has a line break at position 11",
    'base_url = "ftp://x/v1"': "base_url does not begin with http:// or https://",
    'base_url = "http://x:port/v1"': "base_url has a host or port that is not valid",
    'base_url = "http://x/v1#a"': "base_url has a fragment",
    'settings = { region = "a\\nb" }': "settings.region has a line break at position 2",
    'fields = { headers = { "a b" = "c" } }': "fields.headers: 'a b' is not a header name",
    'fields = { headers = { a = "sk-secret\\nc" } }': "fields.headers: the value of 'a' has a line break",
    'options = { headers = { a = "sk-secret\\nc" } }': "headers: the value of 'a' has a line break at position 10",
    'options = { headers = { "Content-Length" = "0" } }': "the header 'Content-Length' is set by the HTTP library",
    'options = { headers = { "transfer-encoding" = "chunked" } }': "'transfer-encoding' is set by the HTTP library",
    'options = { proxy = "http://user:sk-secret@x\\r\\n:1" }': "proxy has a line break",
}


def test_a_configuration_names_the_setting(tmp_path: Path) -> None:
    file, wrong = tmp_path / "penstock.toml", list[str]()
    for line, words in SETTINGS.items():
        base = "" if line.startswith("base_url") else 'base_url = "http://127.0.0.1:9/v1"\n'
        file.write_text(f"[providers.mine]\n{base}{line}\n")
        for read, place in (
            (lambda: load_config(file, {}), "penstock.toml:"),
            (lambda: Config.read(file), "providers.mine"),
        ):
            with pytest.raises(InputError) as caught:
                read()
            told = str(caught.value)
            wrong += [] if words in told and place in told and SECRET not in told else [f"{line}: {told}"]
    assert wrong == []


@staged
async def test_a_key_and_a_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with raw_upstream() as up:
        account = {"openai": {"base_url": f"{up.url}/v1"}}
        way = RoutedClient({"providers": account}, env={"OPENAI_API_KEY": "sk-secret\r\nx-evil: 1"})
        with pytest.raises(PenstockError, match="the key for openai has a line break at position 10") as caught:
            await way.open(asking(stream=False))
        assert SECRET not in str(caught.value)
        monkeypatch.setenv("http_proxy", "http://user:sk-secret@proxy.example\r\nx-evil: 1")
        way = RoutedClient({"providers": account}, env={"OPENAI_API_KEY": "k"})
        with pytest.raises(InputError, match="the proxy that the environment names for http has a line break") as named:
            await way.open(asking(stream=False))
        assert SECRET not in str(named.value)
        assert up.raw == b""


# What a head is made of, whoever put it there: the last check, where it is serialised.
OUTGOING: dict[str, dict[str, Any]] = {
    "method": {"method": "POST / HTTP/1.1\r\nhost: x\r\n\r\nGET"},
    "name": {"headers": {"a\r\nb": "c"}},
    "value": {"headers": {"a": "b\r\n\r\nGET /smuggled HTTP/1.1"}},
    "length": {"headers": {"content-length": "0"}},
    "encoding": {"headers": {"Transfer-Encoding": "chunked"}},
    "host": {"headers": {"host": "elsewhere"}},
    "target": {"url": "/a b HTTP/1.1\r\nx: y"},
}


@pytest.mark.parametrize("way", ["direct", "proxy", "connect"])
def test_nothing_is_sent_that_could_be_misread(way: str) -> None:
    async def scene() -> None:
        for case, row in OUTGOING.items():
            with raw_upstream() as up:
                given = dict(row)
                base = {"direct": up.url, "proxy": "http://provider.invalid", "connect": "https://provider.invalid"}[
                    way
                ]
                with pytest.raises(InputError):
                    await send_unchecked(base + given.pop("url", "/v1"), "none" if way == "direct" else up.url, **given)
                assert up.raw == b"", case

    asyncio.run(scene())


@staged
async def test_the_password_of_a_proxy_is_encoded() -> None:
    """A line break can only stand in it percent-encoded, and leaves as base64."""
    with raw_upstream() as up:
        account = {"base_url": "http://provider.invalid/v1", "key": "k"}
        way = RoutedClient({"providers": {"openai": account}})
        proxy = up.url.replace("http://", "http://user:a%0d%0ax-evil%3a1@")
        await way.open(asking(stream=False), options={"proxy": proxy})
        assert len(up.requests) == 1
        assert b"x-evil" not in up.raw
        assert b"proxy-authorization: basic " in up.raw.lower()


def test_the_address_of_a_file() -> None:
    with pytest.raises(FetchError, match="the address of a file has a line break at position 10"):
        asyncio.run(fetch("http://x/\r\nx-evil: 1"))
    with raw_upstream() as up:
        port = int(up.url.rpartition(":")[2])
    with pytest.raises(FetchError, match="a file could not be fetched: its host cannot be reached"):
        asyncio.run(fetch(f"http://127.0.0.1:{port}/", FetchLimits(allow=lambda _: True, ports=frozenset({port}))))
