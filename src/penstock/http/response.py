"""An answer as it comes in: status, headers, chunks. Every wait has a limit; a consumer's own time is not counted.

One timer for the whole answer, moved when it rings: reading costs no timer of its own. Closing closes the connection at
once. Leans on an aiohttp response, which it is given.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.errors import provider_error
from penstock.events import Fault
from penstock.http.transport_errors import broken

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from penstock.http.transport_errors import WaitLimits


WHOLE = 64 * 2**20  # bytes of an answer that is read in one piece
_MOMENT = 1.0  # seconds that the end of a whole answer is waited for
_settling: set[asyncio.Task[None]] = set()  # a task that nobody holds may vanish


class Incoming:
    """One answer. `read()` gives what has come since the last one, b"" at the end."""

    __slots__ = (
        "_all", "_begun", "_content", "_first", "_late", "_limits", "_loop", "_pour", "_response", "_since", "_timer",
        "_total", "headers", "status",
    )  # fmt: skip

    def __init__(self, response: Any, limits: WaitLimits, loop: asyncio.AbstractEventLoop, started: float) -> None:
        self.status: int = response.status
        said: Mapping[str, str] = response.headers
        # A connection of our own has made them small already.
        self.headers: dict[str, str]
        self.headers = said if type(said) is dict else {name.lower(): value for name, value in said.items()}
        self._response = response
        self._content = response.content
        self._all = getattr(self._content, "all", None) or partial(_all, self._content)
        self._pour: Any = getattr(self._content, "pour", None)
        self._limits, self._loop = limits, loop
        self._first, self._total = started + limits.first_byte, started + limits.total
        self._begun = False
        self._since: float | None = None  # when the wait that is going on began
        self._late = ""
        # It rings no later than the shortest limit would: from the first byte on another one holds.
        soon = min(self._first, self._total, started + limits.between_bytes)
        self._timer: asyncio.TimerHandle | None = loop.call_at(soon, self._watch)

    async def read(self) -> bytes:
        """All that has come, waiting for something to come."""
        self._since = self._loop.time()
        try:
            data: bytes = await self._all()
        except BaseException as error:
            self._fail(error)
            raise
        self._since = None
        if data:
            self._begun = True
        else:
            self._stop()
            self._response.release()
        return data

    async def pour(self, take: Callable[[bytes], bool]) -> None:
        """Hand on what comes in the moment it comes, until `take` says that it is enough; then `read` goes on.

        At once where the connection cannot.
        """
        if self._pour is None:
            return
        self._since = self._loop.time()
        try:
            await self._pour(take)
        except BaseException as error:
            self._fail(error)
            raise
        self._since = None

    def taking(self, take: Callable[[bytes], bool]) -> None:
        """While something is poured: another takes what comes, from the next read on."""
        self._content.taking(take)

    def again(self, chunk: bytes) -> bool:
        """What that one could not take goes to the first, and all that follows it."""
        taken: bool = self._content.again(chunk)
        return taken

    def _fail(self, error: BaseException) -> None:
        """Let go; what a connection says of its trouble is told in our words."""
        self.close()
        if isinstance(error, Exception):
            if self._late:
                raise provider_error(Fault("timeout", self._late)) from None
            raise broken(error) from error

    async def chunks(self) -> AsyncIterator[bytes]:
        """The answer, chunk by chunk."""
        try:
            while chunk := await self.read():
                yield chunk
        finally:
            self.close()

    async def whole(self, limit: int = WHOLE) -> bytes:
        """All of it in one piece, if it is not larger than that."""
        pieces: list[bytes] = []
        size = 0
        while chunk := await self.read():
            pieces.append(chunk)
            size += len(chunk)
            if size > limit:
                self.close()
                raise provider_error(Fault("malformed", f"the answer is larger than {limit} bytes"))
        return b"".join(pieces)

    def settle(self) -> None:
        """The answer is whole, whatever may still come: what is left of it is taken in passing, for a moment."""
        if self._content.at_eof():
            self._stop()
            self._response.release()
            return
        task = self._loop.create_task(self._rest())
        _settling.add(task)
        task.add_done_callback(_settling.discard)

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(_MOMENT):
                while await self._content.readany():
                    pass
        except BaseException as error:
            self.close()
            if isinstance(error, asyncio.CancelledError):
                raise
            return
        self._stop()
        self._response.release()

    def close(self) -> None:
        """Let go of the answer. One that is not at its end loses its connection, now."""
        self._stop()
        connection = self._response.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()
        self._response.close()

    def _stop(self) -> None:
        self._since = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _watch(self) -> None:
        now = self._loop.time()
        due = self._due(now)
        if now < due:
            self._timer = self._loop.call_at(due, self._watch)
            return
        limits, self._timer = self._limits, None
        if now >= self._total:
            self._late = f"no end within {limits.total:g} s (timeouts.total)"
        elif self._begun:
            self._late = f"nothing more within {limits.between_bytes:g} s (timeouts.between_bytes)"
        else:
            self._late = f"no answer within {limits.first_byte:g} s (timeouts.first_byte)"
        self._content.set_exception(TimeoutError(self._late))
        self.close()

    def _due(self, now: float) -> float:
        """When the wait that is going on is too long; without one, when to look again."""
        if not self._begun:
            # A consumer that has not begun to read is not waiting for the first byte either.
            return min(self._total, self._first if self._since is not None else max(self._first, now + 1))
        last = now if self._since is None else max(self._since, getattr(self._content, "heard", 0.0))
        return min(self._total, last + self._limits.between_bytes)


async def _all(content: Any) -> bytes:
    """All that has come, in one piece.

    aiohttp's own way looks for more to parse after every HTTP chunk it hands out, which is a third of what a stream of
    small chunks costs; so they are joined first. A reader that is made otherwise is read in its own way.
    """
    try:
        buffer = content._buffer  # noqa: SLF001 — as above
        while not buffer and not content._eof and content._exception is None:  # noqa: SLF001
            await content._wait("read")  # noqa: SLF001
        if len(buffer) > 1 and not content._buffer_offset:  # noqa: SLF001
            joined = b"".join(buffer)
            buffer.clear()
            buffer.append(joined)
        data: bytes = content.read_nowait()
    except AttributeError:
        data = await content.readany()
    return data
