"""Captures turns in memory: their requests and the chunks of their answers with times, within bounds.

`keeping_policy` decides whose turns are kept; those of others are captured while somebody watches. `on_read` runs for
every read of an answer, so it only appends to the chunks. Chunks are decoded when somebody looks at the turn.
"""

from __future__ import annotations

import time
from copy import deepcopy
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from penstock import events as ev
from penstock._gateway.client_form import ClientForm
from penstock._inspector import schemas
from penstock._inspector.captured_attempts import RequestCapture
from penstock._inspector.chunk_log import ChunkLog, make_empty_log
from penstock._inspector.kept_turn import (
    EVENTS_NOTE,
    LOST_REST,
    KeptTurn,
    keep_transforms,
    make_client_stages,
)
from penstock._inspector.stream_traces import TraceSource, format_title
from penstock._inspector.turn_endings import explain_no_frames, find_fault_party
from penstock._redaction import cut_bytes
from penstock.request import Request

if TYPE_CHECKING:
    import asyncio

    from penstock._engines.engine_interface import DecisionLog, UpstreamRequest
    from penstock._engines.reply import ModelReply
    from penstock._gateway.endpoints import IncomingRequest, TurnRequest
    from penstock._gateway.turn import ActiveTurn
    from penstock._inspector.disk_ring import DiskRing
    from penstock._inspector.keeping_policy import Forgotten, KeepingPolicy
    from penstock._inspector.turn_endings import FaultParty
    from penstock._inspector.turn_listeners import TurnListener
    from penstock._store.journal import JournalEntry

MAX_TURN_BYTES = 8 * 2**20  # bytes of one answer: 50,000 small events have 7 MB
MEASURED_STEP = 2**16  # bytes by which a running turn may grow before they are counted
MAX_WAITING_BYTES = 2**14  # of the sent request of a turn that may wait after its end, to be measured with others
TURN_OVERHEAD = 4096  # bytes of memory per turn, in addition to its request and answer
MAX_NOTICES = 100  # sent to the client before the answer
MAX_REQUEST_BYTES = 4 * 2**20  # bytes of a request's body
MAX_SHARED_NAME = 200  # characters of a model whose slim request is shared
_DROPPED = "it was dropped because too much went on at once for the memory of the inspector"
_NO_CHUNKS = make_empty_log()
_encode = msgspec.json.Encoder().encode_lines


@lru_cache(maxsize=256)
def _shared_request(model: str, stream: bool) -> Request:  # noqa: FBT001 — a field of the request
    """Returns a request with what the form of the answer needs, shared by turns of the same model."""
    return Request(model=model, stream=stream)


class CaptureStore(Protocol):
    """What a capture tells: `capture_ring.LiveCaptures`."""

    policy: KeepingPolicy
    listeners: set[TurnListener]
    disk: DiskRing
    size: int
    max_size: int
    ended: list[TurnCapture]
    max_ended: int

    def secrets(self) -> tuple[str, ...]: ...

    def make_room(self, capture: TurnCapture, /) -> None: ...

    def measure_ended(self) -> None: ...

    def on_change(self, capture: TurnCapture, /) -> None: ...

    def on_finish(self, capture: TurnCapture, /) -> None: ...


