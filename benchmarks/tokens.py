"""`python benchmarks/tokens.py --corpus DIR`: how far off token estimates are, on requests with recorded usage.

DIR is laid out like the corpus: tokens.json names the entries. Constants are fitted on one half of the conversations
and scored on the other, both ways, for several deals; then without a provider, and scored on it, where a family has
three. Beside them stand the numbers as shipped, and other ways. `--plot FILE` draws estimate against actual, `--check`
exits with 1 if a target is missed. `report` is the section on speed for `python -m benchmarks`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

if __name__ == "__main__":
    # In place of this folder, whose modules would stand before packages of the same name.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.timing import table
from benchmarks.token_corpus import load
from benchmarks.token_fit import name_of
from benchmarks.token_plot import picture
from benchmarks.token_score import DEALS, Guess, by_provider, fits, ninth, others, peer, score, shipped
from benchmarks.token_speed import report
from benchmarks.token_splits import UNITS, Half, check_splits, describe_all, describe_half
from benchmarks.token_targets import WIDTH, list_provider_targets, list_targets
from benchmarks.token_turns import second_turns
from penstock._tokens.families import load_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.token_corpus import Sample
    from penstock._tokens.families import Tables

__all__ = ["main", "report"]

HEAD = ["family", "entries", "median error", "90th percentile", "bias", "in bounds", "width"]


def families(samples: Sequence[Sample]) -> list[str]:
    """The largest first."""
    names = {sample.family for sample in samples}
    return sorted(names, key=lambda name: (-sum(sample.family == name for sample in samples), name))


def line(name: str, guesses: Sequence[Guess], deals: int) -> list[str]:
    found = score(guesses, deals)
    return [
        name, str(found.number), f"{found.middle:.1%}", f"{found.ninth:.0%}", f"{found.bias:+.1%}",
        f"{found.inside:.0%}", f"{found.width:.0%}",
    ]  # fmt: skip


def by_family(guesses: Sequence[Guess], deals: int = 1) -> str:
    names = families([guess.sample for guess in guesses])
    rows = [line(name, [guess for guess in guesses if guess.sample.family == name], deals) for name in names]
    media = [guess for guess in guesses if guess.sample.media]
    rows += [line("all", guesses, deals)] + ([line("with images or files", media, deals)] if media else [])
    return table(HEAD, rows)


def beside(samples: Sequence[Sample], ours: Sequence[Guess]) -> str:
    """Median errors of every way to count that is here."""
    ways = {"penstock": list(ours)} | {name: peer(samples, count) for name, count in others().items()}
    rows: list[list[str]] = []
    for name in [*families(samples), ""]:
        row = [name or "all"]
        for guesses in ways.values():
            some = [guess.error for guess in guesses if name in ("", guess.sample.family)]
            row.append(f"{median(some):.0%} ({ninth(some):.0%})" if some else "-")
        rows.append(row)
    return table(["median (90th percentile)", *ways], rows)


def without_provider(guesses: Sequence[Guess]) -> str:
    """Families of three providers, each provider guessed by numbers fitted to the others."""
    rows: list[list[str]] = []
    for name in families([guess.sample for guess in guesses]):
        mine = [guess for guess in guesses if guess.sample.family == name]
        found = score(mine, 1)
        providers = len({guess.sample.provider for guess in mine})
        rows.append([name, str(providers), str(found.number), f"{found.middle:.1%}", f"{found.ninth:.0%}"])
    return table(["family", "providers", "entries", "median error", "90th percentile"], rows)


def print_splits(samples: Sequence[Sample], facts: Tables, number: int, seed: int) -> int:
    """Prints each half as soon as it is checked, then all together."""
    print(f"# Fitted to one half of {len(samples)} requests, checked on the other; seed {seed}\n")
    halves: list[Half] = []
    for half in check_splits(samples, facts, number, seed):
        halves.append(half)
        print(describe_half(half), flush=True)
    for kind in UNITS:
        print(f"\n## By {kind}\n\n{describe_all([half for half in halves if half.name.startswith(kind)])}")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(prog="benchmarks/tokens.py", description=__doc__)
    options.add_argument("--corpus", type=Path, required=True, metavar="DIR")
    options.add_argument("--plot", type=Path, metavar="FILE", help="draw estimate against actual as an SVG")
    options.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    options.add_argument("--splits", type=int, metavar="N", help="fit to one half, check the other; N splits of a kind")
    options.add_argument("--seed", type=int, default=0, help="another draw of splits")
    chosen = options.parse_args(argv)
    facts, samples = load_tables(), load(chosen.corpus)
    if chosen.splits:
        return print_splits(samples, facts, chosen.splits, chosen.seed)
    same = name_of(chosen.corpus) == facts.fitted_to
    start = None if same else {name: family.constants for name, family in facts.families.items()}
    fitted = fits(samples, facts, start)
    ours = [guess for one in fitted for guess in one.guesses]
    later = second_turns(fitted, facts)
    errors = [row.error for row in later]
    print(f"# Token estimates on {len(samples)} requests with recorded usage\n")
    begun = "the priors of tables.toml" if same else "the numbers as shipped, which were fitted elsewhere"
    print(
        f"## Fitted on one half of the conversations, scored on the other\n\n{DEALS} deals, both ways; from {begun}.\n"
    )
    print(by_family(ours, DEALS))
    if held := by_provider(samples, facts, start):
        print("\n## Fitted without a provider, scored on it\n\nFamilies that have three providers.\n")
        print(without_provider(held))
    print("\n## As shipped\n\n" + ("Fitted to these very entries.\n" if same else "None of these entries was seen.\n"))
    print(by_family(shipped(samples, facts)))
    print(f"\n## Beside other ways to count\n\n{beside(samples, ours)}")
    inside = sum(row.estimate.low <= row.sample.actual <= row.estimate.high for row in later)
    if errors:
        print(f"\n## Second turns\n\n{len(later)} requests that go on from another one whose usage is known:")
        print(f"median error {median(errors):.1%}, 90th percentile {ninth(errors):.0%}, "
              f"{inside / len(later):.0%} in bounds.")  # fmt: skip
    width = score(ours).width
    print(f"\nThe bounds are {width:.0%} of the count wide (median), {'' if width <= WIDTH else 'more than '}"
          f"the goal of {WIDTH:.0%}.")  # fmt: skip
    targets = [*list_targets(ours, errors), *list_provider_targets(held)]
    print("\n## Targets\n")
    print("\n".join(f"- {'met' if target.met else '**missed**'}: {target}" for target in targets))
    if chosen.plot:
        once = ours[: len(samples)]
        chosen.plot.write_text(
            picture(once, f"{len(once)} recorded requests, each estimated by numbers fitted to others")
        )
    return int(chosen.check and not all(target.met for target in targets))


if __name__ == "__main__":
    raise SystemExit(main())
