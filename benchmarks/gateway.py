"""The gateway beside a bare pass-through, in one run: streams a second, CPU for a paced event, the first byte, memory.

`python -m benchmarks.gateway` for the figures; `--load` for 500 streams of 25 events a second, for a minute. All is
switched on that is on by default. Contenders take turns; medians of the rounds. Leans on `wires` for the ends.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.timing import Section, table

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

ROUNDS, SECONDS = 5, 2.0
STREAMS, DELTAS = 16, 200
_PROCESS_CLOCK = 2  # of Linux: the CPU that all threads of a process have used
PACED, PAUSE = 100, 40  # streams, and ms between two of their events
ASK: list[Any] = [{"role": "user", "content": "Hello"}]
LEAST = {"across": 0.12, "same": 0.2}  # of the pass-through's streams a second
MOST = {"CPU": 2.5, "first": 1.0, "memory": 100.0}  # times its CPU; ms; MB
CONFIG = """
[providers.up]
base_url = "http://127.0.0.1:{port}/v1"
key = "none"
models = ["n1"]
"""


class Process:
    """A process that listens. `log`: where its standard error goes on, behind the line that it starts with."""

    def __init__(
        self, *words: str, said: str = "ready", env: dict[str, str] | None = None, log: Path | None = None
    ) -> None:
        import os

        stream: dict[str, Any] = {"stdout": subprocess.PIPE} if said == "ready" else {"stderr": subprocess.PIPE}
        self._made = subprocess.Popen([sys.executable, *words], text=True, env={**os.environ, **(env or {})}, **stream)
        out: Any = self._made.stdout or self._made.stderr
        line = out.readline()
        assert said in line, line
        self.pid = self._made.pid
        self._pump: subprocess.Popen[bytes] | None = None
        if log is not None:
            with log.open("wb") as file:
                self._pump = subprocess.Popen(["cat"], stdin=out, stdout=file)

    @property
    def code(self) -> int | None:
        """How it ended; None while it runs."""
        return self._made.poll()

    @property
    def cpu(self) -> float:
        """Seconds of CPU so far, with its child processes; none where the system does not tell."""
        return sum(self._read_figures(_read_cpu))

    @property
    def memory(self) -> float:
        """Resident MB, with its child processes."""
        return sum(self._read_figures(_read_memory))

    def _read_figures(self, read: Callable[[int], float]) -> Iterator[float]:
        waiting = [self.pid]
        while waiting:
            pid = waiting.pop()
            try:
                yield read(pid)
                waiting += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
            except OSError:
                continue

    def stop(self) -> None:
        self._made.terminate()
        self._made.wait(30)
        if self._pump is not None:
            self._pump.wait(30)
        for pipe in (self._made.stdout, self._made.stderr):
            if pipe is not None:
                pipe.close()


def _read_cpu(pid: int) -> float:
    """Seconds of CPU of a process. Its own clock counts nanoseconds; /proc/…/stat would count steps of 10 ms."""
    return time.clock_gettime((~pid << 3) | _PROCESS_CLOCK)


def _read_memory(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), 0.0)


def port() -> int:
    """A port that is free now."""
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


class Bench:
    """All processes, and who is measured: name → port, path, body."""

    def __init__(self, passing: Process, gateway: Process, ports: tuple[int, int, int], data: Path) -> None:
        self.passing, self.gateway = passing, gateway
        self.upstream, bare, gate = ports
        self.ways = {
            "pass-through": (passing, bare, "/v1/chat/completions", ""),
            "across": (gateway, gate, "/v1/messages", "up/"),
            "same": (gateway, gate, "/v1/chat/completions", "up/"),
        }
        self.headers: dict[str, str] = {}  # that one of them needs besides
        self.asked: dict[str, Any] = {"messages": ASK}
        self.base = f"http://127.0.0.1:{gate}"
        self.data = data  # the gateway's data folder

    def run(self, name: str, model: str, streams: int, seconds: float) -> dict[str, float]:
        """One load on one of them; its CPU beside what was seen."""
        process, at, path, prefix = self.ways[name]
        body = {"model": prefix + model, "stream": True, "max_tokens": 999, **self.asked}
        if path.endswith("completions"):
            body["stream_options"] = {"include_usage": True}
        before = process.cpu
        words = [sys.executable, "-m", "benchmarks.wires", "load", str(at), path, str(streams), str(seconds)]
        said = json.dumps(body, separators=(",", ":"))
        said_more = [self.headers[name]] if self.headers.get(name) else []
        done = subprocess.run(
            [*words, said, *said_more], capture_output=True, text=True, check=True, timeout=seconds + 60
        )
        found: dict[str, float] = json.loads(done.stdout)
        return {**found, "cpu": process.cpu - before}


@contextmanager
def bench() -> Generator[Bench]:
    """Everything started, and stopped."""
    with ExitStack() as stack:
        data = stack.enter_context(tempfile.TemporaryDirectory())
        up, bare, gate = port(), port(), port()
        file = Path(data, "penstock.toml")
        file.write_text(CONFIG.format(port=up))

        def started(*words: str, **more: Any) -> Process:
            made = Process(*words, **more)
            stack.callback(made.stop)
            return made

        started("-m", "benchmarks.wires", "upstream", str(up))
        passing = started("-m", "benchmarks.wires", "passing", str(bare), str(up))
        words = ("-m", "penstock", "serve", "--config", str(file), "--port", str(gate))
        gateway = started(*words, said="listening", env={"PENSTOCK_DATA": data})
        yield Bench(passing, gateway, (up, bare, gate), Path(data))


def fast(made: Bench) -> dict[str, dict[str, float]]:
    """Streams a second at full speed, and CPU for each."""
    seen: dict[str, list[dict[str, float]]] = {name: [] for name in made.ways}
    for _ in range(ROUNDS):
        for name, rounds in seen.items():
            rounds.append(made.run(name, f"n{DELTAS}", STREAMS, SECONDS))
    return {name: middle(rounds) for name, rounds in seen.items()}


def middle(rounds: list[dict[str, float]]) -> dict[str, float]:
    """The medians of rounds that all went well."""
    assert not sum(one["errors"] for one in rounds), "a stream failed"
    assert all(one["events"] for one in rounds), "nothing was said"
    made = {key: median(one[key] for one in rounds) for key in rounds[0]}
    made["each"] = median(one["cpu"] / max(one["streams"], 1) for one in rounds)
    return made


def paced(made: Bench) -> dict[str, dict[str, float]]:
    """CPU for each event of streams that take their time, and how late an event is."""
    seen: dict[str, list[dict[str, float]]] = {name: [] for name in made.ways}
    for _ in range(3):
        for name, rounds in seen.items():
            rounds.append(made.run(name, f"n100-d{PAUSE}", PACED, 4.0))
    found = {name: middle(rounds) for name, rounds in seen.items()}
    for name, rounds in seen.items():
        found[name]["each"] = median(one["cpu"] / max(one["events"], 1) for one in rounds)
    return found


def first(made: Bench) -> dict[str, float]:
    """Median time to the first byte, one request after another, in ms."""
    seen: dict[str, list[float]] = {name: [] for name in made.ways}
    for _ in range(ROUNDS):
        for name, rounds in seen.items():
            rounds.append(made.run(name, "n1", 1, 0.5)["first"] * 1000)
    return {name: median(rounds) for name, rounds in seen.items()}


def leaving(made: Bench, count: int = 20) -> float:
    """Milliseconds from a client's leaving to the upstream's noticing: the median."""
    taken: list[float] = []
    for _ in range(count):
        body = json.dumps(
            {"model": "up/n1000-d20", "stream": True, "max_tokens": 9, "messages": ASK}, separators=(",", ":")
        )
        _, at, path, _ = made.ways["across"]
        with socket.create_connection(("127.0.0.1", at), 10) as rude:
            rude.sendall(
                f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()
            )
            assert rude.recv(4096)
            left = time.monotonic()
        time.sleep(0.1)
        with urllib.request.urlopen(f"http://127.0.0.1:{made.upstream}/") as reply:
            taken.append((json.load(reply)["at"] - left) * 1000)
    return median(taken)


def memory(made: Bench) -> float:
    """Resident MB after a token count."""
    body = json.dumps({"model": "up/n1", "max_tokens": 9, "messages": ASK}).encode()
    asked = urllib.request.Request(  # noqa: S310 — loopback
        f"{made.base}/v1/messages/count_tokens", body, {"content-type": "application/json"}
    )
    with urllib.request.urlopen(asked) as reply:  # noqa: S310
        assert json.load(reply)["input_tokens"] > 0
    return made.gateway.memory


def report() -> Section:
    """All figures as Markdown, and the limits that they break."""
    with bench() as made:
        for name in made.ways:
            made.run(name, f"n{DELTAS}", STREAMS, 0.5)  # warm
        speed, slow, start, gone, held = fast(made), paced(made), first(made), leaving(made), memory(made)
    base = "pass-through"
    rows = [
        [
            name, f"{speed[name]['rate']:.0f}", f"{speed[name]['rate'] / speed[base]['rate']:.3f}",
            f"{speed[name]['each'] * 1e6:.0f}", f"{slow[name]['each'] * 1e6:.1f}",
            f"{slow[name]['each'] / max(slow[base]['each'], 1e-9):.2f}", f"{start[name]:.2f}",
            f"{slow[name]['delay99'] * 1000:.1f}",
        ]
        for name in made.ways
    ]  # fmt: skip
    head = ["", "streams/s", "of it", "CPU µs/stream", "CPU µs/paced event", "times it", "first byte ms", "p99 late ms"]
    text = f"""## The gateway

