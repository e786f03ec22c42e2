"""The self-contained gateway for tests: built once for a tree, run without anything of this machine."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import subprocess
import time
import urllib.request
from typing import TYPE_CHECKING, Any

from tools.standalone.build import PLACE, build

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

KEY = "a-key-for-this-test"
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")


def built() -> Path:
    """Returns the folder; builds it if `make test` has not. One process builds at a time."""
    PLACE.mkdir(parents=True, exist_ok=True)
    with (PLACE / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        return build()


def bare_environment(home: Path) -> dict[str, str]:
    """No PATH, no Python, no keys: only a home, and a proxy that no request may ask."""
    return {
        "HOME": str(home),
        "PATH": "/nonexistent",
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "HTTP_PROXY": "http://127.0.0.1:9",
    }


def without_network() -> list[str]:
    """Returns the words that run a program in a network namespace of its own, where there is not even a loopback but its own.

    Empty where the system does not allow that: then the proxy of `bare_environment` refuses all that leaves the machine.
    """
    words = ["unshare", "--map-root-user", "--net"]
    try:
        done = subprocess.run([*words, "true"], capture_output=True, timeout=10, check=False)
    except OSError:
        return []
    return [] if done.returncode else words


class Launched:
    """A gateway that the launcher inside the executable runs."""

    def __init__(self, process: subprocess.Popen[str], url: str, pid: int, seconds: float) -> None:
        self.process = process
        self.url = url
        self.pid = pid
        self.seconds = seconds  # until it listened

    def ask(self, path: str, key: str = KEY) -> Any:
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {key}"})  # noqa: S310
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=20) as answer:
            return json.load(answer)


@contextlib.contextmanager
def launched(launcher: Sequence[str], place: Path, *words: str) -> Iterator[Launched]:
    """Starts a gateway as the extension does, with one window. It is stopped at the end, if it has not stopped itself."""
    lease = place / "windows" / f"{os.getpid()}-1"
    lease.parent.mkdir(parents=True, exist_ok=True)
    lease.touch()
    command = [*launcher, str(lease.parent), "--host", "127.0.0.1", "--port", "0", *words]
    env = bare_environment(place) | {"PENSTOCK_GATEWAY_KEY": KEY}
    began = time.perf_counter()
    with subprocess.Popen(command, cwd=place, env=env, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            first, second = process.stderr.readline(), process.stderr.readline()
            seconds = time.perf_counter() - began
            pid, url = re.search(r"penstock-vscode: pid (\d+)", first), _ADDRESS.search(second)
            assert pid is not None, first + process.stderr.read()
            assert url is not None, second + process.stderr.read()
            yield Launched(process, url[0], int(pid[1]), seconds)
        finally:
            if process.poll() is None:
                process.kill()
