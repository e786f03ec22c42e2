"""The numbers of all workers of a gateway, shared through small files in one folder.

Each worker writes its numbers every `PUBLISH_INTERVAL`, and before it answers `/metrics`, so a counter never goes down
from one scrape to the next, whichever worker answers. The parent adds the file of a worker that has ended to the file
`ended`. A killed worker loses at most the numbers of its last `PUBLISH_INTERVAL`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING

import msgspec

from penstock._gateway.metrics import Metrics, MetricsSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PUBLISH_INTERVAL = 0.25  # seconds
_KEPT_GAUGES = frozenset({"access_log_lost", "journal_lost"})  # they only grow: kept when their worker has ended
_ENDED = "ended"
_STARTED = "started"  # its time of change is when the gateway was started
_PREFIX = "worker-"
log = logging.getLogger("penstock.workers")


class _EndedWorkers(msgspec.Struct):
    """The numbers of workers that have ended. `added`: those whose file may still be there."""

    numbers: MetricsSnapshot = msgspec.field(default_factory=MetricsSnapshot)
    added: list[str] = []


_encode = msgspec.msgpack.Encoder().encode
_decode_numbers = msgspec.msgpack.Decoder(MetricsSnapshot).decode
_decode_ended = msgspec.msgpack.Decoder(_EndedWorkers).decode


class WorkerFolder:
    """The folder. Files are replaced as a whole, so a reader never sees half of one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, number: int, data: bytes) -> None:
        """Write the numbers of a worker."""
        self._replace(f"{_PREFIX}{number}", data)

    def read_others(self, number: int) -> MetricsSnapshot:
        """Return the sum of all workers but one, those that have ended included."""
        # Workers first: a file that disappears meanwhile is in `ended`, which is read after it.
        own, files = f"{_PREFIX}{number}", dict[str, bytes]()
        for name in os.listdir(self._folder):  # noqa: PTH208 — names are all that is needed
            data = self._read(name) if name.startswith(_PREFIX) and name != own else b""
            if data:
                files[name] = data
        ended = self._read_ended()
        for name in files.keys() - set(ended.added):
            ended.numbers.add(_decode_numbers(files[name]))
        return ended.numbers

    def mark_start(self) -> None:
        """Called by the parent only: the gateway starts."""
        (self._folder / _STARTED).touch()

    def read_start(self) -> float:
        """Return when the gateway was started; 0 if nobody has marked it."""
        try:
            return (self._folder / _STARTED).stat().st_mtime
        except FileNotFoundError:
            return 0.0

    def list_numbers(self) -> list[int]:
        """Return the numbers of all workers that run."""
        names = os.listdir(self._folder) if self._folder.exists() else []  # noqa: PTH208 — as above
        return [int(name.removeprefix(_PREFIX)) for name in names if name.startswith(_PREFIX)]

    def end_worker(self, number: int, *, restarted: bool) -> None:
        """Called by the parent only: a worker has ended, so its numbers move to `ended`."""
        name, ended = f"{_PREFIX}{number}", self._read_ended()
        data = self._read(name)
        if data:
            ended.numbers.add(_decode_numbers(data), _KEPT_GAUGES.__contains__)
        if restarted:
            ended.numbers.add(MetricsSnapshot({"worker_restarts": {(): 1.0}}))
        ended.added = [name]  # the files of earlier ones are deleted
        self._replace(_ENDED, _encode(ended))
        (self._folder / name).unlink(missing_ok=True)

    def _read_ended(self) -> _EndedWorkers:
        data = self._read(_ENDED)
        return _decode_ended(data) if data else _EndedWorkers()

    def _read(self, name: str) -> bytes:
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return b""

    def _replace(self, name: str, data: bytes) -> None:
        fresh = self._folder / f".{name}"
        fresh.write_bytes(data)
        fresh.replace(self._folder / name)


class WorkerMetrics:
    """Publishes the numbers of this worker, and adds those of the others to a page of metrics."""

    def __init__(self, folder: Path, number: int, metrics: Metrics) -> None:
        self.path, self.number = folder, number
        self.on_publish: list[Callable[[], None]] = []  # called every `PUBLISH_INTERVAL`, on the loop
        self._folder, self._metrics = WorkerFolder(folder), metrics
        self._last = b""
        self._timer: asyncio.TimerHandle | None = None
        metrics.add_gauge("workers", lambda: 1.0)
        metrics.add_counters("worker_restarts", lambda: {(): 0.0})
        metrics.shared = self

    def start(self) -> None:
        """Publish from now on, on the running loop."""
        self.publish()
        self._timer = asyncio.get_running_loop().call_later(PUBLISH_INTERVAL, self.start)
        for call in self.on_publish:
            call()

    def close(self) -> None:
        """Publish for the last time."""
        if self._timer is not None:
            self._timer.cancel()
        self.publish()

    def publish(self, own: MetricsSnapshot | None = None) -> None:
        """Write the numbers, if they have changed."""
        data = _encode(own or self._metrics.snapshot())
        if data == self._last:
            return
        try:
            self._folder.write(self.number, data)
            self._last = data
        except OSError as error:
            log.error("the numbers of this worker cannot be shared: %s", error)  # noqa: TRY400 — a stack would not help

    def add_peers(self, own: MetricsSnapshot) -> MetricsSnapshot:
        """Return the numbers of all workers."""
        self.publish(own)
        total = MetricsSnapshot()
        total.add(own)
        total.add(self._folder.read_others(self.number))
        return total

    def read_start(self) -> float:
        """Return when the gateway was started, which may be earlier than this worker; 0 if that is unknown."""
        return self._folder.read_start()

    def list_numbers(self) -> list[int]:
        """Return the numbers of all workers that run."""
        return self._folder.list_numbers()
