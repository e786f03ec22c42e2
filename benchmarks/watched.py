"""What the inspector costs: turns kept in memory, on disk, and watched, beside the same gateway that keeps nothing.

`python -m benchmarks.gateway --watched`. Rounds are short, take turns and change their order, so that all have the same
weather. The gateway has one core, load and upstream the other. Leans on `gateway`.
"""

from __future__ import annotations

import json
import socket
import threading
import urllib.request
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING

from benchmarks import gateway
from benchmarks.against import own_core, pin
from benchmarks.timing import Section, table
from penstock._inspector.session_token import HEADER, open_session_token

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

ROUNDS, SECONDS = 48, 0.3  # many and short: all of a round have the same weather
CALM = 0.25  # of the rounds: those that took the least CPU count
# How turns are kept → the share of the streams a second (of a busy core) without it that must be left.
STATES = {"off": 1.0, "memory": 0.97, "disk": 0.94, "watched": 0.9}
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


def measure(made: gateway.Bench, way: str, state: str, seconds: float) -> dict[str, float]:
    """One load while turns are kept so."""
    model, streams = f"n{gateway.DELTAS}", gateway.STREAMS
    switch(made, state)
    if state != "watched":
        return made.run(way, model, streams, seconds)
    with watching(int(made.base.rpartition(":")[2]), made.data) as seen:
        found = made.run(way, model, streams, seconds)
    assert seen[0] > 5_000, "nothing was shown"
    return found


def calm_share(off: list[float], on: list[float]) -> float:
    """Of CPU for a stream by rounds: the median share of the calmest rounds."""
    rounds = sorted(zip(off, on, strict=True), key=sum)
    return median(one / other for one, other in rounds[: max(1, round(CALM * len(rounds)))])


def report(rounds: int = ROUNDS, seconds: float = SECONDS) -> Section:
    """All ways and states, as Markdown, and the limits that are broken."""
    found: dict[tuple[str, str], list[dict[str, float]]] = {(way, state): [] for way in WAYS for state in STATES}
    with own_core(), gateway.bench() as made:
        pin(made.gateway.pid, 0)
        for way in WAYS:
            made.run(way, f"n{gateway.DELTAS}", gateway.STREAMS, 1.5)  # warm: the newest turns fill their memory
        for number in range(rounds):
            order = list(found) if number % 2 else list(reversed(found))
            for way, state in order[number % len(order) :] + order[: number % len(order)]:
                found[way, state].append(measure(made, way, state, seconds))
        held = made.gateway.memory
    assert not sum(one["errors"] for rows in found.values() for one in rows), "a stream failed"
    rows, broken = list[list[str]](), list[str]()
    costs = {key: [each["cpu"] / max(each["streams"], 1) for each in one] for key, one in found.items()}
    for (way, state), one in found.items():
        share = calm_share(costs[way, "off"], costs[way, state])
        cost = sorted(costs[way, state])[len(one) // 8] * 1e6
        rows.append([way, state, f"{median(each['rate'] for each in one):.0f}", f"{share:.3f}", f"{cost:.0f}"])
        least = STATES[state]
        broken += [f"{way}, {state}: {share:.3f} of the streams/s, at least {least}"] if share < least else []
    head = ["", "turns are kept", "streams/s", "of those without", "CPU µs/stream"]
    text = f"""## The gateway while the inspector keeps turns

{gateway.STREAMS} streams at once of {gateway.DELTAS} deltas at full speed, {rounds} rounds in turn: nothing kept, the
newest in memory, on disk too, in memory with a page at `/inspector/live`. The share is by CPU, because the gateway uses
all of its core: the median of the calmest quarter of rounds.
`python -m benchmarks.gateway --watched`.

{table(head, rows)}

{held:.0f} MB are resident at the end."""
    return Section(text, broken)
