"""Recordings of the gateway, for the page: which there are, and the one of a turn. None unless `record.path` is set.

Leans on `store.recordings` for the files. Reads disks: not for the event loop.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from penstock.gateway.callers import refused
from penstock.inspector.traces import of_recording
from penstock.store import recordings

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.inspector.traces import Source

LISTED = 500  # the latest of them
SLACK = 2  # seconds between when a turn is said to have begun and when its recording is
_STAMP = "%Y%m%d-%H%M%S"


class Taped(msgspec.Struct):
    """A file in the list."""

    name: str
    time: float
    size: int
    title: str


class Folder:
    """The folder of recordings; `path` None: there is none."""

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def listed(self) -> list[Taped]:
        """The latest, newest first."""
        if self.path is None:
            return []
        found = sorted(self._files(), key=lambda row: row[0].name, reverse=True)
        return [Taped(path.name, when, size, _title(path.name)) for path, when, size in found[:LISTED]]

    def _files(self) -> list[tuple[Path, float, int]]:
        made: list[tuple[Path, float, int]] = []
        for path in self.path.glob(f"*{recordings.SUFFIX}") if self.path is not None else ():
            try:
                about = path.stat()
            except OSError:  # it has made room for another
                continue
            made.append((path, about.st_mtime, about.st_size))
        return made

    def open(self, name: str) -> Source:
        """A recording by the name of its file."""
        if self.path is None or name not in {path.name for path, _, _ in self._files()}:
            raise refused(404, "not-found", f"there is no recording {name[:100]!r}")
        return of_recording(recordings.read(self.path / name), name)

    def names(self) -> frozenset[str]:
        """The seconds at which recordings began, by their names."""
        return frozenset(path.name[: len("YYYYMMDD-HHMMSS")] for path, _, _ in self._files())

    def of_turn(self, id: str, began: float) -> Source | None:
        """The recording of a turn that began then, if there is one."""
        if self.path is None or not id:
            return None
        for second in seconds(began):
            for path in self.path.glob(f"{second}-*{recordings.SUFFIX}"):
                recording = recordings.read(path)
                if recording.header.id == id:
                    return of_recording(recording, path.name)
        return None


def seconds(began: float) -> list[str]:
    """How the names of recordings of that time begin."""
    return [time.strftime(_STAMP, time.gmtime(began + slack)) for slack in range(-1, SLACK + 1)]


def _title(name: str) -> str:
    """`20261115-101112-0007-groq-llama.tape` → `groq-llama`."""
    return name.removesuffix(recordings.SUFFIX).split("-", 3)[-1]
