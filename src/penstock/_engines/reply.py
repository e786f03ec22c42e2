"""The reply of a model, after its first content: events, bytes, usage, and the router's decisions.

There are no retries from here on: an error ends the events with a `Fault`. Each read is one batch, so `read`, `pairs`
and `batches` cost no await for each event.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from msgspec.structs import replace

from penstock import events as ev
from penstock._fold import Fold
from penstock._http_errors import rate_limit_reset, redact_fault
from penstock._redaction import redact_headers
from penstock._text_runs import expand_runs
from penstock.errors import ProviderError, provider_error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from penstock._codec import Decoder
    from penstock._diagnostics import Diagnostic
    from penstock._engines.engine_interface import (
        ChunkEvents,
        ChunkHandler,
        DecisionLog,
        ResponseSource,
        UpstreamRequest,
    )
    from penstock._messages.context_trimming import Cleared
    from penstock.request import Turn

# Events before the first content: after them the request can still be sent again.
_PREAMBLE = """Start Step Usage Unknown TextStart TextEnd ReasoningStart ReasoningEnd RefusalStart RefusalEnd Fault"""
PREAMBLE = frozenset(getattr(ev, name) for name in _PREAMBLE.split())
_ENDS = frozenset({ev.Finish, ev.Fault})
_OBSERVED = _ENDS | {ev.Usage, ev.CallStart, ev.RefusalStart}
MAX_PREAMBLE_BYTES = 2**16  # that are held back
MAX_TOOL_NAMES = 20  # of a turn that are remembered


class ModelReply:
    """A reply being read. Close it, or read it to its end."""

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
        self.tools: dict[str, None] = {}  # names of the tools that were called, in order
        self.refused: bool = False  # the model refused, in a part of the answer
        self._source, self._job = source, job
        self._held: deque[ChunkEvents] = deque()
        self._over = False
        self._on_end: Callable[[], None] | None = None

    def hold(self, on_end: Callable[[], None]) -> None:
        """Calls a function when the reply is over: now if it is, else at its end or when it is closed."""
        if self._over:
            on_end()
        else:
            self._on_end = on_end

    async def begin(self) -> None:
        """Reads up to the first content. Raises a fault before it, so that the request can be sent again."""
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

    def held_bytes(self) -> bytes:
        """Returns the bytes that `begin` has read and nobody has taken."""
        return b"".join(pair[0] for pair in self._held)

    def error(self, fault: ev.Fault) -> ProviderError:
        """Returns the error for a fault of this reply."""
        if fault.status is None and self.status // 100 != 2:  # noqa: PLR2004
            fault = replace(fault, status=self.status)
        return provider_error(fault, provider=self.provider, model=self.model, headers=self.headers)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    async def read(self) -> ChunkEvents | None:
        """Returns the bytes of one read and their events; either may be empty. None at the end."""
        pair = await self.read_with_runs()
        return pair and (pair[0], expand_runs(pair[1]))

    async def read_with_runs(self) -> tuple[bytes, list[Any]] | None:
        """Does the same, but does not expand text runs."""
        if self._held:
            return self._held.popleft()
        if self._over:
            return None
        try:  # as `_next`, which would cost one more call per event
            pair = await self._source.read()
        except asyncio.CancelledError:
            await self.aclose()
            raise
        except ProviderError as error:
            self._over = True
            return b"", self._observe(self._source.end_with(error.fault))
        if pair is None:
            self._over = True
            self._release()
            return None
        return pair[0], self._observe(pair[1])

    @property
    def holding(self) -> bool:
        """True if reads of `begin` still wait to be taken."""
        return bool(self._held)

    async def pour(self, step: ChunkHandler) -> None:
        """Calls `step` with each read as it arrives, without a task in between; then use `read` again.

        Returns when `step` returns False, when the answer ends, and at once if the source cannot do that.
        """
        pour: Any = getattr(self._source, "pour", None)
        if pour is None or self._held or self._over:
            return
        errors: list[Exception] = []

        def take(chunk: bytes, events: list[Any]) -> bool:
            try:  # nothing may be raised into the loop
                return step(chunk, self._observe(events)) and not self._over
            except Exception as error:  # noqa: BLE001 — it is raised below
                errors.append(error)
                return False

        try:
            await pour(take)
        except asyncio.CancelledError:
            await self.aclose()
            raise
        except ProviderError:
            pass  # the next read raises it
        if errors:
            raise errors[0]

    async def pairs(self) -> AsyncIterator[ChunkEvents]:
        """Yields bytes and events together."""
        async with self:
            while (pair := await self.read()) is not None:
                yield pair

    async def batches(self) -> AsyncIterator[list[ev.AnyEvent]]:
        """Yields a list of events for each read."""
        async with self:
            while (pair := await self.read()) is not None:
                if pair[1]:
                    yield pair[1]

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yields the provider's bytes; nothing if the engine has none (`raw`)."""
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
        """Returns the complete turn. Raises its fault, if any."""
        fold = Fold()
        while (pair := await self.read()) is not None:
            fold.feed(pair[1])
        if isinstance(self.end, ev.Fault):
            raise self.error(self.end)
        return fold.turns[0]

    async def _next(self) -> ChunkEvents | None:
        try:
            pair = await self._source.read()
        except asyncio.CancelledError:
            await self.aclose()
            raise
        if pair is None:
            self._over = True
            return None
        return pair[0], self._observe(pair[1])

    def _observe(self, events: list[Any]) -> list[ev.AnyEvent]:
        if _OBSERVED.isdisjoint(map(type, events)):
            return events
        for index, kind in enumerate(map(type, events)):
            if kind not in _OBSERVED:
                continue
            if kind in _ENDS:
                return self._end_at(events, index)
            if kind is ev.Usage and not events[index].step:
                self.usage = events[index]
            elif kind is ev.CallStart and len(self.tools) < MAX_TOOL_NAMES:
                self.tools[events[index].name] = None
            elif kind is ev.RefusalStart:
                self.refused = True
        return events

    def _end_at(self, events: list[Any], index: int) -> list[ev.AnyEvent]:
        """Ends the reply at the end of its turn: nothing after it is read."""
        last: ev.Finish | ev.Fault = events[index]
        if isinstance(last, ev.Fault):
            last = redact_fault(last, self.secrets)
        self.end, self._over = last, True
        self._release()
        self._source.complete()
        return [*events[:index], last]

    # ── the end ───────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """The headers of the response, without secrets."""
        return redact_headers(self._source.headers, self.secrets)

    def seconds_to_limit_reset(self) -> float | None:
        """Returns when a rate limit resets of which nothing is left, as the headers say; None if there is none."""
        return rate_limit_reset(self._source.headers, time.time())

    @property
    def server_url(self) -> str:
        """The URL of the server without path and query, which may hold a key."""
        return "/".join(self._job.url.split("/", 3)[:3])

    @property
    def media(self) -> str:
        """The content type of the response."""
        return self._source.headers.get("content-type", "")

    @property
    def framing(self) -> str:
        """The framing of its bytes: `body` if they are one body, `auto` if it is not known."""
        return getattr(self._source, "framing", "auto")

    @property
    def decoder(self) -> Decoder | None:
        """The decoder, if the source reads bytes."""
        return getattr(self._source, "decoder", None)

    @property
    def end_frame_missing(self) -> bool:
        """True if the answer is complete except for its last frame, which did not arrive in time."""
        return isinstance(self.end, ev.Finish) and getattr(self._source, "end_frame_missing", False)

    @property
    def malformed(self) -> int:
        """The number of frames that could not be read and were skipped."""
        return getattr(self._source, "malformed", 0)

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """The diagnostics of the request, and of the answer so far."""
        return [*self._job.diagnostics, *self._source.diagnostics]

    def add_diagnostic(self, row: Diagnostic) -> None:
        """Adds a diagnostic about the way that the request took."""
        self._job.diagnostics = [*self._job.diagnostics, row]

    async def aclose(self) -> None:
        """Closes the reply. If it is not complete, its connection is closed at once."""
        if self.end is None:
            self._over = True
            self._release()
            await self._source.aclose()

    def _release(self) -> None:
        if self._on_end is not None:
            self._on_end()
            self._on_end = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
