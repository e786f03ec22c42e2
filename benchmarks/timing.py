"""Timing that survives a busy machine: contenders run in turn, by CPU time, for many rounds.

The best round of each says what the work costs. Two are compared within rounds, because what ran side by side had the
same weather, and in the calmest quarter of the rounds. Leans on nothing of penstock.
"""

from __future__ import annotations

import gc
import time
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CALM = 4  # of so many rounds, the calmest


class Section(NamedTuple):
    """A part of the results in Markdown, and the limits that it breaks."""

    text: str
    broken: list[str]


class Times:
    """The CPU seconds of every contender in every round."""

    def __init__(self, spent: dict[str, list[float]]) -> None:
        self.spent = spent

    def micros(self, name: str, events: int) -> float:
        """µs per event in the contender's best round."""
        return min(self.spent[name]) / events * 1e6

    def ratio(self, name: str, to: str) -> float:
        """How many times as long as the other one it took: the median of the rounds in which both took least."""
        rounds = sorted(zip(self.spent[name], self.spent[to], strict=True), key=sum)
        return median([mine / its for mine, its in rounds[: -(-len(rounds) // CALM)]])


def interleaved(contenders: Mapping[str, Callable[[], object]], rounds: int) -> Times:
    """Run all contenders in turn, after one turn to warm up."""
    spent: dict[str, list[float]] = {name: [] for name in contenders}
    for run in contenders.values():
        run()
    gc.collect()
    for _ in range(rounds):
        for name, run in contenders.items():
            start = time.thread_time()
            run()
            spent[name].append(time.thread_time() - start)
    return Times(spent)


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table: words to the left, figures to the right."""
    lines = [f"| {' | '.join(row)} |" for row in [head, *rows]]
    return "\n".join([lines[0], f"|---|{'---:|' * (len(head) - 1)}", *lines[1:]])
