"""A gateway that counts what it spends on the frames of streams that it passes through, while it serves.

That is reading them, and choosing the bytes that the client gets. `python -m benchmarks.reading_cost FILE serve …` is
`penstock serve …`, and FILE holds the CPU nanoseconds that were spent so far. `benchmarks.against` runs it with the
code of two revisions: older ones had another name for the second half. Counting takes the same time in both.
"""

from __future__ import annotations

import mmap
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE = 8  # bytes of FILE: one integer in the byte order of the machine


def nanoseconds(file: Path) -> int:
    """What a gateway has spent so far."""
    return int.from_bytes(file.read_bytes(), sys.byteorder)


def _counted(method: Callable[..., Any], spent: memoryview[int]) -> Callable[..., Any]:
    clock = time.thread_time_ns

    def call(*values: Any) -> Any:
        started = clock()
        made = method(*values)
        spent[0] += clock() - started
        return made

    return call


def _find_class(*candidates: tuple[str, str]) -> Any:
    """Return the first class that this revision has: its name and its module changed over time."""
    for module, name in candidates:
        try:
            return getattr(import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise SystemExit(f"none of {', '.join(name for _, name in candidates)} is there")


def count_into(file: Path) -> None:
    """Have all streams from now on counted."""
    with file.open("r+b") as opened:
        spent = memoryview(mmap.mmap(opened.fileno(), SIZE)).cast("q")
    reader = _find_class(
        ("penstock._engines.reply_decoding", "NativeSource"),
        ("penstock.engines.reading", "NativeSource"),
        ("penstock.engines.reading", "Reading"),
    )
    passthrough = _find_class(
        ("penstock._gateway.client_stream", "Passthrough"),
        ("penstock.gateway.client_stream", "Passthrough"),
        ("penstock.gateway.passthrough", "Passthrough"),
        ("penstock.gateway.writing", "Tee"),
    )
    for owner, names in ((reader, ["_events"]), (passthrough, ["feed", "finish"])):
        for name in names:
            setattr(owner, name, _counted(getattr(owner, name), spent))


if __name__ == "__main__":
    count_into(Path(sys.argv.pop(1)))
    sys.exit(_find_class(("penstock._cli", "main"), ("penstock.cli", "main"))())
