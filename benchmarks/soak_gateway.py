"""`penstock serve` that also tells how many asyncio tasks it has: `python -m benchmarks.soak_gateway FILE OPTIONS…`.

Every second the number goes into FILE. The event loop is found by the garbage collector, so that nothing of penstock is
touched. This is done once: to list all objects every second would itself be seen in the memory that is measured.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from pathlib import Path

from penstock._cli import main

EVERY = 1.0


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop of another thread; None before it runs."""
    found = (one for one in gc.get_objects() if isinstance(one, asyncio.AbstractEventLoop))
    return next((loop for loop in found if loop.is_running()), None)


def tell(file: Path, stop: threading.Event) -> None:
    """Write the number of unfinished tasks until told to stop."""
    loop = None
    while not stop.wait(EVERY):
        loop = loop or running_loop()
        count = len(asyncio.all_tasks(loop)) if loop is not None else 0
        file.with_suffix(".new").write_text(str(count))
        file.with_suffix(".new").replace(file)


if __name__ == "__main__":
    over = threading.Event()
    threading.Thread(target=tell, args=(Path(sys.argv[1]), over), daemon=True).start()
    try:
        raise SystemExit(main(["serve", *sys.argv[2:]]))
    finally:
        over.set()
