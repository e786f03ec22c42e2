"""What teams cost: shared stores, several workers, resumable streams, and thousands of open streams.

`python -m benchmarks.teams` compares gateways in one run: with the defaults, with a key that has limits, with limits in
Redis and the rest in PostgreSQL, with resumable streams, with two workers. `--open` keeps 2,000 streams open over two
workers, with two events a second each. The servers are those of the tests. CPU is that of all processes of a gateway,
without that of Redis and PostgreSQL.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.gateway import Process, middle, port
from benchmarks.timing import Section, table
from penstock._gateway.keys import hash_key
from tests.support.servers import PostgresServer, RedisServer

if TYPE_CHECKING:
    from collections.abc import Generator

ROUNDS, SECONDS = 7, 1.5
STREAMS, DELTAS = 16, (20, 200)
OPEN_STREAMS, PAUSE = 2_000, 500  # streams, and ms between two of their events
MOST = {"first byte": 1.0, "CPU": 1.4, "workers": 1.1, "p99": 50.0}  # ms, times, times, ms
SECRET = "pk-bench-0000000000"  # noqa: S105 — of a gateway that lives for seconds
PROVIDER = """
[providers.up]
base_url = "http://127.0.0.1:{port}/v1"
key = "none"
models = ["n1"]
"""
KEY = f"""
organisation.limits = {{ month_cost = 1000000 }}
prices.models = {{ "up/*" = {{ input = 1, output = 1 }} }}
[teams.research]
limits = {{ day_cost = 1000000 }}
[keys.ann]
hash = "{hash_key(SECRET)}"
team = "research"
limits = {{ requests = 1000000000, tokens = 1000000000000, concurrent = 100000 }}
"""
STORES = """
[stores]
postgres = "{postgres}"
redis = "{redis}"
"""
RESUME = """
[resume]
enabled = true
"""


class Contender:
    """A gateway of one configuration. `run` loads it and returns what was seen, with the CPU of its processes."""

    def __init__(self, process: Process, at: int) -> None:
        self.process, self.at = process, at

    def run(self, model: str, streams: int, seconds: float) -> dict[str, float]:
        asked = {"model": f"up/{model}", "stream": True, "max_tokens": 999}
        body = json.dumps({**asked, "messages": [{"role": "user", "content": "Hello"}]}, separators=(",", ":"))
        words = [sys.executable, "-m", "benchmarks.wires", "load", str(self.at), "/v1/messages", str(streams)]
        before = self.process.cpu
        done = subprocess.run(
            [*words, str(seconds), body, f"authorization: Bearer {SECRET}"],
            capture_output=True, text=True, check=True, timeout=seconds + 120,
        )  # fmt: skip
        found: dict[str, float] = json.loads(done.stdout)
        return {**found, "cpu": self.process.cpu - before}


class Servers:
    """The stores of the team, and the upstream of all."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.redis = stack.enter_context(closing(RedisServer()))
        self.postgres = stack.enter_context(closing(PostgresServer()))
        self.redis.start()
        self.postgres.start()
        self.upstream = port()
        self._begin("-m", "benchmarks.wires", "upstream", str(self.upstream))

    def _begin(self, *words: str, **more: Any) -> Process:
        process = Process(*words, **more)
        self._stack.callback(process.stop)
        return process

    def gateway(self, *tables: str, workers: int = 1) -> Contender:
        """A gateway with these tables of configuration."""
        data = self._stack.enter_context(tempfile.TemporaryDirectory())
        file, at = Path(data, "penstock.toml"), port()
        text = "".join(tables) + PROVIDER
        file.write_text(text.format(port=self.upstream, postgres=self.postgres.url, redis=self.redis.url))
        words = ("-m", "penstock", "serve", "--config", str(file), "--port", str(at), "--workers", str(workers))
        return Contender(self._begin(*words, said="listening", env={"PENSTOCK_DATA": data}), at)


@contextmanager
def servers() -> Generator[Servers]:
    with ExitStack() as stack:
        yield Servers(stack)


def _plain(text: str) -> str:
    """Configuration that `format` leaves as it is."""
    return text.replace("{", "{{").replace("}", "}}")


