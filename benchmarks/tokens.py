"""`python benchmarks/tokens.py --corpus DIR`: how far off token estimates are, on requests with recorded usage.

DIR is laid out like the corpus: tokens.json names the entries. Constants are fitted on one half of the conversations
and scored on the other, both ways, for several deals; beside them stand the numbers as shipped, and other ways.
`--plot FILE` draws estimate against actual, `--check` exits with 1 if a target is missed. `report` is the section on
speed for `python -m benchmarks`.
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
from benchmarks.token_score import DEALS, Guess, fits, others, peer, score, shipped
from benchmarks.token_speed import report
from benchmarks.token_turns import seconds
from penstock._tokens.families import load_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.token_corpus import Sample

__all__ = ["main", "report"]

FOUR, ENOUGH = ("gpt", "claude", "gemini", "mistral"), 10
MIDDLE, OTHERS, NINTH, INSIDE, MEDIA, SECOND = 1.0, 0.15, 0.35, 0.85, 0.15, 0.02
HEAD = ["family", "entries", "median error", "90th percentile", "bias", "in bounds"]


def families(samples: Sequence[Sample]) -> list[str]:
    """The largest first."""
    names = {sample.family for sample in samples}
    return sorted(names, key=lambda name: (-sum(sample.family == name for sample in samples), name))


def line(name: str, guesses: Sequence[Guess], deals: int) -> list[str]:
    found = score(guesses, deals)
    return [
        name, str(found.number), f"{found.middle:.1%}", f"{found.ninth:.0%}", f"{found.bias:+.1%}",
        f"{found.inside:.0%}",
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
            ninth = sorted(some)[min(len(some) - 1, int(0.9 * len(some)))] if some else 0.0
            row.append(f"{median(some):.0%} ({ninth:.0%})" if some else "-")
        rows.append(row)
    return table(["median (90th percentile)", *ways], rows)


def targets(ours: Sequence[Guess], second: float | None) -> list[tuple[str, bool]]:
    """Each target with whether it is met."""
    found: list[tuple[str, bool]] = []
    for name in families([guess.sample for guess in ours]):
        mine = score([guess for guess in ours if guess.sample.family == name])
        if name in FOUR:
            found.append((f"{name}: the median entry is within max(8%, 10 tokens)", mine.within <= MIDDLE))
            found.append((f"{name}: 90th percentile {mine.ninth:.0%}, at most {NINTH:.0%}", mine.ninth <= NINTH))
        elif mine.number >= ENOUGH and not name.startswith(("openai-", "bedrock-")):
            found.append((f"{name}: median {mine.middle:.1%}, at most {OTHERS:.0%}", mine.middle <= OTHERS))
        if mine.number >= ENOUGH:
            found.append((f"{name}: in bounds {mine.inside:.0%}, at least {INSIDE:.0%}", mine.inside >= INSIDE))
    whole = score(ours)
    found.append((f"in bounds: {whole.inside:.0%}, at least {INSIDE:.0%}", whole.inside >= INSIDE))
    if media := [guess for guess in ours if guess.sample.media]:
        middle = score(media).middle
        found.append((f"images and files: median {middle:.1%}, at most {MEDIA:.0%}", middle <= MEDIA))
    if second is not None:
        found.append((f"second turns: median {second:.1%}, at most {SECOND:.0%}", second <= SECOND))
    return found


def main(argv: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(prog="benchmarks/tokens.py", description=__doc__)
    options.add_argument("--corpus", type=Path, required=True, metavar="DIR")
    options.add_argument("--plot", type=Path, metavar="FILE", help="draw estimate against actual as an SVG")
    options.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    chosen = options.parse_args(argv)
    facts, samples = load_tables(), load(chosen.corpus)
    same = name_of(chosen.corpus) == facts.fitted_to
    start = None if same else {name: family.constants for name, family in facts.families.items()}
    fitted = fits(samples, facts, start)
    ours = [guess for one in fitted for guess in one.guesses]
    later = [
        row
        for one in fitted[:2]
        for row in seconds([guess.sample for guess in one.guesses], facts.with_constants(one.constants))
    ]
    errors = [abs(row.estimate.tokens - row.sample.actual) / row.sample.actual for row in later]
    second = median(errors) if errors else None
    print(f"# Token estimates on {len(samples)} requests with recorded usage\n")
    begun = "the priors of tables.toml" if same else "the numbers as shipped, which were fitted elsewhere"
    print(
        f"## Fitted on one half of the conversations, scored on the other\n\n{DEALS} deals, both ways; from {begun}.\n"
    )
    print(by_family(ours, DEALS))
    print("\n## As shipped\n\n" + ("Fitted to these very entries.\n" if same else "None of these entries was seen.\n"))
    print(by_family(shipped(samples, facts)))
    print(f"\n## Beside other ways to count\n\n{beside(samples, ours)}")
    inside = sum(row.estimate.low <= row.sample.actual <= row.estimate.high for row in later)
    if second is not None:
        print(f"\n## Second turns\n\n{len(later)} requests that go on from another one whose usage is known:")
        print(f"median error {second:.1%}, 90th percentile {sorted(errors)[int(0.9 * len(errors))]:.0%}, "
              f"{inside / len(later):.0%} in bounds.")  # fmt: skip
    met = targets(ours, second)
    print("\n## Targets\n")
    print("\n".join(f"- {'met' if good else '**missed**'}: {what}" for what, good in met))
    if chosen.plot:
        once = ours[: len(samples)]
        chosen.plot.write_text(
            picture(once, f"{len(once)} recorded requests, each estimated by numbers fitted to others")
        )
    return int(chosen.check and not all(good for _, good in met))


if __name__ == "__main__":
    raise SystemExit(main())
