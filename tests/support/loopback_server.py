"""A real server on loopback for tests: `penstock serve` in a process of its own, on a port it picks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

START_LIMIT = 30.0


@contextmanager
def serving(*options: str) -> Iterator[str]:
    """The base address of a running server."""
    with TemporaryDirectory() as data:
        yield from _served(options, data)


def _served(options: tuple[str, ...], data: str) -> Iterator[str]:
    command = [sys.executable, "-m", "penstock", "serve", "--port", "0", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PENSTOCK_DATA": data})
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://\S+", line)
        assert found, f"the server said {line!r}"
        yield found[0]
    finally:
        process.terminate()
        process.wait(START_LIMIT)
        if process.stderr is not None:
            process.stderr.close()
