"""A long turn comes in pages: together they are the whole trace, and each says how much has come."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from penstock._inspector.api_router import encode_redacted
from penstock._inspector.file_inspector import WorkerSlots
from penstock._inspector.stream_traces import TraceSource, read_trace, source_from_file
from penstock._inspector.trace_pages import FIRST_PAGE_BYTES, PageSizes, stream_source
from penstock.errors import InputError
from tests.gateway.inspector import sample_streams

LISTS = ("frames", "events", "outputs", "marks")


def pages(source: TraceSource, consumer: str) -> list[tuple[str, dict[str, Any]]]:
    """The server-sent events of a source."""

    async def read() -> list[bytes]:
        return [piece async for piece in stream_source(source, consumer, WorkerSlots(), tuple)]

    found = list[tuple[str, dict[str, Any]]]()
    for piece in asyncio.run(read()):
        name, data = piece.decode().removesuffix("\n\n").split("\n", 1)
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def captured(events: int) -> TraceSource:
    """A turn as it is captured: a chunk for each frame, with its time."""
    chunks = [(number / 1000, chunk) for number, chunk in enumerate(sample_streams.many(events))]
    return TraceSource("anthropic", chunks, consumer="openai-chat")


def saved(events: int) -> TraceSource:
    """The same as a file: one chunk."""
    return source_from_file(b"".join(sample_streams.many(events)), "many.sse", "anthropic")


@pytest.mark.parametrize("make", [captured, saved])
def test_pages_are_the_whole_trace(make: Any) -> None:
    whole = json.loads(encode_redacted(read_trace(make(12_000), "openai-chat").trace()))
    found = pages(make(12_000), "openai-chat")
    names = [name for name, _ in found]
    assert names[0] == "trace"
    assert 3 <= len(names) <= 8
    assert set(names[1:]) == {"more"}
    for rows in LISTS:
        assert [row for _, page in found for row in page[rows]] == whole[rows]
    assert [page["done"] for _, page in found] == [*[False] * (len(found) - 1), True]
    progress = [page.get("progress", 1.0) for _, page in found]
    assert progress == sorted(set(progress))
    assert progress[-1] == 1.0
    assert progress[0] < 0.3


def test_a_short_turn_is_one_page() -> None:
    ((name, page),) = pages(captured(50), "anthropic")
    assert (name, page["done"], page.get("progress", 1.0)) == ("trace", True, 1.0)


def test_a_turn_without_bytes_is_one_page() -> None:
    ((name, page),) = pages(TraceSource("anthropic", [], lost="it was not kept", client_left=True), "anthropic")
    assert (name, page["lost"], page["frames"]) == ("trace", "it was not kept", [])


def test_an_unknown_consumer_is_refused_before_the_first_page() -> None:
    with pytest.raises(InputError):
        stream_source(captured(50), "nobody", WorkerSlots(), tuple)


def test_each_page_is_twice_as_large_as_the_one_before() -> None:
    sizes, chunks = PageSizes(), [(None, b"x" * 1024)] * 10_000
    first, second = sizes.take_page(chunks), sizes.take_page(chunks)
    assert (first, second) == (FIRST_PAGE_BYTES // 1024, FIRST_PAGE_BYTES // 512)
    assert sizes.take_page([]) == 0
    assert PageSizes().take_page([(None, b"x" * 10 * FIRST_PAGE_BYTES)]) == 1
