"""What is kept of a turn while somebody watches: its chunks and when they came, in memory, within bounds.

`read` is on the way of every read of an answer: it appends to two lists. What the chunks mean is found out when
somebody looks. Leans on nothing of the gateway but the turn it is given.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import OrderedDict
from contextlib import suppress
from copy import deepcopy
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec.structs import replace

from penstock import events as ev
from penstock._gateway import client_stream
from penstock._inspector import schemas
from penstock._inspector.traces import TraceSource
from penstock.request import Request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engines.interface import ChunkEvents
    from penstock._engines.reply import ModelReply
    from penstock._gateway.endpoints import TurnRequest
    from penstock._gateway.turn import ActiveTurn
    from penstock._store.journal import JournalEntry as Noted

MAX_TURN_BYTES = 4 * 2**20  # bytes of one turn
LOOK, LARGE = 32, 4096  # chunks between two looks at their size; bytes of one that is looked at at once
CHUNK_OVERHEAD = 64  # bytes that a chunk takes besides its own
MAX_NOTICES = 100  # that are told before an answer
MAX_REQUEST_BYTES = 2**20  # bytes of a request's body
_LOST_REST = "only the beginning is here: a turn is kept in memory up to {most} MB while somebody watches"
_LOST_ALL = "its frames were dropped: too much was going on at once for the memory that watching may take"
_EVENTS_NOTE = "the engine {engine!r} hands out events, not bytes: the frames here are those events as lines"
_NO_ANSWER = "no provider has answered: there are no frames"
_now = time.monotonic
_encode = msgspec.json.Encoder().encode_lines


class CaptureStore(Protocol):
    """What all taps have their memory from."""

    def on_growth(self, tap: TurnCapture, size: int) -> None:
        """A tap has grown by so much."""
        ...

    def on_change(self, tap: TurnCapture) -> None:
        """Its row is another now."""
        ...


class TurnCapture:
    """One turn. `turn` while it goes on, `row` when it is over; `reply` once there is one."""

    __slots__ = (
        "_began", "_store", "_times", "_unmeasured", "asked", "chunks", "cleared", "cut", "dropped", "engine",
        "fault", "followers", "framing", "id", "notices", "protocol", "raw", "request", "row", "secret", "shaping",
        "size", "teed", "tenant", "time", "turn",
    )  # fmt: skip

    def __init__(self, turn: ActiveTurn, store: CaptureStore) -> None:
        visit = turn.incoming
        assert turn.turn_request is not None  # noqa: S101 — a turn is watched from when it is known what is asked
        self.id: str = visit.id
        self.tenant: str = visit.caller.tenant
        self.secret: str = visit.caller.secret
        self.time: float = time.time() - (time.monotonic() - visit.started)
        self.turn: ActiveTurn | None = turn
        self.row: Noted | None = None
        self.asked: TurnRequest = turn.turn_request
        self.request: bytes = visit.raw[:MAX_REQUEST_BYTES]
        self.chunks: list[bytes] = []
        self.size: int = len(self.request)
        self.cut: bool = False
        self.dropped: bool = False
        self.followers: list[asyncio.Event] = []
        self.engine: str = ""
        self.protocol: str = ""
        self.framing: str = "auto"
        self.raw: bool = True
        self.teed: bool = False
        self.shaping: tuple[Any, ...] = ()
        self.cleared: Any = None
        self.notices: tuple[bytes, ...] = ()
        self.fault: ev.Fault | None = None
        self._began, self._store = visit.started, store
        self._times, self._unmeasured = array("d"), 0  # chunks
        store.on_growth(self, self.size)

    # ── while it goes on ──────────────────────────────────────────────────────────────────────────

    def on_reply(self, reply: ModelReply) -> None:
        """An answer has begun."""
        self.engine, self.raw, self.cleared = reply.engine, reply.raw, reply.cleared
        self.protocol = reply.protocol if reply.raw else "events"
        self.framing = reply.framing if reply.raw else "ndjson"
        if reply.raw and reply.transforms:
            self.shaping = deepcopy(reply.transforms)
        self._store.on_change(self)
        self.wake_followers()

    def on_notice(self, said: bytes) -> None:
        """The client was told something before its answer: a frame's payload."""
        self.notices = (*self.notices, said)[:MAX_NOTICES]

    def on_read(self, pair: ChunkEvents) -> None:
        """What one read gave. Its size is looked at now and then, that of a large one at once."""
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
        if self.size + size > MAX_TURN_BYTES:  # what is too much goes again
            self.cut = True
            self.chunks, self._times = self.chunks[: -len(fresh)], self._times[: -len(fresh)]
            return
        self.size += size
        self._store.on_growth(self, size)

    def on_end(self, turn: ActiveTurn, row: Noted) -> None:
        """The turn is over; what only it needed is let go of. That it is over is said last: others may look."""
        self._measure()
        reply = turn.reply
        end = turn.fault or (reply.end if reply is not None else None)
        self.fault = end if isinstance(end, ev.Fault) else None
        slim = Request(model=self.asked.request.model, stream=self.asked.request.stream)
        self.asked = replace(self.asked, request=slim, wrap_send=None)
        self.row, self.teed = row, turn.passthrough
        self.turn = None
        self.wake_followers()

    def drop(self) -> int:
        """Forget the chunks; gives the bytes that are free now."""
        freed, self.size = self.size, 0
        self.chunks, self._times, self.request = [], array("d"), b""
        self.dropped = self.cut = True
        self._unmeasured = 0
        return freed

    def wake_followers(self) -> None:
        """Whoever follows has something to look at."""
        for follower in self.followers:
            follower.set()

    # ── for those who look ────────────────────────────────────────────────────────────────────────

    @property
    def finished(self) -> bool:
        return self.turn is None

    @property
    def client_left(self) -> bool:
        """Whether the client was no longer there to get an end."""
        return self.fault is not None and self.fault.kind == "cancelled"

    def to_row(self) -> schemas.TurnRow:
        """The turn as a row of the list. Any thread may ask: a turn has its row before it is let go of."""
        going, held = self.turn, not self.dropped
        if going is not None:
            return schemas.row_from_turn(going, self.time, held=held)
        assert self.row is not None  # noqa: S101 — one of the two
        return schemas.row_from_journal(self.row, held=held)

    def chunks_from(self, place: int) -> list[tuple[float | None, bytes]]:
        """The chunks from that one on, with their times."""
        return list(self._iterate_chunks(place))

    def _iterate_chunks(self, place: int) -> Iterator[tuple[float | None, bytes]]:
        for at, chunk in zip(islice(self._times, place, None), islice(self.chunks, place, None), strict=False):
            yield round(at - self._began, 6), chunk

    def to_source(self) -> TraceSource:
        """What there is to trace."""
        asked, cleared, going = self.asked, self.cleared, self.turn
        teed = self.teed if going is None else going.passthrough
        refused = not self.engine  # nobody answered: the client was told so in one piece
        return TraceSource(
            protocol=self.protocol or asked.protocol,
            chunks=self.chunks_from(0),
            framing=self.framing,
            title=f"{asked.request.model} · {asked.protocol}",
            own=asked.protocol,
            request=self.request.decode("utf-8", "replace"),
            row=self.to_row(),
            lost=self._lost_reason(),
            note="" if self.raw else _EVENTS_NOTE.format(engine=self.engine),
            shaping=lambda: deepcopy(self.shaping),
            end=self.fault,
            left=self.client_left,
            secrets=(self.secret,) if self.secret else (),
            before=self.notices,
            way=lambda: (
                client_stream.refusal_stages(asked)
                if refused
                else client_stream.replay_stages(asked, passthrough=teed, cleared=cleared)
            ),
        )

    def _lost_reason(self) -> str:
        if self.dropped:
            return _LOST_ALL
        if self.cut:
            return _LOST_REST.format(most=MAX_TURN_BYTES >> 20)
        return "" if self.engine else _NO_ANSWER


