"""Progress of large inputs on standard error: a bar of rich if it is installed, else a line for every tenth.

Only a person at a terminal sees it. It does not appear where the output goes to the same terminal.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

LARGE = 5_000_000  # bytes from which progress is shown
_INTERVAL = 2.0  # seconds between two lines if the size is not known


def show_progress(chunks: Iterable[bytes], file: IO[bytes], *, shares_terminal: bool = False) -> Iterable[bytes]:
    """Returns the chunks of a file, and shows how far they are read. `shares_terminal`: output is written meanwhile."""
    if not sys.stderr.isatty() or (shares_terminal and sys.stdout.isatty()):
        return chunks
    size = _file_size(file)
    return _count_chunks(chunks, size) if size is None or size > LARGE else chunks


def _file_size(file: IO[bytes]) -> int | None:
    """Returns the size of a regular file; None for a pipe or a terminal."""
    found = os.fstat(file.fileno())
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _count_chunks(chunks: Iterable[bytes], size: int | None) -> Generator[bytes]:
    try:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn
    except ImportError:
        yield from _print_tenths(chunks, size)
        return
    progress = Progress(
        BarColumn(), DownloadColumn(), TimeRemainingColumn(), console=Console(stderr=True), transient=True
    )
    task, read = progress.add_task("", total=size), 0
    try:
        for chunk in chunks:
            yield chunk
            read += len(chunk)
            progress.update(task, completed=read)
            if read > LARGE and not progress.live.is_started:
                progress.start()
    finally:
        progress.stop()


def _print_tenths(chunks: Iterable[bytes], size: int | None) -> Generator[bytes]:
    read, shown, at = 0, 0, time.monotonic()
    for chunk in chunks:
        yield chunk
        read += len(chunk)
        if size is not None:
            tenth = 10 * read // size
            if tenth > shown:
                shown = tenth
                _print(f"{10 * tenth}% of {size / 1e6:.1f} MB read")
        elif read > LARGE and time.monotonic() - at > _INTERVAL:
            at = time.monotonic()
            _print(f"{read / 1e6:.1f} MB read")


def _print(text: str) -> None:
    print(f"penstock: {text}", file=sys.stderr)
