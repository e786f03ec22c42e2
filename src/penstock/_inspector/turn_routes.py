"""The inspector's routes of single turns and recordings: traces, exports, usage; and the streams of live turns.

`visible_tenant` decides whose turns a caller sees. Slow work runs in a thread. A stream ends when its reader leaves or
the gateway stops.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args

from penstock._gateway.callers import make_refusal
from penstock._gateway.endpoints import IncomingRequest, query_decimal
from penstock._http.response_writer import EventStream
from penstock._inspector import schemas, trace_pages, usage_series
from penstock._inspector.api_router import ApiResponse, encode_in_worker
from penstock._inspector.journal_access import read_journal, visible_tenant
from penstock._inspector.kept_turn import KeptTurn
from penstock._inspector.live_feed import ClosableStream
from penstock._inspector.stream_traces import RecordingFolder, TraceSource, format_title
from penstock._inspector.tenant_limits import StreamLimits
from penstock._store.journal_queries import JournalHistory, UsageGroup
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable

    from penstock._gateway.services import Services
    from penstock._inspector.capture_ring import LiveCaptures
    from penstock._inspector.file_inspector import FileRoutes, WorkerSlots
    from penstock._inspector.live_capture import TurnCapture
    from penstock._store.journal import JournalEntry

T = TypeVar("T")
DAY = 86_400.0
MAX_FOLLOWERS = 24  # pages that read a trace at once
MAX_TENANT_FOLLOWERS = 6  # of one tenant


class TurnRoutes:
    """The routes. `files` makes the responses that traces of turns and of files share."""

    def __init__(self, services: Services, captures: LiveCaptures, work: WorkerSlots, files: FileRoutes) -> None:
        self._services, self._captures, self._work, self._files = services, captures, work, files
        self._folder = RecordingFolder(services.recorder.folder)
        self.followers: StreamLimits = StreamLimits(MAX_FOLLOWERS, MAX_TENANT_FOLLOWERS)

    def secrets(self) -> Iterable[str]:
        return self._services.secrets

    def _query(self, query: Callable[[JournalHistory], T]) -> T | None:
        """Returns the result of a query of the journal; None without a journal."""
        return read_journal(self._services, query)

    async def _respond(self, value: Any) -> ApiResponse:
        return ApiResponse(await encode_in_worker(value, self.secrets(), self._work))

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
        close_stream = self.followers.open_stream(visible_tenant(incoming))
        try:
            return EventStream(ClosableStream(await self._open_trace(incoming), close_stream))
        except BaseException:
            close_stream()
            raise

    async def _open_trace(self, incoming: IncomingRequest) -> AsyncGenerator[bytes]:
        capture = self._captures.get(incoming.params["one"], visible_tenant(incoming))
        consumer = incoming.query.get("as", "")
        if capture is None or (capture.dropped and capture.finished):
            source = await self._work.run(lambda: self._source(incoming))
            return trace_pages.stream_source(source, consumer, self._work, self.secrets)
        if consumer and consumer not in capture.to_source().consumers:
            raise InputError(f"as: nobody is called {consumer[:100]!r}")
        return trace_pages.stream_turn(self._captures, capture, consumer, self._work, self.secrets)

    def _find_turn(self, incoming: IncomingRequest) -> TurnCapture | KeptTurn | None:
        """Returns the turn that the path names, with its content; None if that is not kept."""
        return self._captures.find_turn(incoming.params["one"], visible_tenant(incoming))

    def find_request(self, incoming: IncomingRequest) -> tuple[TraceSource, dict[str, str]]:
        """Returns a turn that the caller may see, and the headers of its request, redacted."""
        turn = self._find_turn(incoming)
        return self._source(incoming), turn.client_headers if turn is not None else {}

    def _source(self, incoming: IncomingRequest) -> TraceSource:
        """Returns the bytes of a turn: from memory, else from a recording, else none."""
        id, tenant = incoming.params["one"], visible_tenant(incoming)  # noqa: A001
        turn = self._find_turn(incoming)
        if turn is not None:
            if isinstance(turn, KeptTurn):  # its row may have got an estimate since it was written
                turn.entry = self._find_entry(id, tenant) or turn.entry
            return turn.to_source()
        capture = self._captures.get(id, tenant)
        entry = capture.entry if capture is not None else None
        entry = entry or self._find_entry(id, tenant)
        if entry is None and capture is not None:  # it still runs, and was dropped
            return replace(capture.to_source(), gone=True, client_left=True)
        if entry is None:
            raise make_refusal(404, "not-found", f"there is no turn {id[:100]!r} here, or none that this key may see")
        protocol = entry.upstream or entry.protocol or "events"
        source = self._folder.find_turn(entry.request_id, entry.time, protocol)
        if source is None:
            source = TraceSource(protocol, [], lost=self._captures.explain_missing(entry), client_left=True, gone=True)
        source.row = schemas.row_from_journal(entry, held=bool(source.chunks))
        source.title = format_title(entry.asked or entry.model, entry.protocol)
        source.request_protocol, source.tenant = entry.protocol, entry.tenant
        if source.consumer not in source.consumers or entry.protocol in source.consumers:
            source.consumer = entry.protocol or source.consumer
        return source

    def _find_entry(self, id: str, tenant: str | None) -> JournalEntry | None:
        """Returns the row of a turn in the journal."""
        return self._query(lambda history: history.find(id, tenant))

    # ── recordings ────────────────────────────────────────────────────────────────────────────────

    async def recordings(self, incoming: IncomingRequest) -> ApiResponse:
        """`GET /inspector/recordings`: for callers who see all turns; a recording does not name its tenant."""
        _require_all_turns(incoming)
        return await self._respond({"recordings": await self._work.run(self._folder.list_recordings)})

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
        tenant, query = visible_tenant(incoming), incoming.query
        by = query.get("by", "model")
        if by not in get_args(UsageGroup):
            raise InputError(f"by: expected one of {', '.join(get_args(UsageGroup))}, found {by[:40]!r}")
        until = query_decimal(query, "until", time.time())
        since = math.floor(query_decimal(query, "since", max(until - DAY, 0.0)))
        until = max(math.ceil(until), since + 1)  # whole seconds: the query for the same time has no others
        step = usage_series.bucket_seconds(since, until, query_decimal(query, "bucket", 0.0))

        def read() -> usage_series.UsageReport:
            points = self._query(lambda history: history.usage(cast("UsageGroup", by), since, until, tenant)) or []
            return usage_series.build_usage(points, by, since, until, step)

        return await self._respond(await self._work.run(read))

    async def tokens(self, incoming: IncomingRequest) -> ApiResponse:
        """`GET /inspector/tokens`: estimates of the last 30 days, unless `since` is given."""
        tenant, now = visible_tenant(incoming), time.time()
        since = query_decimal(incoming.query, "since", now - 30 * DAY)

        def read() -> dict[str, Any]:
            models = usage_series.build_accuracy(self._query(lambda history: history.estimates(since, tenant)) or [])
            if models:
                return {"models": models}
            rows = self._query(lambda history: history.usage("model", since, now + 1, tenant)) or []
            sampling = self._services.config.features.estimates
            return {"models": [], "seen": usage_series.count_turns(rows, sampling=sampling)}

        return await self._respond(await self._work.run(read))


def _require_all_turns(incoming: IncomingRequest) -> None:
    if visible_tenant(incoming) is not None:
        message = "this key sees the turns of its own tenant only; recordings are not told apart"
        raise make_refusal(403, "permission", message, code="not_yours")
