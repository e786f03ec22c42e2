"""Runs the command as a user does: in a separate process, with a clean environment."""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib.metadata import entry_points
from io import BytesIO, TextIOWrapper
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from tests.support.paths import PROJECT

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 60.0
(main,) = [one.load() for one in entry_points(group="console_scripts", name="penstock")]


def environment(**more: str) -> dict[str, str]:
    ours = {"COLUMNS", "FORCE_COLOR", "NO_COLOR", "PYTHONPATH", "TERM"}
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return {**kept, "PYTHONPATH": str(PROJECT / "src"), "PYTHONWARNINGS": "error", **more}


def penstock(*words: str, given: bytes = b"", **more: str) -> subprocess.CompletedProcess[bytes]:
    """One run of `penstock` with these words, this input and these variables."""
    command = [sys.executable, "-m", "penstock", *words]
    return subprocess.run(command, input=given, capture_output=True, env=environment(**more), timeout=60, check=False)


class _Output(BytesIO):
    """What a command writes. Stops the command, as Ctrl-C does, once it has written `last`."""

    last: bytes | None = None

    def write(self, data: Any) -> int:
        written = super().write(data)
        if self.last is not None and self.last in bytes(data):
            signal.raise_signal(signal.SIGINT)
        return written


def inside(
    *words: str, given: bytes = b"", until: bytes | None = None, **more: str
) -> subprocess.CompletedProcess[bytes]:
    """The same in this process, which is quicker: for commands that need nothing of a process of their own."""
    out, err = (TextIOWrapper(_Output(), "utf-8", write_through=True) for _ in range(2))
    out.buffer.last = err.buffer.last = until
    kept, stdin = dict(os.environ), sys.stdin
    with TemporaryFile("w+", encoding="utf-8") as file:  # some commands read the descriptor of standard input
        file.buffer.write(given)
        file.seek(0)
        sys.stdin = file
        os.environ.clear()
        os.environ.update(environment(**more))
        try:
            with redirect_stdout(out), redirect_stderr(err):
                code = main(words)
        finally:
            sys.stdin = stdin
            os.environ.clear()
            os.environ.update(kept)
    said = [file.detach().getvalue() for file in (out, err)]
    return subprocess.CompletedProcess(words, code, *said)


def welcome(*words: str, **more: str) -> str:
    """What `penstock serve` says when it listens. It is stopped then."""
    return serve(*words, **more).stderr.decode()


def serve(*words: str, **more: str) -> subprocess.CompletedProcess[bytes]:
    """Run `penstock serve` in this process until it has said that it listens."""
    env: dict[str, Any] = dict(more)
    with _same_process():
        done = inside("serve", *words, until=b"}" if "--json" in words else b"Stop with Ctrl-C", **env)
    assert done.returncode in {0, 130}, done.stderr
    return done


@contextmanager
def _same_process() -> Iterator[None]:
    """Take back what a server sets up for all of its process. Stop it if it does not say what is waited for."""
    log, thresholds = logging.getLogger("penstock"), gc.get_threshold()
    handlers, level, propagate = list(log.handlers), log.level, log.propagate
    guard = threading.Timer(LIMIT, os.kill, (os.getpid(), signal.SIGINT))
    guard.start()
    try:
        yield
    finally:
        guard.cancel()
        gc.unfreeze()
        gc.set_threshold(*thresholds)
        log.handlers[:], log.propagate = handlers, propagate
        log.setLevel(level)


def complete(*words: str, **more: str) -> list[str] | None:
    """What a shell would offer for the last of these words; None: names of files."""
    env: dict[str, Any] = dict(more)
    said = json.loads(inside("completion", "--json", "--words", *words, **env).stdout)
    return None if said["files"] else [row["word"] for row in said["words"]]


COMMANDS = tuple(complete("") or ())
