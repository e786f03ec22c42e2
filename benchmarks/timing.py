"""Timing that survives a busy machine: rounds of all contenders in turn, CPU time, the best round of each."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def interleaved(contenders: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The shortest CPU time of each contender in seconds, measured in turn so that all share the same weather."""
    best = dict.fromkeys(contenders, float("inf"))
    gc.collect()
    for _ in range(rounds):
        for name, run in contenders.items():
            start = time.thread_time()
            run()
            best[name] = min(best[name], time.thread_time() - start)
    return best


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(row)} |" for row in [head, *rows]]
    return "\n".join([lines[0], f"|{'---|' * len(head)}", *lines[1:]])
