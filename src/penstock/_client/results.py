"""The results of a client: `Stream` yields events, `Answer` is the complete turn. Both convert to any protocol."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol, Self

import msgspec
from msgspec.structs import asdict, replace

from penstock import _protocols as protocols
from penstock._bridge import encoding, write_body
from penstock._client.costs import Cost, CostParts
from penstock._client.displayed import Displayed, load_display
from penstock._diagnostics import Diagnostic
from penstock._engines.engine_interface import DecisionLog  # noqa: TC001 — msgspec reads the annotation
from penstock._fold import Fold, unfold
from penstock._input_limits import decode_deep
from penstock.errors import InputError, StreamFault, UnknownProtocol
from penstock.events import AnyEvent, Fault, Finish, Start, TextDelta, Usage
from penstock.request import Turn

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from penstock._client.timeline import Timeline
    from penstock._engines.reply import ModelReply
    from penstock.stores import ReasoningStore


BUSY = "somebody else is reading this: read it once, and share what was read"


class Answer(Displayed, Turn):
    """A complete turn, its provider, and the router's decisions. `cached`: it comes from the response cache."""

    provider: str = ""
    record: DecisionLog | None = None
    diagnostics: list[Diagnostic] = msgspec.field(default_factory=list[Diagnostic])
    cached: bool = False
    cost_parts: CostParts | None = None

    @property
    def cost(self) -> Cost | None:
        """The cost in US dollars; None if the usage or a price is unknown."""
        return None if self.cost_parts is None else Cost(*self.cost_parts)

    def _timeline(self) -> Timeline:
        timeline: Timeline = load_display().build_answer_timeline(self)
        return timeline

    def to(self, protocol: str, **options: Any) -> dict[str, Any]:
        """Returns the body that a client of this protocol would get."""
        row = protocols.protocol(protocol)
        if row.body is None:
            known = [name for name in protocols.MODULES if protocols.protocol(name).body]
            raise UnknownProtocol(protocol, known, "target of whole answers")
        pipe = encoding(protocol, options, frames=True)
        frames = [*pipe.feed(_with_date(list(unfold(self)))), *pipe.finish()]
        body: dict[str, Any] = decode_deep(write_body(row.body, frames), trusted=True)
        return body


def build_answer(turn: Turn, reply: ModelReply, *, cost: Cost | None = None, cached: bool = False) -> Answer:
    """Returns the answer of a complete turn."""
    return Answer(
        **asdict(turn),
        provider=reply.provider,
        record=reply.record,
        diagnostics=reply.diagnostics,
        cached=cached,
        cost_parts=None if cost is None else cost.parts,
    )


class TurnObserver(Protocol):
    """Sends a turn of a client and follows it. `see_events` is called for each read, if `sees_events`.

    `end_turn` is called once, with the turn as far as it came; None if the answer never began. It sets `cost`.
    """

    sees_events: bool
    cached: bool
    cost: Cost | None

    async def send(self, send: Callable[[], Awaitable[ModelReply]], /) -> ModelReply: ...

    async def see_events(self, events: list[AnyEvent], /) -> None: ...

    async def end_turn(self, reply: ModelReply, turn: Turn | None, /) -> None: ...


