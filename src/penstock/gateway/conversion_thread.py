"""Reads and converts large requests in a thread, one at a time, so that small requests and streams go on meanwhile.

Only Python code gives way to other threads, every few milliseconds. A single call of the JSON parser does not, so a
large body still holds the event loop up for as long as that takes.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from penstock.gateway.struct_types import build_types

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
LARGE = 256 * 1024  # bytes of a body: to read a smaller one takes less than a thread does harm


class ConversionThread:
    """One thread. Work that waits for it is forgotten when its request is cancelled; work that runs is finished."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slot = asyncio.Semaphore(1)
        self._modules = 0  # that were loaded when types were built

    async def run(self, work: Callable[[], T]) -> T:
        """What `work` gives or raises. It sees the context variables of the caller."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # a semaphore belongs to one
            self._loop, self._slot = loop, asyncio.Semaphore(1)
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "penstock-conversion")
        if len(sys.modules) != self._modules:
            build_types()
            self._modules = len(sys.modules)
        slot = self._slot
        # Not left to the pool's own queue, which would hold the bodies of cancelled requests.
        await slot.acquire()
        try:
            running = loop.run_in_executor(self._pool, contextvars.copy_context().run, partial(_finished, work))
        except BaseException:
            slot.release()
            raise
        running.add_done_callback(lambda _: slot.release())
        return await asyncio.shield(running)

    def close(self) -> None:
        """Wait for what runs."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


def _finished(work: Callable[[], T]) -> T:
    try:
        return work()
    except StopIteration as error:  # a future cannot hold one, and would never be done
        raise RuntimeError("the conversion of a request stopped early") from error
