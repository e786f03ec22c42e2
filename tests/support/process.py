"""`penstock serve` in a process of its own, with its files where a test can look: configuration, data, what it said.

Also several of them behind nginx, with shared stores.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import httpx
import msgspec
import psycopg
import redis
from msgspec.structs import replace

from penstock._inspector.session_token import FILE, HEADER
from penstock._store.key_records import Key
from penstock._store.limit_store import LimitRule
from penstock._store.postgres_keys import PostgresKeyStore
from tests.support.budget_requests import auth, held_stream, reply_to, secret, until_true, used
from tests.support.gateway import hash_key
from tests.support.servers import NginxServer, free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from penstock import events as ev
    from penstock._store.key_records import KeyRecords
    from penstock.testing import ReceivedRequest, Reply, Upstream
    from tests.support.servers import PostgresServer, RedisServer

LIMIT = 30.0
DAY = 86_400


@dataclass
class Gateway:
    """A running one. `said` is all of its standard error once it has stopped, `printed` its standard output."""

    base: str
    process: subprocess.Popen[bytes]
    folder: Path

    @property
    def session(self) -> dict[str, str]:
        """The header with its session token, for its inspector."""
        return {HEADER: (self.folder / "data" / FILE).read_text().strip()}

    @property
    def config(self) -> Path:
        return self.folder / "penstock.toml"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def said(self) -> str:
        return (self.folder / "said").read_text()

    @property
    def printed(self) -> str:
        return (self.folder / "printed").read_text()

    @property
    def memory(self) -> int:
        """Resident memory, in bytes. Only Linux tells."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))

    def stop(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)
        self.process.wait(LIMIT)


@contextmanager
def gateway(folder: Path, config: str = "", *options: str, **env: str) -> Generator[Gateway]:
    """A gateway with this configuration; options go after `serve`."""
    place = folder / "penstock.toml"
    place.write_text(config)
    command = [sys.executable, "-m", "penstock", "serve", "--port", "0", "--config", str(place), *options]
    kept = {name: value for name, value in os.environ.items() if not name.endswith(("_KEY", "_TOKEN"))}
    with (folder / "said").open("wb") as said, (folder / "printed").open("wb") as printed:
        process = subprocess.Popen(
            command,
            stdout=printed,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            bufsize=0,
            env={**kept, "PENSTOCK_DATA": str(folder / "data"), **env},
        )
        assert process.stderr is not None
        first = b""
        while b"listening on" not in first and (first := process.stderr.readline()):  # a warning may come before
            said.write(first)
            said.flush()
        pump = subprocess.Popen(["cat"], stdin=process.stderr, stdout=said)
        try:
            yield Gateway(first.decode().split()[-1], process, folder)
        finally:
            process.terminate()
            process.wait(LIMIT)
            pump.wait(LIMIT)
            process.stderr.close()


def wait_for(condition: Callable[[], object]) -> None:
    """Wait for something that another process does."""
    ends = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.02)


def worker_ids(server: Gateway) -> list[int]:
    """The processes of `--workers`."""
    parent = server.process.pid
    return [int(one) for one in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


@contextmanager
def only(server: Gateway, pid: int) -> Generator[None]:
    """Stop all workers but one for a while, so that this one answers."""
    others = [one for one in worker_ids(server) if one != pid]
    for one in others:
        os.kill(one, signal.SIGSTOP)
        wait_for(lambda one=one: "T" in Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[0])  # type: ignore[misc]
    try:
        yield
    finally:
        for one in others:
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGCONT)


PROXY = "127.0.0.2"  # where connections of nginx to the replicas come from


