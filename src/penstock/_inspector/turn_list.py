"""The routes of the list of turns: searches of the history, the live list, completion of queries.

A caller sees, searches, completes and counts only the turns that it may see (`visible_tenant`).
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, cast, get_args

from penstock._gateway.callers import Refusal
from penstock._gateway.endpoints import IncomingRequest, query_integer
from penstock._http.response_writer import EventStream
from penstock._inspector import schemas
from penstock._inspector.api_router import ApiResponse, encode_in_worker, encode_redacted
from penstock._inspector.journal_access import read_journal, visible_tenant
from penstock._inspector.live_feed import ClosableStream, LiveFeed
from penstock._inspector.query_completion import Completion, QueryProblem, complete_query, find_problem
from penstock._inspector.stream_traces import RecordingFolder, file_stamps
from penstock._inspector.tenant_limits import StreamLimits
from penstock._inspector.turn_preview import TurnPreview, TurnPreviews
from penstock._inspector.turn_query import MAX_QUERY_CHARACTERS, QueryError, TurnQuery, parse_query
from penstock._inspector.turn_query_hints import find_hints
from penstock._inspector.turn_query_terms import STATE_VALUES
from penstock._store.journal_queries import JournalHistory, SortColumn, TurnCounts, count_rows
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence

    from penstock._gateway.services import Services
    from penstock._inspector.capture_ring import LiveCaptures
    from penstock._inspector.file_inspector import WorkerSlots
    from penstock._inspector.row_bounds import RowBounds
    from penstock._inspector.turn_listeners import TurnListener
    from penstock._store.journal import JournalEntry

DEFAULT_ROWS = 200
MAX_ROWS = 1_000
MAX_LISTENERS = 32  # pages that watch at once
MAX_TENANT_LISTENERS = 12  # of one tenant
MAX_PREVIEW_IDS = 100  # in one request
PARTIAL = "\0partial"  # names the turns that are kept only in part; no phrase has such a name
JOURNAL_INTERVAL = 1.0  # seconds between two looks for turns of other workers


class TurnListRoutes:
    """The routes."""

    def __init__(self, services: Services, captures: LiveCaptures, work: WorkerSlots, bounds: RowBounds) -> None:
        self._services, self._captures, self._work, self._bounds = services, captures, work, bounds
        self._folder = RecordingFolder(services.recorder.folder)
        self._previews = TurnPreviews()
        self._listeners = StreamLimits(MAX_LISTENERS, MAX_TENANT_LISTENERS)
        captures.on_deletion.append(self._previews.clear)

    async def _respond(self, value: Any) -> ApiResponse:
        return ApiResponse(await encode_in_worker(value, self._services.secrets, self._work))

    def find_phrases(self, query: TurnQuery, tenant: str | None) -> Mapping[str, Collection[str]]:
        """Returns for each phrase of a query the ids of kept turns whose texts hold it. Not for the event loop."""
        return {phrase: self._captures.text_index.find_turns(phrase, tenant) for phrase in query.phrases}

    # ── history ───────────────────────────────────────────────────────────────────────────────────

    async def turns(self, incoming: IncomingRequest) -> ApiResponse:
        """`GET /inspector/turns`: a page of finished turns that match a query, and how many there are.

        The first page also says what may surprise in the query (`hints`), and of how many turns only a part could be
        searched (`partial`). Pages with the same `upto` fit together while new turns come. `state` narrows the list,
        but not the counts by state.
        """
        tenant, values = visible_tenant(incoming), incoming.query
        try:
            query = parse_query(values.get("q", ""), time.time())
            states = _read_states(values.get("state", ""))
        except QueryError as error:
            return _query_error(error)
        page: dict[str, Any] = {
            "hints": find_hints(values.get("q", "")),
            "states": states,
            "upto": self._read_bound(incoming, "upto"),
            "offset": query_integer(values, "offset", 0),
            "limit": min(query_integer(values, "limit", DEFAULT_ROWS), MAX_ROWS),
            "sort": _choice(values, "sort", get_args(SortColumn)),
            "ascending": _choice(values, "order", ("desc", "asc")) == "asc",
        }
        return await self._respond(await self._work.run(lambda: self._read_page(query, tenant, **page)))

    def _read_page(
        self,
        query: TurnQuery,
        tenant: str | None,
        *,
        hints: list[QueryProblem],
        states: TurnQuery,
        upto: int,
        offset: int,
        limit: int,
        sort: str,
        ascending: bool,
    ) -> dict[str, Any]:
        found = self.find_phrases(query, tenant)

        def read(history: JournalHistory) -> dict[str, Any]:
            last = upto or history.last_id(tenant)
            condition = query.to_sql(found, history.among)
            rows = history.search(
                condition.also(states.to_sql({}, history.among)),
                tenant=tenant,
                upto=last,
                sort=cast("SortColumn", sort),
                ascending=ascending,
                offset=offset,
                limit=limit,
                most=0 if upto else MAX_ROWS,
            )
            bound = self._bounds.encode(last, tenant)
            page: dict[str, Any] = {"rows": self.make_rows(rows[:limit]), "upto": bound, "offset": offset}
            if not upto:  # the first page also counts; if these are all rows, they need not be read again
                whole = offset == 0 and len(rows) not in {limit, MAX_ROWS} and not states.terms
                counts = count_rows(rows) if whole else history.count(condition, tenant=tenant, upto=last)
                page |= _count_fields(counts, states)
                page |= {"partial": self._count_partial(query, states, tenant, history, last), "hints": hints}
            return page

        empty: dict[str, Any] = {"rows": [], "upto": 0, "offset": 0, **_count_fields(TurnCounts(), states)}
        return read_journal(self._services, read) or {**empty, "partial": 0, "hints": hints}

    def _count_partial(
        self, query: TurnQuery, states: TurnQuery, tenant: str | None, history: JournalHistory, upto: int
    ) -> int:
        """Returns how many turns the words of a query were looked for in, though only a part of each is kept."""
        cut = self._captures.text_index.find_cut_turns(tenant) if query.phrases else ()
        if not cut:
            return 0
        condition = query.without_phrases().to_sql({}, history.among).also(states.to_sql({}, history.among))
        return history.count(condition.also(history.among(cut, PARTIAL)), tenant=tenant, upto=upto).total

    def _read_bound(self, incoming: IncomingRequest, name: str) -> int:
        """Returns a row number that an earlier answer gave; 0 without one."""
        given = query_integer(incoming.query, name, 0)
        return self._bounds.decode(given, visible_tenant(incoming)) if given else 0

    def make_rows(self, turns: Sequence[JournalEntry]) -> list[schemas.TurnRow]:
        """Returns the rows of finished turns."""
        stamps, kept = self._folder.names(), self._captures.find_kept([turn.request_id for turn in turns])

        def is_held(turn: JournalEntry) -> bool:  # as far as the names of recordings tell
            return turn.request_id in kept or (bool(stamps) and not stamps.isdisjoint(file_stamps(turn.time)))

        return [schemas.row_from_journal(turn, held=is_held(turn)) for turn in turns]

    async def previews(self, incoming: IncomingRequest) -> ApiResponse:
        """`GET /inspector/previews?ids=`: how the prompts and answers of kept turns begin, by id."""
        tenant = visible_tenant(incoming)
        ids = incoming.query.get("ids", "").split(",")[:MAX_PREVIEW_IDS]

        def read() -> bytes:
            secrets = [*self._services.secrets]
            found: dict[str, TurnPreview] = {}
            for name in ids:
                turn = self._captures.find_turn(name, tenant)
                if turn is not None:
                    source = turn.to_source()
                    finished = source.row is None or source.row.state not in {"open", "streaming"}
                    found[name] = self._previews.read(name, source, finished=finished)
                    secrets += source.secrets
            return encode_redacted(found, secrets)

        return ApiResponse(await self._work.run(read))

    # ── live ──────────────────────────────────────────────────────────────────────────────────────

    async def live(self, incoming: IncomingRequest) -> EventStream | ApiResponse:
        """`GET /inspector/live`: the turns that match a query since `after`, or the latest; then every change."""
        tenant, after = visible_tenant(incoming), self._read_bound(incoming, "after")
        try:
            query = parse_query(incoming.query.get("q", ""), time.time())
        except QueryError as error:
            return _query_error(error)
        close_stream = self._listeners.open_stream(tenant)
        listener = self._captures.add_listener(tenant)

        def close() -> None:
            close_stream()
            self._captures.remove_listener(listener)

        try:
            first = await self._work.run(lambda: self._read_latest(query, tenant, after))
        except BaseException:
            close()
            raise
        last = first.pop("last")
        feed = LiveFeed(
            self._captures,
            listener,
            query,
            lambda: self.find_phrases(query, tenant),
            self._work,
            lambda: self._services.secrets,
        )
        stream = feed.stream(first)
        if self._services.metrics.shared is not None:
            stream = self._with_other_workers(stream, listener, tenant, last)
        return EventStream(ClosableStream(stream, close))

    def _read_latest(self, query: TurnQuery, tenant: str | None, after: int) -> dict[str, Any]:
        """Returns the first event: the latest turns, or those since `after`. `stale`: there are too many of these."""
        found = self.find_phrases(query, tenant)

        def read(history: JournalHistory) -> dict[str, Any]:
            last = history.last_id(tenant)
            condition = query.to_sql(found, history.among)
            rows = history.search(condition, tenant=tenant, after=after, upto=last, limit=DEFAULT_ROWS)
            stale = {"stale": True} if after and len(rows) == DEFAULT_ROWS else {}
            return {"rows": self.make_rows(rows), "last": last, **stale}

        return read_journal(self._services, read) or {"rows": [], "last": 0}

    async def _with_other_workers(
        self, stream: AsyncGenerator[bytes], listener: TurnListener, tenant: str | None, last: int
    ) -> AsyncGenerator[bytes]:
        """Adds the finished turns of other workers, which are in the journal only."""
        task = asyncio.create_task(self._follow_journal(listener, tenant, last))
        try:
            async for event in stream:
                yield event
        finally:
            task.cancel()

    async def _follow_journal(self, listener: TurnListener, tenant: str | None, last: int) -> None:
        def newest() -> Iterable[tuple[int, JournalEntry]]:
            return read_journal(self._services, lambda history: history.page(limit=DEFAULT_ROWS, tenant=tenant)) or []

        while True:
            await asyncio.sleep(JOURNAL_INTERVAL)
            try:
                found = await self._work.run(newest)
            except Refusal:  # the journal cannot be read just now, or too much is going on: the next look finds all
                continue
            page = [(number, row) for number, row in found if number > last]
            for _, row in reversed(page):
                if row.request_id not in self._captures.captures:
                    listener.on_turn(row.request_id, row.tenant, row)
            last = page[0][0] if page else last

    # ── completion ────────────────────────────────────────────────────────────────────────────────

    async def complete(self, incoming: IncomingRequest) -> ApiResponse:
        """`GET /inspector/complete`: fields, or values of a field, that fit where the cursor is (`at`)."""
        tenant, text = visible_tenant(incoming), incoming.query.get("q", "")
        at = min(query_integer(incoming.query, "at", len(text)), len(text))

        def read() -> Completion:
            def values_of(columns: Sequence[str]) -> Mapping[str, int]:
                found = read_journal(self._services, lambda history: history.values_of(columns, tenant))
                return found or {}

            completion = complete_query(text[:MAX_QUERY_CHARACTERS], at, values_of)
            completion.error = find_problem(text, time.time())
            return completion

        return await self._respond(await self._work.run(read))


def _query_error(error: QueryError) -> ApiResponse:
    """Returns a response that says where in the query the error is."""
    where = {"position": error.position, "length": error.length}
    body = {"error": {"message": str(error), "code": "query", **where}}
    return ApiResponse(encode_redacted(body), status=400)


def _read_states(text: str) -> TurnQuery:
    """Returns the query for states that the list is narrowed to. Only what is counted by state can be."""
    states = parse_query(f"state:{text}", 0.0) if text else TurnQuery()
    if any(value not in STATE_VALUES for term in states.terms for value in term.values):
        raise InputError(f"state: expected some of {', '.join(STATE_VALUES)}; found {text[:40]!r}")
    return states


def _count_fields(counts: TurnCounts, states: TurnQuery) -> dict[str, Any]:
    """Returns the counts of a search. `states`: those that the list shows; the counts by state are of all."""
    shown = {state for term in states.terms for value in term.values for state in STATE_VALUES[value]}
    total = sum(counts.states.get(state, 0) for state in shown) if shown else counts.total
    return {"total": total, "requests": counts.requests, "states": counts.states}


def _choice(values: Mapping[str, str], name: str, choices: Sequence[str]) -> str:
    """Returns a parameter that is one of some words; the first of them if it is not given."""
    value = values.get(name) or choices[0]
    if value not in choices:
        raise InputError(f"{name}: expected one of {', '.join(choices)}; found {value[:40]!r}")
    return value
