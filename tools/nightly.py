"""Every test there is, the exhaustive ones included, in slices that a later run does not repeat.

`make test-all` runs it. A slice is a folder of the normal suite, the exhaustive tests of one file, or one test of the
fault matrix. What a slice has found is kept under .test-all/ by the content of the tree, so that a run that was broken
off goes on where it stopped, and a changed tree starts anew.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).resolve().parent.parent
STATE = ROOT / ".test-all"
SUITE = "suite "  # what the names of slices begin with that `make test` runs, too
_INTERRUPTED = 130  # the exit code of shells for a program that SIGINT has ended
_NOTHING = 5  # pytest's exit code where no test was chosen
KEPT = 3  # trees whose results are kept
_BY_PARAMETERS = frozenset({"tests/wire/faults/test_fault_matrix.py"})  # too large for one slice
_NODE = re.compile(r"^(?P<file>[^:\s]+\.py)::(?P<test>\S.*)$")
_COUNTS = re.compile(r"(\d+) (passed|failed|skipped|error|errors|xfailed)")


@dataclass(frozen=True)
class Slice:
    """A part of the work: its name, and what pytest is given."""

    name: str
    words: tuple[str, ...]


@dataclass
class Result:
    """What a slice has found. `figures` are the tables that its tests print."""

    name: str
    passed: bool
    seconds: float
    counts: dict[str, int] = field(default_factory=dict)
    figures: list[str] = field(default_factory=list)


def suite_slices(tests: Path) -> list[Slice]:
    """The tests that are not exhaustive, a slice for each folder."""
    folders: dict[str, list[str]] = {}
    for file in sorted(tests.rglob("test_*.py")):
        if "node_modules" not in file.parts:
            name = file.relative_to(tests.parent).as_posix()
            folders.setdefault(name.rpartition("/")[0], []).append(name)
    options = ("-n", "auto", "--dist", "worksteal", "-m", "not exhaustive")
    return [Slice(f"{SUITE}{folder}", (*options, *files)) for folder, files in folders.items()]


def exhaustive_slices(collected: Iterable[str]) -> list[Slice]:
    """The exhaustive tests that pytest has collected, a slice for each file, or for each test of a large one."""
    made: dict[str, Slice] = {}
    for line in collected:
        found = _NODE.match(line)
        if found:
            name = found[0] if found["file"] in _BY_PARAMETERS else found["file"]
            made.setdefault(name, Slice(name, ("-p", "no:xdist", "-m", "exhaustive", name)))
    return list(made.values())


def marked_files(tests: Path) -> list[Path]:
    """The files of tests that name the mark `exhaustive`, or a helper module that does."""
    texts = {file: file.read_text() for file in sorted(tests.rglob("*.py")) if "node_modules" not in file.parts}
    naming = [file for file, text in texts.items() if "mark.exhaustive" in text]
    helpers = [".".join(file.relative_to(tests.parent).with_suffix("").parts) for file in naming]
    words = ["mark.exhaustive", *(f"from {name} import" for name in helpers)]
    return [
        file for file, text in texts.items() if file.name.startswith("test_") and any(word in text for word in words)
    ]


def collect() -> list[Slice]:
    """All slices of this tree. Only files that name the mark are looked at: collecting all takes half a minute."""
    tests = ROOT / "tests"
    files = map(str, marked_files(tests))
    done = _pytest("--collect-only", "-q", "-p", "no:xdist", "-m", "exhaustive", *files)
    if done.returncode not in {0, _NOTHING}:
        raise SystemExit(f"the tests cannot be collected:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
    return [*suite_slices(tests), *exhaustive_slices(done.stdout.splitlines())]


def tree_hash() -> str:
    """A name for the content of all files that git knows or would take, changes included."""
    listed = _git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    made = hashlib.sha256()
    for name in sorted(filter(None, listed)):
        file = ROOT / name
        made.update(f"{name}\0".encode())
        if file.is_file():
            made.update(hashlib.sha256(file.read_bytes()).digest())
    return made.hexdigest()[:16]


class State:
    """Finished slices of one tree, a file each."""

    def __init__(self, root: Path, tree: str) -> None:
        self._root, self.folder = root, root / tree

    def restart(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def load(self, one: Slice) -> Result | None:
        """What a slice has found before; a failure is not kept for good, so it is run again."""
        try:
            found = Result(**json.loads(self._file(one.name).read_text()))
        except (OSError, ValueError, TypeError):
            return None
        return found if found.passed else None

    def save(self, result: Result) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self._file(result.name)
        file.with_suffix(".new").write_text(json.dumps(asdict(result), indent=1))
        file.with_suffix(".new").replace(file)

    def log(self, one: Slice) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self._file(one.name).with_suffix(".log")

    def forget_old(self) -> None:
        """Keep the results of a few trees only."""
        folders = sorted((one for one in self._root.iterdir() if one.is_dir()), key=lambda one: one.stat().st_mtime)
        for folder in folders[:-KEPT]:
            if folder != self.folder:
                shutil.rmtree(folder, ignore_errors=True)

    def _file(self, name: str) -> Path:
        return self.folder / (re.sub(r"[^\w.-]+", "-", name).strip("-") + ".json")


def run(one: Slice, log: Path) -> Result:
    """Run a slice; all that pytest prints goes into the log."""
    begun = time.monotonic()
    with log.open("w") as out:
        words = [sys.executable, "-m", "pytest", "-q", *one.words]
        done = subprocess.run(words, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, check=False)  # noqa: S603 — ours
    text = log.read_text(errors="replace")
    # A folder may have nothing but exhaustive tests; an exhaustive slice that runs nothing has failed.
    passed = done.returncode == 0 or (done.returncode == _NOTHING and one.name.startswith(SUITE))
    return Result(one.name, passed, time.monotonic() - begun, counts_of(text), figures_of(text))


def counts_of(text: str) -> dict[str, int]:
    """How many tests passed, failed and so on, from pytest's last line."""
    lines = [line for line in text.splitlines() if " in " in line and _COUNTS.search(line)]
    return {name: int(number) for number, name in _COUNTS.findall(lines[-1])} if lines else {}


