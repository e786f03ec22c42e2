"""Processes share a database and are started, stopped and killed in any order: no row older than the pause is lost."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from penstock._store.sqlite_writer import COMMIT_SECONDS
from tests.cli.command_runner import environment
from tests.wire.store.processes import (
    LIMIT,
    READER,
    WRITER,
    deleted_files,
    holds_lock,
    integrity,
    needs_proc,
    run_python,
)

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs_proc
# Says of each row when it was given, and of each sleep how much longer than asked for it was: a machine that is busy
# with other things keeps the writing thread waiting just as long.
WORKER = """
import signal, sys, time
from pathlib import Path
from penstock._store.journal import JournalStore, JournalEntry
from penstock._store.key_value import SqliteKeyValueTable
from penstock._store.sqlite_writer import SqliteWriter
from penstock.stores import Bounds
folder, name = Path(sys.argv[1]), sys.argv[2]
rows = JournalStore(folder / "journal.sqlite", time.time, age=1e9, size=10**9)
state = SqliteWriter(folder / "state.sqlite")
kept = SqliteKeyValueTable(state, "reasoning", time.time, Bounds(rows=10**9, size=10**9, total=10**9))
going = True
def stop(*_):
    global going
    going = False
signal.signal(signal.SIGTERM, stop)
number = 0
print("ready")
while going:
    rows.add(JournalEntry(time=time.time(), request_id=f"{name}-{number}"))
    kept.put("t", {f"{name}-{number}": b"x" * 500})
    given = time.monotonic()
    time.sleep(0.004)
    print(number, given, time.monotonic() - given - 0.004)
    number += 1
rows.close()
state.close()
"""
USAGE = """
import os, sys
os.environ["PENSTOCK_DATA"] = sys.argv[1]
from penstock._cli import main
sys.exit(main(["usage", "--json"]))
"""


@dataclass
class Worker:
    """A process that writes. `log` is what it said; `ended` when it was killed, on the clock that it uses itself."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    ended: float = 0.0

    def safe(self) -> list[str]:
        """The rows that must be there: all after a stop; after a kill those that are older than the pause."""
        lines = [line.split() for line in self.log.read_text().splitlines(keepends=True)[1:] if line.endswith("\n")]
        rows = [(int(number), float(given), float(late)) for number, given, late in lines]
        if not self.ended:
            return [f"{self.name}-{number}" for number, _, _ in rows]
        late = max((late for _, given, late in rows if given > self.ended - 2), default=0.0)
        return [f"{self.name}-{number}" for number, given, _ in rows if given < self.ended - COMMIT_SECONDS - late]


@dataclass
class Folder:
    """A data folder and the processes on it."""

    path: Path
    chance: random.Random
    running: list[Worker] = field(default_factory=list)
    over: list[Worker] = field(default_factory=list)

    def start(self) -> None:
        name = f"w{len(self.running) + len(self.over)}"
        log = self.path.parent / f"{name}.log"
        with log.open("wb") as out:
            command = [sys.executable, "-u", "-c", WORKER, str(self.path), name]
            process = subprocess.Popen(command, stdout=out, env=environment())
        worker = Worker(name, process, log)
        self.running.append(worker)
        ends = time.monotonic() + LIMIT
        while "ready" not in log.read_text():
            assert process.poll() is None
            assert time.monotonic() < ends
            time.sleep(0.01)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, number: int) -> None:
        if self.running:
            worker = self.running.pop(self.chance.randrange(len(self.running)))
            if number == signal.SIGKILL:
                worker.ended = time.monotonic()
            worker.process.send_signal(number)
            code = worker.process.wait(LIMIT)
            assert code == (-signal.SIGKILL if number == signal.SIGKILL else 0)
            self.over.append(worker)

    def read(self) -> None:
        self._run(READER)

    def write(self) -> None:
        self._run(WRITER)

    def usage(self) -> None:
        self._run(USAGE)

    def pause(self) -> None:
        time.sleep(self.chance.uniform(0.0, 3 * COMMIT_SECONDS))

    def _run(self, code: str) -> None:
        if (self.path / "journal.sqlite").exists() and (self.path / "state.sqlite").exists():
            done = run_python(code, str(self.path))
            assert done.returncode == 0, done.stderr

    def check_running(self) -> None:
        for worker in self.running:
            assert worker.process.poll() is None
            assert deleted_files(worker.process.pid) == []
            for name in ("journal", "state"):
                assert holds_lock(worker.process.pid, self.path / f"{name}.sqlite")

    def check_rows(self) -> int:
        with closing(sqlite3.connect(self.path / "journal.sqlite", timeout=LIMIT)) as opened:
            journal = [row[0] for row in opened.execute("SELECT request_id FROM turns")]
        with closing(sqlite3.connect(self.path / "state.sqlite", timeout=LIMIT)) as opened:
            state = {row[0] for row in opened.execute("SELECT key FROM reasoning")}
        wanted = {name for worker in self.over for name in worker.safe()}
        assert len(journal) == len(set(journal))  # none twice
        assert wanted - set(journal) == set()
        assert wanted - state == set()
        assert integrity(self.path / "journal.sqlite") == integrity(self.path / "state.sqlite") == "ok"
        return len(wanted)


STEPS = ("start", "start", "kill", "kill", "stop", "read", "read", "write", "usage", "pause", "pause")


def run_steps(tmp_path: Path, seed: int, count: int) -> None:
    folder = Folder(tmp_path / "data", random.Random(seed))
    try:
        folder.start()
        for _ in range(count):
            getattr(folder, folder.chance.choice(STEPS))()
            folder.check_running()
        folder.pause()
        while folder.running:
            folder.kill()
    finally:
        for worker in folder.running:
            worker.process.kill()
            worker.process.wait(LIMIT)
    assert folder.check_rows() > 0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_processes_in_any_order(tmp_path: Path, seed: int) -> None:
    run_steps(tmp_path, seed, 12)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(100, 140))
def test_many_processes_in_any_order(tmp_path: Path, seed: int) -> None:
    run_steps(tmp_path, seed, 40)


def test_a_kill_in_the_middle_of_a_load(tmp_path: Path) -> None:
    """Three writers at once, and kills as fast as they come."""
    folder = Folder(tmp_path / "data", random.Random(7))
    try:
        for _ in range(3):
            folder.start()
        for _ in range(4):
            time.sleep(folder.chance.uniform(COMMIT_SECONDS, 4 * COMMIT_SECONDS))
            folder.kill()
            folder.read()  # the first to open the files afterwards, or beside those that are left
            folder.start()
            folder.check_running()
        while folder.running:
            folder.stop()
    finally:
        for worker in folder.running:
            worker.process.kill()
            worker.process.wait(LIMIT)
    assert folder.check_rows() > 0
    assert not (folder.path / "journal.sqlite-wal").exists()  # the last to leave has emptied it
