"""The inspector's routes of turns and recordings: lists, traces, exports, usage; and the streams of live turns.

`_visible_tenant` decides whose turns a caller sees. Slow work runs in a thread. A stream ends when its reader leaves or
the gateway stops.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args

from penstock._gateway.callers import make_refusal
from penstock._gateway.endpoints import IncomingRequest, query_decimal, query_integer
from penstock._http.response_writer import EventStream
from penstock._inspector import schemas, usage_series
from penstock._inspector.api_router import ApiResponse, contains_secret, encode_public, encode_redacted, sse_event
from penstock._inspector.stream_traces import RecordingFolder, TraceReader, TraceSource, file_stamps
from penstock._store.journal_queries import JournalHistory, UsageGroup
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from penstock._gateway.services import Services
    from penstock._inspector.file_inspector import FileRoutes, WorkerSlots
    from penstock._inspector.live_capture import LiveCaptures, TurnCapture, TurnListener
    from penstock._inspector.schemas import TurnRow
    from penstock._store.journal import JournalEntry

T = TypeVar("T")
LIST_INTERVAL = 0.25  # seconds between two updates of the list
JOURNAL_INTERVAL = 1.0  # seconds between two looks for turns of other workers
TURN_INTERVAL = 0.05  # seconds between two updates of a turn
MAX_INLINE_BYTES = 256 * 1024  # traced in the event loop: faster than starting a thread


async def stream_turns(
    captures: LiveCaptures, listener: TurnListener, first: Iterable[TurnRow], secrets: Callable[[], Iterable[str]]
) -> AsyncIterator[bytes]:
    """Yields the list of turns, then its changes."""
    try:
        yield sse_event("turns", encode_redacted({"rows": list(first), "first": True}, secrets()))
        while not captures.closed:
            await listener.news.wait()
            changed = [captures.row(name, entry) for name, entry in listener.take_changes().items()]
            rows = [row for row in changed if row is not None]
            missed, listener.missed = listener.missed, 0
            if rows:
                yield sse_event("turns", encode_rows(rows, missed, tuple(secrets())))
            await asyncio.sleep(LIST_INTERVAL)
    finally:
        captures.remove_listener(listener)


async def stream_turn(
    captures: LiveCaptures, capture: TurnCapture, consumer: str, work: WorkerSlots, secrets: Callable[[], Iterable[str]]
) -> AsyncIterator[bytes]:
    """Yields the trace of one turn so far, then its updates until the turn ends."""
    news = asyncio.Event()
    capture.followers.append(news)
    try:
        while not capture.engine and not capture.finished and not captures.closed:  # there is no answer yet
            await news.wait()
            news.clear()
        follower = TurnFollower(capture, consumer, secrets())
        yield sse_event("trace", await work.run(follower.first_trace))
        while not follower.done and not captures.closed:
            with suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), 1.0)
            news.clear()
            inline = follower.waiting_bytes < MAX_INLINE_BYTES
            if update := follower.take_update() if inline else await work.run(follower.take_update):
                yield sse_event("more", update)
            await asyncio.sleep(TURN_INTERVAL)
    finally:
        capture.followers.remove(news)


def encode_rows(rows: list[TurnRow], missed: int, secrets: tuple[str, ...]) -> bytes:
    """Returns rows as JSON, with the number of rows that were missed. Rows without secrets are not redacted."""
    body = {"rows": rows, "missed": missed} if missed else {"rows": rows}
    if any(contains_secret(row.searchable_text, secrets) for row in rows):
        return encode_redacted(body, secrets)
    return encode_public(body)


class TurnFollower:
    """Traces a captured turn while it runs."""

    def __init__(self, capture: TurnCapture, consumer: str, secrets: Iterable[str]) -> None:
        self._capture = capture
        self._source = capture.to_source()
        self._secrets = [*secrets, *self._source.secrets]
        self._reader = TraceReader(self._source, consumer)
        self._chunk_count = 0
        self.done: bool = False

    @property
    def waiting_bytes(self) -> int:
        """Bytes that are not traced yet."""
        return sum(map(len, self._capture.chunks[self._chunk_count :]))

    def first_trace(self) -> bytes:
        """Returns the trace so far."""
        self._feed_chunks()
        trace = self._reader.trace(done=self.done)
        trace.row = self._capture.to_row()
        return encode_redacted(trace, self._secrets)

    def take_update(self) -> bytes:
        """Returns what is new; empty if nothing is."""
        self._feed_chunks()
        update = self._reader.take_update(done=self.done)
        is_new = self.done or update.frames or update.events or update.outputs or update.marks
        return encode_redacted(update, self._secrets) if is_new else b""

    def _feed_chunks(self) -> None:
        finished = self._capture.finished  # read before the chunks: none comes after it
        chunks = self._capture.chunks_from(self._chunk_count)
        self._chunk_count += len(chunks)
        self._reader.feed(chunks)
        if finished:
            self._source.end, self._source.client_left = self._capture.fault, self._capture.client_left
            self._reader.finish()
            self.done = True


DEFAULT_ROWS = 200
MAX_ROWS = 1_000
log = logging.getLogger("penstock.inspector")
MAX_LISTENERS = 32  # at once
DAY = 86_400.0


class TurnRoutes:
    """The routes. `files` makes the responses that traces of turns and of files share."""

    def __init__(self, services: Services, captures: LiveCaptures, work: WorkerSlots, files: FileRoutes) -> None:
        self._services, self._captures, self._work, self._files = services, captures, work, files
        self._folder = RecordingFolder(services.recorder.folder)

    def secrets(self) -> Iterable[str]:
        return self._services.secrets

    def _query(self, query: Callable[[JournalHistory], T]) -> T | None:
        """Returns the result of a query of the journal; None without a journal."""
        rows = self._services.journal.rows
        if rows is None:
            return None
        self._services.journal.flush()
        try:
            return query(JournalHistory(rows))
        except OSError as error:
            log.warning("the journal cannot be read: %s", error)
            raise make_refusal(503, "server", "the journal cannot be read just now", retry_after=1.0) from None

    def _respond(self, value: Any) -> ApiResponse:
        return ApiResponse(encode_redacted(value, self.secrets()))

    # ── the list ──────────────────────────────────────────────────────────────────────────────────

    async def live(self, incoming: IncomingRequest) -> EventStream:
        """`GET /inspector/live`: the last turns, then every change."""
        if len(self._captures.listeners) >= MAX_LISTENERS:
            raise make_refusal(503, "overloaded", f"{MAX_LISTENERS} pages watch already", retry_after=5.0)
        tenant = _visible_tenant(incoming)
        listener = self._captures.add_listener(tenant)
        try:
            past = await self._work.run(lambda: self._read_page(None, "", DEFAULT_ROWS, tenant)[0])
        except BaseException:
            self._captures.remove_listener(listener)
            raise
        rows = {row.id: row for row in past} | {row.id: row for row in self._captures.running_rows(tenant)}
        stream = stream_turns(self._captures, listener, rows.values(), self.secrets)
        if self._services.metrics.shared is not None:
            stream = self._with_other_workers(stream, listener, tenant)
        return EventStream(stream)

    async def _with_other_workers(
        self, stream: AsyncIterator[bytes], listener: TurnListener, tenant: str | None
    ) -> AsyncIterator[bytes]:
        """Adds the finished turns of other workers, which are in the journal only."""
        task = asyncio.create_task(self._follow_journal(listener, tenant))
        try:
            async for event in stream:
                yield event
        finally:
            task.cancel()

    async def _follow_journal(self, listener: TurnListener, tenant: str | None) -> None:
        def newest() -> list[tuple[int, JournalEntry]]:
            return self._query(lambda history: history.page(limit=DEFAULT_ROWS, tenant=tenant)) or []

        page = await self._work.run(newest)
        while True:
            last = page[0][0] if page else 0
            await asyncio.sleep(JOURNAL_INTERVAL)
            page = await self._work.run(newest)
            for row in reversed([row for number, row in page if number > last]):
                if row.request_id not in self._captures.captures:
                    listener.on_turn(row.request_id, row.tenant, row)

    async def turns(self, incoming: IncomingRequest) -> ApiResponse:
        """`GET /inspector/turns`: a page of finished turns."""
        tenant, query = _visible_tenant(incoming), incoming.query
        before, limit = query_integer(query, "before", 0), min(query_integer(query, "limit", DEFAULT_ROWS), MAX_ROWS)
        rows, following = await self._work.run(
            lambda: self._read_page(before or None, query.get("q", ""), limit, tenant)
        )
        return self._respond({"rows": rows, "before": following})

    def _read_page(
        self, before: int | None, search: str, limit: int, tenant: str | None
    ) -> tuple[list[schemas.TurnRow], int | None]:
        found = (
            self._query(lambda history: history.page(before=before, search=search[:200], limit=limit, tenant=tenant))
            or []
        )
        stamps = self._folder.names()
        rows = [schemas.row_from_journal(turn, held=self._is_held(turn, stamps)) for _, turn in found]
        return rows, found[-1][0] if len(found) == limit and found else None

    def _is_held(self, turn: Any, stamps: frozenset[str]) -> bool:
        """True if the turn's frames are in memory or, as far as file names tell, in a recording."""
        capture = self._captures.captures.get(turn.request_id)
        if capture is not None:
            return not capture.dropped
        return bool(stamps) and not stamps.isdisjoint(file_stamps(turn.time))

    # ── one turn ──────────────────────────────────────────────────────────────────────────────────

    async def turn(self, incoming: IncomingRequest) -> ApiResponse:
        """`GET /inspector/turns/ID`: its trace so far."""
        return await self._work.run(lambda: self._files.trace_response(self._source(incoming), incoming.query))

    async def text(self, kind: str, incoming: IncomingRequest) -> ApiResponse:
        """`…/frames/N` and `…/outputs/N`: the whole text of one. `kind`: `frame` or `output`."""
        query = {"as": incoming.query.get("as", ""), kind: incoming.params["two"]}
        return await self._work.run(lambda: self._files.trace_response(self._source(incoming), query))

    async def export(self, incoming: IncomingRequest) -> ApiResponse:
        """`…/export`: one HTML file."""
        return await self._work.run(lambda: self._files.export_response(self._source(incoming), incoming.query))

    async def breakdown(self, incoming: IncomingRequest) -> ApiResponse:
        """`…/breakdown`: the tokens of its prompt, line by line."""
        return await self._work.run(lambda: self._files.breakdown_response(self._source(incoming)))

    async def follow(self, incoming: IncomingRequest) -> EventStream:
        """`…/follow`: its trace, then updates until it ends."""
        capture = self._captures.get(incoming.params["one"], _visible_tenant(incoming))
        consumer = incoming.query.get("as", "")
        if capture is None:
            return EventStream(_single_event((await self.turn(incoming)).body))
        if consumer and consumer not in capture.to_source().consumers:
            raise InputError(f"as: nobody is called {consumer[:100]!r}")
        return EventStream(stream_turn(self._captures, capture, consumer, self._work, self.secrets))

    def _source(self, incoming: IncomingRequest) -> TraceSource:
        """Returns the bytes of a turn: from memory, else from a recording, else none."""
        id, tenant = incoming.params["one"], _visible_tenant(incoming)  # noqa: A001
        capture = self._captures.get(id, tenant)
        if capture is not None and not capture.dropped:
            return capture.to_source()
        entry = capture.entry if capture is not None else None
        entry = entry or self._query(lambda history: history.find(id, tenant))
        if entry is None:
            raise make_refusal(404, "not-found", f"there is no turn {id[:100]!r} here, or none that this key may see")
        source = self._folder.find_turn(entry.request_id, entry.time)
        if source is None:
            protocol = entry.upstream or entry.protocol or "events"
            source = TraceSource(protocol, [], lost=self._lost_reason(), client_left=True)
        source.row = schemas.row_from_journal(entry, held=bool(source.chunks))
        source.title = f"{entry.asked or entry.model} · {entry.protocol}"
        source.request_protocol, source.tenant = entry.protocol, entry.tenant
        if source.consumer not in source.consumers or entry.protocol in source.consumers:
            source.consumer = entry.protocol or source.consumer
        return source

    def _lost_reason(self) -> str:
        recording = "nothing is recorded here" if self._folder.path is None else "it was not recorded"
        return f"nobody watched while it went by, and {recording}: there is only its row in the journal"

    # ── recordings ────────────────────────────────────────────────────────────────────────────────

    async def recordings(self, incoming: IncomingRequest) -> ApiResponse:
        """`GET /inspector/recordings`: for callers who see all turns; a recording does not name its tenant."""
        _require_all_turns(incoming)
        return self._respond({"recordings": await self._work.run(self._folder.list_recordings)})

    async def recording(self, incoming: IncomingRequest) -> ApiResponse:
        """`GET /inspector/recordings/NAME`: its trace."""
        return await self._work.run(lambda: self._files.trace_response(self._recording(incoming), incoming.query))

    async def recording_export(self, incoming: IncomingRequest) -> ApiResponse:
        """`GET /inspector/recordings/NAME/export`."""
        return await self._work.run(lambda: self._files.export_response(self._recording(incoming), incoming.query))

    async def recording_breakdown(self, incoming: IncomingRequest) -> ApiResponse:
        """`GET /inspector/recordings/NAME/breakdown`."""
        return await self._work.run(lambda: self._files.breakdown_response(self._recording(incoming)))

    def _recording(self, incoming: IncomingRequest) -> TraceSource:
        _require_all_turns(incoming)
        return self._folder.open(incoming.params["one"])

    # ── usage ─────────────────────────────────────────────────────────────────────────────────────

    async def usage(self, incoming: IncomingRequest) -> ApiResponse:
        """`GET /inspector/usage`: sums over time."""
        tenant, query = _visible_tenant(incoming), incoming.query
        by = query.get("by", "model")
        if by not in get_args(UsageGroup):
            raise InputError(f"by: expected one of {', '.join(get_args(UsageGroup))}, found {by[:40]!r}")
        until = query_decimal(query, "until", time.time())
        since = query_decimal(query, "since", max(until - DAY, 0.0))
        until = max(until, since + 1)
        step = usage_series.bucket_seconds(since, until, query_decimal(query, "bucket", 0.0))

        def read() -> usage_series.UsageReport:
            points = self._query(lambda history: history.usage(cast("UsageGroup", by), since, until, tenant)) or []
            return usage_series.build_usage(points, by, since, until, step)

        return self._respond(await self._work.run(read))

    async def tokens(self, incoming: IncomingRequest) -> ApiResponse:
        """`GET /inspector/tokens`: estimates of the last 30 days, unless `since` is given."""
        tenant, now = _visible_tenant(incoming), time.time()
        since = query_decimal(incoming.query, "since", now - 30 * DAY)

        def read() -> dict[str, Any]:
            models = usage_series.build_accuracy(self._query(lambda history: history.estimates(since, tenant)) or [])
            if models:
                return {"models": models}
            rows = self._query(lambda history: history.usage("model", since, now + 1, tenant)) or []
            sampling = self._services.config.features.estimates
            return {"models": [], "seen": usage_series.count_turns(rows, sampling=sampling)}

        return self._respond(await self._work.run(read))


async def _single_event(trace: bytes) -> AsyncIterator[bytes]:
    yield sse_event("trace", trace)


def _visible_tenant(incoming: IncomingRequest) -> str | None:
    """Returns the tenant whose turns the caller sees; None means all."""
    return None if incoming.caller.sees == "all" else incoming.caller.tenant


def _require_all_turns(incoming: IncomingRequest) -> None:
    if _visible_tenant(incoming) is not None:
        message = "this key sees the turns of its own tenant only; recordings are not told apart"
        raise make_refusal(403, "permission", message, code="not_yours")
