"""What both engines send: headers, extra body, proxy and no-proxy, certificate authorities, a client certificate.

Everything is real and on loopback: servers, a forward proxy, certificates.
"""

from __future__ import annotations

import shutil
import ssl
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.client import RequestOptions, Timeouts
from penstock.errors import InputError, NetworkError
from penstock.testing import Reply, Upstream, play
from tests.support.certificates import PASSPHRASE
from tests.support.proxy_server import Proxy
from tests.support.raw_upstream import raw_upstream
from tests.support.routed_client import (
    KEY,
    VENDORS,
    RoutedClient,
    asking,
    each_engine,
    quick,
    routed,
    run,
    staged,
    turn,
)

if TYPE_CHECKING:
    from tests.support.certificates import Papers

PROVIDERS = tuple(VENDORS)


def answer(provider: str = "openai") -> Reply:
    return Reply.of(VENDORS[provider][0], play("text"))


async def ask(up: Upstream, engine: str, provider: str = "openai", **options: Any) -> Any:
    """One question; the reply as a turn."""
    reply = await routed(up).open(asking(provider), engine=engine, options=quick(**options))
    assert reply.engine == engine
    return await turn(reply)


@each_engine
@staged
async def test_headers_and_extra_body_arrive(engine: str) -> None:
    for provider in PROVIDERS:
        async with Upstream(answer(provider)) as up:
            extra = {"x_trace": {"a": [1]}, "metadata": {"who": "tests"}}
            await ask(up, engine, provider, headers={"X-Team": "blue"}, extra_body=extra)
            seen = up.requests[0]
            assert seen.headers["x-team"] == "blue"
            assert {name: seen.json[name] for name in extra} == extra
            assert KEY in f"{seen.headers}"


@each_engine
@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
@staged
async def test_a_proxy_is_gone_through(engine: str, secure: bool, certified: Papers) -> None:
    async with Upstream(answer(), tls=certified.server if secure else None) as up, Proxy("letmein") as proxy:
        got = await ask(up, engine, proxy=proxy.url, ca_bundle=[certified.ca])
        assert got.text
        verb = "CONNECT" if secure else "POST"
        assert [line.split(" ")[0] for line in proxy.seen] == [verb]


@each_engine
@staged
async def test_no_proxy_goes_straight(engine: str) -> None:
    async with Upstream(answer()) as up, Proxy() as proxy:
        for rule in ("127.0.0.1", "127.0.0.0/8", "*", "example.com, 127.0.0.1"):
            await ask(up, engine, proxy=proxy.url, no_proxy=rule)
        assert proxy.seen == []


