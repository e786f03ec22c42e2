"""What the inspector costs: turns kept in memory, on disk, and watched, beside the same gateway that keeps nothing.

`python -m benchmarks.gateway --watched`. Rounds are short, take turns and change their order, so that all have the same
weather. Two processes of one program differ by a few percent for as long as they run, so there are several. The gateway
has one core, load and upstream the other. Leans on `gateway`.
"""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.request
from contextlib import contextmanager, nullcontext
from statistics import mean, median, stdev
from typing import TYPE_CHECKING, NamedTuple

from benchmarks import gateway
from benchmarks.against import own_core, pin
from benchmarks.timing import Section, Times, table
from penstock._inspector.session_token import HEADER, open_session_token

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

GATEWAYS, ROUNDS, SECONDS = 4, 12, 0.3  # many and short: all of a round have the same weather
IDLE_STEP, IDLE_SHARE, IDLE_LIMIT = 0.05, 0.05, 5.0  # a gateway that uses less of a core in a step has nothing to do
# How turns are kept → the share of the streams a second (of a busy core) without it that must be left.
STATES = {"memory": 0.97, "disk": 0.94, "watched": 0.9}
WAYS = ("across", "same")


@contextmanager
def watching(port: int, data: Path) -> Generator[list[int]]:
    """A page that looks at the list, as far as the gateway can tell; gives how many bytes it was sent."""
    seen, token = [0], open_session_token(data)
    with socket.create_connection(("127.0.0.1", port), 30) as line:
        line.sendall(f"GET /inspector/live HTTP/1.1\r\nhost: 127.0.0.1\r\n{HEADER}: {token}\r\n\r\n".encode())
        seen[0] += len(line.recv(65536))

        def read() -> None:
            while data := line.recv(1 << 20):
                seen[0] += len(data)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        yield seen
        line.shutdown(socket.SHUT_RDWR)
        reader.join(10)


def switch(made: gateway.Bench, state: str) -> None:
    """Has the gateway keep turns so."""
    body = json.dumps({"paused": state == "off", "disk": state == "disk"}).encode()
    headers = {HEADER: open_session_token(made.data), "content-type": "application/json"}
    asked = urllib.request.Request(f"{made.base}/inspector/keeping", body, headers)  # noqa: S310 — loopback
    with urllib.request.urlopen(asked) as reply:  # noqa: S310
        assert json.load(reply)["paused"] == (state == "off")


def measure(made: gateway.Bench, way: str, state: str, seconds: float) -> float:
    """CPU for each stream of one load while turns are kept so, with what the gateway does after its end."""
    switch(made, state)
    watched = state == "watched"
    port = int(made.base.rpartition(":")[2])
    with watching(port, made.data) if watched else nullcontext([0]) as seen:
        before = made.gateway.cpu
        found = made.run(way, f"n{gateway.DELTAS}", gateway.STREAMS, seconds)
        wait_until_idle(made)
    assert not found["errors"], "a stream failed"
    assert not watched or seen[0] > 5_000, "nothing was shown"
    return (made.gateway.cpu - before) / max(found["streams"], 1)


def wait_until_idle(made: gateway.Bench) -> None:
    """Turns are written to disk after their end, too."""
    ends, used = time.monotonic() + IDLE_LIMIT, made.gateway.cpu
    while time.monotonic() < ends:
        time.sleep(IDLE_STEP)
        before, used = used, made.gateway.cpu
        if used - before < IDLE_STEP * IDLE_SHARE:
            return


class Share(NamedTuple):
    """Streams for the same CPU, as a share of those without keeping: the mean of all gateways, and its error."""

    mean: float
    error: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.error:.3f}"


def share_of(gateways: list[list[tuple[float, float]]]) -> Share:
    """Of CPU without and with keeping, by gateways and rounds: the calmest quarter of a gateway's rounds counts."""
    pairs = (list(zip(*rounds, strict=True)) for rounds in gateways)
    found = [Times({"off": list(off), "on": list(on)}).ratio("off", "on") for off, on in pairs]
    return Share(mean(found), stdev(found) / len(found) ** 0.5 if len(found) > 1 else 0.0)


def run_rounds(state: str, rounds: int, seconds: float) -> tuple[dict[str, list[tuple[float, float]]], float]:
    """CPU for a stream without and with keeping, by ways and rounds, at one gateway; and the MB it holds at the end."""
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    with own_core(), gateway.bench() as made:
        pin(made.gateway.pid, 0)
        switch(made, state)
        for way in WAYS:
            made.run(way, f"n{gateway.DELTAS}", gateway.STREAMS, 1.5)  # warm: the newest turns fill their memory
        for number in range(rounds):
            order = ("off", state, state, "off") if number % 2 else (state, "off", "off", state)
            for way in WAYS:
                costs = [(name, measure(made, way, name, seconds)) for name in order]
                off, on = (mean(cost for name, cost in costs if name == wanted) for wanted in ("off", state))
                found[way].append((off, on))
        return found, made.gateway.memory


def report(gateways: int = GATEWAYS, rounds: int = ROUNDS, seconds: float = SECONDS) -> Section:
    """All ways and states, as Markdown, and the limits that are broken."""
    rows, broken, most = list[list[str]](), list[str](), 0.0
    for state, least in STATES.items():
        runs = [run_rounds(state, rounds, seconds) for _ in range(gateways)]
        most = max(most, *(held for _, held in runs))
        for way in WAYS:
            share = share_of([found[way] for found, _ in runs])
            off, on = (median(pair[place] for found, _ in runs for pair in found[way]) * 1e6 for place in (0, 1))
            rows.append([state, way, str(share), f"{least}", f"{off:.0f}", f"{on:.0f}"])
            broken += [f"{way}, {state}: {share} of the streams/s, at least {least}"] if share.mean < least else []
    head = ["turns are kept", "", "of those without", "at least", "CPU µs/stream without", "with"]
    text = f"""## The gateway while the inspector keeps turns

Streams a second as a share of those of the same gateway while it keeps nothing: turns kept in memory, on disk too, in
memory with a page at `/inspector/live`. {gateway.STREAMS} streams at once of {gateway.DELTAS} deltas at full speed. The
share is by CPU, because the gateway uses all of its core: the mean of {gateways} gateways, of each the median of the
calmest quarter of {rounds} rounds, and its standard error. `python -m benchmarks.gateway --watched`.

{table(head, rows)}

{most:.0f} MB are resident at the end."""
    return Section(text, broken)
