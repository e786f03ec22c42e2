"""Seeded changes of src/ that tests should notice: how much a suite proves, measured rather than counted.

    python -m tools.mutants map OUT [PYTEST WORDS…]         run the suite, note which test executes which line
    python -m tools.mutants run MAP OUT [--count 300]       change one place at a time, run the tests that execute it
    python -m tools.mutants compare BEFORE AFTER            what one suite has found and the other has not

Run `map` and `run` in the tree whose suite is measured (`--root`), with the same `--seed`: a tree with the same src/
has the same mutants. A run that was broken off goes on. Tests run in a copy of the tree, one for each process.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import pickle
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any, NamedTuple

from coverage.sqldata import CoverageData

PROJECT = Path(__file__).resolve().parent.parent
FIRST = 25  # tests that are tried before the others: the quickest, of different files
PATIENCE = 3.0  # times the usual time of the tests, and 60 seconds: then the mutant hangs
_SWAPS: dict[type[ast.AST], str] = {
    ast.Eq: "!=", ast.NotEq: "==", ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Is: "is not",
    ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in", ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.And: "or",
    ast.Or: "and",
}  # fmt: skip


class Mutant(NamedTuple):
    """One change: the characters from `start` to `end` of a file become `text`."""

    path: str
    line: int
    kind: str
    start: int
    end: int
    text: str

    @property
    def name(self) -> str:
        return f"{self.path}:{self.line} {self.kind} {self.start}"


class _Finder:
    """Finds the places of one file. Only code inside functions: the rest runs at import, and breaks every test."""

    def __init__(self, path: Path, root: Path) -> None:
        self.found: set[Mutant] = set()
        self._path, self._source = path.relative_to(root).as_posix(), path.read_bytes()
        self._offsets = [0]
        for line in self._source.splitlines(keepends=True):
            self._offsets.append(self._offsets[-1] + len(line))
        for function in ast.walk(ast.parse(self._source)):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                self._visit_function(function)

    def _start(self, node: Any) -> int:
        return int(self._offsets[node.lineno - 1] + node.col_offset)

    def _end(self, node: Any) -> int:
        return int(self._offsets[node.end_lineno - 1] + node.end_col_offset)

    def _add(self, node: Any, kind: str, text: str, start: int | None = None, end: int | None = None) -> None:
        start = self._start(node) if start is None else start
        self.found.add(Mutant(self._path, node.lineno, kind, start, self._end(node) if end is None else end, text))

    def _visit_function(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        body = function.body[ast.get_docstring(function) is not None :]
        if len(body) > 1:
            self._add(body[0], "returned early", f"return\n{' ' * body[0].col_offset}", end=self._start(body[0]))
        waiting: list[ast.AST] = list(body)
        while waiting:
            node = waiting.pop()
            visit = getattr(self, f"_visit_{type(node).__name__}", None)
            if visit is not None:
                visit(node)
            if not isinstance(node, ast.JoinedStr):
                waiting += ast.iter_child_nodes(node)

    def _swap(self, node: ast.AST, left: Any, right: Any, operator: ast.AST) -> None:
        start, end = self._end(left), self._start(right)
        if type(operator) in _SWAPS and not set(self._source[start:end]) & set(b"#\n()"):
            self._add(node, "operator", f" {_SWAPS[type(operator)]} ", start, end)

    def _visit_Compare(self, node: ast.Compare) -> None:  # noqa: N802 — as in ast.NodeVisitor
        if len(node.ops) == 1:
            self._swap(node, node.left, node.comparators[0], node.ops[0])

    def _visit_BinOp(self, node: ast.BinOp) -> None:  # noqa: N802
        self._swap(node, node.left, node.right, node.op)

    def _visit_BoolOp(self, node: ast.BoolOp) -> None:  # noqa: N802
        self._swap(node, node.values[0], node.values[1], node.op)

    def _visit_UnaryOp(self, node: ast.UnaryOp) -> None:  # noqa: N802
        if isinstance(node.op, ast.Not):
            self._add(node, "operator", "", end=self._start(node.operand))

    def _visit_Constant(self, node: ast.Constant) -> None:  # noqa: N802
        if isinstance(node.value, bool):
            self._add(node, "constant", repr(not node.value))
        elif isinstance(node.value, int | float):
            self._add(node, "constant", repr(node.value + 1))

    def _visit_Expr(self, node: ast.Expr) -> None:  # noqa: N802
        if not isinstance(node.value, ast.Constant | ast.Yield | ast.YieldFrom | ast.Await):
            self._add(node, "removed statement", "pass")

    def _visit_AugAssign(self, node: ast.AugAssign) -> None:  # noqa: N802
        self._add(node, "removed statement", "pass")

    def _visit_Return(self, node: ast.Return) -> None:  # noqa: N802
        if node.value is not None and not isinstance(node.value, ast.Constant):
            self._add(node.value, "returned None", "None")


def choose(root: Path, seed: int, count: int) -> list[Mutant]:
    """Returns the mutants of a seed: as many of each kind, spread over the files by their number of places."""
    every = [one for path in sorted((root / "src").rglob("*.py")) for one in sorted(_Finder(path, root).found)]
    kinds = sorted({one.kind for one in every})
    made = random.Random(seed)  # noqa: S311 — a sample
    share = {kind: made.sample([one for one in every if one.kind == kind], count // len(kinds)) for kind in kinds}
    return sorted((one for rows in share.values() for one in rows), key=lambda one: (one.path, one.start))


class LineMap:
    """Which tests execute a line, and how long each takes."""

    def __init__(self, folder: Path) -> None:
        self.times: dict[str, float] = pickle.loads((folder / "times.pickle").read_bytes())  # noqa: S301 — ours
        self._lines: dict[str, dict[str, int]] = {}
        for file in folder.glob("map-*.pickle"):
            for path, contexts in pickle.loads(file.read_bytes())[1].items():  # noqa: S301
                for context, bits in contexts.items():
                    self._add(path, context, int.from_bytes(bits, "little"))
        for file in folder.glob("data.*"):  # processes that tests have started
            data = CoverageData(str(file))
            data.read()
            context = next(iter(data.measured_contexts()), "").rpartition(" (")[0]
            for path in data.measured_files():
                self._add(path, context, sum(1 << line for line in data.lines(path) or ()))

    def _add(self, path: str, context: str, bits: int) -> None:
        row = self._lines.setdefault("src/" + path.rpartition("/src/")[2], {})
        row[context] = row.get(context, 0) | bits

    def tests(self, path: str, line: int) -> list[str]:
        """Returns the tests that execute a line, the quickest first."""
        row = self._lines.get(path, {})
        found = {context for context, bits in row.items() if bits >> line & 1 and context in self.times}
        return sorted(found, key=lambda test: self.times[test])


def order(tests: list[str], times: dict[str, float], budget: float) -> list[list[str]]:
    """Returns the quickest of different files, and then the rest, up to `budget` seconds."""
    first: dict[str, str] = {}
    for test in tests:
        first.setdefault(test.partition("::")[0], test)
    chosen = list(first.values())[:FIRST]
    rest, spent = list[str](), 0.0
    for test in tests:
        spent += times[test]
        if spent > budget:
            break
        if test not in chosen:
            rest.append(test)
    return [batch for batch in (chosen, rest) if batch]


def run_tests(tree: Path, tests: list[str], limit: float) -> str:
    """Runs tests in a tree until one fails; returns `killed`, `survived` or `hung`."""
    words = tree / ".mutant-tests"
    words.write_text("\n".join(tests))
    env = {
        **os.environ,
        "PYTHONPATH": f"{tree}/src:{tree}",
        "CI": "true",
        "PATH": f"{tree}/.venv/bin:{os.environ['PATH']}",
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-n0",
        "-p",
        "no:cacheprovider",
        "--timeout=120",
        f"@{words}",
    ]
    try:
        done = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True, timeout=limit, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        return "hung"
    if done.returncode in {0, 5}:
        return "survived"
    return "killed" if done.returncode in {1, 2, 3} else f"error {done.returncode}: {done.stdout[-300:]}"


def copy_tree(root: Path, name: str) -> Path:
    """Returns a copy of the tree to change. What is installed or built in it is shared."""
    tree = Path(tempfile.mkdtemp(prefix=f"mutants-{name}-")) / "tree"
    command = ["git", "ls-files"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.split("\n")  # noqa: S603
    for file in filter(None, listed):
        if (root / file).is_file():
            (tree / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / file, tree / file)
    for pattern in (".venv", "**/node_modules", "**/.node", "src/penstock/_inspector/static", "build"):
        for found in root.glob(pattern):
            place = tree / found.relative_to(root)
            if "node_modules" not in found.relative_to(root).parent.parts and not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(found)
    shared = root.parent / "shared"
    if shared.exists():
        (tree.parent / "shared").symlink_to(shared)
    return tree


def judge(mutant: Mutant, tree: Path, lines: LineMap, budget: float) -> dict[str, Any]:
    """Changes one place, runs the tests that execute it, and puts the place back."""
    tests = lines.tests(mutant.path, mutant.line)
    file = tree / mutant.path
    before = file.read_bytes()
    since, verdict = time.monotonic(), "not covered"
    try:
        file.write_bytes(before[: mutant.start] + mutant.text.encode() + before[mutant.end :])
        for batch in order(tests, lines.times, budget):
            usual = sum(lines.times[test] for test in batch)
            verdict = run_tests(tree, batch, PATIENCE * usual + 60)
            if verdict != "survived":
                break
    finally:
        file.write_bytes(before)
    row = {"verdict": verdict, "tests": len(tests), "seconds": round(time.monotonic() - since, 1)}
    return {"name": mutant.name, "kind": mutant.kind, "text": mutant.text, **row}


def run_mutants(options: argparse.Namespace) -> int:
    """Runs the tests for every mutant that OUT does not have."""
    root, out = Path(options.root).resolve(), Path(options.out)
    lines = LineMap(Path(options.map))
    done = {row["name"] for row in read_rows(out)}
    waiting = [one for one in choose(root, options.seed, options.count) if one.name not in done]
    trees: Queue[Path] = Queue()
    for number in range(options.jobs):
        trees.put(copy_tree(root, str(number)))

    def one(mutant: Mutant) -> None:
        tree = trees.get()
        try:
            row = judge(mutant, tree, lines, options.budget)
            with out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{row['verdict'][:20]:12} {row['seconds']:6} s {row['tests']:6} tests  {row['name']}", flush=True)
        finally:
            trees.put(tree)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(one, waiting))
    print(dict(Counter(row["verdict"] for row in read_rows(out))))
    return 0


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Returns what has been found so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def compare(options: argparse.Namespace) -> int:
    """Prints the mutants that one suite kills and another does not."""
    found = [{row["name"]: row for row in read_rows(Path(path))} for path in (options.before, options.after)]
    killed = [{name for name, row in rows.items() if row["verdict"] in {"killed", "hung"}} for rows in found]
    both = found[0].keys() & found[1].keys()
    before, after = killed[0] & both, killed[1] & both
    share = 100 * len(before & after) / max(1, len(before))
    print(f"{len(both)} mutants; killed before {len(before)}, after {len(after)}; {share:.1f} % of those before")
    for name in sorted(before - after):
        row = found[1][name]
        print(f"missed: {name} -> {row['text']!r} ({row['verdict']}, {row['tests']} tests)")
    return 0


def make_map(options: argparse.Namespace) -> int:
    """Runs the suite of a tree with coverage."""
    root, out = Path(options.root).resolve(), Path(options.out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    config = out / "coverage.ini"
    settings = {
        "branch": "true", "source": str(root / "src" / "penstock"), "parallel": "true", "data_file": str(out / "data"),
        "context": "${PYTEST_CURRENT_TEST-none}", "patch": "subprocess", "sigterm": "true",
        "disable_warnings": "no-data-collected,module-not-measured,module-not-imported,already-imported,couldnt-parse",
    }  # fmt: skip
    config.write_text("[run]\n" + "".join(f"{name} = {value}\n" for name, value in settings.items()))
    env = {**os.environ, "CI": "true", "LINE_MAP": str(out), "PYTHONPATH": f"{root}/src:{PROJECT}"}
    words = [
        "-m",
        "coverage",
        "run",
        f"--rcfile={config}",
        "-m",
        "pytest",
        "-p",
        "tools.line_map",
        "-m",
        "not nightly",
        "-q",
        *options.words,
    ]
    return subprocess.run([sys.executable, *words], cwd=root, env=env, check=False).returncode  # noqa: S603


def main() -> int:
    """Parses the options and does what they say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=".", help="the tree whose suite is measured (this folder)")
    parser.add_argument("--seed", type=int, default=37)
    commands = parser.add_subparsers(required=True)
    mapping = commands.add_parser("map")
    mapping.add_argument("out")
    mapping.add_argument("words", nargs=argparse.REMAINDER)
    mapping.set_defaults(do=make_map)
    running = commands.add_parser("run")
    running.add_argument("map")
    running.add_argument("out")
    running.add_argument("--count", type=int, default=300)
    running.add_argument("--jobs", type=int, default=2)
    running.add_argument(
        "--budget", type=float, default=180.0, help="seconds of tests for one mutant, by their usual times"
    )
    running.set_defaults(do=run_mutants)
    comparing = commands.add_parser("compare")
    comparing.add_argument("before")
    comparing.add_argument("after")
    comparing.set_defaults(do=compare)
    options = parser.parse_args()
    return int(options.do(options))


if __name__ == "__main__":
    raise SystemExit(main())
