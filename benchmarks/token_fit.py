"""Fits the constants of every family to recorded usage: all models first, then each family, then its kinds.

Each level begins with what the one above found and leaves it only as far as its own samples ask for, so that a family
with three samples stays close to all others. Odd samples count less. The bounds come from samples that the constants
were not fitted to. `python -m benchmarks.token_fit --corpus DIR --write` writes src/penstock/_tokens/fitted.toml.
"""

from __future__ import annotations

import argparse
import hashlib
import tomllib
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from benchmarks.ridge import Belief, Row, solve
from benchmarks.token_bounds import FIELDS, PULL, PULL_KIND, PULL_NEAR, UNKNOWN_TEXT, Miss, fit_errors, miss_of
from benchmarks.token_corpus import load
from penstock._tokens import text_features
from penstock._tokens.families import DEFAULT_FAMILY, FEATURE_NAMES, Constants, Tables, load_tables
from penstock._tokens.text_features import FeatureAmounts, FeatureCounter, constant_values, estimate_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from benchmarks.token_corpus import Sample
    from penstock._tokens.families import Family

WIDE = {
    "base": 40, "message": 2, "text": 0.08, "call": 10, "result": 8, "parallel": 5,
    "reasoning": 0.4, "hidden": 100, "thinking": 4, "citations": 400, "tools": 250, "tool": 10,
    "schema": 0.25, "forced": 30, "format": 60, "shape": 0.4,
}  # fmt: skip
"""How far a family may be from all models together."""
NARROW = {
    "base": 12, "message": 1, "text": 0.01, "call": 6, "result": 5, "parallel": 3,
    "reasoning": 0.3, "hidden": 50, "thinking": 2, "citations": 50, "tools": 100, "tool": 5,
    "schema": 0.1, "forced": 12, "format": 40, "shape": 0.3,
}  # fmt: skip
"""How far a kind of models may be from its family."""
NEAR = {name: value / 8 for name, value in NARROW.items()}
"""How far it may be from what was found elsewhere, on many samples. Farther, a fit follows single requests."""
TOLD = {
    "base": 5, "message": 1, "text": 0.005, "call": 4, "result": 4, "parallel": 25,
    "hidden": 100, "thinking": 10, "citations": 60,
    "tools": 10, "tool": 6, "schema": 0.15, "forced": 4, "format": 10, "shape": 0.1,
}  # fmt: skip
"""How far a constant may be from what a chat template or the documentation says."""
OFF = {"base": 0.15, "tools": 0.2, "text": 0.15}
"""And how far by what it says: a long prompt for tools is told less surely than none."""
TOKENS, SHARE, ODD, FIRST, ENOUGH, TURNS, FOLDS = 3.5, 0.04, 0.8, 20.0, 8, 6, 6
"""The noise of a sample in tokens and as a share of its count; how many times that counts as odd, later and at first;
how many samples are enough; rounds of a fit; folds for the errors. Chosen on halves that were held back
(`benchmarks/tokens.py --splits`): a smaller `ODD` lets samples of an unknown cause move the constants less."""
FITTED_FILE = Path(__file__).resolve().parents[1] / "src/penstock/_tokens/fitted.toml"


class Seen(NamedTuple):
    """A sample counted by its family."""

    sample: Sample
    family: str
    tally: FeatureAmounts
    messages: list[FeatureAmounts]
    frame: FeatureAmounts


def seen(samples: Iterable[Sample], facts: Tables) -> list[Seen]:
    return [seen_as(sample, facts, facts.find_family(sample.model, sample.provider)) for sample in samples]


def seen_as(sample: Sample, facts: Tables, family: Family) -> Seen:
    """The sample as a family counts it."""
    counter = FeatureCounter(family, facts.pictures)
    frame = counter.count_frame(sample.request)
    messages = [counter.count_message(message) for message in sample.request.messages]
    whole = FeatureAmounts()
    for part in (frame, *messages):
        whole.add(part)
    return Seen(sample, family.name, whole, messages, frame)


def fit(rows: Sequence[Seen], facts: Tables, start: dict[str, Constants] | None = None) -> dict[str, Constants]:
    """The constants of every family there is, seen or not; without bounds. `start` takes the place of all priors."""
    if start is not None:
        ours = {name: [row for row in rows if name in _line(row.family, facts)] for name in start}
        return {name: _fitted(ours[name], start[name], NEAR) if ours[name] else start[name] for name in start}
    found: dict[str, Constants] = {}
    for name, family in facts.families.items():
        if name == DEFAULT_FAMILY:
            continue
        mine = [row for row in rows if name in _line(row.family, facts)]
        above = found.get(family.parent, Constants())
        far = NARROW if family.parent not in ("", DEFAULT_FAMILY) else WIDE
        above = msgspec.structs.replace(above, **family.prior)
        told = {
            key: TOLD[key] + OFF.get(key, 0.0) * abs(value - (key == "text")) for key, value in family.prior.items()
        }
        found[name] = _fitted(mine, above, {**far, **told}) if mine else above
    found[DEFAULT_FAMILY] = _middle(
        [found[name] for name, family in facts.families.items() if family.parent == DEFAULT_FAMILY]
    )
    return found


def _middle(rows: Sequence[Constants]) -> Constants:
    """What a model of no known family is thought to be like: the median of the families, constant by constant."""
    return Constants(**{name: median([getattr(row, name) for row in rows]) for name in FEATURE_NAMES})


def _line(name: str, facts: Tables) -> list[str]:
    """The family, its parent, and so on."""
    line: list[str] = []
    while name:
        line.append(name)
        name = facts.families[name].parent
    return line