def report(rounds: int = ROUNDS) -> Section:
    """Every contender beside the defaults, as Markdown, and the limits that are broken."""
    with servers() as made:
        contenders = {
            "defaults": made.gateway(),
            "a key with limits": made.gateway(_plain(KEY)),
            "Redis and PostgreSQL": made.gateway(_plain(KEY), STORES),
            "the same, resumable": made.gateway(_plain(KEY), STORES, RESUME),
            "two workers": made.gateway(workers=2),
        }
        firsts: dict[str, list[float]] = {name: [] for name in contenders}
        seen: dict[tuple[str, int], list[dict[str, float]]] = {(name, n): [] for name in contenders for n in DELTAS}
        for contender in contenders.values():
            contender.run("n20", STREAMS, 1.0)  # warm
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
            for name, contender in contenders.items():
                firsts[name].append(contender.run("n1", 1, 0.7)["first"] * 1000)
                for deltas in DELTAS:
                    seen[name, deltas].append(contender.run(f"n{deltas}", STREAMS, SECONDS))
    each = {key: middle(found)["each"] * 1e6 for key, found in seen.items()}
    ratio = {
        (name, deltas): median(
            (one["cpu"] / one["streams"]) / (base["cpu"] / base["streams"])
            for one, base in zip(seen[name, deltas], seen["defaults", deltas], strict=True)
        )
        for name, deltas in seen
    }
    later = {name: median(found) - median(firsts["defaults"]) for name, found in firsts.items()}
    rows = [
        [
            name, f"{median(firsts[name]):.2f}", f"{later[name]:+.2f}",
            *(text for n in DELTAS for text in (f"{each[name, n]:.0f}", f"{ratio[name, n]:.2f}")),
        ]
        for name in contenders
    ]  # fmt: skip
    head = ["", "first byte ms", "more", *(text for n in DELTAS for text in (f"CPU µs, {n} deltas", "times"))]
    text = f"""## Teams

{STREAMS} streams at once at full speed, Messages to a Chat upstream, {rounds} rounds in turn; ratios are medians of the
rounds'. The first byte is that of one request after another. `python -m benchmarks.teams`.

{table(head, rows)}"""
    shared = "Redis and PostgreSQL"
    broken = [
        f"{name}: {found:.2f}, at most {most}"
        for name, found, most in (
            (f"{shared}: ms more to the first byte", later[shared], MOST["first byte"]),
            (f"{shared}: times the CPU of a turn of 200 deltas", ratio[shared, 200], MOST["CPU"]),
            ("two workers: times the CPU of a stream", ratio["two workers", 200], MOST["workers"]),
        )
        if found > most
    ]
    return Section(text, broken)


class _PeakMemory:
    """Looks at a process's memory until it is left."""

    def __init__(self, process: Process) -> None:
        self.peak = 0.0
        self._process, self._over = process, threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._over.wait(0.5):
            self.peak = max(self.peak, self._process.memory)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def report_open(streams: int = OPEN_STREAMS, seconds: float = 30.0) -> Section:
    """Many open streams over two workers: lateness, memory of each."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with servers() as made:
        gateway = made.gateway(workers=2)
        gateway.run("n10-d40", 50, 1.0)
        before = gateway.process.memory
        watch = _PeakMemory(gateway.process)
        with watch:
            found = gateway.run(f"n{int((seconds + streams / 1000 + 5) * 1000 / PAUSE)}-d{PAUSE}", streams, seconds)
    late = found["delay99"] * 1000
    each = (watch.peak - before) * 1024 / streams
    text = f"""## Open streams

{streams:,} streams of an event every {PAUSE} ms over two workers, {seconds:.0f} s: {found["events"]:,.0f} events,
{found["errors"]:.0f} errors. Late by {found["delay"] * 1000:.1f} ms (median), {late:.1f} ms (p99).
{each:.0f} KiB of memory a stream, {found["cpu"] / max(found["events"], 1) * 1e6:.0f} µs of CPU an event.
`python -m benchmarks.teams --open`."""
    broken = [f"{found['errors']:.0f} errors"] if found["errors"] else []
    return Section(text, broken + ([f"{late:.1f} ms late (p99)"] if late > MOST["p99"] else []))


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m benchmarks.teams", description=__doc__)
    options.add_argument("--open", action="store_true", help="2,000 open streams over two workers")
    options.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds ({ROUNDS})")
    options.add_argument("--seconds", type=float, default=30.0, help="with --open: how long (30)")
    chosen = options.parse_args()
    found = report_open(seconds=chosen.seconds) if chosen.open else report(chosen.rounds)
    print(found.text, *(f"\nLimit broken: {limit}." for limit in found.broken))
    return 1 if found.broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
