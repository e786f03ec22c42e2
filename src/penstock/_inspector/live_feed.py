"""The live list of turns: server-sent events with the turns that match a query, as they begin, grow and end.

`turns` has changed rows, in `updates` rows of turns that ended earlier, and in `gone` the ids of turns that match no
longer. `progress` has bytes and times of running turns, `removed` the ids of turns whose frames can no longer be shown.
Turns are matched here, so that the page needs no query language of its own.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock._inspector.api_router import (
    MAX_INLINE_JSON,
    contains_secret,
    encode_in_worker,
    encode_public,
    encode_redacted,
    sse_event,
)
from penstock._store.journal import JournalEntry, TurnFacts

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping

    from penstock._inspector.capture_ring import LiveCaptures
    from penstock._inspector.file_inspector import WorkerSlots
    from penstock._inspector.schemas import TurnRow
    from penstock._inspector.turn_listeners import TurnListener
    from penstock._inspector.turn_query import TurnQuery

LIST_INTERVAL = 0.25  # seconds between two updates of the list
PROGRESS_INTERVAL = 1.0  # seconds between two updates of running turns


class LiveFeed:
    """The feed of one page. `find_phrases` looks up the phrases of the query among the texts of kept turns."""

    def __init__(
        self,
        captures: LiveCaptures,
        listener: TurnListener,
        query: TurnQuery,
        find_phrases: Callable[[], Mapping[str, Collection[str]]],
        work: WorkerSlots,
        secrets: Callable[[], Iterable[str]],
    ) -> None:
        self._captures, self._listener, self._query = captures, listener, query
        self._find_phrases, self._work, self._secrets = find_phrases, work, secrets
        self._running: set[str] = set()  # running turns that the page shows

    async def stream(self, first: dict[str, Any]) -> AsyncGenerator[bytes]:
        """Yields the first list, then its changes, until the gateway stops. `first`: the body of the first event."""
        captures, listener = self._captures, self._listener
        rows = [*first["rows"], *await self.running_rows()]
        body = {**first, "rows": rows, "first": True, "now": time.time()}
        yield sse_event("turns", await encode_in_worker(body, self._secrets(), self._work))
        while not captures.closed:
            with suppress(TimeoutError):
                async with asyncio.timeout(PROGRESS_INTERVAL if self._running else None):
                    await listener.news.wait()
            if listener.news.is_set():
                if data := await self._take_changes():
                    yield sse_event("turns", data)
                if removed := listener.take_removals():
                    yield sse_event("removed", encode_public({"ids": removed}))
                await asyncio.sleep(LIST_INTERVAL)
            elif progress := self._read_progress():
                yield sse_event("progress", encode_public({"now": time.time(), "turns": progress}))

    async def running_rows(self) -> list[TurnRow]:
        """Returns the running turns that match."""
        rows = self._captures.running_rows(self._listener.tenant)
        found = await self._find(rows)
        matching = [row for row in rows if self._query.matches(entry_of_running(row), row.state, found)]
        self._running.update(row.id for row in matching)
        return matching

    async def _take_changes(self) -> bytes:
        """Returns the changes since the last call as JSON; empty if there are none."""
        captures, listener = self._captures, self._listener
        changed = [(captures.row(name, change.row), change) for name, change in listener.take_changes().items()]
        found = await self._find(changed)
        rows: list[TurnRow] = []
        updates: list[TurnRow] = []
        gone: list[str] = []
        for row, change in changed:
            if row is None:
                continue
            running = row.state if row.state in {"open", "streaming"} else ""
            if self._query.matches(change.row if change.row is not None else entry_of_running(row), running, found):
                (updates if change.is_update else rows).append(row)
                (self._running.add if running else self._running.discard)(row.id)
            elif row.id in self._running:
                self._running.discard(row.id)
                gone.append(row.id)
        missed, listener.missed = listener.missed, 0
        body: dict[str, Any] = {"updates": updates, "gone": gone, "missed": missed}
        body = {"rows": rows, **{name: value for name, value in body.items() if value}}
        if len(body) == 1 and not rows:
            return b""
        shown, secrets = [*rows, *updates], tuple(self._secrets())
        if sum(len(row.searchable_text) for row in shown) <= MAX_INLINE_JSON:
            return _encode_rows(body, shown, secrets)
        return await self._work.run(lambda: _encode_rows(body, shown, secrets))

    async def _find(self, changed: Collection[object]) -> Mapping[str, Collection[str]]:
        return await self._work.run(self._find_phrases) if changed and self._query.phrases else {}

    def _read_progress(self) -> dict[str, tuple[int, float | None]]:
        captures = self._captures.captures
        running = [captures[name] for name in self._running if name in captures]
        return {capture.id: capture.read_progress() for capture in running if not capture.finished}


def _encode_rows(body: dict[str, Any], rows: Iterable[TurnRow], secrets: tuple[str, ...]) -> bytes:
    """Returns changes as JSON. Only rows with a secret, which are rare, are redacted."""
    if any(contains_secret(row.searchable_text, secrets) for row in rows):
        return encode_redacted(body, secrets)
    return encode_public(body)


class ClosableStream:
    """A stream of events that calls `on_close` when it is closed, also if nothing was read of it.

    A reader may leave before the first event. The `finally` of a generator that was never started does not run.
    """

    def __init__(self, events: AsyncGenerator[bytes], on_close: Callable[[], None]) -> None:
        self._events, self._on_close = events, on_close

    def __aiter__(self) -> ClosableStream:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._events)

    async def aclose(self) -> None:
        """Ends the stream."""
        try:
            await self._events.aclose()
        finally:
            self._on_close()


def entry_of_running(row: TurnRow) -> JournalEntry:
    """Returns what is known of a running turn as a row of the journal, to be matched."""
    facts = {name: getattr(row, name) for name in TurnFacts.__struct_fields__}
    return JournalEntry(request_id=row.id, decisions="\n".join(row.decisions), **facts)
