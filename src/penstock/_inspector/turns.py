"""The routes of turns: the list and its history, one turn, its texts, its file; recordings; figures.

Whose turns a caller sees is decided once, in `_tenant`. What takes its time is done in a thread.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast, get_args

from penstock._gateway.callers import make_refusal
from penstock._gateway.endpoints import IncomingRequest, query_decimal, query_integer
from penstock._http.response_writer import EventStream
from penstock._inspector import schemas, usage_series
from penstock._inspector.api import ApiResponse, contains_secret, encode_public, encode_redacted, sse_event
from penstock._inspector.traces import RecordingFolder, TraceReader, TraceSource, file_stamps
from penstock._store.history import JournalHistory, UsageGroup
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from penstock._gateway.services import Services
    from penstock._inspector.live_capture import LiveCaptures, TurnCapture, TurnListener
    from penstock._inspector.schemas import TurnRow
    from penstock._inspector.single_file import FileRoutes, WorkerSlots

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


DEFAULT_ROWS = 200  # rows
MAX_ROWS = 1_000  # rows at most
MAX_LISTENERS = 32  # who listen at once
DAY = 86_400.0


class TurnRoutes:
    """All of them. `files` makes the answers that a file would have, too."""

    def __init__(self, services: Services, watch: LiveCaptures, work: WorkerSlots, files: FileRoutes) -> None:
        self._services, self._watch, self._work, self._files = services, watch, work, files
        self._folder = RecordingFolder(services.recorder.folder)

    @property
    def _history(self) -> JournalHistory | None:
        found = self._services.journal.rows
        return JournalHistory(found) if found is not None else None

    def secrets(self) -> Iterable[str]:
        return self._services.secrets

    # ── the list ──────────────────────────────────────────────────────────────────────────────────

    async def live(self, visit: IncomingRequest) -> EventStream:
        """`GET /inspector/live`: the last turns, then every change."""
        if self._watch.listeners >= MAX_LISTENERS:
            raise make_refusal(503, "overloaded", f"{MAX_LISTENERS} pages watch already", retry_after=5.0)
        tenant = _visible_tenant(visit)
        listener = self._watch.add_listener(tenant)
        try:
            past = await self._work.run(lambda: self._read_history(None, "", DEFAULT_ROWS, tenant)[0])
        except BaseException:
            self._watch.remove_listener(listener)
            raise
        known = {row.id: row for row in past} | {row.id: row for row in self._watch.running_rows(tenant)}
        return EventStream(stream_turns(self._watch, listener, known.values(), self.secrets))

    async def turns(self, visit: IncomingRequest) -> ApiResponse:
        """`GET /inspector/turns`: what there was."""
        tenant, query = _visible_tenant(visit), visit.query
        before, limit = query_integer(query, "before", 0), min(query_integer(query, "limit", DEFAULT_ROWS), MAX_ROWS)
        found, more = await self._work.run(
            lambda: self._read_history(before or None, query.get("q", ""), limit, tenant)
        )
        return ApiResponse(encode_redacted({"rows": found, "before": more}, self.secrets()))

    def _read_history(
        self, before: int | None, search: str, limit: int, tenant: str | None
    ) -> tuple[list[schemas.TurnRow], int | None]:
        history = self._history
        if history is None:
            return [], None
        self._services.journal.flush()
        found = history.page(before=before, search=search[:200], limit=limit, tenant=tenant)
        taped = self._folder.names()
        made = [schemas.row_from_journal(turn, held=self._is_held(turn, taped)) for _, turn in found]
        return made, found[-1][0] if len(found) == limit and found else None

    def _is_held(self, turn: Any, taped: frozenset[str]) -> bool:
        """Whether there is something to look at: in memory, or, as far as a name tells, in a recording."""
        tap = self._watch.captures.get(turn.request_id)
        if tap is not None:
            return not tap.dropped
        return bool(taped) and not taped.isdisjoint(file_stamps(turn.time))

    # ── one turn ──────────────────────────────────────────────────────────────────────────────────

    async def turn(self, visit: IncomingRequest) -> ApiResponse:
        """`GET /inspector/turns/ID`: its trace, as far as it has come."""
        return await self._work.run(lambda: self._files.trace_response(self._source(visit), visit.query))

    async def frame(self, visit: IncomingRequest) -> ApiResponse:
        """`…/frames/N`: the whole text of one."""
        return await self._single_text(visit, "frame")

    async def output(self, visit: IncomingRequest) -> ApiResponse:
        """`…/outputs/N`: the same of what the client got."""
        return await self._single_text(visit, "output")

    async def _single_text(self, visit: IncomingRequest, kind: str) -> ApiResponse:
        query = {"as": visit.query.get("as", ""), kind: visit.params["two"]}
        return await self._work.run(lambda: self._files.trace_response(self._source(visit), query))

    async def export(self, visit: IncomingRequest) -> ApiResponse:
        """`…/export`: one HTML file."""
        return await self._work.run(lambda: self._files.export_response(self._source(visit), visit.query))

    async def follow(self, visit: IncomingRequest) -> ApiResponse | EventStream:
        """`…/follow`: its trace, then more of it, until it is over."""
        tap = self._watch.get(visit.params["one"], _visible_tenant(visit))
        consumer = visit.query.get("as", "")
        if tap is not None:
            if consumer and consumer not in tap.to_source().consumers:
                raise InputError(f"as: nobody is called {consumer[:100]!r}")
            return EventStream(stream_turn(self._watch, tap, consumer, self._work, self.secrets))
        return EventStream(_single_event(await self.turn(visit)))

    def _source(self, visit: IncomingRequest) -> TraceSource:
        """Where a turn's bytes are: in memory, else in a recording, else nowhere."""
        id, tenant = visit.params["one"], _visible_tenant(visit)  # noqa: A001
        tap = self._watch.get(id, tenant)
        if tap is not None and not tap.dropped:
            return tap.to_source()
        noted = tap.row if tap is not None else None
        if noted is None:
            self._services.journal.flush()
            history = self._history
            noted = history.find(id, tenant) if history is not None else None
        if noted is None:
            raise make_refusal(404, "not-found", f"there is no turn {id[:100]!r} here, or none that this key may see")
        source = self._folder.find_turn(noted.request_id, noted.time)
        if source is None:
            source = TraceSource(noted.upstream or noted.protocol or "events", [], lost=self._lost_reason(), left=True)
        source.row = schemas.row_from_journal(noted, held=bool(source.chunks))
        source.title = f"{noted.asked or noted.model} · {noted.protocol}"
        if source.own not in source.consumers or noted.protocol in source.consumers:
            source.own = noted.protocol or source.own
        return source

    def _lost_reason(self) -> str:
        recording = "nothing is recorded here" if self._folder.path is None else "it was not recorded"
        return f"nobody watched while it went by, and {recording}: there is only its row in the journal"

    # ── recordings ────────────────────────────────────────────────────────────────────────────────

    async def recordings(self, visit: IncomingRequest) -> ApiResponse:
        """`GET /inspector/recordings`: for those who see all turns; a recording does not say whose it is."""
        _require_all_turns(visit)
        return ApiResponse(
            encode_redacted({"recordings": await self._work.run(self._folder.list_recordings)}, self.secrets())
        )

    async def recording(self, visit: IncomingRequest) -> ApiResponse:
        """`GET /inspector/recordings/NAME`: its trace."""
        _require_all_turns(visit)
        return await self._work.run(
            lambda: self._files.trace_response(self._folder.open(visit.params["one"]), visit.query)
        )

    async def recording_export(self, visit: IncomingRequest) -> ApiResponse:
        """`GET /inspector/recordings/NAME/export`."""
        _require_all_turns(visit)
        return await self._work.run(
            lambda: self._files.export_response(self._folder.open(visit.params["one"]), visit.query)
        )

    # ── figures ───────────────────────────────────────────────────────────────────────────────────

    async def usage(self, visit: IncomingRequest) -> ApiResponse:
        """`GET /inspector/usage`."""
        tenant, query = _visible_tenant(visit), visit.query
        by = query.get("by", "model")
        if by not in get_args(UsageGroup):
            raise InputError(f"by: expected one of {', '.join(get_args(UsageGroup))}, found {by[:40]!r}")
        until = query_decimal(query, "until", time.time())
        since = query_decimal(query, "since", max(until - DAY, 0.0))
        step = usage_series.bucket_seconds(since, max(until, since + 1), query_decimal(query, "bucket", 0.0))
        made = await self._work.run(
            lambda: self._read_usage(cast("UsageGroup", by), since, max(until, since + 1), step, tenant)
        )
        return ApiResponse(encode_redacted(made, self.secrets()))

    def _read_usage(
        self, by: UsageGroup, since: float, until: float, step: float, tenant: str | None
    ) -> usage_series.UsageReport:
        self._services.journal.flush()
        history = self._history
        found = history.usage(by, since, until, tenant) if history is not None else []
        return usage_series.build_usage(found, by, since, until, step)

    async def tokens(self, visit: IncomingRequest) -> ApiResponse:
        """`GET /inspector/tokens`: estimates of the last 30 days, unless `since` says otherwise."""
        tenant, since = _visible_tenant(visit), query_decimal(visit.query, "since", time.time() - 30 * DAY)
        found = await self._work.run(lambda: self._read_accuracy(since, tenant))
        return ApiResponse(encode_redacted({"models": found}, self.secrets()))

    def _read_accuracy(self, since: float, tenant: str | None) -> list[usage_series.ModelAccuracy]:
        self._services.journal.flush()
        history = self._history
        return usage_series.build_accuracy(history.estimates(since, tenant)) if history is not None else []


async def _single_event(said: ApiResponse) -> AsyncIterator[bytes]:
    yield sse_event("trace", said.body)


def _visible_tenant(visit: IncomingRequest) -> str | None:
    """Whose turns the caller sees; None is everybody's."""
    return None if visit.caller.sees == "all" else visit.caller.tenant


def _require_all_turns(visit: IncomingRequest) -> None:
    if _visible_tenant(visit) is not None:
        said = "this key sees the turns of its own tenant only; recordings are not told apart"
        raise make_refusal(403, "permission", said, code="not_yours")
