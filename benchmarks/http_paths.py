"""The gateway's own HTTP code beside plain aiohttp and plain ASGI: CPU per stream, in turn.

`python -m benchmarks.gateway --http`. Four gateways of this tree run at once; `features.direct_http` and
`features.direct_send` switch our code off. Ratios are medians of the rounds.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.against import CONFIG, cpu, own_core, pin
from benchmarks.against_traffic import HOST, PAIRS, ask, run
from benchmarks.gateway import Process, port
from benchmarks.timing import Section, table

ROUNDS, STREAMS = 9, 100
OURS = "ours"
SIDES = {
    OURS: "",
    "aiohttp": "features.direct_http = false\n",
    "plain ASGI": "features.direct_send = false\n",
    "both plain": "features.direct_http = false\nfeatures.direct_send = false\n",
}
MEASURED = (
    ("chat-chat-usage", "synthetic"),
    ("chat-messages", "recorded"),
    ("anthropic-messages", "recorded"),
    ("responses-messages", "recorded"),
)
LEAST_GAIN = 0.10  # below it our own client has to go


def report(rounds: int = ROUNDS) -> Section:
    """CPU µs per stream of each side, and how many times that of our own code."""
    rows, gains = [], list[float]()
    with ExitStack() as stack, own_core():
        sides = _start(stack)
        for name, shape in MEASURED:
            spent: dict[str, list[float]] = {side: [] for side in sides}
            for _ in range(rounds):
                for side, (process, at) in sides.items():
                    before = cpu(process.pid)
                    run(ask(at, PAIRS[name], shape, STREAMS))
                    spent[side].append((cpu(process.pid) - before) / STREAMS * 1e6)
            ratios = {side: median(a / b for a, b in zip(spent[side], spent[OURS], strict=True)) for side in sides}
            gains.append(ratios["aiohttp"] - 1)
            cells = [f"{min(spent[side]):.0f} ({ratios[side]:.2f})" for side in sides]
            rows.append([f"{PAIRS[name].title}, {shape}", *cells])
    text = f"""## Our own HTTP code beside plain aiohttp and plain ASGI

CPU µs per stream, best of {rounds} rounds of {STREAMS} streams; in parentheses the median ratio to our own code.

{table(["pair, shape", *SIDES], rows)}"""
    small = [f"plain aiohttp costs only {gain:.0%} more" for gain in gains if gain < LEAST_GAIN]
    return Section(text, small)


def _start(stack: ExitStack) -> dict[str, tuple[Process, int]]:
    """The upstream and one gateway for each side, started."""

    def started(*words: str, **more: Any) -> Process:
        process = Process(*words, **more)
        stack.callback(process.stop)
        return process

    up = port()
    pin(started("-m", "benchmarks.against_traffic", str(up)).pid, 1)
    sides: dict[str, tuple[Process, int]] = {}
    for side, features in SIDES.items():
        data = stack.enter_context(tempfile.TemporaryDirectory())
        file, at = Path(data, "penstock.toml"), port()
        file.write_text(features + CONFIG.format(base=f"http://{HOST}:{up}/v1"))
        words = ("-m", "penstock", "serve", "--config", str(file), "--port", str(at))
        process = started(*words, said="listening", env={"PENSTOCK_DATA": data, "PYTHONHASHSEED": "0"})
        pin(process.pid, 0)
        sides[side] = (process, at)
    return sides
