"""The gateway with somebody watching beside the same gateway with nobody, in one run: streams a second and CPU each.

`python -m benchmarks.gateway --watched`. Rounds take turns, so that both have the same weather. Leans on `gateway`.
"""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING

from benchmarks import gateway
from benchmarks.timing import Section, table

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS, SECONDS = 25, 0.8  # many and short: both of a pair have the same weather
LEAST = 0.9  # of the streams a second that nobody watches
WAYS = ("across", "same")


@contextmanager
def watching(port: int) -> Iterator[list[int]]:
    """A page that looks at the list, as far as the gateway can tell; gives how many bytes it was sent."""
    seen = [0]
    with socket.create_connection(("127.0.0.1", port), 30) as line:
        line.sendall(b"GET /inspector/live HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        seen[0] += len(line.recv(65536))

        def read() -> None:
            while data := line.recv(1 << 20):
                seen[0] += len(data)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        yield seen
        line.shutdown(socket.SHUT_RDWR)
        reader.join(10)


def report(rounds: int = ROUNDS, seconds: float = SECONDS) -> Section:
    """Both ways, as Markdown, and the limit where it is broken."""
    found: dict[tuple[str, bool], list[dict[str, float]]] = {(way, on): [] for way in WAYS for on in (False, True)}
    model, streams = f"n{gateway.DELTAS}", gateway.STREAMS
    with gateway.bench() as made:
        port = int(made.base.rpartition(":")[2])
        for way in WAYS:
            made.run(way, model, streams, 0.5)  # warm
        for _ in range(rounds):
            for way in WAYS:
                found[way, False].append(made.run(way, model, streams, seconds))
                with watching(port) as seen:
                    found[way, True].append(made.run(way, model, streams, seconds))
                assert seen[0] > 5_000, "nothing was shown"
        held = made.gateway.memory
    assert not sum(one["errors"] for rows in found.values() for one in rows), "a stream failed"
    rows, broken = [], list[str]()
    for way in WAYS:
        pairs = list(zip(found[way, False], found[way, True], strict=True))
        share = median(on["rate"] / off["rate"] for off, on in pairs)
        costs = [median(one["cpu"] / max(one["streams"], 1) for one in found[way, on]) * 1e6 for on in (False, True)]
        rates = [median(one["rate"] for one in found[way, on]) for on in (False, True)]
        rows.append([way, *(f"{rate:.0f}" for rate in rates), f"{share:.3f}", *(f"{cost:.0f}" for cost in costs)])
        broken += [f"{way}: {share:.3f} of the streams/s while watched, at least {LEAST}"] if share < LEAST else []
    head = ["", "streams/s", "watched", "of it", "CPU µs/stream", "watched"]
    text = f"""## The gateway while somebody watches

{streams} streams at once of {gateway.DELTAS} deltas at full speed, {rounds} rounds in turn with nobody and with a page
at `/inspector/live`; the share is the median of the rounds'. `python -m benchmarks.gateway --watched`.

{table(head, rows)}

{held:.0f} MB are resident at the end."""
    return Section(text, broken)
