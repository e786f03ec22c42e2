"""Opens SQLite databases the one way that suits all of ours, and knows the folder they stand in.

A journal that readers do not wait for (WAL), a limit to every wait for a lock, files that only their owner can read.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

BUSY = 5.0  # seconds to wait for somebody else's lock
ABSENT = Path(":memory:")
"""In place of a file: kept in memory, gone with the process."""


def folder(env: Mapping[str, str] | None = None) -> Path:
    """Where data stands: PENSTOCK_DATA, or the place that the system has for it. It need not exist yet."""
    env = os.environ if env is None else env
    if env.get("PENSTOCK_DATA"):
        return Path(env["PENSTOCK_DATA"]).expanduser()
    if sys.platform == "win32":
        return Path(env.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "penstock"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "penstock"
    return Path(env.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "penstock"


def connect(path: Path = ABSENT) -> sqlite3.Connection:
    """A connection that any one thread at a time may use. Statements commit by themselves; `BEGIN` where they must not.

    The folder is made if it is missing. What cannot be opened is an `OSError` that names the file.
    """
    try:
        if path != ABSENT:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _private(path)
        made = sqlite3.connect(path, timeout=BUSY, isolation_level=None, check_same_thread=False)
        made.execute("PRAGMA auto_vacuum=INCREMENTAL")  # before the first table, or it has no effect
        made.execute("PRAGMA journal_mode=WAL")
        made.execute("PRAGMA synchronous=NORMAL")
    except sqlite3.Error as error:
        raise OSError(None, f"cannot be opened as a database: {error}", str(path)) from None
    return made


def _private(path: Path) -> None:
    """SQLite gives the files beside it the rights of the database itself: so it is made before it is opened."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))


def size(connection: sqlite3.Connection) -> int:
    """The bytes that are in use in the file; freed pages are not counted."""
    pages, free, page = (
        int(connection.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * page