@each_engine
@staged
async def test_the_environment_names_the_proxy(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Upstream(answer()) as up, Proxy() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        await ask(up, engine)
        assert len(proxy.seen) == 1
        await ask(up, engine, proxy="none")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        await ask(up, engine)
        assert len(proxy.seen) == 1


@each_engine
@staged
async def test_a_proxy_that_refuses_is_told_of_without_its_password(engine: str) -> None:
    async with Upstream(answer()) as up, Proxy("letmein") as proxy:
        wrong = f"http://user:hunter22@{proxy.host}"
        with pytest.raises(Exception) as found:  # noqa: PT011 — the class is the next line
            await ask(up, engine, proxy=wrong)
        assert "hunter22" not in f"{found.value!r} {found.value}"
        assert up.requests == []


@each_engine
@pytest.mark.parametrize("provider", PROVIDERS)
@staged
async def test_an_authority_of_ones_own(engine: str, provider: str, certified: Papers) -> None:
    async with Upstream(answer(provider), tls=certified.server) as up:
        with pytest.raises(NetworkError, match="certificate"):
            await ask(up, engine, provider)
        assert (await ask(up, engine, provider, ca_bundle=[certified.other_ca, certified.ca])).text
        assert (await ask(up, engine, provider, verify_ssl=False)).text


@each_engine
@staged
async def test_a_client_certificate_with_a_locked_key(engine: str, certified: Papers) -> None:
    own = {"cert": certified.cert, "key": certified.key, "passphrase": PASSPHRASE}
    async with Upstream(answer(), tls=certified.strict_server) as up:
        assert (await ask(up, engine, ca_bundle=certified.ca, client_certificate=own)).text
        with pytest.raises(NetworkError):
            await ask(up, engine, ca_bundle=certified.ca)
        for wrong in ({**own, "passphrase": "no"}, {**own, "passphrase": ""}):
            with pytest.raises(InputError, match="passphrase must fit") as found:
                await ask(up, engine, ca_bundle=certified.ca, client_certificate=wrong)
            assert PASSPHRASE not in str(found.value)


@staged
async def test_a_renewed_authority_is_taken_up_without_a_restart(certified: Papers, tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    shutil.copy(certified.other_ca, bundle)
    renewed = bundle.read_bytes() + Path(certified.ca).read_bytes()  # noqa: ASYNC240 — nothing else runs in this loop
    async with Upstream(answer(), tls=certified.server) as up:
        way = routed(up)
        with pytest.raises(NetworkError):
            await way.open(asking(), options=quick(ca_bundle=str(bundle)))
        bundle.write_bytes(renewed)
        assert (await turn(await way.open(asking(), options=quick(ca_bundle=str(bundle))))).text


@each_engine
@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
def test_certificates_are_not_read_on_the_event_loop(
    engine: str, secure: bool, certified: Papers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It takes up to 100 ms. Our own client does not read them at all for HTTP without TLS."""
    threads: list[threading.Thread] = []
    load = ssl.SSLContext.load_verify_locations

    def load_and_note(context: ssl.SSLContext, *given: Any, **named: Any) -> None:
        threads.append(threading.current_thread())
        load(context, *given, **named)

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", load_and_note)
    bundle = tmp_path / "ca.pem"  # nobody has read it before
    shutil.copy(certified.ca, bundle)

    async def scene() -> None:
        async with Upstream(answer(), tls=certified.server if secure else None) as up:
            assert (await ask(up, engine, **({"ca_bundle": str(bundle)} if secure or engine == "sdk" else {}))).text

    run(scene)
    assert bool(threads) == (secure or engine == "sdk")
    assert threading.current_thread() not in threads


@staged
async def test_connections_are_kept() -> None:
    """Headers and limits of a call need no connection of their own."""
    with raw_upstream() as up:
        way = RoutedClient({"providers": {"openai": {"base_url": f"{up.url}/v1", "key": KEY}}})
        for options in ({}, {}, {"headers": {"x-a": "b"}, "timeouts": {"connect": 1}}):
            await turn(await way.open(asking(stream=False), options=quick(**options)))
        assert (len(up.requests), len(up.connections)) == (3, 1)


# ── options as they are said ──────────────────────────────────────────────────────────────────────

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": ({"proxies": "x"}, "unknown field"),
    "socks": ({"proxy": "socks5://x"}, "http"),
    "negative": ({"timeouts": {"total": 0}}, "timeouts.total"),
    "type": ({"verify_ssl": "no"}, "verify_ssl"),
    "ours": ({"said": ["key"]}, "unknown field `said`"),
    "ours, inside": ({"timeouts": {"said": []}}, "unknown field `said`"),
    "line break": ({"headers": {"a": "b\r\nc: d"}}, "line break at position 2"),
}


def test_bad_options_say_where() -> None:
    for given, place in BAD.values():
        with pytest.raises(InputError, match=place):
            RequestOptions.read(given)


def test_options_over_options() -> None:
    below = RequestOptions.read({"headers": {"A": "1", "b": "2"}, "extra_body": {"x": 1}, "timeouts": {"total": 9}})
    above = RequestOptions.read({"headers": {"a": "3", "B": ""}, "extra_body": {"y": 2}, "timeouts": {"connect": 1}})
    made = above.over(below)
    assert made.headers == {"a": "3"}
    assert made.extra_body == {"x": 1, "y": 2}
    assert (made.timeouts.total, made.timeouts.connect) == (9, 1)


FALSE = {"verify_ssl": False, "proxy": "http://p:1", "no_proxy": "h", "timeouts": {"total": 9, "connect": 1}}
UNDONE: dict[str, RequestOptions] = {
    "a mapping": RequestOptions.read(
        {"verify_ssl": True, "proxy": "environment", "no_proxy": [], "timeouts": {"total": 3600}}
    ),
    "options": RequestOptions(
        verify_ssl=True, proxy="environment", no_proxy=(), timeouts=Timeouts(total=Timeouts().total)
    ),
}


@pytest.mark.parametrize("form", UNDONE)
def test_what_is_said_with_its_default_is_said(form: str) -> None:
    made = UNDONE[form].over(RequestOptions.read(FALSE))
    assert (made.verify_ssl, made.proxy, made.no_proxy) == (True, "environment", ())
    assert (made.timeouts.total, made.timeouts.connect) == (3600, 1)
    again = RequestOptions().over(made).over(RequestOptions.read(FALSE))
    assert again.verify_ssl is True, "what was said is still said when it comes from below"
    assert RequestOptions().over(RequestOptions.read(FALSE)).verify_ssl is False


@staged
async def test_a_call_undoes_what_its_provider_says(certified: Papers) -> None:
    async with Upstream(answer(), tls=certified.server) as up:
        way = routed(up, openai={"options": {"verify_ssl": False}}, retries=0)
        assert (await turn(await way.open(asking()))).text
        with pytest.raises(NetworkError, match="certificate"):
            await way.open(asking(), options=quick(verify_ssl=True))


def test_options_do_not_show_secrets() -> None:
    made = RequestOptions.read({
        "headers": {"authorization": "Bearer abcdefgh"}, "proxy": "http://me:hunter22@p:1",
        "client_certificate": {"cert": "c", "passphrase": "hush-hush"}, "extra_body": {"api_key": "zzzzzz"},
    })  # fmt: skip
    shown = f"{made!r} {list(made.__rich_repr__())} {made.client_certificate!r}"
    assert not [word for word in ("abcdefgh", "hunter22", "hush-hush", "zzzzzz") if word in shown]
