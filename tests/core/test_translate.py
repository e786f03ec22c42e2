"""`penstock.translate`: both colours, one chunk out for one in, a proper end whatever the source does."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.errors import FrameTooLarge, InputError, UnknownProtocol, Unrecognised
from tests.cli.sample_streams import ANTHROPIC, CHAT_CALLS
from tests.support.each_case import each

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from penstock import Diagnostic

HALF = ANTHROPIC[: ANTHROPIC.index(b"event: content_block_stop")]


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


async def later(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        await asyncio.sleep(0)
        yield chunk


def breaking(error: Exception, *chunks: bytes) -> Iterator[bytes]:
    yield from chunks
    raise error


def events(chunks: Iterable[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in b"".join(chunks).splitlines()]


# ── the two colours ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_sync_in_sync_out() -> None:
    out = list(penstock.translate(pieces(ANTHROPIC, 50), "anthropic", "openai-chat"))
    text = b"".join(out).decode()
    assert 1 < len(out) <= len(pieces(ANTHROPIC, 50)) + 1
    assert '"content":"High water "' in text
    assert text.endswith("data: [DONE]\n\n")


def test_async_in_async_out() -> None:
    async def run() -> list[bytes]:
        return [chunk async for chunk in penstock.translate(later(pieces(CHAT_CALLS, 64)), "openai-chat", "anthropic")]

    assert asyncio.run(run()) == list(penstock.translate(pieces(CHAT_CALLS, 64), "openai-chat", "anthropic"))


def test_a_whole_body_may_be_given_as_it_is() -> None:
    whole = events(penstock.translate(ANTHROPIC, "anthropic"))
    assert whole == events(penstock.translate(bytearray(ANTHROPIC), "anthropic", "events"))
    assert whole == events(penstock.translate([ANTHROPIC]))
    assert whole[0]["type"] == "start"


@each("size", [1, 7, 400])
def test_any_cutting_says_the_same(size: int) -> None:
    assert events(penstock.translate(pieces(CHAT_CALLS, size))) == events(penstock.translate(CHAT_CALLS))


def test_at_most_one_chunk_for_each() -> None:
    """Every chunk holds many frames here, and what they become leaves at once."""
    stream = penstock.translate([ANTHROPIC, ANTHROPIC], "anthropic", "openai-chat")
    assert b"[DONE]" in next(stream)
    assert b"[DONE]" in next(stream)
    assert list(stream) == []


def test_options_reach_the_bridge() -> None:
    made = b"".join(penstock.translate(HALF, "anthropic", "openai-chat", target_options={"created": 77}))
    assert b'"created":77' in made


@each("target, field", [("openai-chat", "created"), ("responses", "created_at")])
def test_an_answer_without_a_date_is_of_now(target: str, field: str) -> None:
    def dates(data: bytes, **options: Any) -> set[int]:
        made = b"".join(penstock.translate(data, "auto", target, **options))
        rows = [json.loads(line[6:]) for line in made.splitlines() if line.startswith(b"data: {")]
        return {row[field] for row in (one.get("response", one) for one in rows) if field in row}

    assert dates(ANTHROPIC, clock=lambda: 1_800_000_000.9) == {1_800_000_000}
    assert dates(ANTHROPIC, clock=lambda: 9.0, target_options={"created": 7}) == {7}
    assert dates(CHAT_CALLS, clock=lambda: 9.0) != {9}  # the provider's own date stays


def test_without_a_clock_it_is_the_time_of_day() -> None:
    code = "import sys, penstock; sys.stdout.buffer.writelines(penstock.translate(sys.stdin.buffer.read(), target='openai-chat'))"
    before = int(time.time())
    done = subprocess.run([sys.executable, "-c", code], input=ANTHROPIC, capture_output=True, check=True)
    first = json.loads(done.stdout.splitlines()[0][6:])
    assert before <= first["created"] <= time.time()


@each(
    "name, meant",
    [("openai", "openai-chat"), ("claude", "anthropic"), ("Gemini", "gemini"), ("anthropc", "anthropic")],
)
def test_the_name_that_was_meant_is_suggested(name: str, meant: str) -> None:
    with pytest.raises(UnknownProtocol, match=f"did you mean '{meant}'"):
        penstock.bridge(name, "vscode")


def test_a_pipe_takes_one_chunk_as_it_is() -> None:
    one, other = penstock.bridge("anthropic", "events"), penstock.bridge("anthropic", "events")
    assert one.feed(ANTHROPIC) == other.feed([ANTHROPIC])


def test_wrong_names_are_told_at_once() -> None:
    for source, target in (("nobody", "events"), ("anthropic", "nobody")):
        with pytest.raises(UnknownProtocol, match=r"known are: .*anthropic"):
            penstock.translate([], source, target)
    with pytest.raises(UnknownProtocol, match="framing"):
        penstock.translate([], "anthropic", "events", framing="morse")
    with pytest.raises(InputError, match="errors"):
        penstock.translate([], "anthropic", "events", errors="ignore")  # type: ignore[call-overload]


# ── the end ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_stream_that_stops_short_ends_in_a_fault() -> None:
    assert events(penstock.translate([HALF], "anthropic"))[-1]["kind"] == "truncated"


@each("error, kind", [(ConnectionResetError("10.0.0.7"), "network"), (TimeoutError("slow"), "timeout")])
def test_a_broken_source_is_ended_in_the_target_s_way_then_raised(error: Exception, kind: str) -> None:
    out: list[bytes] = []
    with pytest.raises(type(error)):
        out.extend(penstock.translate(breaking(error, HALF), "anthropic"))
    *_, end, fault = events(out)
    assert end == {"type": "text-end", "index": 0, "broken": True}
    assert fault["kind"] == kind
    assert "10.0.0.7" not in fault["message"]


def test_a_broken_source_may_be_a_fault_alone() -> None:
    told: list[Diagnostic] = []
    out = list(
        penstock.translate(
            breaking(OSError("gone"), HALF), "anthropic", "openai-chat", errors="fault", on_diagnostic=told.append
        )
    )
    assert b'"code":"server_error"' in out[-1]
    assert [row.message for row in told] == ["OSError: gone"]


def test_nothing_begun_means_nothing_to_end() -> None:
    out: list[bytes] = []
    with pytest.raises(OSError, match="refused"):
        out.extend(penstock.translate(breaking(OSError("refused")), "anthropic", "openai-chat"))
    assert out == []


@each("source", ["anthropic", "auto"])
def test_in_band_there_is_an_end_even_if_nothing_was_begun(source: str) -> None:
    out = events(penstock.translate(breaking(OSError("refused")), source, errors="fault"))
    assert [event["type"] for event in out] == ["start", "fault"]


def test_an_answer_that_was_finished_stays_finished() -> None:
    out: list[bytes] = []
    before_stop = ANTHROPIC[: ANTHROPIC.index(b"event: message_stop")]
    with pytest.raises(OSError, match="late"):
        out.extend(penstock.translate(breaking(OSError("late"), before_stop), "anthropic"))
    assert events(out)[-1] == {"type": "finish", "reason": "stop", "raw": "end_turn"}


@each("framing", ["sse", "auto"])
def test_bytes_that_cannot_be_read_on_end_the_same_way(framing: str) -> None:
    out: list[bytes] = []
    with pytest.raises(FrameTooLarge):
        out.extend(penstock.translate([HALF, b"data: " + b"x" * 500], "anthropic", framing=framing, limit=400))
    assert events(out)[-1]["kind"] == "malformed"


def test_a_limit_is_at_least_a_byte() -> None:
    with pytest.raises(InputError, match="at least 1, not 0"):
        penstock.translate(HALF, "anthropic", limit=0)


def test_a_bug_of_ours_is_not_blamed_on_the_source() -> None:
    class Broken:
        def feed(self, items: Any) -> list[Any]:
            if any(type(item).__name__ == "TextDelta" for item in items):
                raise KeyError("bug")
            return list(items)

        def finish(self) -> list[Any]:
            return []

    start = HALF[: HALF.index(b"event: content_block_delta")]
    out = events(penstock.translate([start, HALF[len(start) :]], "anthropic", errors="fault", shaping=(Broken(),)))
    assert out[-1] == {"type": "fault", "kind": "other", "message": "internal error, please report it (KeyError)"}


def test_what_nobody_knows_is_an_error_that_lists_the_names() -> None:
    with pytest.raises(Unrecognised, match=r"nothing in it; known are: .*ollama"):
        list(penstock.translate([]))
    with pytest.raises(Unrecognised, match="no protocol knows"):
        list(penstock.translate([b"\x93\x01 not a stream\n" * 50]))


def test_findings_are_told_at_the_end() -> None:
    told: list[Diagnostic] = []
    stream = penstock.translate([HALF], "anthropic", "events", on_diagnostic=told.append)
    next(stream)
    assert told == []
    list(penstock.translate([b"data: {oops\n\n", ANTHROPIC], "anthropic", on_diagnostic=told.append))
    assert [row.code for row in told] == ["malformed"]


# ── closing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_closing_the_output_closes_the_source() -> None:
    closed: list[str] = []

    def source() -> Iterator[bytes]:
        try:
            yield HALF
            yield b""
        finally:
            closed.append("yes")

    stream = penstock.translate(source(), "anthropic")
    next(stream)
    stream.close()
    assert closed == ["yes"]


def test_closing_the_output_closes_an_async_source() -> None:
    closed: list[str] = []

    async def source() -> AsyncIterator[bytes]:
        try:
            yield HALF
            yield b""
        finally:
            closed.append("yes")

    async def run() -> None:
        stream = penstock.translate(source(), "anthropic")
        await anext(stream)
        await stream.aclose()

    asyncio.run(run())
    assert closed == ["yes"]


PING = b'event: ping\ndata: {"type":"ping"}\n\n'
FAILED = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n'


@each("target", ["events", "openai-chat", "gemini", "vscode"])
def test_a_source_that_goes_on_after_its_error_is_closed(target: str) -> None:
    closed: list[str] = []

    def source() -> Iterator[bytes]:
        try:
            yield HALF
            yield FAILED
            while True:
                yield PING
        finally:
            closed.append("yes")

    out = b"".join(penstock.translate(source(), "anthropic", target))
    assert closed == ["yes"]
    assert out == b"".join(penstock.translate(HALF + FAILED, "anthropic", target))


def test_an_async_source_that_goes_on_after_its_error_is_closed() -> None:
    closed: list[str] = []

    async def source() -> AsyncIterator[bytes]:
        try:
            yield HALF + FAILED
            while True:
                yield PING
        finally:
            closed.append("yes")

    async def run() -> list[bytes]:
        return [chunk async for chunk in penstock.translate(source(), "anthropic", "events")]

    assert events(asyncio.run(run()))[-1]["kind"] == "overloaded"
    assert closed == ["yes"]


ERROR_FRAMES = {
    "openai-chat": b'data: {"error":{"message":"it exploded","code":500}}\n\n',
    "anthropic": b'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"it exploded"}}\n\n',
    "responses": b'event: error\ndata: {"type":"error","code":"server_error","message":"it exploded"}\n\n',
    "gemini": b'data: {"error":{"code":500,"message":"it exploded","status":"INTERNAL"}}\n\n',
    "ollama": b'{"error":"it exploded"}\n',
    "uistream": b'data: {"type":"error","errorText":"it exploded"}\n\n',
    "aisdk": b'{"type":"error","error":{"message":"it exploded"}}\n',
}


@each("source", ERROR_FRAMES)
def test_reading_ends_at_the_first_fatal_frame(source: str) -> None:
    """The source would go on for ever: nothing is read after the chunk with the error."""
    read: list[str] = []

    def frames() -> Iterator[bytes]:
        yield ERROR_FRAMES[source]
        read.append("on")

    out = events(penstock.translate(frames(), source))
    assert (out[-1]["type"], out[-1]["message"]) == ("fault", "it exploded")
    assert read == []


def test_what_follows_a_fault_is_left_out_however_the_bytes_are_cut() -> None:
    data = HALF + FAILED + ANTHROPIC
    whole, crumbs = (events(penstock.translate(pieces(data, size), "anthropic")) for size in (len(data), 5))
    assert whole == crumbs
    assert whole[-1]["type"] == "fault"


def test_what_follows_the_last_turn_is_left_out_however_the_bytes_are_cut() -> None:
    data = ANTHROPIC * 3
    whole, crumbs = (events(penstock.translate(pieces(data, size), "anthropic", turns=2)) for size in (len(data), 5))
    assert whole == crumbs
    assert [event["type"] for event in whole].count("finish") == 2


def test_a_source_may_be_left_after_its_first_turn() -> None:
    def source() -> Iterator[bytes]:
        yield ANTHROPIC
        while True:
            yield PING

    assert events(penstock.translate(source(), "anthropic", turns=1))[-1]["type"] == "finish"


@each("blank", [b"\n", b"\r\n", b"\r", b" \n", b": waiting\n", b": waiting\n\n"])
@each("size", [1, 7, 100_000])
def test_blanks_and_comments_before_a_stream(blank: bytes, size: int) -> None:
    data = blank * 700 + ANTHROPIC
    assert events(penstock.translate(pieces(data, size), "anthropic")) == events(
        penstock.translate(ANTHROPIC, "anthropic")
    )


def test_a_cancelled_task_stays_cancelled() -> None:
    """Cancelling is no error of the source: nothing more is written."""

    async def run() -> list[bytes]:
        out: list[bytes] = []
        waiting = asyncio.Event()

        async def source() -> AsyncIterator[bytes]:
            yield HALF
            waiting.set()
            await asyncio.Event().wait()

        async def read() -> None:
            async for chunk in penstock.translate(source(), "anthropic", errors="fault"):
                out.append(chunk)  # noqa: PERF401  what came before the cancelling is the point

        task = asyncio.create_task(read())
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return out

    assert len(asyncio.run(run())) == 1


def test_a_file_given_as_the_source_is_left_open(tmp_path: Any) -> None:
    path = tmp_path / "answer.sse"
    path.write_bytes(ANTHROPIC)
    with path.open("rb") as file:
        assert events(penstock.translate(file))[-1]["type"] == "finish"
        gc.collect()
        assert not file.closed
