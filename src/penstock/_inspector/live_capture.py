"""Captures running turns in memory while somebody watches: their chunks with times, within bounds.

`on_read` runs for every read of an answer, so it only appends to two lists. Chunks are decoded when somebody looks at
the turn.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import OrderedDict
from contextlib import suppress
from copy import deepcopy
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from penstock import events as ev
from penstock._gateway import client_stream
from penstock._inspector import schemas
from penstock._inspector.stream_traces import TraceSource
from penstock.request import Request

if TYPE_CHECKING:
    from penstock._engines.engine_interface import ChunkEvents
    from penstock._engines.reply import ModelReply
    from penstock._gateway.endpoints import TurnRequest
    from penstock._gateway.turn import ActiveTurn
    from penstock._store.journal import JournalEntry

MAX_TURN_BYTES = 4 * 2**20  # bytes of one turn
LOOK, LARGE = 32, 4096  # chunks between two measurements; bytes of a chunk that is measured at once
CHUNK_OVERHEAD = 64  # bytes of memory per chunk, in addition to its data
MAX_NOTICES = 100  # sent to the client before the answer
MAX_REQUEST_BYTES = 2**20  # bytes of a request's body
_LOST_REST = "only the beginning is here: a turn is kept in memory up to {most} MB while somebody watches"
_LOST_ALL = "its frames were dropped: too much was going on at once for the memory that watching may take"
_EVENTS_NOTE = "the engine {engine!r} hands out events, not bytes: the frames here are those events as lines"
_NO_ANSWER = "no provider has answered: there are no frames"
_now = time.monotonic
_encode = msgspec.json.Encoder().encode_lines


class TurnCapture:
    """The capture of one turn. `turn` is set while it runs, `entry` (its row of the journal) after its end."""

    def __init__(self, turn: ActiveTurn, store: LiveCaptures) -> None:
        incoming = turn.incoming
        assert turn.turn_request is not None  # noqa: S101 — captured turns have a request
        self.id: str = incoming.id
        self.tenant: str = incoming.caller.tenant
        self.secret: str = incoming.caller.secret
        self.time: float = time.time() - (time.monotonic() - incoming.started)
        self.turn: ActiveTurn | None = turn
        self.entry: JournalEntry | None = None
        self.turn_request: TurnRequest = turn.turn_request
        self.request: bytes = incoming.raw[:MAX_REQUEST_BYTES]
        self.request_cut: bool = len(incoming.raw) > MAX_REQUEST_BYTES
        self.chunks: list[bytes] = []
        self.size: int = len(self.request)
        self.cut: bool = False
        self.dropped: bool = False
        self.followers: list[asyncio.Event] = []
        self.engine: str = ""
        self.protocol: str = ""
        self.framing: str = "auto"
        self.raw: bool = True
        self.passthrough: bool = False
        self.transforms: tuple[Any, ...] = ()
        self.cleared: Any = None
        self.notices: tuple[bytes, ...] = ()
        self.fault: ev.Fault | None = None
        self._began, self._store = incoming.started, store
        self._times, self._unmeasured = array("d"), 0  # chunks
        store.on_growth(self, self.size)

    # ── called by the turn ──────────────────────────────────────────────────────────────────────────

    def on_reply(self, reply: ModelReply) -> None:
        """The answer begins."""
        self.engine, self.raw, self.cleared = reply.engine, reply.raw, reply.cleared
        self.protocol = reply.protocol if reply.raw else "events"
        self.framing = reply.framing if reply.raw else "ndjson"
        if reply.raw and reply.transforms:
            self.transforms = deepcopy(reply.transforms)
        self._store.on_change(self)
        self.wake_followers()

    def on_notice(self, payload: bytes) -> None:
        """The client got a frame before the answer."""
        self.notices = (*self.notices, payload)[:MAX_NOTICES]

    def on_read(self, pair: ChunkEvents) -> None:
        """Keeps the bytes of one read. Sizes are measured from time to time, that of a large chunk at once."""
        data = pair[0] if self.raw else _encode(pair[1])
        if not data or self.cut:
            return
        self._times.append(_now())
        self.chunks.append(data)
        self._unmeasured += 1
        if self._unmeasured >= LOOK or len(data) > LARGE:
            self._measure()
        if self.followers:
            self.wake_followers()

    def _measure(self) -> None:
        fresh = self.chunks[-self._unmeasured :] if self._unmeasured else []
        size = sum(map(len, fresh)) + CHUNK_OVERHEAD * len(fresh)
        self._unmeasured = 0
        if self.size + size > MAX_TURN_BYTES:  # removes the chunks that are too much
            self.cut = True
            self.chunks, self._times = self.chunks[: -len(fresh)], self._times[: -len(fresh)]
            return
        self.size += size
        self._store.on_growth(self, size)

    def on_end(self, turn: ActiveTurn, row: JournalEntry) -> None:
        """The turn ends. `turn` is reset last: other threads read it."""
        self._measure()
        reply = turn.reply
        end = turn.fault or (reply.end if reply is not None else None)
        self.fault = end if isinstance(end, ev.Fault) else None
        slim = Request(model=self.turn_request.request.model, stream=self.turn_request.request.stream)
        self.turn_request = replace(self.turn_request, request=slim, wrap_send=None)
        self.entry, self.passthrough = row, turn.passthrough
        self.turn = None
        self.wake_followers()

    def drop(self) -> int:
        """Deletes the chunks. Returns the bytes that are freed."""
        freed, self.size = self.size, 0
        self.chunks, self._times, self.request = [], array("d"), b""
        self.dropped = self.cut = True
        self._unmeasured = 0
        return freed

    def wake_followers(self) -> None:
        """Wakes the streams that follow this turn."""
        for follower in self.followers:
            follower.set()

    # ── for the inspector ────────────────────────────────────────────────────────────────────────

    @property
    def finished(self) -> bool:
        return self.turn is None

    @property
    def client_left(self) -> bool:
        """True if the client disconnected before the end."""
        return self.fault is not None and self.fault.kind == "cancelled"

    def to_row(self) -> schemas.TurnRow:
        """Returns the row of the list. Any thread may call it: `entry` is set before `turn` is reset."""
        turn, held = self.turn, not self.dropped
        if turn is not None:
            return schemas.row_from_turn(turn, self.time, held=held)
        assert self.entry is not None  # noqa: S101 — one of the two
        return schemas.row_from_journal(self.entry, held=held)

    def chunks_from(self, start: int) -> list[tuple[float | None, bytes]]:
        """Returns the chunks from an index on, with their times."""
        pairs = zip(islice(self._times, start, None), islice(self.chunks, start, None), strict=False)
        return [(round(at - self._began, 6), chunk) for at, chunk in pairs]

    def to_source(self) -> TraceSource:
        """Returns the source of the turn's trace."""
        request, cleared, turn = self.turn_request, self.cleared, self.turn
        passthrough = self.passthrough if turn is None else turn.passthrough

        def client_stages() -> Any:
            if not self.engine:  # no provider answered: the client got an error response
                return client_stream.refusal_stages(request)
            return client_stream.replay_stages(request, passthrough=passthrough, cleared=cleared)

        return TraceSource(
            protocol=self.protocol or request.protocol,
            chunks=self.chunks_from(0),
            framing=self.framing,
            title=f"{request.request.model} · {request.protocol}",
            consumer=request.protocol,
            request=self.request.decode("utf-8", "replace"),
            request_protocol=request.protocol,
            request_cut=self.request_cut,
            tenant=self.tenant,
            row=self.to_row(),
            lost=self._lost_reason(),
            note="" if self.raw else _EVENTS_NOTE.format(engine=self.engine),
            make_transforms=lambda: deepcopy(self.transforms),
            client_stages=client_stages,
            end=self.fault,
            client_left=self.client_left,
            secrets=(self.secret,) if self.secret else (),
            notices=self.notices,
        )

    def _lost_reason(self) -> str:
        if self.dropped:
            return _LOST_ALL
        if self.cut:
            return _LOST_REST.format(most=MAX_TURN_BYTES >> 20)
        return "" if self.engine else _NO_ANSWER


