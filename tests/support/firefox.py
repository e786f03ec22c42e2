"""The machine's own Firefox, driven by WebDriver BiDi, which is built into it: no other program is needed.

https://w3c.github.io/webdriver-bidi/ describes the commands.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
import threading
from base64 import b64decode
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, Queue
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

    from websockets.sync.client import ClientConnection

BROWSERS = ("firefox-esr", "firefox")
LIMIT = 60.0  # seconds that a step may take
LISTENING = re.compile(r"WebDriver BiDi listening on (ws://\S+)")
# No updates, no first-run pages, no requests of the browser itself.
PREFERENCES = {
    "app.update.disabledForTesting": True,
    "browser.aboutwelcome.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.page": 0,
    "datareporting.policy.dataSubmissionEnabled": False,
    "extensions.getAddons.cache.enabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "remote.active-protocols": 1,
    "services.settings.server": "data:,#remote-settings-dummy/v1",
    "toolkit.telemetry.reportingpolicy.firstRun": False,
}


class FirefoxError(Exception):
    """Firefox refused a command."""


class FirefoxPage:
    """A tab. `problems` are the errors that the page has told the console, and exceptions in it."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._number = 0
        self.problems: list[str] = []
        self._send("session.new", {"capabilities": {}})
        self._send("session.subscribe", {"events": ["log.entryAdded"]})
        tree = self._send("browsingContext.getTree", {})
        self._context: str = tree["contexts"][0]["context"]

    def _send(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        self._connection.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            message: dict[str, Any] = json.loads(self._connection.recv(timeout=LIMIT))
            if message.get("method") == "log.entryAdded" and message["params"]["level"] == "error":
                self.problems.append(str(message["params"]["text"]))
            if message.get("id") == self._number:
                if message["type"] == "error":
                    raise FirefoxError(f"{method}: {message['message']}")
                result: dict[str, Any] = message["result"]
                return result

    def set_size(self, width: int, height: int) -> None:
        viewport = {"width": width, "height": height}
        self._send("browsingContext.setViewport", {"context": self._context, "viewport": viewport})

    def open(self, url: str) -> None:
        self._send("browsingContext.navigate", {"context": self._context, "url": url, "wait": "complete"})

    def evaluate(self, expression: str) -> Any:
        """Runs a script that gives a text, a number, a truth value, or a promise of one."""
        params = {"expression": expression, "target": {"context": self._context}, "awaitPromise": True}
        result = self._send("script.evaluate", params)
        if result["type"] != "success":
            raise FirefoxError(str(result["exceptionDetails"]["text"]))
        return result["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Waits until an expression holds in the page."""
        script = f"""new Promise((done, fail) => {{
            const end = performance.now() + {LIMIT * 500};
            const look = () => {{
                if ({condition}) done(true);
                else if (performance.now() > end) fail(new Error("it never held: " + document.body.innerText.slice(0, 500)));
                else requestAnimationFrame(look);
            }};
            look();
        }})"""
        self.evaluate(script)

    def press(self, key: str) -> None:
        keys = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        actions = [{"type": "key", "id": "keyboard", "actions": keys}]
        self._send("input.performActions", {"context": self._context, "actions": actions})

    def screenshot(self, path: Path) -> None:
        path.write_bytes(b64decode(self._send("browsingContext.captureScreenshot", {"context": self._context})["data"]))


@contextmanager
def firefox() -> Generator[FirefoxPage]:
    """A tab of a new Firefox without a window; the test is skipped where there is none."""
    from websockets.sync.client import connect

    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("Firefox is missing (apt-get install firefox-esr)")
    with tempfile.TemporaryDirectory(prefix="penstock-firefox-", ignore_cleanup_errors=True) as folder:
        lines = (f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in PREFERENCES.items())
        Path(folder, "user.js").write_text("".join(lines))
        command = [
            found,
            "--headless",
            "--no-remote",
            "--profile",
            folder,
            "--remote-debugging-port",
            "0",
            "about:blank",
        ]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            with connect(f"{_address(process)}/session", max_size=None, open_timeout=LIMIT) as connection:
                yield FirefoxPage(connection)
        finally:
            process.terminate()
            try:
                process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stderr is not None:
                process.stderr.close()


def _address(process: subprocess.Popen[str]) -> str:
    """Where Firefox listens: it says so while it starts. What it says later is read and dropped."""
    found: Queue[str] = Queue()

    def read() -> None:
        with suppress(ValueError):  # closed
            for line in process.stderr or ():
                if match := LISTENING.search(line):
                    found.put(match[1])

    threading.Thread(target=read, daemon=True).start()
    try:
        return found.get(timeout=LIMIT)
    except Empty:
        pytest.fail("Firefox did not start")
