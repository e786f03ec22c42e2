"""This tree's gateway beside that of another revision: CPU per stream, in turn, pair by pair.

`python -m benchmarks.gateway --against REV`. REV is checked out into a worktree of its own and runs with this
environment's packages. Both take turns (old new, new old, …); a ratio is the median of the calmest quarter of rounds.
CPU, not wall time: what other programs take is not counted. The gateways have one core, load and upstream the other.
Both are started several times, because where a process happens to put its memory changes its speed by some percent.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks import provider_streams
from benchmarks.against_traffic import AT_ONCE, HOST, PAIRS, Pair, ask, run
from benchmarks.gateway import Process, port
from benchmarks.reading_cost import SIZE, nanoseconds
from benchmarks.timing import Section, Times, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parent.parent
ROUNDS, STREAMS = 24, 100
STARTS = 4  # of both gateways; the rounds are divided among them
FRAME_ROUNDS = 3  # of each start of the gateways that count what frames cost
LIMIT = 0.05
OLD, NEW = "old", "new"
CONFIG = """
state.path = "memory"
[providers]
chat = {{ base_url = "{base}", key = "none", like = "openai-compatible", fields = {{ has = ["chat"] }} }}
responses = {{ base_url = "{base}", key = "none", like = "openai-compatible", fields = {{ has = ["responses"] }} }}
anthropic = {{ base_url = "{base}", key = "none", like = "anthropic" }}
gemini = {{ base_url = "{base}", key = "none", like = "gemini" }}
"""


# ── the two gateways ──────────────────────────────────────────────────────────────────────────────────────────────────
def cpu(pid: int) -> float:
    """Seconds of CPU of all threads of a process, in nanoseconds where the system counts them."""
    try:
        files = Path(f"/proc/{pid}/task").glob("*/schedstat")
        return sum(int(file.read_text().split()[0]) for file in files) / 1e9
    except (OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """A worktree of a revision, for as long as it is needed."""
    git = ("git", "-C", str(ROOT))
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        done = subprocess.run(
            [*git, "worktree", "add", "--quiet", "--detach", str(tree), revision], capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"--against {revision}: {done.stderr.strip()}")
        try:
            yield tree
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(tree)], check=False, capture_output=True)


def pin(pid: int, core: int) -> None:
    """One core for the gateways and another for the rest, where there are two."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []
    if len(cores) > 1:
        for task in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), {cores[core]})


@dataclass
class Gateways:
    """Both, running: side → its process and its port. `counts`: side → where it counts what frames cost, if it does."""

    sides: dict[str, tuple[Process, int]]
    counts: dict[str, Path]

    def measure(self, side: str, pair: Pair, shape: str, streams: int) -> float:
        """CPU seconds for each stream of a round."""
        process, at = self.sides[side]
        before = cpu(process.pid)
        run(ask(at, pair, shape, streams))
        return (cpu(process.pid) - before) / streams

    def measure_frames(self, side: str, pair: Pair, shape: str, streams: int) -> float:
        """CPU µs for the frames of each stream of a round."""
        before = nanoseconds(self.counts[side])
        self.measure(side, pair, shape, streams)
        return (nanoseconds(self.counts[side]) - before) / streams / 1000


@contextmanager
def gateways(old_tree: Path, old_config: str, *, counting: bool = False) -> Iterator[Gateways]:
    """The upstream and both gateways, started and stopped. `counting`: they count what frames cost."""
    with ExitStack() as stack:

        def started(*words: str, **more: Any) -> Process:
            made = Process(*words, **more)
            stack.callback(made.stop)
            return made

        up = port()
        pin(started("-m", "benchmarks.against_traffic", str(up)).pid, 1)
        sides: dict[str, tuple[Process, int]] = {}
        counts: dict[str, Path] = {}
        for side, tree, config in ((OLD, old_tree, old_config), (NEW, ROOT, "")):
            data = stack.enter_context(tempfile.TemporaryDirectory())
            file, at = Path(data, "penstock.toml"), port()
            file.write_text(config + CONFIG.format(base=f"http://{HOST}:{up}/v1"))
            env = {"PENSTOCK_DATA": data, "PYTHONPATH": str(tree / "src"), "PYTHONHASHSEED": "0"}
            program = ["penstock"]
            if counting:
                counts[side] = Path(data, "frames")
                counts[side].write_bytes(bytes(SIZE))
                program = ["benchmarks.reading_cost", str(counts[side])]
            words = ("-m", *program, "serve", "--config", str(file), "--port", str(at))
            made = started(*words, said="listening", env=env)
            pin(made.pid, 0)
            sides[side] = (made, at)
        yield Gateways(sides, counts)


@contextmanager
def own_core() -> Iterator[None]:
    """This process, which is the load, on the core that the gateways have not."""
    before = os.sched_getaffinity(0) if hasattr(os, "sched_setaffinity") else None
    pin(os.getpid(), 1)
    try:
        yield
    finally:
        if before is not None:
            os.sched_setaffinity(0, before)


# ── the figures ───────────────────────────────────────────────────────────────────────────────────────────────────────
Key = tuple[str, str]


def chosen_pairs(names: Sequence[str]) -> list[Key]:
    """Pairs in both shapes; `chat-chat` is both, `chat-chat:recorded` is one."""
    made: list[Key] = []
    for word in names or PAIRS:
        name, _, shape = word.partition(":")
        if name not in PAIRS or (shape and shape not in provider_streams.SHAPES):
            raise SystemExit(f"--pairs {word}: there are {', '.join(PAIRS)}, each :synthetic or :recorded")
        made += [(name, one) for one in provider_streams.SHAPES if shape in {"", one}]
    return made


