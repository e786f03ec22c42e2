"""A soak: many paced streams for a long time while clients leave, upstreams fail and the configuration is reloaded.

`make soak` (`python -m benchmarks.soak --minutes 10 --streams 300`). The gateway runs in a process of its own with a
journal on disk. After a warm-up its memory, descriptors and tasks must stay flat; at the end every turn that a client
saw finish must be in the journal as finished, and every other one as what it was. Needs Linux (/proc).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.gateway import Process, port
from benchmarks.soak_traffic import HOST, Tally, Upstream, ramp
from benchmarks.timing import table

if TYPE_CHECKING:
    from collections.abc import Sequence

WARM = 120.0  # seconds before anything is judged; two fifths of a shorter run
EVERY = 2.0  # seconds between two looks
RELOAD = 60.0  # seconds between two reloads; a quarter of a shorter run
LIMIT = 0.05
SPARE = 16  # descriptors and tasks that may come and go: connections that are being opened or closed
_SHOWN = ("memory", "descriptors", "tasks", "streams")
DRAIN = 30.0  # seconds for the last streams to end
CONFIG = """
breaker.failures = 1000000000
retries = 0
options.timeouts.between_bytes = 3.0
options.timeouts.first_byte = 10.0
[providers]
chat = {{ base_url = "{base}", key = "none", like = "openai-compatible", fields = {{ has = ["chat"] }} }}
responses = {{ base_url = "{base}", key = "none", like = "openai-compatible", fields = {{ has = ["responses"] }} }}
anthropic = {{ base_url = "{base}", key = "none", like = "anthropic" }}
gemini = {{ base_url = "{base}", key = "none", like = "gemini" }}
"""


@dataclass(frozen=True)
class Sample:
    """A look at the gateway: seconds since the start, MB, descriptors, tasks; and how many streams were open.

    Descriptors are counted without the sockets of clients and upstream, tasks without one for each stream: what is left
    does not depend on the load, which a busy machine cannot keep even. Where the gateway lags behind its clients, less
    than nothing may be left, which counts as nothing.
    """

    at: float
    memory: float
    descriptors: int
    tasks: int
    streams: int = 0


@dataclass
class Verdict:
    """What a run has found; nothing in `wrong` if all is well."""

    samples: list[Sample] = field(default_factory=list)
    idle: list[Sample] = field(default_factory=list)  # before the load, and after it
    tally: Tally = field(default_factory=Tally)
    reloads: int = 0
    warm: float = 0.0
    wrong: list[str] = field(default_factory=list)

    def judge(self, limit: float) -> None:
        """Whether everything stayed flat after the warm-up: the medians of ten spans beside the first of them.

        Of memory the largest sample counts too.
        """
        for name, spare in (("memory", 0.0), ("descriptors", SPARE), ("tasks", SPARE)):
            first = self.spans(name)[0]
            change = self._change(name)
            if abs(change) > max(first * limit, spare):
                self.wrong.append(f"{name} went from {first:.0f} to {first + change:.0f}, more than {limit:.0%}")
        first, peak = self.spans("memory")[0], max(sample.memory for sample in self._judged())
        if peak > first * (1 + limit):
            self.wrong.append(f"memory was {peak:.1f} once, more than {limit:.0%} above {first:.1f}")
        before, after = self.idle
        for name in ("descriptors", "tasks"):
            if getattr(after, name) > getattr(before, name) + SPARE:
                self.wrong.append(f"{getattr(after, name)} {name} after the load, {getattr(before, name)} before it")
        self.wrong += [f"not an end: {one}" for one in self.tally.broken[:5]]

    def _change(self, name: str) -> float:
        """The largest change from the first span. Fewer descriptors or tasks are no leak: a connection was closed."""
        spans = self.spans(name)
        changes = [value - spans[0] for value in spans]
        return max(changes, key=abs) if name == "memory" else max(changes)

    def _judged(self) -> list[Sample]:
        return [sample for sample in self.samples if sample.at >= self.warm] or self.samples

    def spans(self, name: str) -> list[float]:
        judged = self._judged()
        size = max(1, len(judged) // 10)
        return [
            median(getattr(sample, name) for sample in judged[at : at + size])
            for at in range(0, len(judged) - size + 1, size)
        ]  # fmt: skip

    def text(self) -> str:
        rows = [[name, *(f"{value:.{int(name == 'memory')}f}" for value in self._row(name))] for name in _SHOWN]
        head = ["", "before", "first span", "least", "most", "last span", "after"]
        tally = self.tally
        counts = (
            f"{tally.turns} turns: {len(tally.finished)} finished, {len(tally.failed)} failed, {len(tally.left)} left "
            f"by the client, {len(tally.broken)} broken; {self.reloads} reloads."
        )
        faults = ", ".join(f"{count} {name}" for name, count in sorted(tally.asked.items()))
        verdict = "\n".join(f"Wrong: {one}." for one in self.wrong) or "All is well."
        return f"{table(head, rows)}\n\n{counts}\nAsked for: {faults}.\n{verdict}"

    def _row(self, name: str) -> list[float]:
        spans = self.spans(name)
        before, after = (getattr(sample, name) for sample in self.idle)
        return [before, spans[0], min(spans), max(spans), spans[-1], after]


def look(process: Process, tasks: Path, begun: float, tally: Tally) -> Sample:
    count = int(tasks.read_text()) if tasks.exists() else 0
    open_now = sum(1 for _ in Path(f"/proc/{process.pid}/fd").iterdir())
    descriptors = max(0, open_now - tally.open - len(Upstream.open))
    return Sample(time.monotonic() - begun, process.memory, descriptors, max(0, count - tally.busy), tally.busy)


async def traffic(process: Process, gate: int, tasks: Path, chosen: argparse.Namespace, found: Verdict) -> None:
    """The whole run: load, looks, reloads, and the wait until the last stream has ended."""
    seconds = chosen.minutes * 60
    found.warm = min(WARM, seconds * 0.4)
    begun, reloaded = time.monotonic(), 0.0
    await asyncio.sleep(EVERY)
    found.idle.append(look(process, tasks, begun, found.tally))
    begun = time.monotonic()
    starting = asyncio.ensure_future(ramp(gate, chosen.streams, chosen.seed, found.tally, min(5.0, seconds / 5)))
    while (spent := time.monotonic() - begun) < seconds:
        await asyncio.sleep(min(EVERY, seconds / 50))
        found.samples.append(look(process, tasks, begun, found.tally))
        if spent - reloaded >= min(RELOAD, seconds / 4):
            os.kill(process.pid, signal.SIGHUP)
            found.reloads, reloaded = found.reloads + 1, spent
            tell(found, seconds)
    await starting
    found.tally.going = False
    await drained(found.tally)
    for transport in list(Upstream.open):
        transport.abort()  # the gateway lets go of idle connections whose other end is gone
    await asyncio.sleep(2 * EVERY)
    found.idle.append(look(process, tasks, begun, found.tally))


async def drained(tally: Tally) -> None:
    """Wait until no client has a stream any more."""
    until = time.monotonic() + DRAIN
    while tally.open and time.monotonic() < until:  # noqa: ASYNC110 — a count, and nobody to tell of it
        await asyncio.sleep(0.1)
    if tally.open:
        tally.broken.append(f"{tally.open} clients still waited {DRAIN:.0f} s after the end")


def tell(found: Verdict, seconds: float) -> None:
    last, tally = found.samples[-1], found.tally
    print(
        f"{last.at:.0f} of {seconds:.0f} s: {last.memory:.1f} MB, {last.streams} streams; besides them "
        f"{last.descriptors} descriptors and {last.tasks} tasks; {tally.turns} turns, {len(tally.broken)} broken",
        file=sys.stderr, flush=True,
    )  # fmt: skip


def check_journal(file: Path, found: Verdict) -> None:
    """Every turn that a client saw has one row, with the end that the client saw."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as made:
        rows: dict[str, str] = {}
        for turn, status in made.execute("SELECT request_id, status FROM turns"):
            if turn in rows:
                found.wrong.append(f"two rows of {turn}")
            rows[turn] = status
    tally = found.tally
    ends = (
        ("finished", tally.finished, {"finish"}),
        ("failed", tally.failed, {"fault", "refused"}),
        ("left", tally.left, {"cancelled", "finish", "fault", "refused"}),  # whichever came first
    )
    for name, ids, statuses in ends:
        missing = sum(turn not in rows for turn in ids)
        other = sum(turn in rows and rows[turn] not in statuses for turn in ids)
        if missing:
            found.wrong.append(f"{missing} of {len(ids)} turns that {name} are not in the journal")
        if other:
            found.wrong.append(f"{other} of {len(ids)} turns that {name} have another end in the journal")


