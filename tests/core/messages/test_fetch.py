"""Remote files: fetched only behind the guard. Real servers on loopback, which only these tests may reach."""

from __future__ import annotations

import asyncio
import socket
import sys
from base64 import b64decode
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from penstock import request as rq
from penstock.errors import MissingExtra
from penstock.file_fetch import FetchError, FetchLimits, fetch, fetch_files, is_public
from tests.support.each_case import each
from tests.support.file_server import PNG, PRIVATE, PUBLIC, Files, file_servers
from tests.support.talks import ask, assistant, call, codes, tool, user

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def files() -> Iterator[Files]:
    with file_servers() as running:
        yield running


def fetched(request: rq.Request, limits: FetchLimits | None = None, **more: Any) -> tuple[rq.Request, list[str]]:
    made, notes = asyncio.run(fetch_files(request, limits=limits or FetchLimits(), **more))
    return made, codes(notes)


def resolving(limits: FetchLimits, *answers: list[str]) -> tuple[FetchLimits, list[str]]:
    """Limits by which names have these addresses, one after the other, and the names that are looked up."""
    asked: list[str] = []

    async def resolve(host: str, _: int) -> list[str]:
        asked.append(host)
        return answers[min(len(asked), len(answers)) - 1]

    return replace(limits, resolve=resolve), asked


# ── what is fetched ───────────────────────────────────────────────────────────────────────────────


def test_files_come_in_with_the_type_of_their_bytes(files: Files) -> None:
    limits, asked = resolving(files.limits(), [PUBLIC])
    file = rq.File("image/*", files.url("a.png"))
    request = ask(user("look", file), assistant(call("a")), tool(rq.Result("a", content=[file])))
    made, found = fetched(request, limits)
    first, inner = made.messages[0].parts[1], made.messages[2].parts[0].content[0]  # type: ignore[union-attr]
    assert first == inner == rq.File("image/png", data=first.data)  # type: ignore[union-attr]
    assert b64decode(first.data) == PNG
    assert request.messages[0].parts[1] == rq.File("image/*", files.url("a.png"))
    assert (found, asked) == ([], ["files.example"])


def test_what_is_not_remote_is_left_alone() -> None:
    addresses = [rq.File("image/png", "gs://bucket/a.png"), rq.File("application/pdf", id="file-1")]
    request = ask(user(rq.File("image/png", data="AAAA"), *addresses))
    made, found = fetched(request)
    assert made is request
    assert found == []


def test_redirects_are_followed_and_each_name_is_looked_up(files: Files) -> None:
    limits, asked = resolving(files.limits(), [PUBLIC])
    assert asyncio.run(fetch(files.url("moved"), limits)).media == "image/png"
    assert asked == ["files.example"] * 2


# ── what is not ───────────────────────────────────────────────────────────────────────────────────


@each(
    "path, why",
    [
        ("loop", "more than 3 redirects"), ("to-name", "rebind.example is not on the open internet"),
        ("to-file", "file: is not fetched"), ("missing", "status 404"), ("gzip", "compressed"), ("huge", "over the limit"),
        ("endless", "over the limit"), ("slow", "within 0.3 seconds"),
    ],
)  # fmt: skip
def test_what_goes_wrong_says_so(files: Files, path: str, why: str) -> None:
    with pytest.raises(FetchError, match=why):
        asyncio.run(fetch(files.url(path), files.limits(seconds=0.3 if path == "slow" else 10.0)))
    assert files.hits == []


def test_a_file_that_cannot_be_had_stays_an_address_or_is_an_error(files: Files) -> None:
    missing, page = (rq.File("image/*", files.url(path)) for path in ("missing", "page"))
    request = ask(user(missing, rq.File("image/*", files.url("a.png")), page, rq.File("text/html", page.url)))
    made, found = fetched(request, files.limits())
    assert [bool(part.data) for part in made.messages[0].parts] == [False, True, False, True]  # type: ignore[union-attr]
    assert made.messages[0].parts[0] == missing
    assert made.messages[0].parts[2] == page  # a page is no picture
    assert found == ["fetch-failed", "fetch-type"]
    with pytest.raises(FetchError):
        fetched(request, files.limits(), failing="error")


def test_only_so_many(files: Files) -> None:
    limits, asked = resolving(files.limits(files=2), [PUBLIC])
    _, found = fetched(ask(user(*(rq.File("image/*", files.url(f"{n}.png")) for n in range(5)))), limits)
    assert (found, len(asked)) == (["fetch-limit"], 2)


# ── the guard ─────────────────────────────────────────────────────────────────────────────────────


@each(
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

    asyncio.run(main())


def test_one_bad_address_among_good_ones_is_enough(files: Files) -> None:
    limits, _ = resolving(files.limits(), [PUBLIC, PRIVATE])
    with pytest.raises(FetchError, match=r"files.example is not on the open internet"):
        asyncio.run(fetch(files.url("a.png"), limits))


def test_a_name_that_changes_its_address_is_asked_once(files: Files) -> None:
    """The address that was judged is the one that is connected to."""
    limits, asked = resolving(files.limits(), [PUBLIC], [PRIVATE])
    assert asyncio.run(fetch(files.url("a.png"), limits)).media == "image/png"
    assert asked == ["files.example"]


def test_a_secret_in_an_address_is_not_repeated(files: Files) -> None:
    with pytest.raises(FetchError) as caught:
        asyncio.run(fetch(files.url("missing?token=sesame"), files.limits()))
    assert "sesame" not in str(caught.value)


@each(
    "address, public",
    [
        ("8.8.8.8", True), ("2606:4700::1111", True), ("::ffff:8.8.8.8", False), ("192.0.2.1", False),
        ("fec0::1", False), ("2001:db8::1", False), ("198.18.0.1", False),
    ],
)  # fmt: skip
def test_addresses(address: str, public: bool) -> None:
    assert is_public(ip_address(address)) is public


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(MissingExtra, match=r"penstock\[fetch\]"):
        asyncio.run(fetch("http://example.org/"))