class Figures:
    """CPU seconds per stream: for each start of the gateways, by pair, the rounds of both sides."""

    def __init__(self, keys: list[Key]) -> None:
        self.keys = keys
        self.starts: list[dict[Key, Times]] = []
        self.frame_costs: dict[Key, float] = {}

    def ratio(self, key: Key) -> float:
        """How many times the CPU of the old one: the median of each start's calmest quarter."""
        return median(found[key].ratio(NEW, OLD) for found in self.starts)

    def micros(self, key: Key, side: str) -> float:
        return min(found[key].micros(side, 1) for found in self.starts)

    def measure(self, made: Gateways, rounds: int, streams: int, progress: Progress) -> None:
        """Every pair in every round, old and new in turn."""
        spent: dict[Key, dict[str, list[float]]] = {key: {OLD: [], NEW: []} for key in self.keys}
        for name, shape in self.keys:
            for side in (OLD, NEW):
                made.measure(side, PAIRS[name], shape, max(streams // 2, AT_ONCE))  # warm
        for number in range(rounds):
            for place, (name, shape) in enumerate(self.keys):
                for side in (OLD, NEW) if (number + place) % 2 == 0 else (NEW, OLD):
                    spent[name, shape][side].append(made.measure(side, PAIRS[name], shape, streams))
            progress.step()
        self.starts.append({key: Times(found) for key, found in spent.items()})


def frame_costs(old_tree: Path, old_config: str, keys: list[Key], streams: int) -> dict[Key, float]:
    """How many µs more the new gateway spends on the frames of a stream that it passes through."""
    keys = [(name, shape) for name, shape in keys if PAIRS[name].passed_through]
    spent: dict[Key, dict[str, list[float]]] = {key: {OLD: [], NEW: []} for key in keys}
    for _ in range(STARTS if keys else 0):
        with gateways(old_tree, old_config, counting=True) as made:
            for name, shape in keys * (1 + FRAME_ROUNDS):
                for side in (OLD, NEW):
                    spent[name, shape][side].append(made.measure_frames(side, PAIRS[name], shape, streams))
    return {key: min(found[NEW]) - min(found[OLD]) for key, found in spent.items()}


class Progress:
    """Tells how many rounds are done, and how long the rest will take."""

    def __init__(self, total: int) -> None:
        self._total, self._done, self._begun = total, 0, time.monotonic()

    def step(self) -> None:
        self._done += 1
        spent = time.monotonic() - self._begun
        left = spent / self._done * (self._total - self._done)
        print(
            f"round {self._done} of {self._total}, {spent:.0f} s, about {left:.0f} s left", file=sys.stderr, flush=True
        )


def measured(revision: str, keys: list[Key], rounds: int, streams: int, old_config: str = "") -> Figures:
    """All figures: several starts, each with its share of the rounds."""
    made, progress = Figures(keys), Progress(rounds)
    with checked_out(revision) as tree, own_core():
        made.frame_costs = frame_costs(tree, old_config, keys, streams)
        for number in range(min(STARTS, rounds)):
            share = rounds // STARTS + (number < rounds % STARTS)
            with gateways(tree, old_config) as both:
                made.measure(both, share, streams, progress)
    return made


def report(
    revision: str, *, rounds: int = ROUNDS, streams: int = STREAMS, pairs: Sequence[str] = (), limit: float = LIMIT,
    old_config: str = "",
) -> Section:  # fmt: skip
    """The ratio of each pair as Markdown, and those above the limit. `old_config`: settings of the old one."""
    keys = chosen_pairs(pairs)
    found = measured(revision, keys, rounds, streams, old_config)
    rows, broken = [], list[str]()
    for name, shape in keys:
        ratio, (old, new) = found.ratio((name, shape)), (found.micros((name, shape), side) for side in (OLD, NEW))
        assert math.isfinite(ratio)
        # What the frames cost was counted in other runs: it is taken off the ratio as a share of the old one's time.
        frames = found.frame_costs.get((name, shape), 0.0)
        rest = ratio - frames / old
        slower = rest > 1 + limit
        figures = [f"{old:.0f}", f"{new:.0f}", f"{ratio:.3f}", f"{frames:+.0f}" if frames else "", f"{rest:.3f}"]
        rows.append([f"{PAIRS[name].title}, {shape}", *figures, "slower" if slower else "ok"])
        broken += [f"{name}:{shape} takes {rest:.3f} times the CPU, at most {1 + limit:.2f}"] if slower else []
    head = ["pair, shape", "old µs", "new µs", "new / old", "frames µs", "without them", "verdict"]
    verdict = (
        "every pair is within the limit" if not broken else f"{len(broken)} of {len(keys)} pairs are above the limit"
    )
    configured = f" with {old_config.strip()}" if old_config else ""
    text = f"""## The gateway against {revision}{configured}

CPU µs for a stream of {provider_streams.DELTAS} deltas (best round); ratio: median of the calmest quarter of
{rounds} rounds of {streams} streams, {AT_ONCE} at once, in turn. `python -m benchmarks.gateway --against {revision}`.
*frames*: what the new one spends more on reading the frames that it passes through, and on choosing their bytes
(counted in running gateways by `benchmarks.reading_cost`); *without them*: the ratio but for that, which has the limit.

{table(head, rows)}

Limit {limit:.0%}: {verdict}."""
    return Section(text, broken)
