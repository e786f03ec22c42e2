"""What it costs to begin: importing the library, and the command's help, in processes of their own.

`python -m benchmarks start`. Wall time, because that is what a person waits for; the best of some tries, so that other
work on the machine counts for little. The commands take turns. The first run of each is not timed: it compiles what has
no compiled file yet. Installed packages have them, so a wish of the environment for none does not count.

The class does not import what only a client needs, such as asyncio. `penstock.Client()` shows the time with all of it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from time import perf_counter

from benchmarks.timing import Section, table

TRIES = 20
LIMITS = {"import penstock": 60, "penstock.Client": 150, "penstock --help": 200}  # ms, Python's own start included
COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "import penstock": ["-c", "import penstock"],
    "penstock.Client": ["-c", "import penstock; penstock.Client"],
    "penstock.Client()": ["-c", "import penstock; penstock.Client(env={})"],
    "penstock --help": ["-m", "penstock", "--help"],
}


ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def once(words: list[str]) -> float:
    """Milliseconds of one run."""
    begun = perf_counter()
    subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, check=True, env=ENVIRONMENT)
    return (perf_counter() - begun) * 1000


def report() -> Section:
    rounds = [{name: once(words) for name, words in COMMANDS.items()} for _ in range(TRIES + 1)][1:]
    best = {name: min(times[name] for times in rounds) for name in COMMANDS}
    rows = [[name, f"{taken:.0f}", str(LIMITS.get(name, ""))] for name, taken in best.items()]
    text = f"""## To begin

ms until it is done, the best of {TRIES} processes, Python's own start in each.

{table(["command", "ms", "at most"], rows)}"""
    broken = [f"{name} takes {best[name]:.0f} ms" for name, limit in LIMITS.items() if best[name] > limit]
    return Section(text, broken)