async def _serving(up: int, seed: int) -> asyncio.Server:
    dice = random.Random(seed)
    return await asyncio.get_running_loop().create_server(lambda: Upstream(dice), HOST, up, backlog=2048)


def soak(chosen: argparse.Namespace) -> Verdict:
    """All of it."""
    found = Verdict()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        up, gate = port(), port()
        config = folder / "penstock.toml"
        config.write_text(CONFIG.format(base=f"http://{HOST}:{up}/v1"))
        words = ("-m", "benchmarks.soak_gateway", str(folder / "tasks"), "--config", str(config), "--port", str(gate))
        process = Process(*words, said="listening", env={"PENSTOCK_DATA": str(folder / "data")}, log=folder / "log")
        stack.callback(process.stop)

        async def main() -> None:
            server = await _serving(up, chosen.seed)
            try:
                await traffic(process, gate, folder / "tasks", chosen, found)
            finally:
                server.close()

        _run(main())
        process.stop()
        check_journal(folder / "data" / "journal.sqlite", found)
        if process.code not in {0, -signal.SIGTERM}:
            found.wrong.append(f"the gateway ended with {process.code}")
        log = (folder / "log").read_text(errors="replace")
        if "Traceback" in log:
            found.wrong.append(f"a traceback in the log: {log[log.index('Traceback') :][-1500:]}")
    found.judge(chosen.limit)
    return found


def _run(work: object) -> None:
    import uvloop

    uvloop.run(work)  # type: ignore[arg-type]


def main(words: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    options.add_argument("--minutes", type=float, default=10.0)
    options.add_argument("--streams", type=int, default=300, help="open at once (300)")
    options.add_argument("--seed", type=int, default=14)
    options.add_argument("--limit", type=float, default=LIMIT, help="share by which a figure may change (0.05)")
    found = soak(options.parse_args(words))
    print(found.text())
    return 1 if found.wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
