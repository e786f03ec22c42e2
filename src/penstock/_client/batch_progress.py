"""The progress of `client.map`: counts, and how they are shown: a bar in a terminal, lines elsewhere, or a callback."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

import msgspec
from msgspec.structs import replace

from penstock.errors import InputError

if TYPE_CHECKING:
    from penstock._client.results import Answer

LINE_INTERVAL = 5.0  # seconds between two lines


class BatchProgress(msgspec.Struct):
    """How far a batch is. `total` is None if it is not known; `cost` is the sum of the known costs, in dollars.

    `failed` and `cached` are part of `done`. `waits` counts the pauses after rate limits.
    """

    total: int | None = None
    done: int = 0
    failed: int = 0
    cached: int = 0
    waits: int = 0
    cost: float = 0.0
    is_over: bool = False

    def count(self, answer: Answer | None, *, failed: bool) -> None:
        """Counts a result."""
        self.done += 1
        self.failed += failed
        if answer is not None:
            self.cached += answer.cached
            self.cost += float(answer.cost or 0.0)

    def finished(self) -> BatchProgress:
        """Returns the last state."""
        return replace(self, is_over=True)

    def __str__(self) -> str:
        total = "" if self.total is None else f"/{self.total}"
        notes = [f"{self.failed} failed"] * bool(self.failed) + [f"{self.cached} cached"] * bool(self.cached)
        notes += [f"${self.cost:.4f}"] * bool(self.cost)
        return ", ".join([f"{self.done}{total} done", *notes])


ProgressCallback: TypeAlias = Callable[[BatchProgress], object]
ProgressOption: TypeAlias = ProgressCallback | bool | None


def open_progress(option: ProgressOption, stream: TextIO | None = None) -> ProgressCallback:
    """Returns the function that shows progress. The default stream is stderr."""
    if option is None or option is False:
        return lambda _: None
    if callable(option):
        return option
    if option is not True:
        raise InputError(f"progress: expected True, False or a function, found {type(option).__name__}")
    target = stream or sys.stderr
    if target.isatty():
        try:
            return RichProgress(target)
        except ImportError:
            pass
    return LineProgress(target)


class LineProgress:
    """Writes a line from time to time, and at the end."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._next = clock() + LINE_INTERVAL

    def __call__(self, progress: BatchProgress) -> None:
        if progress.is_over or self._clock() >= self._next:
            self._next = self._clock() + LINE_INTERVAL
            print(progress, file=self._stream, flush=True)


class RichProgress:
    """Shows a bar with rich."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console  # noqa: PLC0415 — an extra
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

        columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
        self._bar: Any = Progress(*columns, console=Console(file=stream))
        self._task: Any = None

    def __call__(self, progress: BatchProgress) -> None:
        if self._task is None:
            self._bar.start()
            self._task = self._bar.add_task("", total=progress.total)
        self._bar.update(self._task, completed=progress.done, description=str(progress))
        if progress.is_over:
            self._bar.stop()
