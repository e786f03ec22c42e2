"""How CPU time grows with the size of an input. Twice the input may take at most 2.5 times as long."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

RATIO = 2.5
ENOUGH = 0.01  # seconds that a run takes, so that the clock's own grain does not matter
LARGEST = 2**21  # characters
STEPS = (1, 2, 4, 1, 2, 1)  # sizes that are compared while the ratio is too high, in units of the first


def seconds(work: Callable[[], Any], runs: int = 3) -> float:
    """CPU time of one run: the smallest of several."""
    return min(_once(work) for _ in range(runs))


def _once(work: Callable[[], Any]) -> float:
    """One run, without the collector, whose time depends on everything else that there is."""
    gc.collect(0)
    gc.disable()
    try:
        began = time.process_time()
        work()
        return time.process_time() - began
    finally:
        gc.enable()


def growth(make: Callable[[int], Callable[[], Any]], first: int = 2_000, largest: int = LARGEST) -> tuple[float, int]:
    """The ratio of the times for 2n and n, and n. `make` gives the work on an input of about that size.

    n begins at an eighth of `first`, and is doubled until a run takes 10 ms. An input of the largest size that takes less is
    fast enough: the ratio is 0.
    Where the ratio is too high, n is doubled: a step where memory leaves a cache is met once, squares remain. The
    smaller sizes are then tried again, since another program may have had the machine's caches meanwhile.
    """
    size = max(1, first // 8)
    while seconds(make(size), 1) < ENOUGH:
        if size * 2 > largest:
            return 0.0, size
        size *= 2
    ratio = float("inf")
    for step in STEPS:
        ratio = min(ratio, seconds(make(2 * step * size), 2) / seconds(make(step * size)))
        if ratio <= RATIO:
            break
    return ratio, size


def assert_linear(
    make: Callable[[int], Callable[[], Any]], what: str, first: int = 2_000, largest: int = LARGEST
) -> None:
    """Fail where twice the input takes more than 2.5 times as long."""
    ratio, size = growth(make, first, largest)
    assert ratio <= RATIO, f"{what}: {2 * size} takes {ratio:.1f} times as long as {size}"
