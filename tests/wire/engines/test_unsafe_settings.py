"""Settings that could not be written into a request are refused when they are read, by the name of the setting."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest

from penstock._engines.engine_interface import HttpRequest
from penstock._engines.native import NativeEngine
from penstock._gateway.config import read_config
from penstock._http.proxy_and_tls import proxy_for
from penstock._http.request_options import RequestOptions
from penstock.errors import InputError, PenstockError
from penstock.file_fetch import FetchError, FetchLimits, fetch
from penstock.gateway import Config
from tests.support.raw_upstream import raw_upstream
from tests.wire.engines.router_setup import asking, router, run

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


@pytest.mark.parametrize("line", SETTINGS)
def test_a_configuration_names_the_setting(line: str, tmp_path: Path) -> None:
    base = "" if line.startswith("base_url") else 'base_url = "http://127.0.0.1:9/v1"\n'
    text = f"[providers.mine]\n{base}{line}\n"
    with pytest.raises(InputError) as caught:
        read_config(text, tmp_path / "penstock.toml")
    assert SETTINGS[line] in str(caught.value)
    assert "penstock.toml:" in str(caught.value)
    assert SECRET not in str(caught.value)
    (tmp_path / "penstock.toml").write_text(text)
    with pytest.raises(InputError) as caught:
        Config.read(tmp_path / "penstock.toml")
    assert "providers.mine" in str(caught.value)
    assert SETTINGS[line] in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_key_of_the_environment() -> None:
    async def scene() -> None:
        with raw_upstream() as up:
            way = router({}, env={"OPENAI_API_KEY": "sk-secret\r\nx-evil: 1"},
                         providers={"openai": {"base_url": f"{up.url}/v1"}})  # fmt: skip
            with pytest.raises(PenstockError, match="the key for openai has a line break at position 10") as caught:
                await way.open(asking(stream=False))
            assert SECRET not in str(caught.value)
            assert up.raw == b""

    run(scene)


def test_a_proxy_of_the_environment() -> None:
    env = {"https_proxy": "http://user:sk-secret@proxy.example\r\nx-evil: 1"}
    with pytest.raises(InputError, match="the proxy that the environment names for https has a line break") as caught:
        proxy_for("https://api.example/v1", RequestOptions(), env)
    assert SECRET not in str(caught.value)


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


@pytest.mark.parametrize("case", OUTGOING)
@pytest.mark.parametrize("way", ["direct", "proxy", "connect"])
def test_nothing_is_sent_that_could_be_misread(way: str, case: str) -> None:
    async def scene() -> None:
        with raw_upstream() as up:
            given = dict(OUTGOING[case])
            base = {"direct": up.url, "proxy": "http://provider.invalid", "connect": "https://provider.invalid"}[way]
            out = HttpRequest(url=base + given.pop("url", "/v1"), body=b"{}", **given)
            options = RequestOptions(proxy="none" if way == "direct" else up.url)
            async with aclosing(NativeEngine()) as native:
                with pytest.raises(InputError):
                    await native.send(out, options)
            assert up.raw == b""

    asyncio.run(scene())


def test_the_password_of_a_proxy_is_encoded() -> None:
    """A line break can only stand in it percent-encoded, and leaves as base64."""

    async def scene() -> None:
        with raw_upstream() as up:
            proxy = up.url.replace("http://", "http://user:a%0d%0ax-evil%3a1@")
            async with aclosing(NativeEngine()) as native:
                incoming = await native.send(
                    HttpRequest(url="http://provider.invalid/v1", body=b"{}"), RequestOptions(proxy=proxy)
                )
                await incoming.read_all()
            assert len(up.requests) == 1
            assert b"x-evil" not in up.raw
            assert b"proxy-authorization: basic " in up.raw.lower()

    asyncio.run(scene())


def test_the_address_of_a_file() -> None:
    with pytest.raises(FetchError, match="the address of a file has a line break at position 10"):
        asyncio.run(fetch("http://x/\r\nx-evil: 1"))
    with raw_upstream() as up:
        port = int(up.url.rpartition(":")[2])
    with pytest.raises(FetchError, match="a file could not be fetched: its host cannot be reached"):
        asyncio.run(fetch(f"http://127.0.0.1:{port}/", FetchLimits(allow=lambda _: True, ports=frozenset({port}))))
