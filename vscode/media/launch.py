"""Runs the gateway for as long as a window wants it: `launch.py LEASES [arguments of penstock serve]`.

LEASES is a folder in which every window keeps a fresh file. With none left, or none touched for a while, the gateway is
told to stop. Only the standard library and penstock; started by the extension, never by hand.
"""
# ruff: noqa: INP001, T201 — a script, and its output is a log

import os
import runpy
import signal
import sys
import threading
import time
from pathlib import Path

LOOK = 2.0  # seconds between two looks
STALE = 60.0  # a lease not touched for so long belongs to a window that is gone
GRACE = 12.0  # a window that is loaded anew is away for some seconds
DRAIN = 10.0


def wanted(leases: Path) -> bool:
    """Whether any window is there."""
    try:
        return any(fresh(lease) for lease in leases.iterdir())
    except OSError:
        return False


def fresh(lease: Path) -> bool:
    """Whether a lease was touched of late and its window lives, where that can be seen: its name begins with the id."""
    try:
        if time.time() - lease.stat().st_mtime > STALE:
            return False
        if os.name != "nt":
            os.kill(int(lease.name.partition("-")[0]), 0)
    except (OSError, ValueError) as error:
        return isinstance(error, PermissionError)
    return True


def watch(leases: Path) -> None:
    """Look until nobody is left, then stop the server as Ctrl-C would, and the process if that does not do."""
    missed = 0.0
    while missed < GRACE:
        time.sleep(LOOK)
        missed = 0.0 if wanted(leases) else missed + LOOK
    print("the last window is closed: stopping", file=sys.stderr, flush=True)
    if os.name == "nt":
        signal.raise_signal(signal.SIGINT)
    else:
        os.kill(os.getpid(), signal.SIGINT)  # to the process, so that it is the main thread that hears it
    time.sleep(DRAIN)
    os._exit(0)


def main() -> None:
    """Runs `penstock serve` until it is stopped. The command line is public; the module behind it is not."""
    print(f"penstock-vscode: pid {os.getpid()}", file=sys.stderr, flush=True)
    threading.Thread(target=watch, args=(Path(sys.argv[1]),), daemon=True).start()
    sys.argv = ["penstock", "serve", *sys.argv[2:]]
    runpy.run_module("penstock", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
