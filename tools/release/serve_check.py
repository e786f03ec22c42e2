"""Starts `penstock serve` as it was installed, asks it, stops it: `python serve_check.py COMMAND...`.

The command is that of the program, such as `penstock` or `uvx --from FILE penstock`. The gateway has a data folder of
its own. It must send a stream of the replay provider and the inspector's page with its script. Only the standard
library, so that it runs on any machine and system. Prints what it found as JSON.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import urllib.request
from pathlib import Path
from typing import Any

LIMIT = 300.0  # seconds: uvx downloads packages before the start
STOP_LIMIT = 30.0  # seconds
_LISTENING = re.compile(r"http://127\.0\.0\.1:\d+")
_SCRIPT = re.compile(r'src="(/inspector/assets/[\w./-]+\.js)"')
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def fetch(url: str, body: dict[str, Any] | None = None) -> tuple[str, str]:
    """Returns the type and the text of an answer."""
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310 — loopback
    with _OPENER.open(request, timeout=LIMIT) as answer:
        return answer.headers.get_content_type(), answer.read().decode()


def check_gateway(base: str) -> dict[str, Any]:
    """Returns what a gateway answers: the text of a stream and the size of the page's script."""
    ask = {"model": "replay/text", "stream": True, "messages": [{"role": "user", "content": "Hello"}]}
    kind, stream = fetch(f"{base}/v1/chat/completions", ask)
    rows = [line.removeprefix("data: ") for line in stream.splitlines() if line.startswith("data: ")]
    texts = [row["choices"][0]["delta"].get("content") for row in map(json.loads, rows[:-1]) if row["choices"]]
    _, page = fetch(f"{base}/")
    scripts = _SCRIPT.findall(page)
    if kind != "text/event-stream" or rows[-1] != "[DONE]" or not scripts:
        sys.exit(f"not the stream and the page that are expected:\n{stream[:2000]}\n{page[:2000]}")
    _, script = fetch(base + scripts[0])
    return {
        "text": "".join(filter(None, texts)),
        "script": len(script),
        "health": json.loads(fetch(f"{base}/healthz")[1]),
    }


def run_check(command: list[str], home: Path) -> dict[str, Any]:
    """Starts a gateway and asks it."""
    env = os.environ | {"PENSTOCK_DATA": str(home / "data"), "PYTHONUNBUFFERED": "1"}
    words = [*command, "serve", "--host", "127.0.0.1", "--port", "0"]
    with subprocess.Popen(words, cwd=home, env=env, stderr=subprocess.PIPE, text=True, encoding="utf-8") as process:  # noqa: S603
        watch = threading.Timer(LIMIT, process.kill)
        watch.start()
        try:
            stderr: Any = process.stderr
            printed: list[str] = []
            for row in stderr:
                printed.append(row)
                found = _LISTENING.search(row)
                if found:
                    threading.Thread(target=stderr.read, daemon=True).start()  # so that it never waits for a reader
                    return check_gateway(found[0])
            sys.exit(f"it does not listen:\n{''.join(printed)}")
        finally:
            process.terminate()
            try:
                process.wait(STOP_LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()
            watch.cancel()


def main() -> None:
    """Runs the check in a new folder."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        found = run_check(sys.argv[1:], Path(folder))
    print(json.dumps(found))
    if not found["text"] or found["health"]["status"] != "ok":
        sys.exit("it does not answer as it should")


if __name__ == "__main__":
    main()
