"""Deletes turns in the memory of all worker processes of a gateway.

A worker that is to delete turns writes a small file into the folder that workers share. The others look for such files
every `PUBLISH_INTERVAL`, and before they answer a request of the inspector, so they never show a turn that was deleted.
Each writes another file when it has deleted its turns, with their ids, or with the reason why it could not on disk.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

import msgspec

from penstock._gateway.worker_metrics import WorkerMetrics

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from penstock._gateway.services import Services

FOLDER = "deletions"  # in the folder that workers share
ANSWER_TIMEOUT = 5.0  # seconds for the other workers to delete their turns
POLL_INTERVAL = 0.02  # seconds
log = logging.getLogger("penstock.inspector")


class TurnDeletion(msgspec.Struct, frozen=True, array_like=True):
    """Which turns are to go: by their ids, or all; those of a tenant, or of all.

    Turns that end after `at` stay. It is of the monotonic clock, which all processes of a machine share.
    """

    at: float
    ids: list[str] | None
    tenant: str | None


class DeletedTurns(msgspec.Struct, frozen=True):
    """Ids of deleted turns. `pending`: workers that have not confirmed. `errors`: why workers could not on disk.

    `remains`: where text of them still is, and why.
    """

    ids: set[str] = set()
    pending: list[int] = []
    errors: list[str] = []
    remains: str = ""


class DeletionAnswer(msgspec.Struct, frozen=True, array_like=True):
    """What a worker has deleted. `error`: why its turns are deleted in memory only."""

    ids: list[str]
    error: str = ""


class DeletableTurns(Protocol):
    """The turns of this worker."""

    def delete_captures(self, ids: Collection[str] | None, tenant: str | None, until: float) -> set[str]:
        """Deletes turns in memory. Returns their ids."""
        ...

    def delete_written(self, ids: Collection[str]) -> None:
        """Deletes what was written of these turns meanwhile, and their words. Not for the event loop."""
        ...


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(TurnDeletion).decode
_decode_answer = msgspec.msgpack.Decoder(DeletionAnswer).decode


class WorkerDeletions:
    """Asks the other workers to delete turns, and deletes what they ask for. Without other workers it does nothing."""

    def __init__(self, services: Services, turns: DeletableTurns) -> None:
        self._services, self._turns = services, turns
        self._applied: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        if isinstance(services.metrics.shared, WorkerMetrics):
            services.metrics.shared.on_publish.append(self.apply_deletions)

    @property
    def _worker(self) -> WorkerMetrics | None:
        shared = self._services.metrics.shared
        return shared if isinstance(shared, WorkerMetrics) else None

    # ── deletions of others ───────────────────────────────────────────────────────────────────────

    def apply_deletions(self) -> None:
        """Applies the deletions that other workers requested since the last time."""
        worker = self._worker
        if worker is None:
            return
        folder = worker.path / FOLDER
        names = {name for name in _list_files(folder) if "." not in name}
        self._applied &= names
        for name in sorted(names - self._applied):
            self._applied.add(name)
            with suppress(FileNotFoundError):  # all others have applied it: this worker is new
                self._apply(folder, name, worker.number)

    def _apply(self, folder: Path, name: str, number: int) -> None:
        deletion = _decode((folder / name).read_bytes())
        ids = self._turns.delete_captures(deletion.ids, deletion.tenant, deletion.at)
        task = asyncio.get_running_loop().create_task(self._finish(folder, f"{name}.{number}", ids))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish(self, folder: Path, answer: str, ids: set[str]) -> None:
        problem = ""
        try:
            await asyncio.to_thread(self._turns.delete_written, ids)
        except OSError as error:
            problem = error.strerror or str(error)
            log.error("turns that another worker deletes are deleted in memory only: %s", error)  # noqa: TRY400
        try:
            _write(folder, answer, _encode(DeletionAnswer(list(ids), problem)))
        except OSError as error:
            log.error("a deletion of turns cannot be confirmed: %s", error)  # noqa: TRY400

    # ── deletions of this worker ──────────────────────────────────────────────────────────────────

    async def delete_elsewhere(self, ids: Collection[str] | None, tenant: str | None) -> DeletedTurns:
        """Deletes turns in the memory of all other workers. Waits for them, but not longer than `ANSWER_TIMEOUT`."""
        worker = self._worker
        if worker is None:
            return DeletedTurns()
        folder = worker.path / FOLDER
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_done(folder, worker.list_numbers())
        name = f"{time.monotonic_ns():020d}-{worker.number}"
        self._applied.add(name)
        deletion = TurnDeletion(time.monotonic(), None if ids is None else list(ids), tenant)
        _write(folder, name, _encode(deletion))
        ends = time.monotonic() + ANSWER_TIMEOUT
        pending = _list_pending_workers(name, _list_files(folder), worker.list_numbers())
        while pending and time.monotonic() < ends:
            await asyncio.sleep(POLL_INTERVAL)
            pending = _list_pending_workers(name, _list_files(folder), worker.list_numbers())
        files = [file for file in sorted(_list_files(folder)) if file.startswith(f"{name}.")]
        answers = [_decode_answer((folder / file).read_bytes()) for file in files]
        _remove_done(folder, worker.list_numbers())
        found = {one for answer in answers for one in answer.ids}
        return DeletedTurns(found, pending, [answer.error for answer in answers if answer.error])


def _list_pending_workers(name: str, files: Collection[str], workers: Iterable[int]) -> list[int]:
    """Returns the workers that have not applied a deletion. The requesting worker is not counted."""
    author = int(name.rpartition("-")[2])
    return [number for number in workers if number != author and f"{name}.{number}" not in files]


def _remove_done(folder: Path, workers: Collection[int]) -> None:
    """Removes the files of deletions that all workers have applied."""
    files = _list_files(folder)
    done = {name for name in files if "." not in name and not _list_pending_workers(name, files, workers)}
    for name in files:
        if name.partition(".")[0] in done:
            (folder / name).unlink(missing_ok=True)


def _list_files(folder: Path) -> set[str]:
    try:
        return {name for name in os.listdir(folder) if not name.startswith(".")}  # noqa: PTH208 — names are enough
    except FileNotFoundError:
        return set()


def _write(folder: Path, name: str, data: bytes) -> None:
    """Writes a whole file at once."""
    fresh = folder / f".{name}"
    fresh.write_bytes(data)
    fresh.replace(folder / name)