MAX_TURNS = 200  # that are over and still held
MAX_TOTAL_BYTES = 64 * 2**20  # bytes of all of them
KEEP_SECONDS = 300.0  # seconds that turns are held for when nobody watches any more
MAX_UNREAD = 100  # turns that wait for one listener: nobody reads more at once, and the rest is only counted


class TurnListener:
    """One who watches the list. `news` is set when there is something to fetch."""

    def __init__(self, tenant: str | None) -> None:
        self.tenant = tenant
        self.news: asyncio.Event = asyncio.Event()
        self.missed: int = 0  # turns that went by too fast to be told of, since the last time
        self._fresh: dict[str, Noted | None] = {}
        self._going: set[str] = set()  # that it was told are going on: it will be told of their end

    def may_see(self, tenant: str) -> bool:
        """Whether it may see the turns of a tenant."""
        return self.tenant is None or self.tenant == tenant

    def has_room(self, tenant: str) -> bool:
        """Whether a turn that begins now will be told of: only such a turn is worth being held."""
        return len(self._fresh) < MAX_UNREAD and self.may_see(tenant)

    def on_turn(self, id: str, tenant: str, row: Noted | None = None) -> None:
        """A turn has changed. `row`: it is over."""
        if not self.may_see(tenant):
            return
        if len(self._fresh) >= MAX_UNREAD and id not in self._fresh and id not in self._going:
            self.missed += row is not None
            return
        self._fresh[id] = row
        self.news.set()

    def take_changes(self) -> dict[str, Noted | None]:
        """All that changed since the last time."""
        fresh, self._fresh = self._fresh, {}
        self.news.clear()
        for name, row in fresh.items():
            (self._going.add if row is None else self._going.discard)(name)
        return fresh


