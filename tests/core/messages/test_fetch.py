"""Remote files: fetched only behind the guard. A real server on loopback, which only these tests may reach."""

from __future__ import annotations

import asyncio
import socket
import sys
from base64 import b64decode
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from penstock import request as rq
from penstock.errors import MissingExtra
from penstock.file_fetch import FetchError, FetchLimits, fetch, fetch_files, is_public
from tests.core.messages.generated_requests import ask, assistant, call, codes, tool, user

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 100
HOST = "files.example"


async def routes(request: web.Request) -> web.StreamResponse:
    path = request.path.strip("/")
    if path.startswith("hop"):
        left = int(path[3:])
        raise web.HTTPFound(f"/hop{left - 1}" if left else "/a.png")
    if path == "inward":
        raise web.HTTPFound(f"http://inside.example:{request.url.port}/a.png")
    if path == "scheme":
        raise web.HTTPFound("file:///etc/passwd")
    if path == "slow":
        await asyncio.sleep(30)
    if path == "huge":
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * 65536)
    if path == "zip":
        return web.Response(body=PNG, headers={"Content-Encoding": "gzip"})
    if path == "page":
        return web.Response(text="<html>not found</html>", content_type="text/html")
    if path == "missing":
        raise web.HTTPNotFound
    return web.Response(body=PNG, content_type="image/gif")


@dataclass
class Server:
    port: int

    def __call__(self, path: str, host: str = HOST) -> str:
        return f"http://{host}:{self.port}/{path}"


@asynccontextmanager
async def served(**more: Any) -> AsyncIterator[tuple[Server, FetchLimits, list[str]]]:
    """A way to write addresses of the server, limits that allow it, and the names that were looked up."""
    asked: list[str] = []

    async def resolve(host: str, _: int) -> list[str]:
        asked.append(host)
        return {"inside.example": ["10.0.0.7"], "both.example": ["127.0.0.1", "10.0.0.7"]}.get(host, ["127.0.0.1"])

    app = web.Application()
    app.router.add_get("/{path:.*}", routes)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    limits = FetchLimits(
        allow=lambda address: str(address) == "127.0.0.1", resolve=resolve, ports=frozenset({port}), **more
    )
    try:
        yield Server(port), limits, asked
    finally:
        await runner.cleanup()


def run(main: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(main)


# ── what is fetched ───────────────────────────────────────────────────────────────────────────────


def test_files_come_in_with_the_type_of_their_bytes() -> None:
    async def main() -> None:
        async with served() as (at, limits, asked):
            url = at("a.png")
            answer = rq.Result("a", content=[rq.File("image/*", url)])
            request = ask(user("look", rq.File("image/*", url)), assistant(call("a")), tool(answer))
            made, notes = await fetch_files(request, limits=limits)
            first, inner = made.messages[0].parts[1], made.messages[2].parts[0].content[0]  # type: ignore[union-attr]
            assert first == inner == rq.File("image/png", data=first.data)  # type: ignore[union-attr]
            assert b64decode(first.data) == PNG
            assert request.messages[0].parts[1] == rq.File("image/*", url)
            assert codes(notes) == []
            assert asked == [HOST]

    run(main())


def test_what_is_not_remote_is_left_alone() -> None:
    async def main() -> None:
        files = [
            rq.File("image/png", data="AAAA"),
            rq.File("image/png", "gs://bucket/a.png"),
            rq.File("application/pdf", id="file-1"),
        ]
        request = ask(user(*files))
        made, notes = await fetch_files(request)
        assert made is request
        assert codes(notes) == []

    run(main())


@pytest.mark.parametrize("hops", [0, 2])
def test_redirects_are_followed(hops: int) -> None:
    async def main() -> None:
        async with served() as (at, limits, asked):
            assert (await fetch(at(f"hop{hops}"), limits)).media == "image/png"
            assert asked == [HOST] * (hops + 2)

    run(main())


# ── what is not ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("hop5", "more than 3 redirects"),
        ("inward", "inside.example is not on the open internet"),
        ("scheme", "file: is not fetched"),
        ("missing", "status 404"),
        ("zip", "compressed"),
        ("huge", "over the limit"),
        ("slow", "within 0.3 seconds"),
    ],
)
def test_what_goes_wrong_says_so(path: str, why: str) -> None:
    async def main() -> None:
        async with served(seconds=0.3 if path == "slow" else 10.0, size=10**6) as (at, limits, _):
            with pytest.raises(FetchError, match=why):
                await fetch(at(path), limits)

    run(main())


