"""What the inspector costs: turns kept in memory, on disk, and watched, beside the same gateway that keeps nothing.

`python -m benchmarks.gateway --watched`. Rounds are short, take turns and change their order. Their costs differ by
8% from round to round, so a cost is the median of many. Two processes of one program differ by a few percent for as
long as they run, so there are several. The gateway has one core, load and upstream the other. Leans on `against`.
"""

from __future__ import annotations

import json
import socket
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from statistics import mean, median, stdev
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.against import own_core, pin
from benchmarks.against_traffic import AT_ONCE, HOST, PAIRS, ask, run
from benchmarks.gateway import Process, port
from benchmarks.provider_streams import DELTAS
from benchmarks.timing import Section, table
from penstock._inspector.session_token import HEADER, open_session_token

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

GATEWAYS, ROUNDS, STREAMS = 4, 40, 48
# Times a round in which the gateway works between turns, too: it writes to disk, or tells the page four times a second.
LONGER = {"memory": 1, "disk": 4, "watched": 8}
WARM = 800  # streams before the first round: the newest turns fill their memory
IDLE_STEP, IDLE_SHARE, IDLE_LIMIT = 0.05, 0.05, 5.0  # a gateway that uses less of a core in a step has nothing to do
SHOWN_BYTES = 5_000  # fewer than those of the rows of a round
# How turns are kept → the share of the streams a second (of a busy core) without it that must be left.
STATES = {"memory": 0.97, "disk": 0.94, "watched": 0.9}
SMALL, AGENT = ("chat-messages", "chat-chat-usage"), "chat-messages-agent"
WAYS = tuple((name, shape) for name in (*SMALL, AGENT) for shape in ("synthetic", "recorded"))
CONFIG = """
[providers.chat]
base_url = "http://{host}:{port}/v1"
key = "none"
like = "openai-compatible"
fields = {{ has = ["chat"] }}
"""

Way = tuple[str, str]
Costs = tuple[list[float], list[float]]  # of all rounds, without and with keeping


class Measured(NamedTuple):
    """A running gateway that is measured, and its data folder."""

    process: Process
    port: int
    data: Path


@contextmanager
def running_gateway() -> Generator[Measured]:
    """An upstream and a gateway, started and stopped."""
    with ExitStack() as stack:

        def started(*words: str, core: int, **more: Any) -> Process:
            made = Process(*words, **more)
            stack.callback(made.stop)
            pin(made.pid, core)
            return made

        data, upstream, at = Path(stack.enter_context(tempfile.TemporaryDirectory())), port(), port()
        file = data / "penstock.toml"
        file.write_text(CONFIG.format(host=HOST, port=upstream))
        started("-m", "benchmarks.against_traffic", str(upstream), core=1)
        words = ("-m", "penstock", "serve", "--config", str(file), "--port", str(at))
        yield Measured(started(*words, core=0, said="listening", env={"PENSTOCK_DATA": str(data)}), at, data)


@contextmanager
def watching(port: int, data: Path) -> Generator[list[int]]:
    """A page that looks at the list, as far as the gateway can tell; gives how many bytes it was sent."""
    seen, token = [0], open_session_token(data)
    with socket.create_connection(("127.0.0.1", port), 30) as line:
        line.sendall(f"GET /inspector/live HTTP/1.1\r\nhost: 127.0.0.1\r\n{HEADER}: {token}\r\n\r\n".encode())
        seen[0] += len(line.recv(65536))

        def read() -> None:
            with suppress(OSError):  # the end may be a reset
                while data := line.recv(1 << 20):
                    seen[0] += len(data)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        yield seen
        line.shutdown(socket.SHUT_RDWR)
        reader.join(10)


def switch(made: Measured, state: str) -> None:
    """Has the gateway keep turns so."""
    body = json.dumps({"paused": state == "off", "disk": state == "disk"}).encode()
    headers = {HEADER: open_session_token(made.data), "content-type": "application/json"}
    asked = urllib.request.Request(f"http://{HOST}:{made.port}/inspector/keeping", body, headers)
    with urllib.request.urlopen(asked) as reply:  # noqa: S310
        assert json.load(reply)["paused"] == (state == "off")


def measure(made: Measured, way: Way, state: str, streams: int, *, waits: bool) -> float:
    """CPU for each stream of one round while turns are kept so. `waits`: with what the gateway does after its end."""
    switch(made, state)
    watched = state == "watched"
    with watching(made.port, made.data) if watched else nullcontext([0]) as seen:
        before = made.process.cpu
        run(ask(made.port, PAIRS[way[0]], way[1], streams))
        if waits:
            wait_until_idle(made)
        used = made.process.cpu - before
        if watched:
            wait_until_shown(seen)
    return used / streams


