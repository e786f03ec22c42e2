"""Starts a command that serves, waits until it listens, and leaves it running: a page's next block is the second terminal.

Used by the commands that page_runner.py puts on the PATH. `STATE` is the folder that remembers what runs on which port.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

START_TIMEOUT = 60.0
STATE = Path(os.environ["STATE"])


def find_port(words: list[str]) -> int:
    """The port of the command line, else the one that the page's default port stands for."""
    for number, word in enumerate(words):
        if word == "--port":
            return int(words[number + 1])
        if word.startswith("--port="):
            return int(word.partition("=")[2])
    return int(os.environ["DEFAULT_PORT"])


def is_open(port: int) -> bool:
    with suppress(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    return False


def stop_server(port: int) -> None:
    """Ends what an earlier block left running on the port, as a reader does with Ctrl-C, and waits for it."""
    file = STATE / f"server-{port}"
    if not file.exists():
        return
    with suppress(ProcessLookupError):
        os.killpg(int(file.read_text()), signal.SIGTERM)
    while is_open(port):
        time.sleep(0.02)
    file.unlink()


def main() -> int:
    port, command = find_port(sys.argv[1:]), sys.argv[1:]
    stop_server(port)
    log = STATE / f"log-{port}"
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True)
    (STATE / f"server-{port}").write_text(str(process.pid))
    ends = time.monotonic() + START_TIMEOUT
    while process.poll() is None and not is_open(port) and time.monotonic() < ends:
        time.sleep(0.02)
    if process.poll() is None:  # the welcome text is printed just after the port is open
        while not log.stat().st_size and time.monotonic() < ends:
            time.sleep(0.02)
    sys.stdout.write(log.read_text(encoding="utf-8"))
    return process.poll() or (0 if is_open(port) else 1)


if __name__ == "__main__":
    sys.exit(main())
