"""`python -m tools.agents [NAME …]`: coding agents through the gateway, compared with direct runs. See docs/agents.md.

Names select agents by their beginning; `llmprobe` names that suite.
Cells that are valid on disk are not run again. Exit code 1 if any cell differs from its baseline.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.agents.cell import run_cell
from tools.agents.cell_cache import CELLS, CellCache, name_file, read_version
from tools.agents.matrix import Cell, Result, judge_cell, list_cells, update_page, write_table
from tools.agents.probe import UPSTREAMS, probe
from tools.agents.processes import find_program
from tools.agents.programs import AGENTS
from tools.strict_upstream.conversation import PROTOCOLS, Protocol
from tools.strict_upstream.scenario import SCENARIOS

ROOT = Path(__file__).resolve().parents[2]
NODE = ROOT / ".venv/bin/node"
SUITES = ("llmprobe",)


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="make agents", description=__doc__)
    parser.add_argument("names", nargs="*", help="agents whose names begin so, or llmprobe; all if none is given")
    parser.add_argument("--scenario", choices=SCENARIOS, action="append", help="only this scenario")
    parser.add_argument("--upstream", choices=PROTOCOLS, action="append", help="only this protocol behind the gateway")
    parser.add_argument("--baselines", action="store_true", help="run the direct runs only")
    parser.add_argument("--again", action="store_true", help="run cells that are on disk, too")
    parser.add_argument("--failed", action="store_true", help="run cells again that differ")
    parser.add_argument("--any-revision", action="store_true", help="accept cells of other revisions")
    parser.add_argument("--limit", type=float, default=150.0, help="seconds for one cell")
    parser.add_argument("--minutes", type=float, default=0.0, help="start no cell after so many minutes")
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time (default 1)")
    parser.add_argument("--keep", action="store_true", help=f"save outputs and logs of cells in {CELLS.name}/")
    parser.add_argument("--write", action="store_true", help="write the table into docs/agents.md")
    parser.add_argument("--list", action="store_true", help="print the cells and how they stand; run nothing")
    parser.add_argument("--node", type=Path, default=NODE)
    return parser.parse_args()


class MatrixRun:
    """Runs cells, by default one after the other: an agent takes a core by itself."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.cache = CellCache(any_revision=args.any_revision)
        self._end = time.monotonic() + args.minutes * 60 if args.minutes else float("inf")
        self._lacking: set[str] = set()

    def run(self, cells: list[Cell]) -> None:
        """Run what is not on disk, all baselines first."""
        available = [cell for cell in cells if self._available(cell.agent)]
        baselines = {(cell.agent, cell.scenario): cell for cell in available}
        with ThreadPoolExecutor(self.args.jobs) as pool:
            list(pool.map(self._run_baseline, baselines.values()))
            if not self.args.baselines:
                list(pool.map(self._run_cell, available))
        if time.monotonic() > self._end:
            print("the time is over; run the same command to continue", file=sys.stderr)

    def _run_baseline(self, cell: Cell) -> None:
        if time.monotonic() < self._end:
            self._run_one(cell, None, again=self.args.again and self.args.baselines)

    def _run_cell(self, cell: Cell) -> None:
        if time.monotonic() > self._end:
            return
        result = judge_cell(cell, self.cache)
        again = self.args.again or (self.args.failed and result.state == "differs")
        if self._run_one(cell, cell.upstream, again=again) or result.state == "differs":
            result = judge_cell(cell, self.cache)
            print(f"{cell}: {'; '.join(result.differences) or 'ok'}", flush=True)

    def _available(self, agent: str) -> bool:
        if find_program(AGENTS[agent].command[0]):
            return True
        if agent not in self._lacking:
            self._lacking.add(agent)
            print(f"{agent}: not installed on this system", file=sys.stderr)
        return False

    def _run_one(self, cell: Cell, upstream: Protocol | None, *, again: bool) -> bool:
        if not again and self.cache.load(cell.agent, cell.scenario, upstream) is not None:
            return False
        name = f"{name_file(cell.agent)}.{cell.scenario}.{upstream or 'direct'}"
        keep = CELLS / name if self.args.keep else None
        outcome = run_cell(
            AGENTS[cell.agent], SCENARIOS[cell.scenario], upstream, self.args.node, self.args.limit, keep
        )
        self.cache.save(cell.agent, cell.scenario, upstream, outcome)
        if upstream is None:
            said = "says the word" if outcome.said_word else f"fails, shows {outcome.shown}"
            refused = f"; refused: {outcome.refusals}" if outcome.refusals else ""
            print(
                f"{cell.agent}, {cell.scenario}, directly: {said}, exit code {outcome.exit_code}, "
                f"{outcome.agent_requests} requests, {outcome.seconds:.0f} s{refused}",
                flush=True,
            )
        return True


def select_cells(args: argparse.Namespace) -> list[Cell]:
    """The cells that the arguments name."""
    names = tuple(name.lower() for name in args.names if name not in SUITES)
    return [
        cell
        for cell in list_cells()
        if (not args.names or (names and cell.agent.lower().startswith(names)))
        and (not args.scenario or cell.scenario in args.scenario)
        and (not args.upstream or cell.upstream in args.upstream)
    ]


def print_summary(results: list[Result]) -> None:
    """How many cells stand how, and what differs."""
    states = [one.state for one in results]
    for one in results:
        if one.differences:
            print(f"{one.cell}:")
            print("\n".join(f"  {line}" for line in one.differences))
    counts = ", ".join(f"{states.count(name)} {name}" for name in ("ok", "differs", "not run"))
    print(f"{len(results)} cells: {counts}")


def main() -> int:
    """Run, compare, print, write."""
    args = parse_arguments()
    cells = select_cells(args)
    run = MatrixRun(args)
    if args.list:
        for cell in cells:
            print(f"{judge_cell(cell, run.cache).state:<8} {cell} ({read_version(AGENTS[cell.agent].package)})")
        return 0
    run.run(cells)
    results = [judge_cell(cell, run.cache) for cell in cells]
    print_summary(results)
    good = not any(one.differences for one in results)
    if args.write:
        update_page(ROOT / "docs" / "agents.md", write_table(judge_cell(cell, run.cache) for cell in list_cells()))
    if "llmprobe" in args.names or not args.names:
        for upstream in UPSTREAMS:
            lines, passed = probe(args.node, args.limit, upstream)
            print("\n".join(lines), flush=True)
            good = good and passed
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