def _fitted(rows: Sequence[Seen], above: Constants, far: dict[str, float]) -> Constants:
    """No constant is below 0 unless documentation says so, as of Claude 4 with a forced choice."""
    found = constant_values(above)[: len(FEATURE_NAMES)]
    beliefs = [
        Belief(value, far[name], min(0.0, 1.5 * value)) for name, value in zip(FEATURE_NAMES, found, strict=True)
    ]
    for turn in range(TURNS):
        usual = median([_missed(row, found) for row in rows])
        few = len(rows) < ENOUGH
        odd = (ODD * max(1.0, 0.0 if few else usual)) if turn else FIRST / (4 if few else 1)
        found = tuple(solve([_row(row, found, odd) for row in rows], beliefs))
    return msgspec.convert(dict(zip(FEATURE_NAMES, found, strict=True)), Constants)


def _row(row: Seen, constants: tuple[float, ...], odd: float) -> Row:
    """A sample that the last turn missed by far is held for odd."""
    weight = 1 / (1 + (_missed(row, constants) / odd) ** 2) / _scale(row) ** 2
    return Row(row.tally.amounts, row.sample.actual - row.tally.files - row.tally.added, weight)


def _scale(row: Seen) -> float:
    return TOKENS + SHARE * row.sample.actual + row.tally.risk + row.tally.added_risk


def _missed(row: Seen, constants: tuple[float, ...]) -> float:
    return abs(row.sample.actual - estimate_tokens(row.tally, constants)) / _scale(row)


# ── bounds ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def spread_of(row: Seen, constants: tuple[float, ...]) -> float:
    return text_features.combine_errors(
        text_features.frame_error(row.frame, constants),
        sum(text_features.message_error(part, constants) for part in row.messages),
    )


def fold_of(group: str, folds: int) -> int:
    """Conversations are dealt out by their names, so a run can be repeated."""
    return int.from_bytes(hashlib.blake2b(group.encode(), digest_size=4).digest(), "big") % folds


def bounded(rows: Sequence[Seen], facts: Tables, start: dict[str, Constants] | None = None) -> dict[str, Constants]:
    """The constants with their errors and bounds, which come from samples that were held back."""
    misses: dict[str, list[Miss]] = defaultdict(list)
    for fold in range(FOLDS):
        found = fit([row for row in rows if fold_of(row.sample.group, FOLDS) != fold], facts, start)
        for row in rows:
            if fold_of(row.sample.group, FOLDS) == fold:
                miss = miss_of(row, constant_values(found[row.family]))
                for name in _line(row.family, facts):
                    misses[name].append(miss)
    found = fit(rows, facts, start)
    if start is not None:
        errors = {name: fit_errors(misses[name], above, PULL_NEAR) for name, above in start.items()}
        return {name: _with_errors(constants, errors[name]) for name, constants in found.items()}
    errors = {DEFAULT_FAMILY: fit_errors(misses[DEFAULT_FAMILY], Constants())}
    for name, family in facts.families.items():
        if name != DEFAULT_FAMILY:
            pull = PULL if family.parent == DEFAULT_FAMILY else PULL_KIND
            errors[name] = fit_errors(misses[name], errors[family.parent], pull)
    errors[DEFAULT_FAMILY] = _unknown_errors(rows, facts, found[DEFAULT_FAMILY])
    return {name: _with_errors(constants, errors[name]) for name, constants in found.items()}


def _with_errors(constants: Constants, errors: Constants) -> Constants:
    return msgspec.structs.replace(constants, **{key: round(getattr(errors, key), 3) for key in FIELDS})


def _unknown_errors(rows: Sequence[Seen], facts: Tables, constants: Constants) -> Constants:
    """The errors for a model of no known family: all samples, counted as if no rule knew their models."""
    family, values = facts.families[DEFAULT_FAMILY], constant_values(constants)
    misses = [miss_of(seen_as(row.sample, facts, family), values) for row in rows]
    return fit_errors(misses, Constants(), text=UNKNOWN_TEXT)


# ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def name_of(folder: Path) -> str:
    """What tells one folder's tokens.json from another's."""
    return hashlib.blake2b((folder / "tokens.json").read_bytes(), digest_size=8).hexdigest()


def written(found: dict[str, Constants], vocabularies: str, samples: int, of: str) -> str:
    """fitted.toml: the vocabularies as they were, the families anew."""
    lines = [vocabularies.rstrip(), ""]
    date = datetime.now(UTC).date().isoformat()
    lines[0] = lines[0].replace(_dated(lines[0]), f'date = "{date}"\nsamples = {samples}\nof = "{of}"', 1)
    for name, constants in found.items():
        lines.append(f'[families."{name}"]')
        lines += [f"{key} = {round(getattr(constants, key), 3)}" for key in Constants.__struct_fields__]
        lines.append("")
    return "\n".join(lines)


def _dated(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if line.startswith(("date =", "samples =", "of =")))


def main(progress: Callable[[str], None] = print) -> int:
    options = argparse.ArgumentParser(prog="python -m benchmarks.token_fit", description=__doc__)
    options.add_argument("--corpus", type=Path, required=True)
    options.add_argument("--write", action="store_true", help="write fitted.toml")
    chosen = options.parse_args()
    facts = load_tables()
    rows = seen(load(chosen.corpus), facts)
    found = bounded(rows, facts)
    for name, constants in found.items():
        progress(
            f"{name:14} " + " ".join(f"{key}={getattr(constants, key):.3g}" for key in constants.__struct_fields__)
        )
    if chosen.write:
        old = FITTED_FILE.read_text()
        head = old.partition("[families.")[0]
        text = written(found, head, len(rows), name_of(chosen.corpus))
        tomllib.loads(text)
        FITTED_FILE.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