MAX_TURNS = 200  # captures, finished ones included
MAX_TOTAL_BYTES = 64 * 2**20  # of all captures
KEEP_SECONDS = 300.0  # that captures are kept after the last listener left
MAX_UNREAD = 100  # turns that wait for one listener; further ones are only counted


class TurnListener:
    """A page that watches the list. `news` is set when there are changes."""

    def __init__(self, tenant: str | None) -> None:
        self.tenant = tenant
        self.news: asyncio.Event = asyncio.Event()
        self.missed: int = 0  # turns since the last update that were too many to report
        self._fresh: dict[str, JournalEntry | None] = {}
        self._running: set[str] = set()  # running turns that were reported: their end will be reported too

    def may_see(self, tenant: str) -> bool:
        """True if it may see the turns of a tenant."""
        return self.tenant is None or self.tenant == tenant

    def has_room(self, tenant: str) -> bool:
        """True if a turn that begins now will be reported: only such turns are captured."""
        return len(self._fresh) < MAX_UNREAD and self.may_see(tenant)

    def on_turn(self, id: str, tenant: str, row: JournalEntry | None = None) -> None:
        """A turn changes. `row`: its row of the journal, at its end."""
        if not self.may_see(tenant):
            return
        if len(self._fresh) >= MAX_UNREAD and id not in self._fresh and id not in self._running:
            self.missed += row is not None
            return
        self._fresh[id] = row
        self.news.set()

    def take_changes(self) -> dict[str, JournalEntry | None]:
        """Returns the turns that changed since the last call."""
        fresh, self._fresh = self._fresh, {}
        self.news.clear()
        for name, row in fresh.items():
            (self._running.add if row is None else self._running.discard)(name)
        return fresh


