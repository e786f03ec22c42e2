"""Recordings: byte for byte however the stream was cut, without a secret, bounded, and played back by a real server."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import events as ev
from penstock.errors import InputError
from penstock.testing import (
    Recording,
    RecordingHeader,
    Reply,
    paced_chunks,
    read_recording,
    redact_chunks,
    write_recording,
)
from tests.support.each_case import each
from tests.support.gateway import answer, gateway
from tests.support.playback import playing

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from tests.support.gateway import Running

SUFFIX, MARK = ".tape", "[secret]"

PLANTED = "hunter2-is-planted"
MINE = {"mine": {"like": "openai-compatible", "base_url": "http://127.0.0.1:9/v1", "key": PLANTED}}
TOKEN = "sk-planted0123456789abcdef"
TEXT = f'data: {{"a":"é {PLANTED} and {TOKEN}","b":"Bearer abcdef123456","api_key":null}}\n\ndata: [DONE]\n\n'.encode()


def cut(data: bytes, places: list[int]) -> list[tuple[float, bytes]]:
    ends = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [(float(number), data[start:end]) for number, (start, end) in enumerate(pairwise(ends))]


def joined(chunks: list[tuple[float, bytes]]) -> bytes:
    return b"".join(chunk for _, chunk in chunks)


# ── the file ──────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.tuples(st.floats(0, 1e6).map(lambda at: round(at, 6)), st.binary(max_size=40))))
def test_any_bytes_come_back(tmp_path_factory: pytest.TempPathFactory, chunks: list[tuple[float, bytes]]) -> None:
    path = tmp_path_factory.mktemp("tapes") / f"x{SUFFIX}"
    header = RecordingHeader(
        protocol="anthropic", request={"model": "m"}, headers={"content-type": "text/event-stream"}
    )
    write_recording(path, header, chunks)
    assert read_recording(path) == Recording(header, chunks)


@each(
    "text, said",
    [
        ("", ":1: not a recording"),
        ("data: {}\n", ":1: not a recording"),
        ('{"form":"other"}\n', ":1: not a recording"),
        ('{"form":"penstock-recording","version":9}\n', ":1: a recording of version 9"),
        ('{"form":"penstock-recording"}\n[0,"a"]\n[1]\n', ":3: not a chunk"),
        ('{"form":"penstock-recording"}\n[0,null,"*"]\n', ":2: not a chunk"),
        ('{"form":"penstock-recording"}\n{"a":1}\n', ":2: not a chunk"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "x.tape"
    path.write_text(text)
    with pytest.raises(InputError) as raised:
        read_recording(path)
    assert str(raised.value).startswith(f"{path}{said}")


# ── secrets ───────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.integers(0, 10_000), max_size=30))
def test_no_cutting_hides_a_secret_and_the_rest_stays(places: list[int]) -> None:
    chunks = cut(TEXT, places)
    kept, hidden = redact_chunks(chunks, [PLANTED])
    assert hidden == 3
    assert joined(kept) == (
        TEXT.replace(PLANTED.encode(), MARK.encode())
        .replace(TOKEN.encode(), MARK.encode())
        .replace(b"abcdef123456", MARK.encode())
    )
    assert [at for at, _ in kept] == [at for at, _ in chunks]


def test_what_holds_no_secret_is_not_touched() -> None:
    chunks = cut(b'\xff\x00{"password":null,"secret":true}', [3, 7])
    assert redact_chunks(chunks, [PLANTED, "", "abc"]) == (chunks, 0)


@contextmanager
def recording(folder: Path, *replies: Any, **table: Any) -> Generator[tuple[Running, httpx.Client]]:
    with (
        gateway(*replies, record={"path": str(folder), **table}, providers=MINE) as (running, _),
        httpx.Client(base_url=running.url, timeout=30, trust_env=False) as http,
    ):
        yield running, http


def say(http: httpx.Client, text: str = "Hi.", model: str = "openai-chat/text", **headers: str) -> httpx.Response:
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": text}]}
    return http.post("/v1/chat/completions", json=body, headers=headers)


def test_secrets_leave_no_trace_in_the_file(tmp_path: Path) -> None:
    """Those of the configuration, what looks like one, and what a client sends as its key; in small pieces, too."""
    said = ev.TextDelta(0, f"é {PLANTED} and {TOKEN} and Bearer abcdef123456")
    whole = Reply.of("openai-chat", [ev.Start("1", "m"), ev.TextStart(0), said, ev.TextEnd(0), ev.Finish("stop")]).data
    pieces = [whole[at : at + 3] for at in range(0, len(whole), 3)]
    headers = {"content-type": "text/event-stream", "x-note": f"so {PLANTED}"}
    with recording(tmp_path, Reply(tuple(pieces), headers=headers)) as (_, http):
        say(http, f"{TOKEN} {PLANTED}", f"openai-chat/m-{PLANTED}", **{
            "Authorization": f"Bearer {TOKEN}", "x-api-key": "plain-words", "x-note": f"so {PLANTED}",
        })  # fmt: skip
    [file] = tmp_path.iterdir()
    text = file.read_text() + file.name + repr(read_recording(file).data)
    for secret in (PLANTED, TOKEN, "plain-words", "abcdef123456"):
        assert secret not in text
    assert read_recording(file).data.startswith(whole[:20])
    assert read_recording(file).header.hidden > 0


# ── bounds ────────────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_recorded_unless_said(tmp_path: Path) -> None:
    with gateway(data=tmp_path) as (running, _), httpx.Client(base_url=running.url) as http:
        assert say(http).status_code == 200
    assert not list(tmp_path.rglob(f"*{SUFFIX}"))


def test_a_tape_is_bounded_and_says_so(tmp_path: Path) -> None:
    with recording(tmp_path, lambda seen: answer(seen).slow(0.005), size=1000) as (_, http):
        whole = say(http).content
    [file] = tmp_path.glob(f"*{SUFFIX}")
    found = read_recording(file)
    assert len(found.data) <= 1000 < len(whole)
    assert whole.startswith(found.data)
    assert found.header.cut


def test_the_folder_is_bounded_and_no_name_leads_out_of_it(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    with recording(inside, total=30_000) as (_, http):
        for number in range(6):
            assert say(http, str(number), "openai-chat/../../m").status_code == 200
    assert list(tmp_path.iterdir()) == [inside]
    kept = [msgspec.json.encode(read_recording(file).header.request) for file in sorted(inside.iterdir())]
    assert 2 <= len(kept) < 6
    assert b'"5"' in kept[-1]
    assert sum(file.stat().st_size for file in inside.iterdir()) <= 30_000


def test_what_is_too_old_is_forgotten(tmp_path: Path) -> None:
    old = tmp_path / f"20200101-000000-0001-x{SUFFIX}"
    old.write_text("{}\n")
    stranger = tmp_path / "notes.txt"
    stranger.write_text("mine")
    for path in (old, stranger):
        os.utime(path, (time.time() - 3 * 86_400,) * 2)
    with recording(tmp_path, days=2.0) as (_, http):
        say(http)
    assert not old.exists()
    assert stranger.exists()
    assert len(list(tmp_path.glob(f"*{SUFFIX}"))) == 1


def test_a_disk_that_fails_stops_no_stream(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with recording(tmp_path / "x") as (_, http):
        (tmp_path / "x").rmdir()
        assert say(http).status_code == 200
    assert "a recording was not written" in caplog.text


# ── playing ───────────────────────────────────────────────────────────────────────────────────────


def test_chunks_come_at_their_times() -> None:
    times: list[float] = []

    async def play() -> None:
        loop: Any = asyncio.get_running_loop()
        began = loop.time()
        recording = Recording(RecordingHeader(), [(0.0, b"a"), (0.1, b"b"), (0.4, b"c")])
        times.extend([loop.time() - began async for _ in paced_chunks(recording, 2.0)])

    asyncio.run(play())
    assert [now >= wanted for now, wanted in zip(times, (0.0, 0.05, 0.2), strict=True)] == [True] * 3


def test_each_is_answered_as_it_was() -> None:
    header = RecordingHeader(
        status=529, request={"model": "b"}, headers={"content-type": "application/json", "content-length": "9"}
    )
    first = Recording(RecordingHeader(request={"model": "a"}, model="m"), [(0.0, b"A"), (5.0, b"a")])
    with playing(first, Recording(header, [(0.0, b"B")])) as http:
        assert http.post("/v1/messages", json={"model": "b"}).status_code == 529
        assert http.post("/v1/messages", json={"model": "a"}).content == b"Aa"
        others = [http.post("/any", content=content).content for content in (b"", b'{"model":"c"}', b"{")]
        assert others == [b"Aa", b"B", b"Aa"]
        assert http.get("/v1/models").json()["data"][-1]["id"] == "m"


def test_what_goes_through_the_gateway_is_recorded(tmp_path: Path) -> None:
    seen: dict[str, bytes] = {}
    with recording(tmp_path) as (_, http):
        for path, model in (
            ("/v1/chat/completions", "tools"),
            ("/v1/messages", "text"),
            ("/v1/responses", "reasoning"),
        ):
            body: dict[str, Any] = {"model": f"replay/{model}", "stream": True, "max_tokens": 9, "input": "hi"}
            body["messages"] = [{"role": "user", "content": f"is {TOKEN} safe?"}]
            seen[model] = http.post(path, json=body, headers={"x-api-key": "a-key-of-the-client"}).content
    files = sorted(tmp_path.glob(f"*{SUFFIX}"))
    found = {read_recording(file).header.model: read_recording(file) for file in files}
    assert {model: one.data for model, one in found.items()} == seen
    assert {model: one.header.protocol for model, one in found.items()} == {
        "tools": "openai-chat", "text": "anthropic", "reasoning": "responses",
    }  # fmt: skip
    assert not [file for file in files if TOKEN in file.read_text() or "a-key-of-the-client" in file.read_text()]
