"""Fits the errors of a family: how far off base, framing, text, tools and hidden additions are, and on which side.

The errors come from samples that the constants were not fitted to. They minimise the width of the bounds plus a penalty
for each sample outside (the interval score), all relative to the actual count. All models are fitted first, then each
family, then its kinds; each level is pulled towards the one above, so that few samples move little.
"""

from __future__ import annotations

from math import exp, hypot, log
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from penstock._tokens import text_features
from penstock._tokens.families import ERROR_NAMES, Constants
from penstock._tokens.text_features import TEXT, estimate_tokens, text_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.token_fit import Seen

OUTSIDE = 0.035
"""The share of samples that may be outside. With less than the tenth that the bounds leave out: samples that share a
provider or a program with the fitted ones are nearer than others will be."""
PULL, PULL_KIND, PULL_NEAR = 6.0, 20.0, 40.0
"""How strongly the level above counts for a family, for a kind of its models, and what was found on other samples."""
LEAST, FARTHEST = 30.0, 0.4
"""Errors are relative to no less than so many tokens; a sample further off than this share counts as no further."""
STEPS = (1.0, 0.4, 0.15, 0.05)
FIELDS = (*ERROR_NAMES, "low", "high")
FLOORS = {"base_error": 0.8, "framing_error": 0.02, "text_error": 0.02, "tools_error": 0.02, "hidden_error": 0.01,
          "low": 0.7, "high": 0.7}  # fmt: skip
TOPS = {"base_error": 60.0, "framing_error": 0.9, "text_error": 0.12, "tools_error": 0.9, "hidden_error": 3.0,
        "low": 1.6, "high": 1.6}  # fmt: skip
"""No error of a text is larger than what vocabularies leave on texts that anybody can have (docs/tokens.md)."""
UNKNOWN_TEXT = 0.25
"""But of a model whose vocabulary is unknown."""


class Miss(NamedTuple):
    """A held-back sample: how far off it was, and what it is made of."""

    off: float
    scale: float
    text: float
    framing: float
    risk: float
    tools: float
    hidden: float
    added_risk: float


def miss_of(row: Seen, constants: tuple[float, ...]) -> Miss:
    """What a sample that the constants have not seen tells about errors."""
    positions, unit = text_features.FRAMING_FEATURES, list(constants)
    unit[text_features.TEXT_ERROR] = 1.0
    return Miss(
        off=row.sample.actual - estimate_tokens(row.tally, constants),
        scale=max(LEAST, float(row.sample.actual)),
        text=sum(text_error(part.amounts[TEXT], part.rough, unit) for part in row.messages),
        framing=text_features.sum_features(row.tally, constants, positions),
        risk=row.tally.risk,
        tools=text_features.sum_features(row.tally, constants, text_features.TOOL_FEATURES),
        hidden=text_features.sum_features(row.tally, constants, text_features.HIDDEN_FEATURES),
        added_risk=row.tally.added_risk,
    )


def _score(misses: Iterable[Miss], found: Sequence[float]) -> float:
    base, framing, text, tools, hidden, low, high = found
    total = 0.0
    for one in misses:
        messages = one.text * text + one.framing * framing + one.risk
        error = hypot(base, one.tools * tools, one.hidden * hidden, one.added_risk, messages)
        beyond = max(one.off - high * error, -one.off - low * error, 0.0)
        total += ((low + high) * error + 2 / OUTSIDE * min(beyond, FARTHEST * one.scale)) / one.scale
    return total


def fit_errors(misses: Sequence[Miss], above: Constants, pull: float = PULL, text: float = 0.0) -> Constants:
    """The constants of a family with its errors and bounds; `above` has those of the level above."""
    start = [log(getattr(above, name)) for name in FIELDS]
    found, tops = list(start), {**TOPS, "text_error": text or TOPS["text_error"]}

    def cost(values: Sequence[float]) -> float:
        pulled = sum((value - first) ** 2 for value, first in zip(values, start, strict=True))
        return _score(misses, [exp(value) for value in values]) + pull * pulled

    best = cost(found)
    for step in STEPS:
        moved = True
        while moved:
            moved = False
            for place, name in enumerate(FIELDS):
                for way in (step, -step):
                    value = min(max(found[place] + way, log(FLOORS[name])), log(tops[name]))
                    tried = [*found[:place], value, *found[place + 1 :]]
                    if (now := cost(tried)) < best - 1e-6:
                        best, found, moved = now, tried, True
    return msgspec.structs.replace(above, **{name: exp(value) for name, value in zip(FIELDS, found, strict=True)})