class Stream(Displayed):
    """The events of one answer. The request is sent when the first event is read. Close it, or read it to its end.

    An error before the first content is raised; a later error is the last event, a `Fault`.
    """

    def __init__(
        self,
        send: Callable[[], Awaitable[ModelReply]],
        observer: TurnObserver,
        *,
        store: ReasoningStore | None = None,
        tenant: str = "",
    ) -> None:
        self._send, self._observer = send, observer
        self._store, self._tenant = store, tenant
        self.reply: ModelReply | None = None
        self._fault: Fault | None = None  # of a request that got no answer
        self._fold = Fold()
        self._closed = False
        self._reader: object = None  # who reads the events; one at a time
        self._is_reading = False  # it waits for the next events now

    async def open(self) -> ModelReply:
        """Sends the request now. The reply has the status, the headers and the record of decisions."""
        if self.reply is None:
            self._start_reading()
            try:
                self.reply = await self._observer.send(self._send)
            except StreamFault as error:
                self._fault = error.fault
                raise
            finally:
                self._is_reading = False
        return self.reply

    def batches(self) -> AsyncGenerator[list[AnyEvent], None]:
        """Yields a list of events for each read: cheaper than one by one."""
        return self._read_all()

    async def _read_all(self, *, takes_over: bool = False) -> AsyncGenerator[list[AnyEvent], None]:
        """Yields all events that were not read. `takes_over`: a reader that was left in the middle does not count."""
        if self._is_reading or (self._reader is not None and not takes_over):
            raise InputError(BUSY)
        reader = self._reader = object()
        try:
            reply = await self.open()
            while (events := await self._read(reply, reader)) is not None:
                if events:
                    yield events
        finally:
            if self._reader is reader:
                self._reader = None
                await self.aclose()

    async def _read(self, reply: ModelReply, reader: object) -> list[AnyEvent] | None:
        """Returns the next events; None at the end."""
        if self._reader is not reader:
            raise InputError(BUSY)
        self._start_reading()
        try:
            pair = await reply.read()
            if pair is None:
                return None
            if pair[1]:
                self._fold.feed(pair[1])
                if self._observer.sees_events:
                    await self._observer.see_events(pair[1])
            return pair[1]
        finally:
            self._is_reading = False

    def _start_reading(self) -> None:
        if self._is_reading:
            raise InputError(BUSY)
        self._is_reading = True

    async def __aiter__(self) -> AsyncGenerator[AnyEvent, None]:
        async for batch in self.batches():
            for event in batch:
                yield event

    async def text(self) -> AsyncGenerator[str, None]:
        """Yields only the text of the answer."""
        async for event in self:
            if isinstance(event, TextDelta):
                yield event.text

    async def to(self, protocol: str, **options: Any) -> AsyncGenerator[bytes, None]:
        """Yields the chunks that a client of this protocol would get."""
        pipe = encoding(protocol, options)
        async for batch in self.batches():
            if chunk := b"".join(pipe.feed(_with_date(batch))):
                yield chunk
        if chunk := b"".join(pipe.finish()):
            yield chunk

    async def turn(self) -> Answer:
        """Returns the complete answer, also if some of it was read before. Raises its fault, if any."""
        async for _ in self._read_all(takes_over=True):
            pass
        reply = await self.open()
        turn = self._fold.turns[0] if self._fold.turns else Turn()
        if reply.end is None or turn.fault is not None:
            raise reply.error(turn.fault or Fault("truncated", "the answer was closed before its end"))
        return build_answer(turn, reply, cost=self.cost, cached=self.cached)

    async def show(self) -> Answer:
        """Returns the complete answer, and shows it while it grows: in a notebook's cell, or on standard output."""
        answer: Answer = await load_display().show_events(self, "Stream", self.turn)
        return answer

    def _timeline(self) -> Timeline:
        turn = self._fold.turn_so_far() if self._fold.turns else None
        timeline: Timeline = load_display().build_stream_timeline(self.reply, turn, self._fault)
        timeline.cost = self.cost
        return timeline

    @property
    def record(self) -> DecisionLog | None:
        """The router's decisions."""
        return self.reply.record if self.reply else None

    @property
    def usage(self) -> Usage | None:
        """The token counts that are known so far."""
        return self.reply.usage if self.reply else None

    @property
    def cost(self) -> Cost | None:
        """The cost in US dollars, once the stream has ended; None if it is unknown."""
        return self._observer.cost

    @property
    def cached(self) -> bool:
        """True if the answer comes from the response cache."""
        return self._observer.cached

    @property
    def end(self) -> Finish | Fault | None:
        return self.reply.end if self.reply else self._fault

    @property
    def diagnostics(self) -> list[Diagnostic]:
        return self.reply.diagnostics if self.reply else []

    async def aclose(self) -> None:
        """Closes the connection to the provider, unless the answer is complete."""
        if self.reply is None:
            return
        await self.reply.aclose()
        if not self._closed:
            self._closed = True
            await self._end(self.reply)

    async def _end(self, reply: ModelReply) -> None:
        """Stores the reasoning state for the next request, and tells the observer."""
        turn = self._fold.whole_turn() if self._fold.turns else None
        if turn is not None and self._store is not None:
            from penstock._messages.carried_state import remember  # noqa: PLC0415 — it loads OpenSSL, for hashlib

            remember(turn, self._store, self._tenant, origin=reply.provider)
        await self._observer.end_turn(reply, turn)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _with_date(events: list[AnyEvent]) -> list[AnyEvent]:
    """Returns the events, with a date if the provider gave none. Some protocols require one."""
    if events and type(events[0]) is Start and events[0].created is None:
        return [replace(events[0], created=int(time.time())), *events[1:]]
    return events
