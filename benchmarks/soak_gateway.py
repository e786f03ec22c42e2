"""`penstock serve` that also tells how many asyncio tasks it has: `python -m benchmarks.soak_gateway FILE OPTIONS…`.

Every second the number goes into FILE. It is found by the garbage collector, so that nothing of penstock is touched.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from pathlib import Path

from penstock.cli import main

EVERY = 1.0


def tell(file: Path, stop: threading.Event) -> None:
    """Write the number of unfinished tasks until told to stop."""
    while not stop.wait(EVERY):
        count = sum(isinstance(one, asyncio.Task) and not one.done() for one in gc.get_objects())
        file.with_suffix(".new").write_text(str(count))
        file.with_suffix(".new").replace(file)


if __name__ == "__main__":
    over = threading.Event()
    threading.Thread(target=tell, args=(Path(sys.argv[1]), over), daemon=True).start()
    try:
        raise SystemExit(main(["serve", *sys.argv[2:]]))
    finally:
        over.set()
