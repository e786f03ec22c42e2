"""A reply: an answer that has begun. Its batches, its events, its bytes; what it cost; how it came to be.

Nothing is retried from here on: trouble after the first content ends the events with a `Fault`, and what came before it
is kept. One read, one batch: `read`, `pairs` and `batches` cost no await for each event.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from msgspec.structs import replace

from penstock import events as ev
from penstock._fold import Fold
from penstock._http_errors import redact_fault
from penstock._redaction import redact_headers
from penstock._text_runs import expand_runs
from penstock.errors import ProviderError, provider_error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from penstock._codec import Decoder
    from penstock._diagnostics import Diagnostic
    from penstock._engines.interface import ChunkEvents, ChunkHandler, DecisionLog, ResponseSource, UpstreamRequest
    from penstock._messages.context import Cleared
    from penstock.request import Turn

# What may be thrown away and asked for again: it says nothing yet.
_PREAMBLE = """Start Step Usage Unknown TextStart TextEnd ReasoningStart ReasoningEnd RefusalStart RefusalEnd Fault"""
PREAMBLE = frozenset(getattr(ev, name) for name in _PREAMBLE.split())
_ENDS = frozenset({ev.Finish, ev.Fault})
_NOTED = _ENDS | {ev.Usage}
MAX_PREAMBLE_BYTES = 2**16  # bytes of preamble that are held back at most


class ModelReply:
    """An answer on its way. Close it, or read it to its end."""

    def __init__(self, source: ResponseSource, job: UpstreamRequest, record: DecisionLog, engine: str) -> None:
        self.status: int = source.status
        self.provider: str = job.provider.name
        self.model: str = job.model
        self.protocol: str = job.protocol
        self.operation: str = job.operation
        self.engine = engine
        self.record = record
        self.raw: bool = source.raw  # reads hold the provider's bytes
        self.verbatim: bool = source.raw and job.verbatim  # the bytes may be passed through unchanged
        self.secrets: tuple[str, ...] = job.secrets  # the credentials of the request, by value
        self.transforms: tuple[Any, ...] = job.transforms  # the stages behind the decoder
        self.losses: tuple[str, ...] = job.losses  # names of settings that the provider cannot take
        self.cleared: Cleared | None = job.cleared  # what context management removed from the conversation
        self.usage: ev.Usage | None = None
        self.end: ev.Finish | ev.Fault | None = None
        self._source, self._job = source, job
        self._held: deque[ChunkEvents] = deque()
        self._over = False

    async def begin(self) -> None:
        """Read up to the first content. A fault before it is an error, and may be tried again."""
        size = 0
        while not self._over and size < MAX_PREAMBLE_BYTES:
            pair = await self._next()
            if pair is None:
                break
            self._held.append(pair)
            size += len(pair[0])
            if any(type(event) not in PREAMBLE for event in pair[1]):
                return
            if isinstance(self.end, ev.Fault):
                raise self.error(self.end)

    def error(self, fault: ev.Fault) -> ProviderError:
        """A fault of this reply as an error."""
        if fault.status is None and self.status // 100 != 2:  # noqa: PLR2004
            fault = replace(fault, status=self.status)
        return provider_error(fault, provider=self.provider, model=self.model, headers=self.headers)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    async def read(self) -> ChunkEvents | None:
        """The bytes of one read and the events they gave, either may be empty; None at the end."""
        pair = await self.take()
        return pair and (pair[0], expand_runs(pair[1]))

    async def take(self) -> tuple[bytes, list[Any]] | None:
        """The same, runs as they are: for whoever hands them on."""
        if self._held:
            return self._held.popleft()
        if self._over:
            return None
        try:  # as `_next`, which would be one more step for every event
            pair = await self._source.read()
        except asyncio.CancelledError:
            await self.aclose()
            raise
        except ProviderError as error:
            self._over = True
            return b"", self._noted(self._source.end_with(error.fault))
        if pair is None:
            self._over = True
            return None
        return pair[0], self._noted(pair[1])

    @property
    def holding(self) -> bool:
        """Whether reads that `begin` has read still wait to be taken."""
        return bool(self._held)

    async def pour(self, step: ChunkHandler) -> None:
        """Give each read to `step` the moment it comes, with no task between; then `read` goes on.

        Returns when `step` says that it is enough, when the answer is over, and at once where a source cannot do so.
        """
        pour: Any = getattr(self._source, "pour", None)
        if pour is None or self._held or self._over:
            return
        trouble: list[Exception] = []

        def take(chunk: bytes, events: list[Any]) -> bool:
            try:  # nothing may be raised into the loop
                return step(chunk, self._noted(events)) and not self._over
            except Exception as error:  # noqa: BLE001 — it is raised below
                trouble.append(error)
                return False

        try:
            await pour(take)
        except asyncio.CancelledError:
            await self.aclose()
            raise
        except ProviderError:
            pass  # the next read tells it
        if trouble:
            raise trouble[0]

    async def pairs(self) -> AsyncIterator[ChunkEvents]:
        """Bytes and events together: what a tee wants."""
        async with self:
            while (pair := await self.read()) is not None:
                yield pair

    async def batches(self) -> AsyncIterator[list[ev.AnyEvent]]:
        """The events, a list for each read."""
        async with self:
            while (pair := await self.read()) is not None:
                if pair[1]:
                    yield pair[1]

    async def chunks(self) -> AsyncIterator[bytes]:
        """The upstream's own bytes; nothing where the engine has none (`raw`)."""
        async with self:
            while (pair := await self.read()) is not None:
                if pair[0]:
                    yield pair[0]

    async def __aiter__(self) -> AsyncIterator[ev.AnyEvent]:
        async with self:
            while (pair := await self.read()) is not None:
                for event in pair[1]:
                    yield event

    async def turn(self) -> Turn:
        """The whole answer. A fault is raised: a turn that was asked for whole is whole."""
        book = Fold()
        while (pair := await self.read()) is not None:
            book.feed(pair[1])
        if isinstance(self.end, ev.Fault):
            raise self.error(self.end)
        return book.turns[0]

    async def _next(self) -> ChunkEvents | None:
        try:
            pair = await self._source.read()
        except asyncio.CancelledError:
            await self.aclose()
            raise
        if pair is None:
            self._over = True
            return None
        return pair[0], self._noted(pair[1])

    def _noted(self, events: list[Any]) -> list[ev.AnyEvent]:
        if _NOTED.isdisjoint(map(type, events)):
            return events
        for place, event in enumerate(events):
            if type(event) is ev.Usage:
                self.usage = self.usage if event.step else event
            elif type(event) in _ENDS:
                return self._ended(events, place)
        return events

    def _ended(self, events: list[Any], place: int) -> list[ev.AnyEvent]:
        """One turn is what was asked for: what comes after its end is not read."""
        last: ev.Finish | ev.Fault = events[place]
        if isinstance(last, ev.Fault):
            last = redact_fault(last, self.secrets)
        self.end, self._over = last, True
        self._source.complete()
        return [*events[:place], last]

    # ── the end ───────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """The head of the answer, fit to be shown."""
        return redact_headers(self._source.headers, self.secrets)

    @property
    def media(self) -> str:
        """The content type of the answer."""
        return self._source.headers.get("content-type", "")

    @property
    def framing(self) -> str:
        """How its bytes are framed: `body` where they are one, `auto` where nobody has said."""
        return getattr(self._source, "framing", "auto")

    @property
    def decoder(self) -> Decoder | None:
        """What reads the frames, where the source reads bytes; it counts those that are irregular."""
        return getattr(self._source, "decoder", None)

    @property
    def end_frame_missing(self) -> bool:
        """Whether the answer is complete but for its last frame, which was not waited for any longer."""
        return isinstance(self.end, ev.Finish) and getattr(self._source, "end_frame_missing", False)

    @property
    def malformed(self) -> int:
        """How many frames so far could not be read, and were skipped."""
        return getattr(self._source, "malformed", 0)

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """What was found in the request and in the answer so far."""
        return [*self._job.diagnostics, *self._source.diagnostics]

    async def aclose(self) -> None:
        """Let go. An answer that is not at its end loses its connection at once."""
        if self.end is None:
            self._over = True
            await self._source.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
