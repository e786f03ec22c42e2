"""Cancels a request's task when the client disconnects, its key is revoked or the server stops.

A disconnect is reported by the request's `ResponseChannel` or by ASGI's `http.disconnect`. The task closes its own
resources.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock._http.response_channel import ResponseChannel
    from penstock.events import Fault

    Receive = Callable[[], Awaitable[Any]]


class CancellableTask:
    """The current task, for others to cancel. `reason` says why it was cancelled.

    `fault` is sent to the client if the client is not the one who ended the response.
    """

    __slots__ = ("_finished", "_task", "fault", "reason")

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 — an application runs in a task
        self._task = task
        self._finished = False
        self.reason: str = ""
        self.fault: Fault | None = None

    def cancel_with(self, fault: Fault) -> None:
        """Cancels the task, which then ends the response with this fault."""
        if not self._finished and not self.reason:
            self.fault = fault
            self.cancel(fault.message)

    def cancel(self, reason: str) -> None:
        """Cancels the task, once."""
        if not self._finished and not self.reason:
            self.reason = reason
            self._task.cancel()

    def absorb_cancellation(self) -> bool:
        """Takes back a caught cancellation if `cancel` caused it. False: raise it again."""
        if self.reason:
            self._task.uncancel()
        return bool(self.reason)


class DisconnectWatch(CancellableTask):
    """Cancels the current task when the client disconnects or stops reading. Call `close` at the end."""

    __slots__ = ("_channel", "_waiter")

    def __init__(self, receive: Receive, channel: ResponseChannel | None = None) -> None:
        super().__init__()
        self._channel = channel
        self._waiter: asyncio.Task[None] | None = None
        if channel is not None:
            channel.watch_disconnect(self._on_disconnect)
        else:
            self._waiter = asyncio.get_running_loop().create_task(self._wait(receive))

    async def _wait(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._on_disconnect()

    def _on_disconnect(self) -> None:
        self.cancel("the client has gone")

    def ignore_disconnect(self) -> None:
        """Only the end of the response is left to send. Servers report that end as a disconnect."""
        self._finished = True

    def close(self) -> None:
        """Stops watching."""
        self._finished = True
        if self._channel is not None:
            self._channel.on_disconnect = None
        if self._waiter is not None:
            self._waiter.cancel()
            self._waiter = None  # its exception has a traceback that refers to this object
