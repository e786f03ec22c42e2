"""What the kernel knows of processes that share database files, and workers that write to one until they are killed."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.command_runner import environment

SHARED_LOCK = 0x40000002  # the first byte of SQLite's shared lock: a WAL connection holds it as long as it is open
LIMIT = 60.0
# Programs of somebody else, who uses nothing but `sqlite3`: one that looks at the files, one that writes to them.
READER = """
import sqlite3, sys
for name in ("journal", "state"):
    opened = sqlite3.connect(f"{sys.argv[1]}/{name}.sqlite", timeout=30)
    opened.execute("SELECT count(*) FROM sqlite_master").fetchone()
    opened.close()
"""
WRITER = """
import sqlite3, sys
for name in ("journal", "state"):
    opened = sqlite3.connect(f"{sys.argv[1]}/{name}.sqlite", timeout=30)
    opened.execute("CREATE TABLE IF NOT EXISTS notes (x)")
    for number in range(20):
        opened.execute("INSERT INTO notes VALUES (?)", (number,))
        opened.commit()
    opened.close()
"""
needs_proc = pytest.mark.skipif(not Path("/proc/locks").exists(), reason="reads /proc, which only Linux has")


def holds_lock(pid: int, database: Path) -> bool:
    """Whether a process holds SQLite's shared lock on a database."""
    number = database.stat().st_ino
    rows = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return any(
        row[1] == "POSIX" and int(row[4]) == pid and row[5].endswith(f":{number}") and int(row[6]) == SHARED_LOCK
        for row in rows
    )


def open_files(pid: int) -> list[str]:
    """The names of a process's open files; a name ends in " (deleted)" if the file is gone."""
    found: list[str] = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(os.readlink(link))  # noqa: PTH115 — the text of the link, not the path it resolves to
        except OSError:  # closed meanwhile
            continue
    return found


def deleted_files(pid: int) -> list[str]:
    """Database files that a process has open and that nobody else can see."""
    return [name for name in open_files(pid) if ".sqlite" in name and name.endswith("(deleted)")]


def integrity(database: Path) -> str:
    with closing(sqlite3.connect(database, timeout=LIMIT)) as opened:
        return str(opened.execute("PRAGMA integrity_check").fetchone()[0])


def run_python(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own, until its end."""
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=LIMIT, check=False)


def start_python(code: str, *words: str) -> subprocess.Popen[str]:
    """A program in a process of its own. Its input and output are pipes."""
    command = [sys.executable, "-u", "-c", code, *words]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(), bufsize=1
    )