class Replicas:
    """Gateways on fixed ports behind nginx, each with its own configuration. `x-replica` of an answer says whose it is.

    One that was killed can be started again, on its port.
    """

    def __init__(self, folder: Path, configs: Sequence[str], env: dict[str, str]) -> None:
        self._folder, self._configs, self._env = folder, list(configs), env
        self._ports = [free_port() for _ in configs]
        self._stack = ExitStack()
        self.gateways: list[Gateway] = []
        self.nginx = NginxServer(
            self._ports,
            more=f"proxy_bind {PROXY}; add_header X-Replica $upstream_addr always; proxy_connect_timeout 2s;",
        )

    @property
    def url(self) -> str:
        return self.nginx.url

    def find(self, address: str) -> int:
        """The number of the replica with this `x-replica`."""
        return self._ports.index(int(address.rpartition(":")[2]))

    def start(self) -> None:
        """Start all at once, so that they find an empty database together."""
        with ThreadPoolExecutor() as pool:
            self.gateways += pool.map(self._run, range(len(self._configs)))
        self._stack.enter_context(closing(self.nginx))
        self.nginx.start()

    def restart(self, number: int) -> None:
        """Start a gateway that was killed."""
        self.gateways[number] = self._run(number)

    def reload(self, old: str, new: str) -> None:
        """Replace a text in all configurations, and wait until all gateways have them."""
        for running in self.gateways:
            before = running.said.count("was reloaded")
            running.config.write_text(running.config.read_text().replace(old, new))
            running.process.send_signal(signal.SIGHUP)
            ends = time.monotonic() + LIMIT
            while running.said.count("was reloaded") == before:
                assert time.monotonic() < ends, running.said
                time.sleep(0.02)

    def close(self) -> None:
        self._stack.close()

    def _run(self, number: int) -> Gateway:
        place = Path(tempfile.mkdtemp(prefix=f"{number}-", dir=self._folder))
        port = str(self._ports[number])
        options = ("--port", port, "--access-log", "json")
        return self._stack.enter_context(gateway(place, self._configs[number], *options, **self._env))


def open_store(database: str) -> PostgresKeyStore:
    """The keys of gateways that share a database."""
    return PostgresKeyStore(database)


@dataclass
class Cluster:
    """Replicas, the servers that they share, and their upstream."""

    up: Upstream
    replicas: Replicas
    redis: RedisServer
    postgres: PostgresServer
    database: str
    store: PostgresKeyStore

    @property
    def url(self) -> str:
        return self.replicas.url

    @property
    def gateways(self) -> list[Gateway]:
        return self.replicas.gateways

    def add_key(self, name: str, **fields: Any) -> None:
        """Make a key, and wait until all gateways know it."""
        new = msgspec.convert({"hash": hash_key(secret(name)), **fields}, Key)

        def add(records: KeyRecords) -> KeyRecords:
            return replace(records, keys={**records.keys, name: new})

        self.store.change(add, actor="test", action="add")
        for running in self.gateways:
            until_true(lambda running=running: self.get(running, "/v1/models", name).is_success)  # type: ignore[misc]

    def get(self, running: Gateway, path: str, name: str) -> httpx.Response:
        return httpx.get(f"{running.base}{path}", headers=auth(name), timeout=60, verify=False)  # noqa: S501 — loopback

    def metric(self, running: Gateway, name: str) -> float:
        """The sum of a metric over its labels."""
        lines = self.get(running, "/metrics", "root").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith((f"{name} ", f"{name}{{")))

    def used(self, name: str, kind: Literal["tokens", "cost", "concurrent"]) -> int:
        """What counts for a limit of a key."""
        return used(self.redis.url, LimitRule(f"key:{name}", kind, 0 if kind == "concurrent" else DAY, 0))

    def replica_of(self, reply: httpx.Response) -> int:
        """The number of the replica that gave an answer."""
        return self.replicas.find(reply.headers["x-replica"])

    def longest_lease(self, name: str) -> float:
        """The seconds until the last slot of a key is free if nobody renews it, by Redis' own clock."""
        client: Any = redis.Redis(port=self.redis.port)
        with closing(client):
            found = client.zrange(f"{{penstock-limits}}:s:key:{name}|concurrent", -1, -1, withscores=True)
            now = client.time()
        return float(found[0][1] / 1e6 - now[0] - now[1] / 1e6)

    def finished_turns(self) -> list[str]:
        """The ids of turns in the journal that have finished."""
        with psycopg.connect(self.database) as connection:
            rows = connection.execute("SELECT request_id FROM penstock.turns WHERE status = 'finish'").fetchall()
        return [name for (name,) in rows]

    def wait_for_rows(self, ids: list[str]) -> None:
        """Wait until the journal has each of these turns once."""
        until_true(lambda: set(ids) <= set(self.finished_turns()))
        found = Counter(self.finished_turns())
        assert {found[name] for name in ids} == {1}

    @contextmanager
    def hold_streams(self, usage: ev.Usage) -> Generator[threading.Event]:
        """Have the upstream answer streams with words that end once the event is set, and all else at once."""
        gate = threading.Event()

        def answer(seen: ReceivedRequest) -> Reply:
            return held_stream(gate, usage) if seen.json.get("stream") else reply_to(seen, usage)

        self.up.script(answer)
        try:
            yield gate
        finally:
            gate.set()
