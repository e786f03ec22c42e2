"""Checks the targets on recordings that the constants were not fitted to: `benchmarks/tokens.py --splits N`.

Each split divides the corpus in two halves with about as many requests of each family. Constants are fitted on one half
and checked on the other, both ways, in two forms: `unseen` takes the constants as they are, `refitted` does on the
other half what `--check` does on a corpus that the shipped constants were not fitted to. A split is by conversation, or
by source: then all requests of a family that one program recorded with one provider are on the same side.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.timing import table
from benchmarks.token_fit import bounded, seen
from benchmarks.token_score import Guess, fits, guess_all
from benchmarks.token_targets import Target, list_targets
from benchmarks.token_turns import second_turns, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.token_corpus import Sample
    from penstock._tokens.families import Tables

FORMS = ("unseen", "refitted")


class Half(NamedTuple):
    """One half of a split, with its targets by form."""

    name: str
    targets: dict[str, list[Target]]
    guesses: list[Guess]
    second_turns: list[float]


def _conversation(sample: Sample) -> tuple[str, ...]:
    return (sample.group,)


def _source(sample: Sample) -> tuple[str, ...]:
    """The program that recorded the request, the provider, the family."""
    return sample.group.partition(":")[0], sample.provider, sample.family


UNITS: dict[str, Callable[[Sample], tuple[str, ...]]] = {"conversation": _conversation, "source": _source}


def split_samples(samples: Sequence[Sample], seed: int, by: str) -> tuple[list[Sample], list[Sample]]:
    """Returns two halves; each unit goes where its family has fewer requests."""
    units: dict[tuple[str, ...], list[Sample]] = defaultdict(list)
    for sample in samples:
        units[UNITS[by](sample)].append(sample)
    order, rng = sorted(units), random.Random(seed)
    sides: tuple[list[Sample], list[Sample]] = ([], [])
    numbers: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    rng.shuffle(order)
    for unit in order:
        family = units[unit][0].family
        difference = numbers[0][family] - numbers[1][family]
        side = rng.randrange(2) if not difference else int(difference > 0)
        sides[side].extend(units[unit])
        numbers[side].update(sample.family for sample in units[unit])
    return sides


def check_half(name: str, known: Sequence[Sample], held: Sequence[Sample], facts: Tables) -> Half:
    """Fits to one half and checks the other."""
    constants = bounded(seen(known, facts), facts)
    guesses = guess_all(held, facts, constants)
    later = [row.error for row in seconds(held, facts.with_constants(constants))]
    fitted = fits(held, facts, constants)
    refitted = [guess for one in fitted for guess in one.guesses]
    targets = {
        "unseen": list_targets(guesses, later),
        "refitted": list_targets(refitted, [row.error for row in second_turns(fitted, facts)]),
    }
    return Half(name, targets, guesses, later)


def check_splits(samples: Sequence[Sample], facts: Tables, number: int, seed: int = 0) -> Iterator[Half]:
    """Checks so many splits of each kind, both ways."""
    for by in UNITS:
        for at in range(number):
            halves = split_samples(samples, seed + at, by)
            for side in (0, 1):
                yield check_half(f"{by} {at + 1}{'ab'[side]}", halves[1 - side], halves[side], facts)


def describe_half(half: Half) -> str:
    """One line for each form: the targets that are missed."""
    lines: list[str] = []
    for form in FORMS:
        missed = [f"{target} ({target.number} requests)" for target in half.targets[form] if not target.met]
        lines.append(f"- {half.name}, {form}: {'; '.join(missed) if missed else 'all met'}")
    return "\n".join(lines)


def describe_all(halves: Sequence[Half]) -> str:
    """How often each target is missed, the worst figure, and the figure of all halves together."""
    guesses = [guess for half in halves for guess in half.guesses]
    pooled = list_targets(guesses, [error for half in halves for error in half.second_turns])
    rows: list[list[str]] = []
    for together in pooled:
        row = [together.name, f"{together.most:.1%}", f"{together.value:.1%}"]
        for form in FORMS:
            ones = [one for half in halves for one in half.targets[form] if one.name == together.name]
            worst = min(one.value for one in ones) if together.least else max(one.value for one in ones)
            row += [f"{sum(not one.met for one in ones)} of {len(ones)}", f"{worst:.1%}"]
        rows.append(row)
    clean = [sum(all(one.met for one in half.targets[form]) for half in halves) for form in FORMS]
    head = ["target", "limit", "pooled"] + [f"{form}: {what}" for form in FORMS for what in ("missed", "worst")]
    told = ", ".join(f"{form} {some} of {len(halves)}" for form, some in zip(FORMS, clean, strict=True))
    return f"{table(head, rows)}\n\nHalves that meet every target: {told}."
