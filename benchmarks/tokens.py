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
from benchmarks.token_score import DEALS, Guess, Score, by_provider, fits, ninth, others, peer, score, shipped
from benchmarks.token_speed import report
from benchmarks.token_turns import seconds
from penstock._tokens.families import load_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.token_corpus import Sample

__all__ = ["main", "report"]

TARGETS = (
    # families, median, 90th percentile, each alone or all together, tokens that count as no error
    (("gpt", "claude", "gemini", "mistral"), 0.06, 0.30, True, 0.0),
    (("qwen", "grok"), 0.12, 0.45, True, 0.0),
    (("llama", "deepseek", "nova", "glm", "kimi"), 0.12, 0.60, False, 20.0),
)
MEDIA, SECOND, INSIDE, WIDTH = (0.12, 0.60), (0.015, 0.10), (0.88, 0.95), 0.40
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


def _limits(name: str, found: Score, limits: tuple[float, float]) -> list[tuple[str, bool]]:
    middle, ninth_ = limits
    return [
        (f"{name}: median {found.middle:.1%}, at most {middle:.1%}", found.middle <= middle),
        (f"{name}: 90th percentile {found.ninth:.1%}, at most {ninth_:.0%}", found.ninth <= ninth_),
    ]


def targets(ours: Sequence[Guess], later: Sequence[float]) -> list[tuple[str, bool]]:
    """Each target with whether it is met; those of families that are not there are left out."""
    found: list[tuple[str, bool]] = []
    for names, middle, ninth_, alone, tokens in TARGETS:
        for group in [(name,) for name in names] if alone else [names]:
            if mine := [guess for guess in ours if guess.sample.family in group]:
                title = ", ".join(group) + (f" together, from {tokens:.0f} tokens on" if tokens else "")
                found += _limits(title, score(mine, tokens=tokens), (middle, ninth_))
    if media := [guess for guess in ours if guess.sample.media]:
        found += _limits("images and files", score(media), MEDIA)
    if later:
        middle, ninth_ = median(later), ninth(later)
        found.append((f"second turns: median {middle:.1%}, at most {SECOND[0]:.1%}", middle <= SECOND[0]))
        found.append((f"second turns: 90th percentile {ninth_:.1%}, at most {SECOND[1]:.0%}", ninth_ <= SECOND[1]))
    inside = score(ours).inside
    low, high = INSIDE
    found.append((f"in bounds: {inside:.1%}, {low:.0%} to {high:.0%}", low <= inside <= high))
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
    met = targets(ours, errors)
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