class TurnCapture(RequestCapture, eq=False, kw_only=True):
    """The capture of one turn. `turn` is set while it runs, `entry` (its row of the journal) after its end.

    It is a structure because one is made for every turn, and a structure is made fastest.
    """

    turn_request: TurnRequest
    _store: CaptureStore
    turn: ActiveTurn | None
    keeps: bool  # whether or not somebody watches
    id: str
    request: bytes
    chunks: ChunkLog
    size: int = 0  # bytes of memory, as far as they are measured
    followers: tuple[asyncio.Event, ...] = ()
    _time: float | None = None
    entry: JournalEntry | None = None
    on_disk: bool = False
    dropped: bool = False
    disk_failure: Forgotten | None = None  # why it is not on disk, if it should be
    engine: str = ""
    protocol: str = ""
    framing: str = "auto"
    raw: bool = True
    passthrough: bool = False
    transforms: tuple[Any, ...] = ()
    cleared: Any = None
    notices: tuple[bytes, ...] = ()
    fault: ev.Fault | None = None
    request_cut: bool = False

    def measure_request(self) -> None:
        """Counts a request that is not small, and cuts one that is too large."""
        if len(self.request) > MAX_REQUEST_BYTES:
            self.request, self.request_cut = cut_bytes(self.request, MAX_REQUEST_BYTES, self.known_secrets()), True
            self._incoming = self._incoming.without_body()
        self._measure()

    # ── called by the turn ──────────────────────────────────────────────────────────────────────────

    def on_attempt(self, upstream: UpstreamRequest, record: DecisionLog) -> None:
        """A request is built. The list names its provider and model."""
        RequestCapture.on_attempt(self, upstream, record)
        if self._store.listeners:
            self._store.on_change(self)

    def on_reply(self, reply: ModelReply) -> None:
        """The answer begins."""
        raw = self.raw = reply.raw
        self.engine, self.cleared = reply.engine, reply.cleared
        if raw:
            self.protocol, self.framing = reply.protocol, reply.framing
            if reply.transforms:
                self.transforms = deepcopy(reply.transforms)
        else:
            self.protocol, self.framing = "events", "ndjson"
        if self._store.listeners:
            self._store.on_change(self)
        if self.followers:
            self.wake_followers()

    def on_notice(self, payload: bytes) -> None:
        """The client got a frame before the answer."""
        self.notices = (*self.notices, payload)[:MAX_NOTICES]

    def on_read(self, chunk: bytes, events: list[ev.AnyEvent]) -> None:
        """Keeps the bytes of one read."""
        data = chunk if self.raw else _encode(events)
        if data and self.chunks.add(data) > self.size + MEASURED_STEP:
            self._measure()
        if self.followers:
            self.wake_followers()

    def _measure(self) -> None:
        """Counts how much the capture has grown since the last time."""
        store, before = self._store, self.size
        self.size = TURN_OVERHEAD + len(self.request) + self.chunks.size
        store.size += self.size - before
        if store.size > store.max_size:
            store.make_room(self)

    def on_end(self, turn: ActiveTurn, row: JournalEntry) -> None:
        """The turn ends. `turn` is reset last: other threads read it. What can wait is done for several turns at once.

        Steps that are taken once in a turn are slow, because the processor's cache has other things by then.
        """
        store, traces = self._store, self._traces
        if row.fault:
            end = turn.fault or (turn.reply.end if turn.reply is not None else None)
            self.fault = end if isinstance(end, ev.Fault) else None
        if not traces and turn.decisions is not None:  # no attempt was made; otherwise `on_attempt` has set them
            self._decisions = turn.decisions.decisions
        self.entry, self.passthrough = row, turn.passthrough
        ended, is_on_disk = store.ended, store.disk.enabled
        ended.append(self)
        # `size`: it is large, because it was measured before. More than one attempt: they may have large bodies.
        if (
            len(ended) > store.max_ended or self.size or is_on_disk
            or (traces and (len(traces) > 1 or len(traces[0].body or b"") > MAX_WAITING_BYTES))
        ):  # fmt: skip
            store.measure_ended()
        self.turn = None
        if is_on_disk:
            store.on_finish(self)
        if self.followers:
            self.wake_followers()

    def measure_end(self) -> int:
        """Frees what is not needed after the end, and measures the rest. Returns how much the capture has grown."""
        turn_request = self.turn_request  # nobody else needs it any more
        request = turn_request.request
        model, stream = request.model, request.stream
        slim = _shared_request(model, stream) if len(model) <= MAX_SHARED_NAME else Request(model=model, stream=stream)
        turn_request.request, turn_request.headers, turn_request.wrap_send = slim, (), None
        size = TURN_OVERHEAD + len(self.request) + self.chunks.close_block() + self.finish_attempts()
        if self.dropped:
            self.drop_attempts()  # those that were sent since
            return 0
        before, self.size = self.size, size
        return size - before

    def on_refusal(self, fault: ev.Fault, row: JournalEntry) -> None:
        """The request was refused before it became a turn."""
        self.fault, self.entry = fault, row
        self._measure()
        self.turn = None
        self._store.on_finish(self)

    def drop(self) -> int:
        """Deletes the chunks. Returns the bytes that are freed."""
        freed, self.size = self.size, 0
        self.dropped = True  # first: the keeper's thread reads the turn, and then whether it was dropped meanwhile
        self.chunks, self.request = _NO_CHUNKS, b""
        self._incoming = self._incoming.without_body(headers=False)
        self.drop_attempts()
        return freed

    def wake_followers(self) -> None:
        """Wakes the streams that follow this turn."""
        for follower in self.followers:
            follower.set()

    # ── for the inspector ────────────────────────────────────────────────────────────────────────

    def known_secrets(self) -> tuple[str, ...]:
        """Returns the secrets that are known by value: those of the gateway, and the caller's own key."""
        return (*self._store.secrets(), *((self.secret,) if self.secret else ()))

    def end_time(self) -> float:
        """Returns when the turn ended, by the monotonic clock; 0 while it runs."""
        return self._incoming.started + self.entry.duration if self.entry is not None else 0.0

    @property
    def finished(self) -> bool:
        return self.turn is None

    @property
    def answer_protocol(self) -> str:
        """The protocol of the chunks; the client's, if no provider has answered."""
        return self.protocol or self.turn_request.protocol

    @property
    def request_protocol(self) -> str:
        """The protocol of the client's request, which may differ from that of the answer."""
        return self.turn_request.source or self.turn_request.protocol

    @property
    def client_left(self) -> bool:
        """True if the client disconnected before the end."""
        return self.fault is not None and self.fault.kind == "cancelled"

    @property
    def fault_by(self) -> FaultParty:
        """Who made the error of a finished turn."""
        return find_fault_party(self.fault, self.last_attempt)

    def to_row(self) -> schemas.TurnRow:
        """Returns the row of the list. Any thread may call it: `entry` is set before `turn` is reset."""
        turn, held = self.turn, not self.dropped
        if turn is not None:
            return schemas.row_from_turn(turn, self.time, held=held)
        assert self.entry is not None  # noqa: S101 — one of the two
        return schemas.row_from_journal(self.entry, held=held)

    @property
    def time(self) -> float:
        """When the request came, in seconds since the epoch."""
        if self._time is None:
            self._time = time.time() - (time.monotonic() - self._incoming.started)
        return self._time

    @property
    def elapsed(self) -> float:
        """Seconds since the request. The clock of the machine may be set meanwhile."""
        return time.monotonic() - self._incoming.started

    def read_progress(self) -> tuple[int, float | None]:
        """Returns the bytes of the answer so far, and when the last of them came (seconds since the epoch)."""
        last = self.chunks.last_time
        return self.chunks.count_bytes(), self.time + last - self._incoming.started if last is not None else None

    def chunks_from(self, start: int, limit: int | None = None) -> list[tuple[float | None, bytes]]:
        """Returns the chunks from an index on, at most `limit`, with their times."""
        started = self._incoming.started
        return [(round(at - started, 6), chunk) for at, chunk in self.chunks.chunks_from(start, limit)]

    @property
    def cut(self) -> bool:
        """True if only the beginning of the answer is kept."""
        return self.chunks.full

    def to_kept(self) -> KeptTurn:
        """Returns a finished turn as plain data. Any thread may call it."""
        assert self.entry is not None  # noqa: S101 — finished turns have one
        names, stops, note = keep_transforms(self.transforms)
        return KeptTurn(
            id=self.id,
            tenant=self.tenant,
            entry=self.entry,
            client=ClientForm.of(self.turn_request),
            request=self.request,
            request_cut=self.request_cut,
            source=self.turn_request.source,
            client_headers=self.client_headers,
            method=self.method,
            path=self.path,
            attempts=self.attempts,
            losses=self.losses,
            chunks=self.chunks_from(0),
            cut=self.cut,
            most=MAX_TURN_BYTES >> 20,
            engine=self.engine,
            protocol=self.protocol,
            framing=self.framing,
            raw=self.raw,
            passthrough=self.passthrough,
            cleared=self.cleared,
            notices=self.notices,
            fault=self.fault,
            names=names,
            stops=stops,
            note=note,
        )

    def to_source(self) -> TraceSource:
        """Returns the source of the turn's trace."""
        request, turn = self.turn_request, self.turn
        passthrough = self.passthrough if turn is None else turn.passthrough
        return TraceSource(
            protocol=self.answer_protocol,
            chunks=self.chunks_from(0),
            framing=self.framing,
            title=format_title(request.request.model, request.protocol),
            consumer=request.protocol,
            request=self.request.decode("utf-8", "replace"),
            request_protocol=request.protocol,
            request_cut=self.request_cut,
            tenant=self.tenant,
            row=self.to_row(),
            lost=self._lost_reason(),
            note="" if self.raw else EVENTS_NOTE.format(engine=self.engine),
            make_transforms=lambda: deepcopy(self.transforms),
            client_stages=lambda: make_client_stages(self, request, passthrough=passthrough),
            end=self.fault,
            client_left=self.client_left,
            fault_by=self.fault_by,
            secrets=self.known_secrets(),
            notices=self.notices,
        )

    def _lost_reason(self) -> str:
        if self.dropped:
            return _DROPPED if self.finished else f"it still runs; {_DROPPED}"
        if self.cut:
            return LOST_REST.format(most=MAX_TURN_BYTES >> 20)
        return "" if self.engine else explain_no_frames(self.fault, self.last_attempt, finished=self.finished)


def begin_capture(
    incoming: IncomingRequest, turn_request: TurnRequest, store: CaptureStore, turn: ActiveTurn | None, *, keeps: bool
) -> TurnCapture:
    """Returns the capture of a turn that begins; `turn` is None if the request was refused before it became one."""
    request = incoming.raw
    capture = TurnCapture(
        _incoming=incoming, turn_request=turn_request, _store=store, turn=turn, keeps=keeps, id=incoming.id,
        request=request, chunks=ChunkLog(MAX_TURN_BYTES),
    )  # fmt: skip
    if len(request) > MEASURED_STEP:
        capture.measure_request()
    return capture
