"""A real VS Code for tests: the packed or built extension, a real gateway as a process, and a line by which the tests
inside the editor ask the ones outside to do something.

Leans on drive/*.mjs, which start code-server and the browser. What is missing is a skip with its reason.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

from tests.support.browser import BROWSERS, MISSING
from tests.support.paths import PROJECT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

HERE = Path(__file__).parent
ROOT = PROJECT
EXTENSION = ROOT / "vscode"
LISTENING = re.compile(r"https?://127\.0\.0\.1:\d+")
LIMIT = 120.0


def node() -> str:
    """The environment's own Node, or the machine's."""
    own = Path(sys.executable).parent / "node"
    return str(own) if own.exists() else shutil.which("node") or "node"


def need_packages() -> None:
    """Skip where the npm packages are not installed."""
    if not (EXTENSION / "node_modules/esbuild").is_dir():
        pytest.skip("the npm packages of vscode/ are missing (make surfaces installs them)")


def need_editor() -> None:
    """Skip where there is no VS Code or no browser."""
    need_packages()
    if not (HERE / "node_modules/code-server").is_dir():
        pytest.skip("code-server is missing (make surfaces installs it)")
    if not any(map(shutil.which, BROWSERS)):
        pytest.skip(MISSING)


@contextmanager
def alone() -> Iterator[None]:
    """One editor, and one packing, at a time: they share a folder, and two editors would starve each other."""
    with (EXTENSION / "node_modules/.alone").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def script(*words: str | Path, cwd: Path = EXTENSION, limit: float = 120.0) -> str:
    """Run a Node script; what it said, or a failure with it."""
    command = [node(), *map(str, words)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=limit, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Gateway:
    """`penstock serve` as a process, which can be killed and started again at the same address."""

    def __init__(self, work: Path, *, config: str = "", key: str = "") -> None:
        self.work = work
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        self._env = {**os.environ, "PENSTOCK_DATA": str(work / "penstock"), "PENSTOCK_GATEWAY_KEY": key}
        self._args = ["--port", str(self.port)]
        if config:
            (work / "penstock.toml").write_text(config)
            self._args += ["--config", str(work / "penstock.toml")]

    def start(self) -> None:
        """Start it, its words in a file; back once it says where it listens."""
        command = [sys.executable, "-m", "penstock", "serve", *self._args]
        log = self.work / "gateway.log"
        with log.open("w") as out:
            self._process = subprocess.Popen(command, cwd=self.work, env=self._env, stderr=out, stdout=out)
        deadline = time.monotonic() + LIMIT
        while not LISTENING.search(log.read_text()):
            if self._process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"the gateway did not start:\n{log.read_text()}")
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(LIMIT)
            self._process = None

    def configure(self, config: str) -> None:
        """Other contents of its file, read at once."""
        (self.work / "penstock.toml").write_text(config)
        assert self._process is not None
        self._process.send_signal(signal.SIGHUP)

    def ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(f"{self.url}{path}", data, timeout=LIMIT) as response:  # noqa: S310 — on loopback
            return json.load(response)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(signal.SIGKILL)


class Server:
    """A little server in a thread."""

    def __init__(self, answers: type[BaseHTTPRequestHandler]) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), answers)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class Control(Server):
    """Commands that the tests inside the editor may give: name → function of a JSON value."""

    def __init__(self, commands: Mapping[str, Callable[[Any], Any]]) -> None:
        class Line(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"null")
                try:
                    status, said = 200, json.dumps(commands[self.path.strip("/")](body))
                except Exception as error:  # noqa: BLE001 — told to the one who asked
                    status, said = 500, repr(error)
                self.send_response(status)
                self.end_headers()
                self.wfile.write(said.encode())

            def log_message(self, *_: object) -> None: ...

        super().__init__(Line)


class Editor:
    """The editor's folders, which outlive a window of it."""

    def __init__(
        self, work: Path, settings: Mapping[str, Any], env: Mapping[str, str] | None = None, *, trust: bool = False
    ) -> None:
        self.work = work
        self.settings = dict(settings)
        self.env = dict(env or {})
        self.trust = trust  # workspace trust is on, and no workspace is trusted
        self.opened: dict[str, str] = {}  # suites that open a workspace file instead of the folder
        self.notices: list[str] = []  # what the last window told a person

    def drive(self, how: str, job: Mapping[str, Any], *, limit: float) -> subprocess.CompletedProcess[str]:
        whole = {"work": str(self.work), "settings": self.settings, "env": self.env, "limit": limit, **job}
        file = self.work / "job.json"
        file.write_text(json.dumps(whole))
        command = ["nice", node(), str(HERE / "drive" / how), str(file)]
        # Its own session: whatever it leaves behind goes with it.
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        ) as process:
            try:
                said, _ = process.communicate(timeout=limit + 60)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
        return subprocess.CompletedProcess(command, process.returncode, said, "")

    def suites(self, names: Sequence[str], control: Control, *, limit: float = 480.0) -> dict[str, str]:
        """Run suites in the official runner, each in a window; every test's name and what was wrong (nothing: "")."""
        files = [self.work / f"{name}.json" for name in names]
        for file in files:
            file.unlink(missing_ok=True)
        self.env["PENSTOCK_E2E"] = json.dumps({"folder": str(self.work), "control": control.url})
        tests = str(EXTENSION / "dist-tests/index.cjs")
        shots = str(Path(os.environ.get("PENSTOCK_SHOTS") or self.work).resolve())
        job = {"extension": str(EXTENSION), "tests": tests, "suites": list(names), "limit": limit, "shots": shots}
        job |= {"trust": self.trust, "opened": self.opened}
        done = self.drive("runner.mjs", job, limit=limit * len(names))
        told = re.search(r"^notices: (.*)$", done.stdout, re.MULTILINE)
        self.notices = json.loads(told[1]) if told else []
        rows = [row for file in files if file.exists() for row in json.loads(file.read_text())]
        wrong = {row["name"]: row["error"] for row in rows if "error" in row}
        assert wrong or (files[-1].exists() and not done.returncode), f"no results:\n{done.stdout[-4000:]}"
        return {row["name"]: row.get("error", "") for row in rows}
