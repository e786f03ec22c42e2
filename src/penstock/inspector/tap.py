"""What is kept of a turn while somebody watches: its chunks and when they came, in memory, within bounds.

`read` is on the way of every read of an answer: it appends to two lists. What the chunks mean is found out when
somebody looks. Leans on nothing of the gateway but the turn it is given.
"""

from __future__ import annotations

import time
from array import array
from copy import deepcopy
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec.structs import replace

from penstock import events as ev
from penstock.gateway import client_stream
from penstock.inspector import rows
from penstock.inspector.traces import Source
from penstock.request import Request

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

    from penstock.engines.interface import Pair
    from penstock.engines.reply import Reply
    from penstock.gateway.endpoints import Asked
    from penstock.gateway.turn import Turn
    from penstock.store.journal import Turn as Noted

MOST = 4 * 2**20  # bytes of one turn
LOOK, LARGE = 32, 4096  # chunks between two looks at their size; bytes of one that is looked at at once
EACH = 64  # bytes that a chunk takes besides its own
NOTICES = 100  # that are told before an answer
ASKED = 2**20  # bytes of a request's body
_LONG = "only the beginning is here: a turn is kept in memory up to {most} MB while somebody watches"
_FULL = "its frames were dropped: too much was going on at once for the memory that watching may take"
_PLAYED = "the engine {engine!r} hands out events, not bytes: the frames here are those events as lines"
_NOBODY = "no provider has answered: there are no frames"
_now = time.monotonic
_encode = msgspec.json.Encoder().encode_lines


class Store(Protocol):
    """What all taps have their memory from."""

    def took(self, tap: Tap, size: int) -> None:
        """A tap has grown by so much."""
        ...

    def changed(self, tap: Tap) -> None:
        """Its row is another now."""
        ...


class Tap:
    """One turn. `turn` while it goes on, `row` when it is over; `reply` once there is one."""

    __slots__ = (
        "_began", "_store", "_times", "_unmeasured", "asked", "chunks", "cleared", "cut", "dropped", "engine", "fault",
        "followers", "framing", "id", "notices", "protocol", "raw", "request", "row", "secret", "shaping", "size",
        "teed", "tenant", "time", "turn",
    )  # fmt: skip

    def __init__(self, turn: Turn, store: Store) -> None:
        visit = turn.visit
        assert turn.asked is not None  # noqa: S101 — a turn is watched from when it is known what is asked
        self.id, self.tenant, self.secret = visit.id, visit.caller.tenant, visit.caller.secret
        self.time = time.time() - (time.monotonic() - visit.started)
        self.turn: Turn | None = turn
        self.row: Noted | None = None
        self.asked: Asked = turn.asked
        self.request: bytes = visit.raw[:ASKED]
        self.chunks: list[bytes] = []
        self.size = len(self.request)
        self.cut = self.dropped = False
        self.followers: list[asyncio.Event] = []
        self.engine = self.protocol = ""
        self.framing, self.raw, self.teed = "auto", True, False
        self.shaping: tuple[Any, ...] = ()
        self.cleared: Any = None
        self.notices: tuple[bytes, ...] = ()
        self.fault: ev.Fault | None = None
        self._began = visit.started
        self._times = array("d")
        self._unmeasured = 0  # chunks
        self._store = store
        store.took(self, self.size)

    # ── while it goes on ──────────────────────────────────────────────────────────────────────────

    def opened(self, reply: Reply) -> None:
        """An answer has begun."""
        self.engine, self.raw, self.cleared = reply.engine, reply.raw, reply.cleared
        self.protocol = reply.protocol if reply.raw else "events"
        self.framing = reply.framing if reply.raw else "ndjson"
        if reply.raw and reply.shaping:
            self.shaping = deepcopy(reply.shaping)
        self._store.changed(self)
        self.tell()

    def told(self, said: bytes) -> None:
        """The client was told something before its answer: a frame's payload."""
        self.notices = (*self.notices, said)[:NOTICES]

    def read(self, pair: Pair) -> None:
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
            self.tell()

    def _measure(self) -> None:
        fresh = self.chunks[-self._unmeasured :] if self._unmeasured else []
        size = sum(map(len, fresh)) + EACH * len(fresh)
        self._unmeasured = 0
        if self.size + size > MOST:  # what is too much goes again
            self.cut = True
            self.chunks, self._times = self.chunks[: -len(fresh)], self._times[: -len(fresh)]
            return
        self.size += size
        self._store.took(self, size)

    def ended(self, turn: Turn, row: Noted) -> None:
        """The turn is over; what only it needed is let go of. That it is over is said last: others may look."""
        self._measure()
        reply = turn.reply
        end = turn.fault or (reply.end if reply is not None else None)
        self.fault = end if isinstance(end, ev.Fault) else None
        slim = Request(model=self.asked.request.model, stream=self.asked.request.stream)
        self.asked = replace(self.asked, request=slim, over=None)
        self.row, self.teed = row, turn.teed
        self.turn = None
        self.tell()

    def drop(self) -> int:
        """Forget the chunks; gives the bytes that are free now."""
        freed, self.size = self.size, 0
        self.chunks, self._times, self.request = [], array("d"), b""
        self.dropped = self.cut = True
        self._unmeasured = 0
        return freed

    def tell(self) -> None:
        """Whoever follows has something to look at."""
        for follower in self.followers:
            follower.set()

    # ── for those who look ────────────────────────────────────────────────────────────────────────

    @property
    def over(self) -> bool:
        return self.turn is None

    @property
    def left(self) -> bool:
        """Whether the client was no longer there to get an end."""
        return self.fault is not None and self.fault.kind == "cancelled"

    def shown(self) -> rows.Row:
        """The turn as a row of the list. Any thread may ask: a turn has its row before it is let go of."""
        going, held = self.turn, not self.dropped
        if going is not None:
            return rows.of_turn(going, self.time, held=held)
        assert self.row is not None  # noqa: S101 — one of the two
        return rows.of_journal(self.row, held=held)

    def since(self, place: int) -> list[tuple[float | None, bytes]]:
        """The chunks from that one on, with their times."""
        return list(self._timed(place))

    def _timed(self, place: int) -> Iterator[tuple[float | None, bytes]]:
        for at, chunk in zip(islice(self._times, place, None), islice(self.chunks, place, None), strict=False):
            yield round(at - self._began, 6), chunk

    def source(self) -> Source:
        """What there is to trace."""
        asked, cleared, going = self.asked, self.cleared, self.turn
        teed = self.teed if going is None else going.teed
        refused = not self.engine  # nobody answered: the client was told so in one piece
        return Source(
            protocol=self.protocol or asked.protocol, chunks=self.since(0), framing=self.framing,
            title=f"{asked.request.model} · {asked.protocol}", own=asked.protocol,
            request=self.request.decode("utf-8", "replace"), row=self.shown(), lost=self._lost(),
            note="" if self.raw else _PLAYED.format(engine=self.engine),
            shaping=lambda: deepcopy(self.shaping), end=self.fault, left=self.left,
            secrets=(self.secret,) if self.secret else (), before=self.notices,
            way=lambda: (
                client_stream.refusal(asked) if refused else client_stream.way(asked, teed=teed, cleared=cleared)
            ),
        )  # fmt: skip

    def _lost(self) -> str:
        if self.dropped:
            return _FULL
        if self.cut:
            return _LONG.format(most=MOST >> 20)
        return "" if self.engine else _NOBODY
