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
from benchmarks.token_corpus import load
from penstock._tokens import text_features
from penstock._tokens.families import DEFAULT_FAMILY, FEATURE_NAMES, Constants, Tables, load_tables
from penstock._tokens.text_features import FeatureAmounts, FeatureCounter, constant_values, estimate_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from benchmarks.token_corpus import Sample

WIDE = {
    "base": 40, "message": 2, "text": 0.08, "call": 10, "result": 8, "reasoning": 0.4, "hidden": 100,
    "citations": 400, "tools": 250, "tool": 10,
    "schema": 0.25, "forced": 30, "format": 60, "shape": 0.4,
}  # fmt: skip
"""How far a family may be from all models together."""
NARROW = {
    "base": 12, "message": 1, "text": 0.01, "call": 6, "result": 5, "reasoning": 0.3, "hidden": 50,
    "citations": 50, "tools": 100, "tool": 5,
    "schema": 0.1, "forced": 30, "format": 40, "shape": 0.3,
}  # fmt: skip
"""How far a kind of models may be from its family."""
TOLD = {
    "base": 5, "message": 1, "text": 0.005, "call": 4, "result": 4, "hidden": 100,
    "tools": 10, "tool": 6, "schema": 0.15, "forced": 4, "format": 10, "shape": 0.1,
}  # fmt: skip
"""How far a constant may be from what a chat template or the documentation says."""
OFF = 0.2
"""And of what it says: a long prompt for tools is told less surely than none."""
TOKENS, SHARE, ODD, FIRST, ENOUGH, TURNS, FOLDS, KEPT = 3.0, 0.03, 2.0, 20.0, 8, 6, 6, 0.93
FITTED_FILE = Path(__file__).resolve().parents[1] / "src/penstock/_tokens/fitted.toml"


class Seen(NamedTuple):
    """A sample counted by its family."""

    sample: Sample
    family: str
    tally: FeatureAmounts
    messages: list[FeatureAmounts]
    frame: FeatureAmounts


def seen(samples: Iterable[Sample], facts: Tables) -> list[Seen]:
    rows: list[Seen] = []
    for sample in samples:
        family = facts.find_family(sample.model, sample.provider)
        counter = FeatureCounter(family, facts.pictures)
        frame = counter.count_frame(sample.request)
        messages = [counter.count_message(message) for message in sample.request.messages]
        whole = FeatureAmounts()
        for part in (frame, *messages):
            whole.add(part)
        rows.append(Seen(sample, family.name, whole, messages, frame))
    return rows


def fit(rows: Sequence[Seen], facts: Tables, start: dict[str, Constants] | None = None) -> dict[str, Constants]:
    """The constants of every family there is, seen or not; without bounds. `start` takes the place of all priors."""
    if start is not None:
        ours = {name: [row for row in rows if name in _line(row.family, facts)] for name in start}
        return {name: _fitted(ours[name], start[name], NARROW) if ours[name] else start[name] for name in start}
    found: dict[str, Constants] = {}
    for name, family in facts.families.items():
        if name == DEFAULT_FAMILY:
            continue
        mine = [row for row in rows if name in _line(row.family, facts)]
        above = found.get(family.parent, Constants())
        far = NARROW if family.parent not in ("", DEFAULT_FAMILY) else WIDE
        above = msgspec.structs.replace(above, **family.prior)
        told = {key: TOLD[key] + (OFF * value if key == "tools" else 0.0) for key, value in family.prior.items()}
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
    beliefs = [Belief(value, far[name]) for name, value in zip(FEATURE_NAMES, constant_values(above), strict=True)]
    found = constant_values(above)
    for turn in range(TURNS):
        usual = median([_missed(row, found) for row in rows])
        few = len(rows) < ENOUGH
        odd = (ODD * max(1.0, 0.0 if few else usual)) if turn else FIRST / (4 if few else 1)
        found = tuple(solve([_row(row, found, odd) for row in rows], beliefs))
    return msgspec.convert(dict(zip(FEATURE_NAMES, found, strict=True)), Constants)


def _row(row: Seen, constants: tuple[float, ...], odd: float) -> Row:
    """A sample that the last turn missed by far is held for odd."""
    weight = 1 / (1 + (_missed(row, constants) / odd) ** 2) / _scale(row) ** 2
    return Row(row.tally.amounts, row.sample.actual - row.tally.files, weight)


def _scale(row: Seen) -> float:
    return TOKENS + SHARE * row.sample.actual + row.tally.risk


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
    """The constants with their bounds: how far off, in spreads, were samples that were held back."""
    misses: dict[str, list[float]] = defaultdict(list)
    for fold in range(FOLDS):
        held = [row for row in rows if fold_of(row.sample.group, FOLDS) == fold]
        found = fit([row for row in rows if fold_of(row.sample.group, FOLDS) != fold], facts, start)
        for row in held:
            constants = constant_values(found[row.family])
            off = (row.sample.actual - estimate_tokens(row.tally, constants)) / spread_of(row, constants)
            for name in _line(row.family, facts):
                misses[name].append(off)
    found = fit(rows, facts, start)
    return {
        name: msgspec.structs.replace(
            constants,
            low=round(_edge([-off for off in _with_all(name, misses, facts)]), 2),
            high=round(_edge(_with_all(name, misses, facts)), 2),
        )
        for name, constants in found.items()
    }


SHRINK, FARTHEST = 10, 40.0
"""Samples of the families above that stand beside a family's own."""


def _with_all(name: str, misses: dict[str, list[float]], facts: Tables) -> list[float]:
    own = misses.get(name, [])
    for above in _line(name, facts)[1:]:
        more = sorted(misses[above])
        step = max(1, len(more) // SHRINK)
        own = own + more[step // 2 :: step]
    return own


def _edge(offs: list[float]) -> float:
    """Half of what may be outside is outside at this end; never less than one spread."""
    ranked = sorted(offs)
    return min(max(1.0, ranked[int((1 + KEPT) / 2 * len(ranked))]), FARTHEST)


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