def wait_until_shown(seen: list[int]) -> None:
    """The list is sent at intervals. Raises TimeoutError if none comes: then nothing was measured."""
    ends = time.monotonic() + IDLE_LIMIT
    while seen[0] < SHOWN_BYTES:
        if time.monotonic() > ends:
            raise TimeoutError(f"the page was sent {seen[0]} bytes, and turns have more")
        time.sleep(IDLE_STEP)


def wait_until_idle(made: Measured) -> None:
    """Turns are written to disk after their end, too."""
    ends, used = time.monotonic() + IDLE_LIMIT, made.process.cpu
    while time.monotonic() < ends:
        time.sleep(IDLE_STEP)
        before, used = used, made.process.cpu
        if used - before < IDLE_STEP * IDLE_SHARE:
            return


class Share(NamedTuple):
    """Streams for the same CPU, as a share of those without keeping: the mean of all gateways, and its error."""

    mean: float
    error: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.error:.3f}"


def share_of(gateways: Sequence[Sequence[Costs]]) -> Share:
    """Of the costs at each gateway: of one way, or of several, which then have the same number of streams."""
    found = [sum(median(off) for off, _ in ways) / sum(median(on) for _, on in ways) for ways in gateways]
    return Share(mean(found), stdev(found) / len(found) ** 0.5 if len(found) > 1 else 0.0)


def run_rounds(state: str, rounds: int, streams: int) -> tuple[dict[Way, Costs], float]:
    """CPU for a stream without and with keeping, by ways, at one gateway; and the MB it holds at the end."""
    found: dict[Way, Costs] = {way: ([], []) for way in WAYS}
    waits = state == "disk"
    rounds, streams = rounds // LONGER[state], streams * LONGER[state]
    with own_core(), running_gateway() as made:
        for way in WAYS:
            measure(made, way, state, WARM // len(WAYS), waits=waits)
        for number in range(rounds):
            for way, (off, on) in found.items():
                for name in ("off", state) if number % 2 else (state, "off"):
                    (off if name == "off" else on).append(measure(made, way, name, streams, waits=waits))
        return found, made.process.memory


def report(
    states: Sequence[str] = (), gateways: int = GATEWAYS, rounds: int = ROUNDS, streams: int = STREAMS
) -> Section:
    """All ways and states (or some states), as Markdown, and the limits that are broken."""
    rows, broken, most = list[list[str]](), list[str](), 0.0
    for state in states or STATES:
        least = STATES[state]
        runs: list[tuple[dict[Way, Costs], float]] = []
        for number in range(gateways):
            print(f"{state}: gateway {number + 1} of {gateways}", file=sys.stderr, flush=True)
            runs.append(run_rounds(state, rounds, streams))
            print(f"  {share_of([[*runs[-1][0].values()]]).mean:.3f}", file=sys.stderr, flush=True)
        most = max(most, *(held for _, held in runs))
        for way in WAYS:
            share = share_of([[found[way]] for found, _ in runs])
            off, on = (mean(median(found[way][side]) for found, _ in runs) * 1e6 for side in (0, 1))
            rows.append([state, f"{PAIRS[way[0]].title}, {way[1]}", str(share), "", f"{off:.0f}", f"{on:.0f}"])
        share = share_of([[*found.values()] for found, _ in runs])
        rows.append([f"**{state}**", "all of them", str(share), f"{least}", "", ""])
        broken += [f"{state}: {share} of the streams/s, at least {least}"] if share.mean < least else []
    head = ["turns are kept", "", "of those without", "at least", "CPU µs/stream without", "with"]
    text = f"""## The gateway while the inspector keeps turns

Streams a second as a share of those of the same gateway while it keeps nothing: turns kept in memory, on disk too, in
memory with a page at `/inspector/live`. {AT_ONCE} streams at once of {DELTAS} deltas. The share is by CPU, because the
gateway uses all of its core: medians of {rounds} rounds of {streams} streams (on disk a quarter of the rounds,
each {LONGER["disk"]} times as long; watched an eighth), the mean of {gateways} gateways and its standard error. The
limit is for a load with as many streams of each row. A synthetic stream comes in one read, so its turn costs least.
`python -m benchmarks.gateway --watched`.

{table(head, rows)}

{most:.0f} MB are resident at the end."""
    return Section(text, broken)
