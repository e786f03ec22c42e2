"""What counting one turn costs: our metrics beside `prometheus-client`. Run: `python -m benchmarks.metrics`.

`prometheus-client` is not a dependency: install it to compare, or only our own figure is printed.
"""

from __future__ import annotations

import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock._gateway.metrics import Metrics
from penstock._store.journal import JournalEntry

if TYPE_CHECKING:
    from collections.abc import Callable

TURNS, ROUNDS = 5_000, 7
ROW = JournalEntry(
    time=1.0,
    protocol="openai-chat",
    provider="openai",
    model="gpt-5",
    status="finish",
    finish="stop",
    input=100,
    output=100,
    cached=100,
    cost=0.01,
    tries=1,
    bytes_in=10,
    bytes_out=10,
    ttft=0.2,
    duration=1.2,
)


def library_counter() -> Callable[[], None]:
    """Return a function that counts the same turn with the library's counters and histograms."""
    library: Any = import_module("prometheus_client")
    counter, histogram = library.Counter, library.Histogram
    registry = library.CollectorRegistry()
    turns = counter("turns", "-", ("protocol", "provider", "model", "status", "reason"), registry=registry)
    tokens = counter("tokens", "-", ("provider", "model", "kind"), registry=registry)
    cost = counter("cost", "-", ("provider", "model"), registry=registry)
    sizes = counter("sizes", "-", ("way",), registry=registry)
    tries = counter("tries", "-", ("provider",), registry=registry)
    ttft = histogram("ttft", "-", ("provider",), registry=registry)
    duration = histogram("duration", "-", ("provider",), registry=registry)

    def count() -> None:
        turns.labels("openai-chat", "openai", "gpt-5", "finish", "stop").inc()
        for kind in ("input", "output", "cached"):
            tokens.labels("openai", "gpt-5", kind).inc(100)
        cost.labels("openai", "gpt-5").inc(0.01)
        tries.labels("openai").inc()
        sizes.labels("in").inc(10)
        sizes.labels("out").inc(10)
        ttft.labels("openai").observe(0.2)
        duration.labels("openai").observe(1.2)

    return count


def microseconds(count: Callable[[], None]) -> float:
    """Return the CPU time of one call, from the calmest round."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(TURNS):
            count()
        best = min(best, time.process_time() - start)
    return best / TURNS * 1e6


def main() -> None:
    metrics = Metrics()
    metrics.models.configured = lambda _provider, _model: True
    ours = microseconds(lambda: metrics.count_turn(ROW))
    print(f"penstock           {ours:6.1f} µs a turn")
    try:
        library = microseconds(library_counter())
    except ImportError:
        print("prometheus-client  not installed")
        return
    print(f"prometheus-client  {library:6.1f} µs a turn, {library / ours:.1f} times as much")


if __name__ == "__main__":
    main()
