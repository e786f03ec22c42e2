"""Files that a stream gives by their address: links, unless fetching is switched on; then data, behind the guard."""

from __future__ import annotations

import sys
from base64 import b64decode
from typing import TYPE_CHECKING, Any

import pytest

from penstock import events as ev
from penstock.errors import InputError, MissingExtra
from penstock.file_fetch import Fetcher, FetchLimits
from penstock.request import File
from penstock.vscode import DataPart, TextPart, VSCodeStreamAdapter
from tests.support.each_case import each
from tests.support.file_server import ATTACKS, PNG, Files, file_servers
from tests.support.stream_adapter import FINISH, PNG64, event_parts, outcome, parts_of

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def files() -> Iterator[Files]:
    with file_servers() as running:
        yield running


def chunk(url: str, media: str = "image/png") -> dict[str, Any]:
    return {"type": "file", "url": url, "mediaType": media}


# ── the adapter ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_fetching_an_address_is_a_link(files: Files) -> None:
    off: list[dict[str, Any]] = [{}, {"fetch": False}, {"fetch": None}]
    for options in off:
        assert parts_of(chunk(files.url("off.png")), **options) == [TextPart(f"[off.png]({files.url('off.png')})\n\n")]
    assert "off.png" not in files.asked


@each("path", ["a.png", "moved"])
@each("media", ["image/png", "image/*", "image/jpeg", "application/octet-stream", ""])
def test_the_adapter_fetches_a_file_and_its_bytes_tell_the_type(files: Files, path: str, media: str) -> None:
    text = {"type": "text-delta", "text": "Here:"}
    parts, last = outcome([text, chunk(files.url(path), media), text, FINISH], fetch=Fetcher(files.limits()))
    assert parts == [TextPart("Here:"), DataPart(PNG, "image/png"), TextPart("Here:")]
    assert last.diagnostics == []


@each("attack", ATTACKS)
def test_an_attack_leaves_a_link_and_a_finding(files: Files, attack: str) -> None:
    url = files.url(attack)
    parts, last = outcome([chunk(url), FINISH], fetch=Fetcher(files.limits(seconds=0.5)))
    assert parts == [TextPart(f"[{attack}]({url})\n\n")]
    assert [found.code for found in last.diagnostics] == ["fetch-failed", "loss-file-link"]
    assert files.hits == []


@each("url", ["http://localhost/a.png", "http://127.0.0.1/a.png", "https://10.0.0.7/", "http://[::1]/"])
def test_switched_on_plainly_the_real_guard_refuses_this_machine(url: str) -> None:
    parts, last = outcome([chunk(url), FINISH], fetch=True)
    assert len(parts) == 1
    assert isinstance(parts[0], TextPart)
    assert "is not on the open internet" in next(row.message for row in last.diagnostics if row.code == "fetch-failed")


def test_a_finding_does_not_show_the_address(files: Files) -> None:
    _, last = outcome([chunk(files.url("missing") + "?token=abcdef123456"), FINISH], fetch=Fetcher(files.limits()))
    assert [found.code for found in last.diagnostics] == ["fetch-failed", "loss-file-link"]
    assert not any("abcdef123456" in found.message for found in last.diagnostics)


def test_a_function_of_the_caller() -> None:
    asked: list[str] = []

    async def fetch(url: str) -> Any:
        asked.append(url)
        if url.endswith("lost"):
            raise OSError(f"no way to {url}")
        if url.endswith("none"):
            return None
        return PNG if url.endswith("bytes") else File("image/png", data=PNG64) if url.endswith("file") else 7

    names = ("bytes", "file", "lost", "none", "other")
    parts, last = outcome([*(chunk(f"https://a.example/{name}") for name in names), FINISH], fetch=fetch)
    assert [type(part) for part in parts] == [DataPart, DataPart, TextPart, TextPart, TextPart]
    assert len(asked) == len(names)
    assert not any("no way" in found.message for found in last.diagnostics)


def test_only_addresses_of_the_web_are_fetched_and_data_is_data() -> None:
    async def fetch(url: str) -> Any:
        raise AssertionError(url)

    assert parts_of(chunk(f"data:image/png;base64,{PNG64}"), fetch=fetch)[0].mime_type == "image/png"
    assert parts_of(chunk("file:///etc/passwd"), fetch=fetch) == []


def test_a_stream_fetches_only_so_many_files() -> None:
    async def fetch(_: str) -> Any:
        return PNG

    parts, last = outcome([*(chunk(f"https://a.example/{number}") for number in range(40)), FINISH], fetch=fetch)
    assert len([part for part in parts if isinstance(part, DataPart)]) == 32
    assert "fetch-limit" in [found.code for found in last.diagnostics]


def test_without_the_extra_the_adapter_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(MissingExtra, match=r"penstock\[fetch\]"):
        VSCodeStreamAdapter(fetch=True)


def test_the_state_machine_fetches_nothing(files: Files) -> None:
    run = VSCodeStreamAdapter(fetch=Fetcher(files.limits())).stream()
    assert [type(part) for part in run.feed(chunk(files.url("a.png")))] == [TextPart]


# ── events ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_parts_that_are_open_at_once_keep_their_order() -> None:
    async def fetch(_: str) -> bytes:
        return PNG

    start, end = ev.FileStart(0, "image/png", "https://a.example/a"), ev.FileEnd(0)
    text = [ev.TextStart(1), ev.TextDelta(1, "Ahoy"), ev.TextEnd(1)]
    assert event_parts(start, *text[:2], end, text[2], fetch=fetch) == [TextPart("Ahoy"), DataPart(PNG, "image/png")]


def test_a_file_with_data_is_not_fetched() -> None:
    async def fetch(url: str) -> Any:
        raise AssertionError(url)

    events = [ev.FileStart(0, "image/png", "https://a.example/a"), ev.FileDelta(0, PNG64), ev.FileEnd(0)]
    [part] = event_parts(*events, fetch=fetch)
    assert part == DataPart(b64decode(PNG64), "image/png")


def test_limits_of_a_wrong_kind_are_refused() -> None:
    limits: Any = FetchLimits()
    with pytest.raises(InputError, match="fetch must be"):
        VSCodeStreamAdapter(fetch=limits)
