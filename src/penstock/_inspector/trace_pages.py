"""Streams the trace of a turn in pages: a long turn is shown after its first page, the rest follows.

A page holds the chunks of some hundred kilobytes, each page twice as much as the one before. `stream_source` is for a
finished turn, `stream_turn` for one that is captured: after the pages it sends updates until the turn ends.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock._inspector.api_router import encode_in_worker, encode_redacted, sse_event
from penstock._inspector.stream_traces import TraceReader
from penstock._stream_trace import BodyParser

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Sequence

    from penstock._inspector.capture_ring import LiveCaptures
    from penstock._inspector.file_inspector import WorkerSlots
    from penstock._inspector.live_capture import TurnCapture
    from penstock._inspector.schemas import TraceUpdate
    from penstock._inspector.stream_traces import TraceSource

FIRST_PAGE_BYTES = 128 * 1024  # of a provider's bytes; about 1,000 events
TURN_INTERVAL = 0.05  # seconds between two updates of a turn
MAX_INLINE_BYTES = 4 * 1024  # traced in the event loop: faster than starting a thread
Chunk = tuple[float | None, bytes]


class PageSizes:
    """Divides chunks into pages, each twice as large as the one before: few updates for a page that shows them."""

    def __init__(self, first: int = FIRST_PAGE_BYTES) -> None:
        self._size = first

    def take_page(self, chunks: Sequence[Chunk]) -> int:
        """Returns how many of the chunks make the next page; at least one."""
        size = 0
        for count, (_, chunk) in enumerate(chunks, 1):
            size += len(chunk)
            if size >= self._size:
                self._size *= 2
                return count
        return len(chunks)


class PagedTrace:
    """Traces a finished source page by page."""

    def __init__(self, source: TraceSource, consumer: str, secrets: Iterable[str]) -> None:
        self._secrets = [*secrets, *source.secrets]
        self._reader = TraceReader(source, consumer)
        self._chunks = list(source.chunks) if len(source.chunks) > 1 else _split_chunk(source.chunks)
        self._size = sum(len(chunk) for _, chunk in self._chunks)
        self._sizes = PageSizes()
        self._place = self._read = 0
        self.done: bool = False

    def first_page(self) -> bytes:
        """Returns the trace as far as the first page goes."""
        self._feed_page()
        trace = self._reader.trace(done=self.done)
        trace.progress = self._progress()
        return encode_redacted(trace, self._secrets)

    def next_page(self) -> bytes:
        """Returns the update that the next page makes."""
        self._feed_page()
        update = self._reader.take_update(done=self.done)
        update.progress = self._progress()
        return encode_redacted(update, self._secrets)

    def _feed_page(self) -> None:
        rest = self._chunks[self._place :]
        page = rest[: self._sizes.take_page(rest)]
        self._place += len(page)
        self._read += sum(len(chunk) for _, chunk in page)
        self._reader.feed(page)
        if self._place >= len(self._chunks):
            self._reader.finish()
            self.done = True

    def _progress(self) -> float:
        return round(self._read / self._size, 4) if self._size and not self.done else 1.0


def _split_chunk(chunks: Sequence[Chunk]) -> list[Chunk]:
    """Divides a body that is one chunk, as that of a file is."""
    return [
        (at, chunk[start : start + FIRST_PAGE_BYTES])
        for at, chunk in chunks
        for start in range(0, len(chunk), FIRST_PAGE_BYTES)
    ]


def stream_source(
    source: TraceSource, consumer: str, work: WorkerSlots, secrets: Callable[[], Iterable[str]]
) -> AsyncGenerator[bytes]:
    """Yields the trace of a finished turn, page by page. Raises at once if there is no such consumer."""
    paged = PagedTrace(source, consumer, secrets())

    async def pages() -> AsyncGenerator[bytes]:
        yield sse_event("trace", await work.run(paged.first_page))
        while not paged.done:
            yield sse_event("more", await work.run(paged.next_page))

    return pages()


async def stream_turn(
    captures: LiveCaptures, capture: TurnCapture, consumer: str, work: WorkerSlots, secrets: Callable[[], Iterable[str]]
) -> AsyncGenerator[bytes]:
    """Yields the trace of one turn, again when its answer begins, then updates until it ends."""
    news = asyncio.Event()
    capture.followers = (*capture.followers, news)
    try:
        if not _has_begun(captures, capture):
            yield sse_event("trace", await work.run(TurnFollower(capture, consumer, secrets()).first_trace))
        while not _has_begun(captures, capture):
            await news.wait()
            news.clear()
        follower = TurnFollower(capture, consumer, secrets())
        yield sse_event("trace", await work.run(follower.first_trace))
        while not follower.done and not captures.closed:
            if not follower.waiting_bytes:
                with suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), 1.0)
                news.clear()
            if follower.waiting_bytes >= MAX_INLINE_BYTES or follower.ends_at_once:
                data = await work.run(follower.take_update)
            else:
                update = follower.read_update()
                data = await encode_in_worker(update, follower.secrets, work) if update is not None else b""
            if data:
                yield sse_event("more", data)
            if not follower.waiting_bytes:
                await asyncio.sleep(TURN_INTERVAL)
    finally:
        capture.followers = tuple(one for one in capture.followers if one is not news)


def _has_begun(captures: LiveCaptures, capture: TurnCapture) -> bool:
    """True if there is an answer to trace, or there will be none."""
    return bool(capture.engine) or capture.finished or captures.closed


class TurnFollower:
    """Traces a captured turn while it runs."""

    def __init__(self, capture: TurnCapture, consumer: str, secrets: Iterable[str]) -> None:
        self._capture = capture
        self._source = capture.to_source()
        self.secrets: list[str] = [*secrets, *self._source.secrets]
        self._reader = TraceReader(self._source, consumer)
        self._sizes = PageSizes()
        self._chunk_count = 0
        self._read = 0  # bytes that are traced
        self.done: bool = False

    @property
    def ends_at_once(self) -> bool:
        """True if all bytes are read at the end: the answer is not streamed."""
        return self._source.framing == BodyParser.framing

    @property
    def waiting_bytes(self) -> int:
        """Bytes that are not traced yet."""
        return max(0, self._capture.chunks.count_bytes() - self._read)

    def first_trace(self) -> bytes:
        """Returns the trace so far, at most one page of it."""
        self._feed_page()
        trace = self._reader.trace(done=self.done)
        trace.row, trace.progress = self._capture.to_row(), self._progress()
        return encode_redacted(trace, self.secrets)

    def take_update(self) -> bytes:
        """Returns what is new as JSON, at most one page of it; empty if nothing is."""
        update = self.read_update()
        return encode_redacted(update, self.secrets) if update is not None else b""

    def read_update(self) -> TraceUpdate | None:
        """Returns what is new, at most one page of it; None if nothing is."""
        self._feed_page()
        update = self._reader.take_update(done=self.done)
        update.progress = self._progress()
        is_new = self.done or update.frames or update.events or update.outputs or update.marks
        return update if is_new else None

    def _feed_page(self) -> None:
        finished = self._capture.finished  # read before the chunks: none comes after it
        chunks = self._capture.chunks_from(self._chunk_count)
        page = chunks[: self._sizes.take_page(chunks)]
        self._chunk_count += len(page)
        self._read += sum(len(chunk) for _, chunk in page)
        self._reader.feed(page)
        if finished and len(page) == len(chunks):
            self._source.end, self._source.client_left = self._capture.fault, self._capture.client_left
            self._source.fault_by = self._capture.fault_by
            self._reader.finish()
            self.done = True

    def _progress(self) -> float:
        waiting = 0 if self.done else self.waiting_bytes
        return round(self._read / (self._read + waiting), 4) if waiting else 1.0
