"""An upstream response: status, headers, body. Every wait has a limit; the time that the consumer takes is not counted.

One timer serves the whole response and is moved when it fires, so a read costs no timer. `close` closes the connection
at once. Works on an aiohttp response or on an `UpstreamConnection`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from penstock._http.transport_errors import connection_error, wait_timeout_message
from penstock.errors import provider_error
from penstock.events import Fault

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from penstock._http.request_options import Timeouts


MAX_BODY = 64 * 2**20  # bytes of a body that is read at once
_DRAIN_SECONDS = 1.0  # for the rest of a complete response
_draining: set[asyncio.Task[None]] = set()  # the loop holds tasks weakly


class UpstreamResponse:
    """One response. `read()` returns what arrived since the last read, b"" at the end."""

    def __init__(self, response: Any, limits: Timeouts, loop: asyncio.AbstractEventLoop, started: float) -> None:
        self.status: int = response.status
        headers: Mapping[str, str] = response.headers
        # The dict of an UpstreamConnection has lower-case names already.
        self.headers: dict[str, str]
        self.headers = headers if type(headers) is dict else {name.lower(): value for name, value in headers.items()}
        self._response = response
        self._content = response.content
        self._limits, self._loop = limits, loop
        self._first_byte_due, self._total_due = started + limits.first_byte, started + limits.total
        self._body_started = False
        self._waiting_since: float | None = None
        self._timeout_message = ""
        # The first alarm is at the shortest limit: after the first byte another limit applies.
        first_alarm = min(self._first_byte_due, self._total_due, started + limits.between_bytes)
        self._timer: asyncio.TimerHandle | None = loop.call_at(first_alarm, self._on_timer)

    def wrap_source(self, wrapper: Callable[[Any], Any]) -> None:
        """Replaces the response that is read by `wrapper(response)`, which can observe it. Call it before a read."""
        self._response = wrapper(self._response)
        self._content = self._response.content

    async def read(self) -> bytes:
        """Returns everything received so far; waits if there is nothing."""
        self._waiting_since = self._loop.time()
        try:
            data: bytes = await self._content.readany()
        except BaseException as error:
            self._fail(error)
            raise
        self._waiting_since = None
        if data:
            self._body_started = True
        else:
            self._release()
        return data

    async def stream_to(self, consumer: Callable[[bytes], bool]) -> None:
        """Calls `consumer` with each read as it arrives, until it returns False; then use `read` again.

        Returns at once if the connection cannot do that.
        """
        stream_to: Any = getattr(self._content, "stream_to", None)
        if stream_to is None:
            return
        self._waiting_since = self._loop.time()
        try:
            await stream_to(consumer)
        except BaseException as error:
            self._fail(error)
            raise
        self._waiting_since = None

    def _fail(self, error: BaseException) -> None:
        """Closes the connection and raises a typed error."""
        self.close()
        if isinstance(error, Exception):
            if self._timeout_message:
                raise provider_error(Fault("timeout", self._timeout_message)) from None
            raise connection_error(error) from error

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yields the body in chunks."""
        try:
            while chunk := await self.read():
                yield chunk
        finally:
            self.close()

    async def read_all(self, limit: int = MAX_BODY) -> bytes:
        """Returns the whole body. Raises if it is larger than `limit`."""
        chunks: list[bytes] = []
        size = 0
        while chunk := await self.read():
            chunks.append(chunk)
            size += len(chunk)
            if size > limit:
                self.close()
                raise provider_error(Fault("malformed", f"the answer is larger than {limit} bytes"))
        return b"".join(chunks)

    def drain(self) -> None:
        """The response is complete. Reads the rest in the background, for a moment, so the connection can be reused."""
        if self._content.at_eof():
            self._release()
            return
        task = self._loop.create_task(self._read_rest())
        _draining.add(task)
        task.add_done_callback(_draining.discard)

    async def _read_rest(self) -> None:
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                while await self._content.readany():
                    pass
        except BaseException as error:
            self.close()
            if isinstance(error, asyncio.CancelledError):
                raise
            return
        self._release()

    def close(self) -> None:
        """Ends the response. The connection of an incomplete response is aborted at once."""
        self._stop_timer()
        connection = self._response.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()
        self._response.close()

    def _release(self) -> None:
        self._stop_timer()
        self._response.release()

    def _stop_timer(self) -> None:
        self._waiting_since = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        now = self._loop.time()
        due = self._due(now)
        if now < due:
            self._timer = self._loop.call_at(due, self._on_timer)
            return
        self._timer = None
        began = self._body_started
        self._timeout_message = wait_timeout_message(self._limits, began=began, past_total=now >= self._total_due)
        self._content.set_exception(TimeoutError(self._timeout_message))
        self.close()

    def _due(self, now: float) -> float:
        """Returns when the current wait is too long; without a wait, when to look again."""
        if not self._body_started:
            # A consumer that has not started to read does not wait for the first byte.
            waiting = self._waiting_since is not None
            return min(self._total_due, self._first_byte_due if waiting else max(self._first_byte_due, now + 1))
        last = now
        if self._waiting_since is not None:
            last = max(self._waiting_since, getattr(self._content, "last_read_at", 0.0))
        return min(self._total_due, last + self._limits.between_bytes)