{STREAMS} streams at once of {DELTAS} deltas at full speed, medians of {ROUNDS} rounds in turn; {PACED} streams of an
event every {PAUSE} ms. *Across*: Messages to a Chat upstream; *same*: Chat to Chat. `python -m benchmarks.gateway`.

{table(head, rows)}

A client that leaves is noticed upstream after {gone:.1f} ms (median).
{held:.0f} MB are resident after a token count."""
    broken = [
        f"{name}: {speed[name]['rate'] / speed[base]['rate']:.3f} of the pass-through's streams/s, at least {least}"
        for name, least in LEAST.items() if speed[name]["rate"] / speed[base]["rate"] < least
    ]  # fmt: skip
    times = slow["across"]["each"] / max(slow[base]["each"], 1e-9)
    broken += [f"{times:.2f} times the CPU for a paced event"] if times > MOST["CPU"] else []
    added = max(start["across"], start["same"]) - start[base]
    broken += [f"{added:.2f} ms added to the first byte"] if added > MOST["first"] else []
    broken += [f"{held:.0f} MB resident"] if held > MOST["memory"] else []
    broken += [f"{gone:.0f} ms until a client's leaving is noticed"] if gone > 50 else []
    return Section(text, broken)


def soak(streams: int = 500, seconds: float = 60.0) -> None:
    """Many slow streams in one process: errors, lateness, memory as they go on."""
    with bench() as made:
        made.run("across", "n10-d40", 50, 1.0)
        before, over, held = made.gateway.memory, threading.Event(), list[float]()

        def look() -> None:
            while not over.wait(seconds / 20):
                held.append(made.gateway.memory)

        watching = threading.Thread(target=look)
        watching.start()
        # A little longer than the run: none ends early and begins anew.
        found = made.run("across", f"n{int(seconds * 25) + 50}-d40", streams, seconds)
        over.set()
        watching.join()
    each = found["cpu"] / max(found["events"], 1) * 1e6
    early, late = held[len(held) // 4], held[-1]
    print(f"{streams} streams, {found['events']:.0f} events, {found['errors']:.0f} errors")
    print(f"late by {found['delay'] * 1e3:.1f} ms (median), {found['delay99'] * 1e3:.1f} ms (p99)")
    print(f"{each:.0f} µs of CPU an event")
    print(f"{before:.0f} MB before; {early:.0f} MB after a quarter of the time, {late:.0f} MB at the end")


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m benchmarks.gateway", description=__doc__)
    options.add_argument("--load", action="store_true", help="500 streams of 25 events a second, for a minute")
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--rivals", action="store_true", help="beside LiteLLM and Portkey, where they are installed")
    options.add_argument(
        "--watched", nargs="*", metavar="STATE", choices=("memory", "disk", "watched"),
        help="with turns kept in memory, on disk, and watched; or only one of these",
    )  # fmt: skip
    options.add_argument("--asked", action="store_true", help="requests from one line to a coding agent's")
    options.add_argument("--http", action="store_true", help="our own HTTP code beside plain aiohttp and plain ASGI")
    options.add_argument("--matrix", action="store_true", help="every client protocol with every upstream protocol")
    options.add_argument("--clients", nargs="*", default=[], help="with --matrix: only these, such as chat messages")
    options.add_argument("--sizes", nargs="*", default=[], help="with --matrix: only these: plain, agent, large agent")
    options.add_argument("--against", metavar="REV", help="this tree beside another revision: CPU per stream")
    options.add_argument("--rounds", type=int, help="rounds: 24 with --against, 5 with --matrix")
    options.add_argument("--streams", type=int, default=100, help="with --against: streams in a round (100)")
    options.add_argument(
        "--pairs", nargs="*", default=[], help="with --against: only these, such as chat-chat:recorded"
    )
    options.add_argument(
        "--old-config",
        default="",
        metavar="LINE",
        help="with --against: a setting of the other one, as in its file",
    )
    options.add_argument("--limit", type=float, default=0.05, help="with --against: share that the new one may lose")
    options.add_argument("--write", metavar="FILE", type=Path, help="with --against: store the table, too")
    chosen = options.parse_args()
    if chosen.load:
        soak(seconds=chosen.seconds)
        return 0
    found = _section(chosen)
    print(found.text, *(f"\nLimit broken: {limit}." for limit in found.broken))
    if chosen.write is not None:
        chosen.write.write_text(found.text + "\n")
    return 1 if chosen.against and found.broken else 0


def _section(chosen: argparse.Namespace) -> Section:
    if chosen.against:
        from benchmarks import against

        more: dict[str, Any] = {
            "rounds": chosen.rounds or against.ROUNDS,
            "streams": chosen.streams,
            "pairs": chosen.pairs,
            "limit": chosen.limit,
            "old_config": f"{chosen.old_config}\n" if chosen.old_config else "",
        }
        return against.report(chosen.against, **more)
    if chosen.matrix:
        from benchmarks import matrix

        return matrix.report(rounds=chosen.rounds or matrix.ROUNDS, clients=chosen.clients, sizes=chosen.sizes)
    if chosen.http:
        from benchmarks import http_paths

        return http_paths.report(chosen.rounds or http_paths.ROUNDS)
    if chosen.watched is not None:
        from benchmarks import watched

        return watched.report(chosen.watched)
    reports = {"asked": chosen.asked, "rivals": chosen.rivals}
    name = next((name for name, wanted in reports.items() if wanted), None)
    if name is None:
        return report()
    section: Section = import_module(f"benchmarks.{name}").report()
    return section


if __name__ == "__main__":
    raise SystemExit(main())