def figures_of(text: str) -> list[str]:
    """The tables that tests have recorded, as the terminal summary shows them."""
    _, mark, rest = text.partition(" tables ====")
    if not mark:
        return []
    lines = rest.partition("\n")[2].splitlines()
    end = next(
        (place for place, line in enumerate(lines) if line.startswith("====") or _COUNTS.match(line)), len(lines)
    )
    return lines[:end]


def run_all(chosen: list[Slice], state: State) -> list[Result]:
    """Every slice, in order; those that are done are not run again."""
    results: list[Result] = []
    begun = time.monotonic()
    for number, one in enumerate(chosen, 1):
        place = f"slice {number} of {len(chosen)}: {one.name}"
        result = state.load(one)
        if result is not None:
            _say(f"{place}: passed before, in {result.seconds:.0f} s")
        else:
            _say(f"{place} …")
            result = run(one, state.log(one))
            state.save(result)
            verdict = "passed" if result.passed else f"FAILED, see {state.log(one)}"
            _say(f"{place}: {verdict} in {result.seconds:.0f} s")
        results.append(result)
        left = _left(chosen[number:], state, results)
        _say(f"  {time.monotonic() - begun:.0f} s so far, about {left:.0f} s left")
    return results


def _left(rest: list[Slice], state: State, results: list[Result]) -> float:
    """Seconds for the slices that are not done, by the median of the last ones that are."""
    waiting = sum(state.load(one) is None for one in rest)
    return waiting * median(result.seconds for result in results[-8:])


def summary(results: list[Result]) -> str:
    """A table of all slices, and the figures that they have printed."""
    width = max((len(result.name) for result in results), default=0)
    lines = [f"{'slice':<{width}}  verdict     s  tests"]
    for result in results:
        counts = ", ".join(f"{number} {name}" for name, number in result.counts.items())
        lines.append(
            f"{result.name:<{width}}  {'passed' if result.passed else 'FAILED'}  {result.seconds:>6.0f}  {counts}"
        )
    figures = [line for result in results for line in result.figures]
    failed = sum(not result.passed for result in results)
    verdict = f"{failed} of {len(results)} slices failed" if failed else f"all {len(results)} slices passed"
    return "\n".join([*lines, "", *figures, "", verdict])


def _say(line: str) -> None:
    print(line, flush=True)


def _pytest(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S603, S607


def main(words: list[str] | None = None) -> int:
    """Parse the options, run, and tell."""
    options = argparse.ArgumentParser(prog="make test-all ARGS=…", description=__doc__)
    options.add_argument("--restart", action="store_true", help="run finished slices again, too")
    options.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="slices whose name holds one of these")
    options.add_argument("--list", action="store_true", help="name the slices, and which are done")
    chosen = options.parse_args(words)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the running slice ends, too
    state = State(STATE, tree_hash())
    if chosen.restart:
        state.restart()
    found = [one for one in collect() if not chosen.only or any(text in one.name for text in chosen.only)]
    if not found:
        options.error(f"no slice is called like {', '.join(chosen.only)}; see --list")
    if chosen.list:
        _say("\n".join(f"{'done' if state.load(one) else '    '}  {one.name}" for one in found))
        return 0
    try:
        results = run_all(found, state)
    except KeyboardInterrupt:
        _say("interrupted; run it again with the same words to go on with the slices that have not passed")
        return _INTERRUPTED
    state.forget_old()
    _say("\n" + summary(results))
    return 0 if all(result.passed for result in results) else 1


if __name__ == "__main__":
    os.chdir(ROOT)
    raise SystemExit(main())
