"""Uploaded streams: how long they may be, and that long ones are refused before they are read to the end."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from penstock._gateway.callers import Refusal
from penstock._inspector import file_inspector, trace_encoding
from penstock._inspector.api_router import encode_redacted, redact_json_text
from penstock._inspector.file_inspector import MAX_UPLOAD_STEPS, FileRoutes, WorkerSlots, export_html
from penstock._inspector.static_files import StaticFiles
from penstock._inspector.stream_traces import SLICE_BYTES, TraceReader, TraceSource, read_trace, source_from_file
from penstock._inspector.trace_encoding import encode_trace
from penstock._redaction import MARK
from penstock._stream_trace import Tracer
from tests.gateway.inspector import sample_streams
from tests.page.exported_page import exported_traces
from tests.support.client_requests import post
from tests.support.inspector import inspected

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._inspector.schemas import Trace

TINY = {"sse": b"data: 1\n\n", "events": b"data: {}\n\n", "ndjson": b"1\n"}
CHUNK = b'data: {"id":"x","choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
LIMIT = 1000
SECRET = "sk-proj-Zx81hQmT4vWcYbN2kR7dJ0fL"


def refused(act: Callable[[], object]) -> str:
    with pytest.raises(Refusal) as found:
        act()
    assert (found.value.status, found.value.fault.kind, found.value.fault.code) == (413, "too-large", "trace_too_long")
    return found.value.fault.message


@pytest.mark.parametrize("frame", TINY.values(), ids=TINY)
def test_a_stream_of_too_many_frames_is_not_read_further(frame: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    fed: list[int] = []
    feed = Tracer.feed

    def count(self: Tracer, chunk: bytes, at: float | None = None) -> None:
        fed.append(len(chunk))
        feed(self, chunk, at)

    monkeypatch.setattr(Tracer, "feed", count)
    source = source_from_file(frame * 200 * LIMIT, "x", "openai-chat", LIMIT)
    message = refused(lambda: read_trace(source))
    assert "more than 1,000 frames, events and outputs" in message
    assert "penstock inspect FILE" in message
    assert sum(fed) <= len(frame) * LIMIT + SLICE_BYTES


def test_one_frame_of_many_parts_is_refused() -> None:
    calls = [
        {"index": place, "id": f"c{place}", "function": {"name": "f", "arguments": "{}"}} for place in range(LIMIT)
    ]
    frame = f"data: {json.dumps({'choices': [{'delta': {'tool_calls': calls}}]})}\n\n"
    source = source_from_file(frame.encode(), "x", "openai-chat", LIMIT)
    refused(lambda: read_trace(source))


def test_a_recording_of_too_many_chunks_is_refused_before_it_is_decoded() -> None:
    recording = b'{"form":"penstock-recording","version":1}\n' + b"not JSON\n" * 2 * LIMIT
    assert "more than 1,000" in refused(lambda: source_from_file(recording, "x", "", LIMIT))


def test_a_trace_with_exactly_so_many_steps_is_shown() -> None:
    source = source_from_file(CHUNK * 100, "x", "openai-chat")
    steps = len(read_trace(source).tracer.steps)
    source.step_limit = steps
    assert len(read_trace(source).tracer.steps) == steps
    source.step_limit = steps - 1
    refused(lambda: read_trace(source))


@pytest.mark.parametrize("name", ["interleaved"])
def test_a_limit_does_not_change_the_trace(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(getattr(sample_streams, name)())
    monkeypatch.setattr("penstock._inspector.stream_traces.SLICE_BYTES", 7)
    whole, sliced = (read_trace(source_from_file(data, "x", "", limit)).trace() for limit in (0, MAX_UPLOAD_STEPS))
    assert encode_redacted(sliced) == encode_redacted(whole)


def test_a_stream_of_50000_events_is_shown() -> None:
    source = source_from_file(CHUNK * 50_000, "x", "openai-chat", MAX_UPLOAD_STEPS)
    trace = json.loads(files().trace_response(source, {}).body)
    assert len(trace["frames"]) == 50_000


def files() -> FileRoutes:
    return FileRoutes(WorkerSlots(), StaticFiles())


# ── the answer ────────────────────────────────────────────────────────────────────────────────────


def traced(data: bytes) -> TraceReader:
    return read_trace(source_from_file(data, "x", "openai-chat"))


def test_slices_say_the_same_as_one_text(monkeypatch: pytest.MonkeyPatch) -> None:
    data = CHUNK * 50 + b"data: 1\n\n" + CHUNK.replace(b'"a"', f'"key {SECRET} and walnut-7391"'.encode())
    wanted = encode_redacted(traced(data).trace(), ["walnut-7391"])
    assert MARK.encode() in wanted
    for size in (1, 500, 10_000_000):
        monkeypatch.setattr(trace_encoding, "SLICE_BYTES", size)
        assert json.loads(encode_trace(traced(data).trace(), ["walnut-7391"])) == json.loads(wanted)


def test_no_long_text_is_searched_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    search = redact_json_text

    def measure(text: str, secrets: Any) -> str:
        sizes.append(len(text))
        return search(text, secrets)

    monkeypatch.setattr(trace_encoding, "redact_json_text", measure)
    data = encode_trace(traced(CHUNK * 5000).trace())
    assert len(data) > 2**20
    assert max(sizes) < 2 * trace_encoding.SLICE_BYTES


def test_an_answer_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_inspector, "MAX_UPLOAD_ANSWER_BYTES", 2**20)

    def source(limit: int) -> TraceSource:
        return source_from_file(CHUNK * 5000, "x", "openai-chat", limit)

    assert "more than 1 MiB" in refused(lambda: files().trace_response(source(MAX_UPLOAD_STEPS), {}))
    assert len(files().trace_response(source(0), {}).body) > 2**20
    pages = StaticFiles()
    if pages.built:
        refused(lambda: export_html(source(MAX_UPLOAD_STEPS), pages))


def test_a_further_consumer_that_is_too_long_is_left_out_of_an_export(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = StaticFiles()
    if not pages.built:
        pytest.skip("the page is not built")
    refuse_at: list[str] = ["anthropic"]
    encode = trace_encoding.encode_trace

    def encode_some(trace: Trace, secrets: Any, limit: int) -> bytes:
        return encode(trace, secrets, 1 if trace.consumer in refuse_at else limit)

    monkeypatch.setattr(file_inspector, "encode_trace", encode_some)
    source = source_from_file(CHUNK, "x", "openai-chat", MAX_UPLOAD_STEPS)
    page = export_html(source, pages, others=["responses", "anthropic", "gemini"])
    assert list(exported_traces(page)) == ["openai-chat", "responses"]


# ── the gateway ───────────────────────────────────────────────────────────────────────────────────


def test_the_gateway_refuses_uploads_that_are_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_inspector, "MAX_UPLOAD_STEPS", LIMIT)
    with inspected() as running:
        for route in ("trace", "export"):
            answer = post(f"{running.url}/inspector/{route}?protocol=openai-chat", content=CHUNK * LIMIT)
            error = answer.json()["error"]
            assert (answer.status_code, error["code"]) == (413, "trace_too_long")
            assert "more than 1,000 frames" in error["message"]
        assert post(f"{running.url}/inspector/trace?protocol=openai-chat", content=CHUNK).status_code == 200


class CountedSlots(WorkerSlots):
    """Counts the work that has begun; none of it ends before `finish` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = 0
        self.finish = asyncio.Event()

    async def run(self, work: Callable[[], Any], *more: Any, **named: Any) -> Any:
        self.begun += 1
        await self.finish.wait()
        return await super().run(work, *more, **named)


def test_uploads_are_traced_one_at_a_time() -> None:
    async def upload_both() -> None:
        work = CountedSlots()
        routes = FileRoutes(work, StaticFiles())
        incoming: Any = SimpleNamespace(raw=CHUNK, query={"protocol": "openai-chat"}, caller=None)
        tasks = [asyncio.create_task(routes.trace(incoming)) for _ in range(2)]
        for _ in range(10):
            await asyncio.sleep(0)
        assert work.begun == 1
        work.finish.set()
        assert [(await task).status for task in tasks] == [200, 200]
        assert work.begun == 2

    asyncio.run(upload_both())
