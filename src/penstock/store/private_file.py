"""Small private files that several processes change: a lock around read-modify-write, and atomic replacement.

The lock is a file of its own beside the data. It is never deleted: a process that deleted it could leave two others
with a lock each.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Generator

TIMEOUT = 20.0  # seconds to wait for another process
_PAUSE = 0.02
_REPLACE_TRIES = 50  # Windows refuses to replace a file while somebody reads it

if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _try_lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold the lock of a file. Raises `InputError` if another process keeps it for longer than `TIMEOUT` seconds."""
    path = _real(path)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = path.with_name(f"{path.name}.lock")
    descriptor = os.open(lock, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        _wait_for(descriptor, lock, TIMEOUT)
        yield
    finally:
        os.close(descriptor)  # closing the file releases the lock


def _wait_for(descriptor: int, lock: Path, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while True:
        try:
            _try_lock(descriptor)
        except OSError:
            if time.monotonic() >= deadline:
                said = f"{lock}: another process has held this lock for {timeout:g} s; end it, or try again later"
                raise InputError(said) from None
            time.sleep(_PAUSE)
        else:
            return


def replace(path: Path, data: bytes) -> None:
    """Write a file so that a reader, or a crash, finds the old content or the new one. Only its owner can read it."""
    path = _real(path)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mkstemp creates with mode 0600
    fresh = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        _move(fresh, path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def remove(path: Path) -> bool:
    """Delete a file; False if there was none."""
    path = _real(path)
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    _sync_folder(path.parent)
    return True


def _real(path: Path) -> Path:
    """The file behind a symbolic link: it is the one to lock and to replace."""
    return Path(os.path.realpath(path))


def _move(fresh: Path, path: Path) -> None:
    for _ in range(_REPLACE_TRIES if sys.platform == "win32" else 0):
        with suppress(PermissionError):
            fresh.replace(path)
            return
        time.sleep(_PAUSE)
    fresh.replace(path)


def _sync_folder(folder: Path) -> None:
    """Without this a crash of the machine may bring the old directory entry back."""
    if sys.platform == "win32":
        return  # a folder cannot be opened there
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
