"""Gateways that keep turns on disk: restarts, and several that share their files as worker processes do."""

from __future__ import annotations

import re
import resource
import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from penstock._gateway.worker_metrics import WorkerMetrics
from tests.support.inspector import Inspected, inspected

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

FILE = "turns.sqlite"
KEEP = {"keep": True}


def on_disk(folder: Path, **more: Any) -> dict[str, Any]:
    """A gateway whose data folder outlives it."""
    return {"inspector": KEEP, "data": folder, "journal": {"path": str(folder / "journal.sqlite")}, **more}


def without_times(outputs: list[Any]) -> list[Any]:
    """The Responses API says when a response was completed: that is the time of the trace."""
    return [{**row, "data": re.sub(r'"completed_at":\d+', "", row["data"])} for row in outputs]


def written(gateway: Inspected) -> None:
    """Wait until the turns so far are on disk."""
    gateway.inspector.watch.disk.flush()


def recorded(gateway: Inspected) -> None:
    """Wait until the recordings so far are on disk."""
    gateway.app.services.recorder.close()


def kept_bytes(folder: Path) -> bytes:
    """What the file of kept turns and its log hold."""
    return b"".join(path.read_bytes() for path in folder.glob(f"{FILE}*"))


def damage_first_turn(folder: Path, table: str) -> None:
    """Make the content, or the texts, of the first kept turn unreadable."""
    with closing(sqlite3.connect(folder / FILE)) as database, database:
        database.execute(f"UPDATE {table} SET body = x'00' WHERE rowid = 1")  # noqa: S608 — of the test's own list


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Nobody else can write to the file of kept turns."""
    with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        yield
        database.execute("COMMIT")


@contextmanager
def full_disk(most: int = 2**20) -> Generator[None]:
    """No file can grow beyond so many bytes: the system refuses the write, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class Workers:
    """Two gateways in this process that share a folder, as two workers do. `shared`: that folder."""

    def __init__(self, shared: Path, gateways: list[Inspected]) -> None:
        self.shared, self.gateways = shared, gateways
        self._metrics: list[WorkerMetrics] = []
        for number, one in enumerate(gateways):
            made = WorkerMetrics(shared, number, one.app.services.metrics)
            made.on_publish.append(one.inspector.watch.deletions.apply_deletions)
            made.publish()
            self._metrics.append(made)
            self.start(number)

    def start(self, number: int) -> None:
        """The worker looks for deletions from now on, also while nobody asks it."""
        self.gateways[number].call(_run(self._metrics[number].start))

    def stop(self, number: int) -> None:
        self.gateways[number].call(_run(self._metrics[number].close))

    @property
    def deletions(self) -> list[Path]:
        """What is left of deletions that not all have applied."""
        return list((self.shared / "deletions").glob("*"))


async def _run(call: Any) -> None:
    call()


@contextmanager
def workers(folder: Path, *, keep: bool, **more: Any) -> Generator[Workers]:
    shared = folder / "workers"
    shared.mkdir()
    options = on_disk(folder / "data", inspector={"keep": keep}, **more)
    with inspected(**options) as first, inspected(**options) as second:
        made = Workers(shared, [first, second])
        try:
            yield made
        finally:
            for number in range(2):
                made.stop(number)
