"""Recordings: byte for byte however the stream was cut, without a secret, bounded, and played back by a real server."""

from __future__ import annotations

import asyncio
import os
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock._gateway.recordings import PlaybackApp, Recorder, paced_chunks
from penstock._redaction import MARK
from penstock._store.recordings import SUFFIX, is_recording
from penstock._stream_redaction import redact_chunks
from penstock.errors import InputError
from penstock.testing import Recording, RecordingHeader, read_recording, write_recording
from tests.support.loopback_server import serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PLANTED = "hunter2-is-planted"
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
    assert is_recording(path.read_bytes())


@pytest.mark.parametrize(
    ("text", "said"),
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


def test_secrets_leave_no_trace_in_the_file(tmp_path: Path) -> None:
    recorder = Recorder({"path": str(tmp_path)}, lambda: [PLANTED])
    headers = {"Authorization": f"Bearer {TOKEN}", "x-api-key": "plain-words", "x-note": f"so {PLANTED}"}
    header = RecordingHeader(url=f"/v1?key={TOKEN}", model=f"m-{PLANTED}", request_headers=headers)
    request = f'{{"metadata":"{TOKEN}","x":"{PLANTED} forwarded-secret"}}'.encode()
    tape = recorder.begin(header, request, ("forwarded-secret",))
    assert tape is not None
    for _, chunk in cut(TEXT + b"forwarded-secret", list(range(0, 400, 3))):
        tape.add_chunk(chunk)
    tape.close()
    tape.close()
    recorder.close()
    [file] = tmp_path.iterdir()
    text = file.read_text() + file.name + repr(read_recording(file).data)
    for secret in (PLANTED, TOKEN, "plain-words", "abcdef123456", "forwarded-secret"):
        assert secret not in text
    assert read_recording(file).header.hidden == 4


# ── bounds ────────────────────────────────────────────────────────────────────────────────────────


def record(recorder: Recorder, *chunks: bytes) -> None:
    tape = recorder.begin(RecordingHeader(time=time.time(), model="../../m", provider="p"))
    assert tape is not None
    for chunk in chunks:
        tape.add_chunk(chunk)
    tape.close()


def test_nothing_is_recorded_unless_said() -> None:
    assert Recorder({}).begin(RecordingHeader()) is None


def test_a_tape_is_bounded_and_says_so(tmp_path: Path) -> None:
    recorder = Recorder({"path": str(tmp_path), "size": 10})
    record(recorder, b"12345", b"12345", b"1")
    recorder.close()
    [file] = tmp_path.glob(f"*{SUFFIX}")
    assert read_recording(file).data == b"1234512345"
    assert read_recording(file).header.cut


def test_the_folder_is_bounded_and_no_name_leads_out_of_it(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    recorder = Recorder({"path": str(inside), "total": 2000})
    for number in range(10):
        record(recorder, b"%03d" % number + b"x" * 500)
    recorder.close()
    assert list(tmp_path.iterdir()) == [inside]
    assert [read_recording(file).data[:3] for file in sorted(inside.iterdir())] == [b"007", b"008", b"009"]


def test_what_is_too_old_is_forgotten(tmp_path: Path) -> None:
    old = tmp_path / f"20200101-000000-0001-x{SUFFIX}"
    old.write_text("{}\n")
    stranger = tmp_path / "notes.txt"
    stranger.write_text("mine")
    for path in (old, stranger):
        os.utime(path, (time.time() - 3 * 86_400,) * 2)
    recorder = Recorder({"path": str(tmp_path), "days": 2.0})
    record(recorder, b"new")
    recorder.close()
    assert not old.exists()
    assert stranger.exists()
    assert len(list(tmp_path.glob(f"*{SUFFIX}"))) == 1


def test_a_disk_that_fails_stops_no_stream(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder({"path": str(tmp_path / "x")})
    (tmp_path / "x").rmdir()
    record(recorder, b"a")
    recorder.close()
    assert recorder.failed == 1
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


@pytest.fixture
def asked() -> Iterator[httpx.Client]:
    """Two recordings behind an application, in this process."""
    status = RecordingHeader(
        status=529, request={"model": "b"}, headers={"content-type": "application/json", "content-length": "9"}
    )
    app = PlaybackApp(
        [
            Recording(RecordingHeader(request={"model": "a"}, model="m"), [(0.0, b"A"), (5.0, b"a")]),
            Recording(status, [(0.0, b"B")]),
        ]
    )
    with asyncio.Runner() as runner:

        def answer(request: httpx.Request) -> httpx.Response:
            return runner.run(_through(app, request))

        with httpx.Client(transport=httpx.MockTransport(answer), base_url="http://x") as client:
            yield client


async def _through(app: PlaybackApp, request: httpx.Request) -> httpx.Response:
    transport: Any = httpx.ASGITransport(app)
    made = await transport.handle_async_request(httpx.Request(request.method, request.url, content=request.content))
    return httpx.Response(made.status_code, headers=made.headers, content=await made.aread())


def test_each_is_answered_as_it_was(asked: httpx.Client) -> None:
    assert asked.post("/v1/messages", json={"model": "b"}).status_code == 529
    assert asked.post("/v1/messages", json={"model": "a"}).content == b"Aa"
    others = [asked.post("/any", content=content).content for content in (b"", b'{"model":"c"}', b"{")]
    assert others == [b"Aa", b"B", b"Aa"]
    assert asked.get("/v1/models").json()["data"][-1]["id"] == "m"


def test_what_goes_through_the_gateway_is_recorded_and_replayed(tmp_path: Path) -> None:
    seen: dict[str, bytes] = {}
    with serving("--full-speed", "--record", str(tmp_path)) as base:
        for path, model in (
            ("/v1/chat/completions", "tools"),
            ("/v1/messages", "text"),
            ("/v1/responses", "reasoning"),
        ):
            body: dict[str, Any] = {"model": f"replay/{model}", "stream": True, "max_tokens": 9, "input": "hi"}
            body["messages"] = [{"role": "user", "content": f"is {TOKEN} safe?"}]
            seen[model] = httpx.post(f"{base}{path}", json=body, headers={"x-api-key": PLANTED}).content
    files = sorted(tmp_path.glob(f"*{SUFFIX}"))
    found = {read_recording(file).header.model: read_recording(file) for file in files}
    assert {model: one.data for model, one in found.items()} == seen
    assert {model: one.header.protocol for model, one in found.items()} == {
        "tools": "openai-chat", "text": "anthropic", "reasoning": "responses",
    }  # fmt: skip
    assert all(TOKEN not in file.read_text() and PLANTED not in file.read_text() for file in files)
