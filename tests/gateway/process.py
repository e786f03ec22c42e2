"""`penstock serve` in a process of its own, with its files where a test can look: configuration, data, what it said."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

LIMIT = 30.0


@dataclass
class Gateway:
    """A running one. `said` is all of its standard error once it has stopped."""

    base: str
    process: subprocess.Popen[bytes]
    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "penstock.toml"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def said(self) -> str:
        return (self.folder / "said").read_text()

    def stop(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)
        self.process.wait(LIMIT)


@contextmanager
def gateway(folder: Path, config: str = "", *options: str, **env: str) -> Generator[Gateway]:
    """A gateway with this configuration; options go after `serve`."""
    place = folder / "penstock.toml"
    place.write_text(config)
    command = [sys.executable, "-m", "penstock", "serve", "--port", "0", "--config", str(place), *options]
    kept = {name: value for name, value in os.environ.items() if not name.endswith(("_KEY", "_TOKEN"))}
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(
            command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, bufsize=0,
            env={**kept, "PENSTOCK_DATA": str(folder / "data"), **env},
        )  # fmt: skip
        assert process.stderr is not None
        first = process.stderr.readline()
        said.write(first)
        said.flush()
        pump = subprocess.Popen(["cat"], stdin=process.stderr, stdout=said)
        try:
            yield Gateway(first.decode().split()[-1], process, folder)
        finally:
            process.terminate()
            process.wait(LIMIT)
            pump.wait(LIMIT)
            process.stderr.close()
