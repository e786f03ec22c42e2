"""The command: `python -m fuzz`, or `make fuzz`."""

from __future__ import annotations

import argparse
import random
import shlex
import sys
import time
import traceback
from pathlib import Path

from fuzz import report
from fuzz.engine import Limits, Result
from fuzz.targets import chosen, targets
from fuzz.workers import Workers, line

CORES = 2


def main() -> int:
    options = _options()
    if options.list:
        for name, target in targets().items():
            print(f"{name:28} past the first checks: {target.past}")
        return 0
    if options.replay:
        return _replay(options.target, options.replay)
    names = [target.name for target in chosen(options.target)]
    seed = options.seed if options.seed is not None else random.randrange(10**6)
    share = options.minutes * 60 * min(1.0, options.jobs / len(names))
    limits = Limits(options.inputs, options.past, 0.0 if options.inputs or options.past else share)
    print(f"{len(names)} targets, {options.jobs} at a time, seed {seed}", flush=True)
    since = time.monotonic()
    results = _run(Workers(names, limits, seed, options.jobs))
    print(report.table(results, f"python -m fuzz {shlex.join(sys.argv[1:])}", (time.monotonic() - since) / 60))
    return _conclude(results)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="time for all targets together (5)")
    parser.add_argument("--inputs", type=int, default=0, help="inputs for each target, instead of a time")
    parser.add_argument("--past", type=int, default=0, help="inputs of each target that must get past the first checks")
    parser.add_argument("--target", action="append", default=[], help="targets whose names begin so; may be repeated")
    parser.add_argument("--seed", type=int, help="the same seed gives the same inputs")
    parser.add_argument("--jobs", type=int, default=CORES, help=f"processes ({CORES})")
    parser.add_argument("--replay", type=Path, help="check this one input, and show what happens")
    parser.add_argument("--list", action="store_true", help="list the targets")
    return parser.parse_args()


def _run(workers: Workers) -> list[Result]:
    try:
        for result in workers.run():
            print(line(result), flush=True)
            for crash, path in zip(result.crashes.values(), report.save(result), strict=True):
                print(report.advice(result.target, crash, path), flush=True)
    except KeyboardInterrupt:
        print("stopped; the figures so far:")
    finally:
        workers.stop()
    return list(workers.results.values())


def _conclude(results: list[Result]) -> int:
    inputs, past = sum(row.inputs for row in results), sum(row.past for row in results)
    crashes = sum(len(row.crashes) for row in results)
    least = min(results, key=lambda row: row.past)
    print(
        f"{inputs:,} inputs, {past:,} past the first checks (least: {least.target}, {least.past:,}), {crashes} crashes"
    )
    return 1 if crashes else 0


def _replay(names: list[str], path: Path) -> int:
    (target,) = chosen(names)[:1]
    _, _, check = target.load()
    try:
        print(check(path.read_bytes()))
    except Exception:  # noqa: BLE001 — shown to whoever asked for it
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
