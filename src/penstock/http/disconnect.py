"""Tasks that are cancelled before their answer is whole: the client leaves, its key is revoked, or the server stops.

Leans on the request's line, or on ASGI's `http.disconnect`. What the task holds open is its own to close.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.events import Fault
    from penstock.http.response_channel import Line

    Receive = Callable[[], Awaitable[Any]]


class Stoppable:
    """The task that makes it, for whoever must end it. `left` says why the task was cancelled.

    `fault` is what the client is told, where it was not the client who ended the answer.
    """

    __slots__ = ("_over", "_task", "fault", "left")

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 — an application runs in a task
        self._task = task
        self._over = False
        self.left = ""
        self.fault: Fault | None = None

    def end_with(self, fault: Fault) -> None:
        """Cancel the task, which then ends the answer with this fault."""
        if not self._over and not self.left:
            self.fault = fault
            self.call_off(fault.message)

    def call_off(self, why: str) -> None:
        """Cancel the task, once."""
        if not self._over and not self.left:
            self.left = why
            self._task.cancel()

    def caught(self) -> bool:
        """Whether a cancellation that was caught is ours; if so it is taken back."""
        if self.left:
            self._task.uncancel()
        return bool(self.left)


class Gone(Stoppable):
    """Watches over the task that makes it; `left` once the client has gone, or was given up. Close it."""

    __slots__ = ("_line", "_watch")

    def __init__(self, receive: Receive, line: Line | None = None) -> None:
        super().__init__()
        self._line = line
        self._watch: asyncio.Task[None] | None = None
        if line is not None:
            line.watch(self._gone)
        else:
            self._watch = asyncio.get_running_loop().create_task(self._wait(receive))

    async def _wait(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._gone()

    def _gone(self) -> None:
        self.call_off("the client has gone")

    def ending(self) -> None:
        """All is said but the end: a server tells of that as if the client had gone."""
        self._over = True

    def close(self) -> None:
        """Stop watching."""
        self._over = True
        if self._line is not None:
            self._line.leaving = None
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None  # what it raises has a traceback that refers to this