def test_a_file_that_cannot_be_had_stays_an_address_or_is_an_error() -> None:
    async def main() -> None:
        async with served() as (at, limits, _):
            request = ask(user(rq.File("image/*", at("missing")), rq.File("image/*", at("a.png"))))
            made, notes = await fetch_files(request, limits=limits)
            assert made.messages[0].parts[0] == rq.File("image/*", at("missing"))
            assert made.messages[0].parts[1].media == "image/png"  # type: ignore[union-attr]
            assert codes(notes) == ["fetch-failed"]
            with pytest.raises(FetchError):
                await fetch_files(request, limits=limits, failing="error")

    run(main())


def test_a_page_is_no_picture() -> None:
    async def main() -> None:
        async with served() as (at, limits, _):
            request = ask(user(rq.File("image/*", at("page")), rq.File("text/html", at("page"))))
            made, notes = await fetch_files(request, limits=limits)
            assert made.messages[0].parts[0] == request.messages[0].parts[0]
            assert made.messages[0].parts[1].data  # type: ignore[union-attr]
            assert codes(notes) == ["fetch-type"]

    run(main())


def test_only_so_many() -> None:
    async def main() -> None:
        async with served(files=2) as (at, limits, asked):
            _, notes = await fetch_files(
                ask(user(*(rq.File("image/*", at(f"{n}.png")) for n in range(5)))), limits=limits
            )
            assert codes(notes) == ["fetch-limit"]
            assert len(asked) == 2

    run(main())


# ── the guard ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/", "http://localhost/", "http://[::1]/", "http://0.0.0.0/", "http://[::]/", "http://2130706433/", "http://0x7f.1/",
        "http://0177.0.0.1/", "http://127.1/", "http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/", "http://169.254.169.254/latest/meta-data",
        "http://10.1.2.3/", "http://192.168.0.1/", "http://172.16.0.1/", "http://100.64.0.1/", "http://[fe80::1]/", "http://[fe80::1%25lo]/",
        "http://[fd00::1]/", "http://[64:ff9b::7f00:1]/", "http://[2002:7f00:1::]/", "http://224.0.0.1/", "http://255.255.255.255/",
        "http://user:secret@example.org/", "http://example.org:22/", "ftp://example.org/", "file:///etc/passwd", "http:///", "//example.org/a", "http://[", "",
        "http://example.org\\@127.0.0.1/", "http://127.0.0.1#@example.org/", "http://①②⑦.⓪.⓪.①/",
    ],
)  # fmt: skip
def test_nothing_but_the_open_internet(url: str) -> None:
    """With the limits that everybody has: none of these may lead to a connection."""

    async def resolve(host: str, port: int) -> list[str]:
        """Numbers in every spelling, as the system reads them; no name is looked up anywhere."""
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, flags=socket.AI_NUMERICHOST)
        except OSError:
            return ["127.0.0.1"]
        return [str(row[4][0]) for row in found]

    async def main() -> None:
        with pytest.raises(FetchError, match=r"open internet|not fetched|address is not valid"):
            await fetch(url, FetchLimits(resolve=resolve, seconds=5))

    run(main())


def test_one_bad_address_among_good_ones_is_enough() -> None:
    async def main() -> None:
        async with served() as (at, limits, _):
            with pytest.raises(FetchError, match=r"both.example is not on the open internet"):
                await fetch(at("a.png", "both.example"), limits)

    run(main())


def test_a_name_that_changes_its_address_is_asked_once() -> None:
    """The address that was judged is the one that is connected to."""

    async def main() -> None:
        async with served() as (at, limits, asked):
            answers = iter([["127.0.0.1"], ["10.0.0.7"]])

            async def fickle(host: str, _: int) -> list[str]:
                asked.append(host)
                return next(answers)

            assert (
                await fetch(at("a.png"), FetchLimits(allow=limits.allow, ports=limits.ports, resolve=fickle))
            ).media == "image/png"
            assert asked == [HOST]

    run(main())


def test_a_secret_in_an_address_is_not_repeated() -> None:
    async def main() -> None:
        async with served() as (at, limits, _):
            with pytest.raises(FetchError) as caught:
                await fetch(at("missing?token=sesame"), limits)
            assert "sesame" not in str(caught.value)

    run(main())


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("2606:4700::1111", True),
        ("::ffff:8.8.8.8", False),
        ("192.0.2.1", False),
        ("fec0::1", False),
        ("2001:db8::1", False),
        ("198.18.0.1", False),
    ],
)
def test_addresses(address: str, public: bool) -> None:
    assert is_public(ip_address(address)) is public


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(MissingExtra, match=r"penstock\[fetch\]"):
        run(fetch("http://example.org/"))
