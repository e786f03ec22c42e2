"""What a client gives: `Stream`, events as they come, and `Answer`, the whole turn; both in any wire shape too."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self

import msgspec
from msgspec.structs import replace

from penstock import _protocols as protocols
from penstock._bridge import encoding, write_body
from penstock._diagnostics import Diagnostic
from penstock._engines.interface import DecisionLog  # noqa: TC001 — msgspec reads the annotation
from penstock._fold import Fold, unfold
from penstock._input_limits import decode_deep
from penstock._messages.state import remember
from penstock.errors import UnknownProtocol
from penstock.events import AnyEvent, Fault, Finish, Start, TextDelta, Usage
from penstock.request import Turn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from penstock._engines.reply import ModelReply
    from penstock.stores import ReasoningStore


class Answer(Turn):
    """A whole turn, who gave it, and how that came about."""

    provider: str = ""
    record: DecisionLog | None = None
    diagnostics: list[Diagnostic] = msgspec.field(default_factory=list[Diagnostic])

    def to(self, protocol: str, **options: Any) -> Any:
        """The turn as the body that a client of this protocol would get."""
        row = protocols.protocol(protocol)
        if row.body is None:
            known = [name for name in protocols.MODULES if protocols.protocol(name).body]
            raise UnknownProtocol(protocol, known, "target of whole answers")
        pipe = encoding(protocol, options, frames=True)
        frames = [*pipe.feed(_dated(list(unfold(self)))), *pipe.finish()]
        return decode_deep(write_body(row.body, frames), trusted=True)


class Stream:
    """Events of one answer. It is asked for when the first is wanted; close it, or read it to its end.

    An error before the first content is raised; after it, it is the last event, a `Fault`.
    """

    def __init__(
        self,
        ask: Callable[[], Awaitable[ModelReply]],
        *,
        done: Callable[[ModelReply], None],
        store: ReasoningStore | None = None,
        tenant: str = "",
    ) -> None:
        self._ask = ask
        self._done = done
        self._store, self._tenant = store, tenant
        self._reply: ModelReply | None = None
        self._counted = False

    async def open(self) -> ModelReply:
        """Ask now. The reply has the status, the headers and the record of decisions."""
        if self._reply is None:
            self._reply = await self._ask()
        return self._reply

    async def batches(self) -> AsyncIterator[list[AnyEvent]]:
        """The events, a list for each read: cheaper than one by one."""
        reply = await self.open()
        book = Fold() if self._store is not None else None
        try:
            while (pair := await reply.read()) is not None:
                if pair[1]:
                    if book is not None:
                        book.feed(pair[1])
                    yield pair[1]
        finally:
            await self.aclose()
            if book is not None and self._store is not None and book.turns:
                remember(book.whole_turn(), self._store, self._tenant, origin=reply.provider)

    async def __aiter__(self) -> AsyncIterator[AnyEvent]:
        async for batch in self.batches():
            for event in batch:
                yield event

    async def text(self) -> AsyncIterator[str]:
        """Only what is said, piece by piece."""
        async for batch in self.batches():
            for event in batch:
                if isinstance(event, TextDelta):
                    yield event.text

    async def to(self, protocol: str, **options: Any) -> AsyncIterator[bytes]:
        """The stream as a client of this protocol would get it, chunk by chunk."""
        pipe = encoding(protocol, options)
        async for batch in self.batches():
            if chunk := b"".join(pipe.feed(_dated(batch))):
                yield chunk
        if chunk := b"".join(pipe.finish()):
            yield chunk

    async def turn(self) -> Answer:
        """The whole answer; a fault in it is raised."""
        book = Fold()
        async for batch in self.batches():
            book.feed(batch)
        reply = await self.open()
        if reply.end is None or book.turns[0].fault is not None:
            raise reply.error(book.turns[0].fault or Fault("truncated", "the answer was closed before its end"))
        fields = {name: getattr(book.turns[0], name) for name in Turn.__struct_fields__}
        return Answer(**fields, provider=reply.provider, record=reply.record, diagnostics=reply.diagnostics)

    @property
    def reply(self) -> ModelReply | None:
        return self._reply

    @property
    def record(self) -> DecisionLog | None:
        """The decisions that led here."""
        return self._reply.record if self._reply else None

    @property
    def usage(self) -> Usage | None:
        """What is known so far of what it cost."""
        return self._reply.usage if self._reply else None

    @property
    def end(self) -> Finish | Fault | None:
        return self._reply.end if self._reply else None

    @property
    def diagnostics(self) -> list[Diagnostic]:
        return self._reply.diagnostics if self._reply else []

    async def aclose(self) -> None:
        """Break off: the connection to the provider is closed at once."""
        if self._reply is not None:
            await self._reply.aclose()
            if not self._counted:
                self._counted = True
                self._done(self._reply)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _dated(events: list[AnyEvent]) -> list[AnyEvent]:
    """The events; a turn whose provider gave no time was created now. Some protocols must have one."""
    if events and type(events[0]) is Start and events[0].created is None:
        return [replace(events[0], created=int(time.time())), *events[1:]]
    return events


_FIELDS = ("input", "output", "cached", "written", "reasoning")


class UsageTotals(msgspec.Struct):
    """Tokens and calls. `unknown` are calls that nobody told the usage of; `broken` those that ended in a fault."""

    calls: int = 0
    unknown: int = 0
    broken: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    written: int = 0
    reasoning: int = 0


class UsageTracker:
    """The book."""

    def __init__(self) -> None:
        self.by_model: dict[tuple[str, str], UsageTotals] = {}

    def add(self, reply: ModelReply) -> None:
        """Count a reply that is over, or was left."""
        row = self.count(reply.provider, reply.model, reply.usage)
        if reply.end is None or hasattr(reply.end, "kind"):
            row.broken += 1

    def count(self, provider: str, model: str, usage: Usage | None) -> UsageTotals:
        row = self.by_model.setdefault((provider, model), UsageTotals())
        row.calls += 1
        if usage is None:
            row.unknown += 1
            return row
        for name in _FIELDS:
            setattr(row, name, getattr(row, name) + (getattr(usage, name) or 0))
        return row

    @property
    def total(self) -> UsageTotals:
        made = UsageTotals()
        for row in self.by_model.values():
            for name in UsageTotals.__struct_fields__:
                setattr(made, name, getattr(made, name) + getattr(row, name))
        return made
