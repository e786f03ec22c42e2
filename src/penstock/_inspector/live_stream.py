"""What is pushed: the list of turns as it changes, and one turn as it goes on, as server-sent events.

Leans on `Watch` for what has changed, on `traces` for what a turn means. A flow ends with its reader, or with the
gateway.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock._inspector.api import contains_secret, encode_public, encode_redacted, sse_event
from penstock._inspector.traces import TraceReader

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from penstock._inspector.live_capture import LiveCaptures, TurnCapture, TurnListener
    from penstock._inspector.schemas import TurnRow
    from penstock._inspector.single_file import WorkerSlots

LIST_INTERVAL = 0.25  # seconds between two looks at the list
TURN_INTERVAL = 0.05  # and at a turn
MAX_INLINE_BYTES = 256 * 1024  # bytes that are traced in the loop: less than a thread would take to be asked
log = logging.getLogger("penstock.inspector")


async def stream_turns(
    watch: LiveCaptures, listener: TurnListener, first: Iterable[TurnRow], secrets: Callable[[], Iterable[str]]
) -> AsyncIterator[bytes]:
    """The list: what there is, then what changes."""
    try:
        yield sse_event("turns", encode_redacted({"rows": list(first), "first": True}, secrets()))
        while not watch.closed:
            await listener.news.wait()
            found = [watch.row(name, noted) for name, noted in listener.take_changes().items()]
            rows = [row for row in found if row is not None]
            missed, listener.missed = listener.missed, 0
            if rows:
                yield sse_event("turns", encode_rows(rows, missed, tuple(secrets())))
            await asyncio.sleep(LIST_INTERVAL)
    finally:
        watch.remove_listener(listener)


async def stream_turn(
    watch: LiveCaptures, tap: TurnCapture, consumer: str, work: WorkerSlots, secrets: Callable[[], Iterable[str]]
) -> AsyncIterator[bytes]:
    """One turn: all of it so far, then more, until it is over."""
    news = asyncio.Event()
    tap.followers.append(news)
    try:
        while not tap.engine and not tap.finished and not watch.closed:  # nobody has answered yet
            await news.wait()
            news.clear()
        following = TurnFollower(tap, consumer, secrets())
        yield sse_event("trace", await work.run(following.first_trace))
        while not following.done and not watch.closed:
            with suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), 1.0)
            news.clear()
            made = (
                following.take_update()
                if following.waiting_bytes < MAX_INLINE_BYTES
                else await work.run(following.take_update)
            )
            if made:
                yield sse_event("more", made)
            await asyncio.sleep(TURN_INTERVAL)
    finally:
        tap.followers.remove(news)


def encode_rows(rows: list[TurnRow], missed: int, secrets: tuple[str, ...]) -> bytes:
    """Rows as JSON, and how many there were besides. Most have nothing in them that could be a secret."""
    made = {"rows": rows, "missed": missed} if missed else {"rows": rows}
    if any(contains_secret(row.searchable_text, secrets) for row in rows):
        return encode_redacted(made, secrets)
    return encode_public(made)


class TurnFollower:
    """A tap being read, as far as it has come."""

    def __init__(self, tap: TurnCapture, consumer: str, secrets: Iterable[str]) -> None:
        self._tap = tap
        self._source = tap.to_source()
        self._secrets = [*secrets, *self._source.secrets]
        self._reading = TraceReader(self._source, consumer)
        self._place = 0
        self.done = False

    @property
    def waiting_bytes(self) -> int:
        """Bytes that are not looked at yet."""
        return sum(map(len, self._tap.chunks[self._place :]))

    def first_trace(self) -> bytes:
        """All there is."""
        self._feed_chunks()
        trace = self._reading.trace(done=self.done)
        trace.row = self._tap.to_row()
        return encode_redacted(trace, self._secrets)

    def take_update(self) -> bytes:
        """What is new; nothing where nothing is."""
        self._feed_chunks()
        made = self._reading.take_update(done=self.done)
        said = self.done or made.frames or made.events or made.outputs or made.marks
        return encode_redacted(made, self._secrets) if said else b""

    def _feed_chunks(self) -> None:
        over = self._tap.finished  # before the chunks: none comes after it
        chunks = self._tap.chunks_from(self._place)
        self._place += len(chunks)
        self._reading.feed(chunks)
        if over:
            self._source.end = self._tap.fault
            self._source.left = self._tap.client_left
            self._reading.finish()
            self.done = True
