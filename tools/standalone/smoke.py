"""Starts a self-contained gateway as the VS Code extension does, asks it, stops it: `python -I smoke.py EXECUTABLE`.

No PATH, no keys, a home of its own; the second start is timed. Only the standard library: it runs on any machine that
builds a release. Prints what it found as JSON.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

KEY = "a-key-for-this-test"
# Windows needs its own folders; the proxy is one that nobody answers at.
_SYSTEM = ("SystemRoot", "SYSTEMDRIVE", "TEMP", "TMP", "NUMBER_OF_PROCESSORS")
_PROXY = "http://127.0.0.1:9"


def environment(home: Path) -> dict[str, str]:
    """Returns variables that show nothing of this machine."""
    kept = {name: os.environ[name] for name in _SYSTEM if name in os.environ}
    homes = dict.fromkeys(("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"), str(home))
    proxies = {"HTTPS_PROXY": _PROXY, "HTTP_PROXY": _PROXY}
    return (
        kept | homes | proxies | {"PATH": str(home / "nowhere"), "PENSTOCK_GATEWAY_KEY": KEY, "PYTHONUNBUFFERED": "1"}
    )


def ask(url: str, path: str) -> Any:
    """Returns the JSON of a route."""
    request = urllib.request.Request(url + path, headers={"Authorization": f"Bearer {KEY}"})  # noqa: S310 — loopback
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as answer:
        return json.load(answer)


def start(executable: Path, home: Path) -> dict[str, Any]:
    """Starts it once. Returns what it says of itself."""
    leases = home / "windows"
    leases.mkdir(exist_ok=True)
    (leases / f"{os.getpid()}-1").touch()
    command = [str(executable), "vscode-launch", str(leases), "--host", "127.0.0.1", "--port", "0"]
    began = time.perf_counter()
    with subprocess.Popen(command, cwd=home, env=environment(home), stderr=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            stderr: Any = process.stderr
            lines = [stderr.readline() for _ in range(2)]
            seconds = round(time.perf_counter() - began, 2)
            url = re.search(r"http://127\.0\.0\.1:\d+", lines[1])
            if url is None:
                sys.exit(f"it does not listen: {''.join(lines)}{stderr.read()}")
            models = [model["id"] for model in ask(url[0], "/vscode/models")["models"]]
            return {"seconds": seconds, "health": ask(url[0], "/healthz")["status"], "models": models}
        finally:
            process.kill()


def main() -> None:
    """Starts it twice, and runs a command."""
    executable = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        home = Path(place)
        start(executable, home)
        found = start(executable, home)
        done = subprocess.run(  # noqa: S603
            [executable, "--version"], env=environment(home), capture_output=True, text=True, check=True, timeout=60
        )
    print(json.dumps(found | {"version": done.stdout.strip()}))
    if found["health"] != "ok" or not found["models"]:
        sys.exit("it does not answer as it should")


if __name__ == "__main__":
    main()