class LiveCaptures:
    """All taps, the oldest first, and all listeners."""

    def __init__(self, services: Any) -> None:
        self.captures: OrderedDict[str, TurnCapture] = OrderedDict()
        self.size: int = 0
        self.closed: bool = False
        self._services = services
        self._loop: Any = None
        self._listeners: set[TurnListener] = set()
        self._timer: asyncio.TimerHandle | None = None

    # ── who watches ───────────────────────────────────────────────────────────────────────────────

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def add_listener(self, tenant: str | None) -> TurnListener:
        """Somebody watches. `tenant`: whose turns; None is everybody's."""
        self._loop = asyncio.get_running_loop()
        made = TurnListener(tenant)
        self._listeners.add(made)
        self._services.watch = self
        self._services.estimates.on_estimate = self._on_estimate
        if self._timer is not None:
            self._timer.cancel()
        return made

    def remove_listener(self, listener: TurnListener) -> None:
        """Somebody has gone. What is held stays a while for those who come back."""
        self._listeners.discard(listener)
        if not self._listeners:
            self._services.watch = self._services.estimates.on_estimate = None
            self._timer = asyncio.get_running_loop().call_later(KEEP_SECONDS, self.clear)

    def clear(self) -> None:
        """Forget all that is over."""
        for tap in list(self.captures.values()):
            if tap.finished:
                self._drop_capture(tap)

    def close(self) -> None:
        """The gateway stops: whoever listens is let go."""
        self.closed = True
        for listener in self._listeners:
            listener.news.set()
        for tap in self.captures.values():
            tap.wake_followers()

    # ── what goes by ──────────────────────────────────────────────────────────────────────────────

    def begin(self, turn: ActiveTurn) -> TurnCapture | None:
        """A turn has begun. Where there are too many to be shown, it is only counted in the end."""
        tenant = turn.incoming.caller.tenant
        for listener in self._listeners:
            if listener.has_room(tenant):
                return self._start_capture(turn)
        return None

    def _start_capture(self, turn: ActiveTurn) -> TurnCapture:
        tap = self.captures[turn.incoming.id] = TurnCapture(turn, self)
        if len(self.captures) > MAX_TURNS:
            self._drop_oldest()
        self._notify(tap.id, tap.tenant)
        return tap

    def on_change(self, tap: TurnCapture) -> None:
        """Its answer has begun."""
        self._notify(tap.id, tap.tenant)

    def on_journal_row(self, row: Noted) -> None:
        """Something is over, or more is known of it."""
        tap = self.captures.get(row.request_id)
        if tap is not None and tap.row is not None:
            tap.row = row
        self._notify(row.request_id, row.tenant, row)

    def _on_estimate(self, row: Noted) -> None:
        """In the thread that estimates."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self.on_journal_row, row)

    def _notify(self, id: str, tenant: str, row: Noted | None = None) -> None:
        for listener in self._listeners:
            listener.on_turn(id, tenant, row)

    # ── bounds ────────────────────────────────────────────────────────────────────────────────────

    def on_growth(self, tap: TurnCapture, size: int) -> None:
        """A tap has grown. The oldest that are over make room; if none is, the one that grew is dropped."""
        self.size += size
        if self.size > MAX_TOTAL_BYTES:
            for old in list(self.captures.values()):
                if self.size <= MAX_TOTAL_BYTES:
                    return
                if old.finished:
                    self._drop_capture(old)
            if self.size > MAX_TOTAL_BYTES:
                self.size -= tap.drop()

    def _drop_oldest(self) -> None:
        """No more turns than there is room for; those that go on stay."""
        first = next(iter(self.captures.values()))
        if first.finished:  # as most often
            self._drop_capture(first)
            return
        over = next((tap for tap in self.captures.values() if tap.finished), None)
        if over is not None:
            self._drop_capture(over)

    def _drop_capture(self, tap: TurnCapture) -> None:
        self.size -= tap.drop()
        del self.captures[tap.id]

    # ── for those who look ────────────────────────────────────────────────────────────────────────

    def get(self, id: str, tenant: str | None) -> TurnCapture | None:
        """A turn that is held, if it is one that may be seen."""
        tap = self.captures.get(id)
        return tap if tap is not None and tenant in {None, tap.tenant} else None

    def row(self, id: str, noted: Noted | None) -> schemas.TurnRow | None:
        """A turn as it is now."""
        tap = self.captures.get(id)
        if tap is not None:
            return tap.to_row()
        return schemas.row_from_journal(noted, held=False) if noted is not None else None

    def running_rows(self, tenant: str | None) -> list[schemas.TurnRow]:
        """Those that go on now."""
        return [tap.to_row() for tap in self.captures.values() if not tap.finished and tenant in {None, tap.tenant}]
