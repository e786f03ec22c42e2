"""How a request travels, with every engine: headers, extra body, proxy and no-proxy, authorities, a client certificate.

Everything is real and on loopback: servers, a forward proxy, certificates.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.engines.options import RequestOptions
from penstock.errors import InputError, NetworkError
from penstock.replay import play
from penstock.testing import Reply, Upstream
from tests.engines.asking import ENGINES, KEY, VENDORS, asking, quick, router, turn
from tests.engines.certifying import PASSPHRASE
from tests.engines.proxying import Proxy

if TYPE_CHECKING:
    from tests.engines.certifying import Papers

PROVIDERS = tuple(VENDORS)
both = pytest.mark.parametrize("engine", ENGINES)


def answer(provider: str = "openai") -> Reply:
    return Reply.of(VENDORS[provider][0], play("text"))


async def ask(up: Upstream, engine: str, provider: str = "openai", **options: Any) -> Any:
    """One question; the reply as a turn."""
    way = router(up)
    try:
        reply = await way.open(asking(provider), engine=engine, options=quick(**options))
        assert reply.engine == engine
        return await turn(reply)
    finally:
        await way.aclose()


@pytest.mark.row("P3")
@both
@pytest.mark.parametrize("provider", PROVIDERS)
def test_headers_and_extra_body_arrive(engine: str, provider: str) -> None:
    async def scene() -> None:
        async with Upstream(answer(provider)) as up:
            extra = {"x_trace": {"a": [1]}, "metadata": {"who": "tests"}}
            await ask(up, engine, provider, headers={"X-Team": "blue"}, extra_body=extra)
            seen = up.seen[0]
            assert seen.headers["x-team"] == "blue"
            assert {name: seen.json[name] for name in extra} == extra
            assert KEY in f"{seen.headers}"

    asyncio.run(scene())


@pytest.mark.row("P3")
@both
@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
def test_a_proxy_is_gone_through(engine: str, secure: bool, certified: Papers) -> None:
    async def scene() -> None:
        async with Upstream(answer(), tls=certified.server if secure else None) as up, Proxy("letmein") as proxy:
            got = await ask(up, engine, proxy=proxy.url, ca_bundle=[certified.ca])
            assert got.text
            verb = "CONNECT" if secure else "POST"
            assert [line.split(" ")[0] for line in proxy.seen] == [verb]

    asyncio.run(scene())


@pytest.mark.row("P3")
@both
@pytest.mark.parametrize("rule", ["127.0.0.1", "127.0.0.0/8", "*", "example.com, 127.0.0.1"])
def test_no_proxy_goes_straight(engine: str, rule: str) -> None:
    async def scene() -> None:
        async with Upstream(answer()) as up, Proxy() as proxy:
            await ask(up, engine, proxy=proxy.url, no_proxy=rule)
            assert proxy.seen == []

    asyncio.run(scene())


@pytest.mark.row("P3")
@both
def test_the_environment_names_the_proxy(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        async with Upstream(answer()) as up, Proxy() as proxy:
            monkeypatch.setenv("HTTP_PROXY", proxy.url)
            monkeypatch.delenv("NO_PROXY", raising=False)
            await ask(up, engine)
            assert len(proxy.seen) == 1
            await ask(up, engine, proxy="none")
            monkeypatch.setenv("NO_PROXY", "127.0.0.1")
            await ask(up, engine)
            assert len(proxy.seen) == 1

    asyncio.run(scene())


@pytest.mark.row("P3")
@both
def test_a_proxy_that_refuses_is_told_of_without_its_password(engine: str) -> None:
    async def scene() -> None:
        async with Upstream(answer()) as up, Proxy("letmein") as proxy:
            wrong = f"http://user:hunter22@{proxy.host}"
            with pytest.raises(Exception) as found:  # noqa: PT011 — the class is the next line
                await ask(up, engine, proxy=wrong)
            assert "hunter22" not in f"{found.value!r} {found.value}"
            assert up.seen == []

    asyncio.run(scene())


@pytest.mark.row("P3")
@both
@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_authority_of_ones_own(engine: str, provider: str, certified: Papers) -> None:
    async def scene() -> None:
        async with Upstream(answer(provider), tls=certified.server) as up:
            with pytest.raises(NetworkError, match="certificate"):
                await ask(up, engine, provider)
            assert (await ask(up, engine, provider, ca_bundle=[certified.other_ca, certified.ca])).text
            assert (await ask(up, engine, provider, verify_ssl=False)).text

    asyncio.run(scene())


@pytest.mark.row("P3")
@both
def test_a_client_certificate_with_a_locked_key(engine: str, certified: Papers) -> None:
    own = {"cert": certified.cert, "key": certified.key, "passphrase": PASSPHRASE}

    async def scene() -> None:
        async with Upstream(answer(), tls=certified.strict_server) as up:
            assert (await ask(up, engine, ca_bundle=certified.ca, client_certificate=own)).text
            with pytest.raises(NetworkError):
                await ask(up, engine, ca_bundle=certified.ca)
            for wrong in ({**own, "passphrase": "no"}, {**own, "passphrase": ""}):
                with pytest.raises(InputError, match="passphrase must fit") as found:
                    await ask(up, engine, ca_bundle=certified.ca, client_certificate=wrong)
                assert PASSPHRASE not in str(found.value)

    asyncio.run(scene())


@pytest.mark.row("P3")
def test_a_renewed_authority_is_taken_up_without_a_restart(certified: Papers, tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    shutil.copy(certified.other_ca, bundle)
    renewed = bundle.read_bytes() + Path(certified.ca).read_bytes()

    async def scene() -> None:
        async with Upstream(answer(), tls=certified.server) as up:
            way = router(up)
            with pytest.raises(NetworkError):
                await way.open(asking(), options=quick(ca_bundle=str(bundle)))
            bundle.write_bytes(renewed)
            assert (await turn(await way.open(asking(), options=quick(ca_bundle=str(bundle))))).text
            await way.aclose()

    asyncio.run(scene())


@pytest.mark.row("P3")
def test_connections_are_kept_and_do_not_wait() -> None:
    """Two requests over one connection, and no waiting for full packets on it."""

    async def scene() -> None:
        async with Upstream(answer()) as up:
            way = router(up)
            for _ in range(2):
                await turn(await way.open(asking()))
                await asyncio.sleep(0)
            native: Any = way._made("native")
            (kept,) = native._direct._idle.values()
            assert len(kept) == 1
            socket = kept[0].transport.get_extra_info("socket")
            assert socket.getsockopt(6, 1) != 0  # IPPROTO_TCP, TCP_NODELAY
            await turn(await way.open(asking(), options=quick(headers={"x-a": "b"}, timeouts={"connect": 1})))
            assert len(native._direct._open) == 1, "headers and limits need no connection of their own"
            await way.aclose()

    asyncio.run(scene())


# ── options as they are said ──────────────────────────────────────────────────────────────────────

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": ({"proxies": "x"}, "unknown field"),
    "socks": ({"proxy": "socks5://x"}, "http"),
    "negative": ({"timeouts": {"total": 0}}, "timeouts.total"),
    "type": ({"verify_ssl": "no"}, "verify_ssl"),
    "line break": ({"headers": {"a": "b\r\nc: d"}}, "line breaks"),
}


@pytest.mark.row("P3")
@pytest.mark.parametrize("case", BAD)
def test_bad_options_say_where(case: str) -> None:
    given, place = BAD[case]
    with pytest.raises(InputError, match=place):
        RequestOptions.read(given)


@pytest.mark.row("P3")
def test_options_over_options() -> None:
    below = RequestOptions.read({"headers": {"A": "1", "b": "2"}, "extra_body": {"x": 1}, "timeouts": {"total": 9}})
    above = RequestOptions.read({"headers": {"a": "3", "B": ""}, "extra_body": {"y": 2}, "timeouts": {"connect": 1}})
    made = above.over(below)
    assert made.headers == {"a": "3"}
    assert made.extra_body == {"x": 1, "y": 2}
    assert (made.timeouts.total, made.timeouts.connect) == (9, 1)


def test_options_do_not_show_secrets() -> None:
    made = RequestOptions.read({
        "headers": {"authorization": "Bearer abcdefgh"}, "proxy": "http://me:hunter22@p:1",
        "client_certificate": {"cert": "c", "passphrase": "hush-hush"}, "extra_body": {"api_key": "zzzzzz"},
    })  # fmt: skip
    shown = f"{made!r} {list(made.__rich_repr__())} {made.client_certificate!r}"
    assert not [word for word in ("abcdefgh", "hunter22", "hush-hush", "zzzzzz") if word in shown]
