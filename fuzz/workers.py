"""Runs targets side by side, each in a process of its own, and shows how far they are."""

from __future__ import annotations

import multiprocessing as mp
import queue
import sys
import time
from typing import TYPE_CHECKING, Any

from fuzz.engine import Crash, Limits, Result, fuzz

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SHOW_EVERY = 10.0
GONE = "the process died"


def _work(name: str, limits: Limits, seed: int, results: Any) -> None:
    """What a process does: one target from its load to its last input."""
    from fuzz.targets import targets  # noqa: PLC0415 — the parent needs only names

    done = fuzz(targets()[name], limits, seed, lambda result: results.put((name, False, result)))
    results.put((name, True, done))


class Workers:
    """The processes, and the latest figures of each target."""

    def __init__(self, names: Sequence[str], limits: Limits, seed: int, count: int) -> None:
        # A fork has all modules imported. Nothing runs in this process that a fork would break: no thread, no loop.
        self._context: Any = mp.get_context("fork" if sys.platform == "linux" else "spawn")
        self._results: Any = self._context.Queue()
        self._waiting = list(names)
        self._running: dict[str, Any] = {}
        self._limits, self._seed, self._count = limits, seed, count
        self.results = {name: Result(name) for name in names}
        self._shown = time.monotonic()

    def run(self) -> Iterator[Result]:
        """Each result when it is final. Meanwhile a line of progress is printed now and then."""
        while self._waiting or self._running:
            self._start()
            yield from self._finished()
            if time.monotonic() - self._shown > SHOW_EVERY:
                self._shown = time.monotonic()
                self._show()

    def stop(self) -> None:
        """End what runs: the user has had enough, or something broke."""
        self._waiting.clear()
        for process in self._running.values():
            process.terminate()
            process.join()

    def _start(self) -> None:
        while self._waiting and len(self._running) < self._count:
            name = self._waiting.pop(0)
            work = (name, self._limits, self._seed, self._results)
            self._running[name] = self._context.Process(target=_work, args=work, daemon=True)
            self._running[name].start()

    def _finished(self) -> Iterator[Result]:
        try:
            name, done, result = self._results.get(timeout=0.2)
        except queue.Empty:
            yield from self._died()
            return
        self.results[name] = result
        if done:
            self._running.pop(name).join()
            yield result

    def _died(self) -> Iterator[Result]:
        """A process that ended without a result: Python itself crashed, or the memory was used up."""
        for name, process in list(self._running.items()):
            if not process.is_alive() and self._results.empty():
                del self._running[name]
                found = self.results[name]
                found.crashes[GONE] = Crash(GONE, f"exit code {process.exitcode}, after {found.inputs} inputs", b"")
                yield found

    def _show(self) -> None:
        for name in self._running:
            print(line(self.results[name], "running"), flush=True)


def line(result: Result, state: str = "done") -> str:
    """The figures of a target in one line."""
    speed = result.inputs / result.seconds if result.seconds else 0
    return (
        f"{result.target:28} {state:8} {result.inputs:>9,} inputs {result.past:>9,} past the first checks "
        f"{speed:>7,.0f}/s {len(result.crashes):>3} crashes"
    )
