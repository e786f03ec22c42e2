"""Watches the event loop: logs when it was blocked, for how long, and what ran meanwhile.

A timer of the loop writes down the time, a thread looks at it. Where it is too old, the thread takes the stack of the
loop's own thread: names of modules and functions with line numbers, nothing of what they work on. That works for C code
that holds the interpreter lock too, because the thread is next when the lock is released: the caller is still there.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType

log = logging.getLogger("penstock.watchdog")
BEATS = 5  # of the timer within the limit
FRAMES = 12  # of a stack that are logged, the innermost first
QUIET = 10.0  # seconds between two lines
LASTING = 5.0  # seconds after which a block is logged before it has ended


class Watchdog:
    """Of one event loop. `limit`: seconds that it may be blocked for; 0 watches nothing."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self.blocks = 0
        self.seconds = 0.0  # that the loop was blocked for, in all
        self._last = 0.0  # when the loop was last seen alive
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._thread: threading.Thread | None = None
        self._watched = 0  # the id of the loop's thread
        self._stopped = threading.Event()
        self._logged = -QUIET
        self._unlogged = 0

    def start(self) -> None:
        """Watch the running loop."""
        if self._limit <= 0 or self._thread is not None:
            return
        self._loop, self._watched = asyncio.get_running_loop(), threading.get_ident()
        self._stopped.clear()
        self._beat()
        self._thread = threading.Thread(target=self._watch, name="penstock-watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._stopped.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._thread is not None:
            self._thread.join(1.0)
            self._thread = None

    def counts(self) -> Mapping[tuple[str, ...], float]:
        """How often the loop was blocked, for the metrics."""
        return {(): float(self.blocks)}

    def _beat(self) -> None:
        self._last = time.monotonic()
        if self._loop is not None:
            self._timer = self._loop.call_later(self._limit / BEATS, self._beat)

    # ── in the watchdog's thread ──────────────────────────────────────────────────────────────────

    def _watch(self) -> None:
        while not self._stopped.wait(max(self._last + self._limit - time.monotonic(), self._limit / BEATS)):
            if time.monotonic() - self._last > self._limit:
                self._blocked(self._last)

    def _blocked(self, since: float) -> None:
        """Wait for the end of a block, and log it."""
        stack, told = _stack(self._watched), False
        while self._last == since and not self._stopped.wait(self._limit / BEATS):
            if not told and time.monotonic() - since > LASTING:
                self._log(time.monotonic() - since, "still is", stack)
                told = True
        seconds = (self._last if self._last != since else time.monotonic()) - since
        self.blocks += 1
        self.seconds += seconds
        self._log(seconds, "", stack)

    def _log(self, seconds: float, still: str, stack: str) -> None:
        now = time.monotonic()
        if now - self._logged < QUIET:
            self._unlogged += 1
            return
        also = f" ({self._unlogged} more times since the last such line)" if self._unlogged else ""
        self._logged, self._unlogged = now, 0
        what = f"the event loop was blocked for {seconds:.2f} s{f' and {still}' if still else ''}{also}"
        log.warning("%s: every request waited. It ran %s", what, stack)


def _stack(thread: int) -> str:
    """What a thread runs: the innermost function first."""
    frame: FrameType | None = sys._current_frames().get(thread)  # noqa: SLF001 — documented, in spite of its name  # pyright: ignore[reportPrivateUsage]
    lines: list[str] = []
    while frame is not None and len(lines) < FRAMES:
        lines.append(f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_name}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(lines) or "something that has ended"