class LiveCaptures:
    """All captures, the oldest first, and all listeners."""

    def __init__(self, services: Any) -> None:
        self.captures: OrderedDict[str, TurnCapture] = OrderedDict()
        self.size: int = 0
        self.closed: bool = False
        self._services = services
        self._loop: Any = None
        self.listeners: set[TurnListener] = set()
        self._timer: asyncio.TimerHandle | None = None

    # ── listeners ───────────────────────────────────────────────────────────────────────────────

    def add_listener(self, tenant: str | None) -> TurnListener:
        """Adds a listener. `tenant`: whose turns; None means all."""
        self._loop = asyncio.get_running_loop()
        listener = TurnListener(tenant)
        self.listeners.add(listener)
        self._services.watch = self
        self._services.estimates.on_estimate = self._on_estimate
        if self._timer is not None:
            self._timer.cancel()
        return listener

    def remove_listener(self, listener: TurnListener) -> None:
        """Removes a listener. Captures stay for a while, for listeners that come back."""
        self.listeners.discard(listener)
        if not self.listeners:
            self._services.watch = self._services.estimates.on_estimate = None
            self._timer = asyncio.get_running_loop().call_later(KEEP_SECONDS, self.clear)

    def clear(self) -> None:
        """Deletes all captures of finished turns."""
        for capture in list(self.captures.values()):
            if capture.finished:
                self._drop_capture(capture)

    def close(self) -> None:
        """Ends all streams, because the gateway stops."""
        self.closed = True
        for listener in self.listeners:
            listener.news.set()
        for capture in self.captures.values():
            capture.wake_followers()

    # ── turns ──────────────────────────────────────────────────────────────────────────────

    def begin(self, turn: ActiveTurn) -> TurnCapture | None:
        """A turn begins. Returns None if too many turns wait to be shown."""
        tenant = turn.incoming.caller.tenant
        if not any(listener.has_room(tenant) for listener in self.listeners):
            return None
        capture = self.captures[turn.incoming.id] = TurnCapture(turn, self)
        if len(self.captures) > MAX_TURNS:
            self._drop_oldest()
        self._notify(capture.id, capture.tenant)
        return capture

    def on_change(self, capture: TurnCapture) -> None:
        """The answer of a turn begins."""
        self._notify(capture.id, capture.tenant)

    def on_journal_row(self, row: JournalEntry) -> None:
        """A turn ends, or its row changes."""
        capture = self.captures.get(row.request_id)
        if capture is not None and capture.entry is not None:
            capture.entry = row
        self._notify(row.request_id, row.tenant, row)

    def _on_estimate(self, row: JournalEntry) -> None:
        """Called in the thread that estimates."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self.on_journal_row, row)

    def _notify(self, id: str, tenant: str, row: JournalEntry | None = None) -> None:
        for listener in self.listeners:
            listener.on_turn(id, tenant, row)

    # ── bounds ────────────────────────────────────────────────────────────────────────────────────

    def on_growth(self, capture: TurnCapture, size: int) -> None:
        """A capture grows. The oldest finished captures are deleted; if none is finished, this one is dropped."""
        self.size += size
        if self.size > MAX_TOTAL_BYTES:
            for old in list(self.captures.values()):
                if self.size <= MAX_TOTAL_BYTES:
                    return
                if old.finished:
                    self._drop_capture(old)
            if self.size > MAX_TOTAL_BYTES:
                self.size -= capture.drop()

    def _drop_oldest(self) -> None:
        """Deletes the oldest capture of a finished turn."""
        oldest = next((capture for capture in self.captures.values() if capture.finished), None)
        if oldest is not None:
            self._drop_capture(oldest)

    def _drop_capture(self, capture: TurnCapture) -> None:
        self.size -= capture.drop()
        del self.captures[capture.id]

    # ── for the inspector ────────────────────────────────────────────────────────────────────────

    def get(self, id: str, tenant: str | None) -> TurnCapture | None:
        """Returns the capture of a turn, if the tenant may see it."""
        capture = self.captures.get(id)
        return capture if capture is not None and tenant in {None, capture.tenant} else None

    def row(self, id: str, entry: JournalEntry | None) -> schemas.TurnRow | None:
        """Returns the current row of a turn."""
        capture = self.captures.get(id)
        if capture is not None:
            return capture.to_row()
        return schemas.row_from_journal(entry, held=False) if entry is not None else None

    def running_rows(self, tenant: str | None) -> list[schemas.TurnRow]:
        """Returns the rows of running turns; only those of `tenant`, if one is given."""
        return [
            capture.to_row()
            for capture in self.captures.values()
            if not capture.finished and tenant in {None, capture.tenant}
        ]
