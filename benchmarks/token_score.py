"""Scores of token estimates: how far off, on which side, how often inside the bounds; by family, beside other ways.

An error is the distance from the actual count by the actual count. Other ways to count that are not installed are left
out. Leans on `token_fit` for the fitting on halves.
"""

from __future__ import annotations

import os
from collections import defaultdict
from importlib import import_module
from importlib.util import find_spec
from math import ceil, floor
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from benchmarks.token_fit import bounded, fit, fold_of, seen, spread_of
from penstock._tokens.bpe import Vocabulary
from penstock._tokens.text_features import constant_values, estimate_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from benchmarks.token_corpus import Sample
    from benchmarks.token_fit import Seen
    from penstock._tokens.families import Constants, Tables

DEALS, MANY = 3, 3
"""So many ways of dealing conversations into halves: one deal alone would be luck. And providers that are many."""


class Guess(NamedTuple):
    """An estimate beside the actual count."""

    sample: Sample
    tokens: float
    low: float
    high: float

    @property
    def error(self) -> float:
        return abs(self.tokens - self.sample.actual) / self.sample.actual

    def error_above(self, tokens: float) -> float:
        """The error; none if it is no more than so many tokens."""
        return 0.0 if self.error * self.sample.actual <= tokens else self.error

    @property
    def inside(self) -> bool:
        return self.low <= self.sample.actual <= self.high


class Score(NamedTuple):
    """What the guesses of one family come to. `width` is the median of the bounds' width by the count."""

    number: int
    middle: float
    ninth: float
    bias: float
    inside: float
    width: float


def ninth(values: Iterable[float]) -> float:
    """The 90th percentile."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(0.9 * len(ranked)))]


def score(guesses: Sequence[Guess], deals: int = DEALS) -> Score:
    """The figures of some guesses; `deals`: how many there are of each sample."""
    errors = [guess.error for guess in guesses]
    return Score(
        len(guesses) // deals, median(errors), ninth(errors),
        median([guess.tokens / guess.sample.actual - 1 for guess in guesses]),
        sum(guess.inside for guess in guesses) / len(guesses),
        median([(guess.high - guess.low) / max(1.0, guess.tokens) for guess in guesses]),
    )  # fmt: skip


# ── ours ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Fitted(NamedTuple):
    """What was found on one half, and guessed for the other."""

    constants: dict[str, Constants]
    guesses: list[Guess]


def fits(samples: Sequence[Sample], facts: Tables, start: dict[str, Constants] | None = None) -> list[Fitted]:
    """Fitted on one half of the conversations, guessed for the other, both ways, for several deals.

    `start` is where fitting begins, if that was found elsewhere; else it begins with the priors of tables.toml.
    """
    rows, found_all = seen(samples, facts), list[Fitted]()
    for deal in range(DEALS):
        side = {row.sample.name: fold_of(f"{deal} {row.sample.group}", 2) for row in rows}
        for half in (0, 1):
            found = bounded([row for row in rows if side[row.sample.name] != half], facts, start)
            found_all.append(Fitted(found, [_guess(row, found) for row in rows if side[row.sample.name] == half]))
    return found_all


def by_provider(samples: Sequence[Sample], facts: Tables, start: dict[str, Constants] | None = None) -> list[Guess]:
    """Guessed by numbers that were fitted without any entry of the same provider; families of three providers."""
    rows, providers = seen(samples, facts), defaultdict[str, set[str]](set)
    for sample in samples:
        providers[sample.family].add(sample.provider)
    found_all: list[Guess] = []
    for provider in sorted({sample.provider for sample in samples}):
        held = [row for row in rows if row.sample.provider == provider and len(providers[row.sample.family]) >= MANY]
        if held:
            found = fit([row for row in rows if row.sample.provider != provider], facts, start)
            found_all += [_guess(row, found) for row in held]
    return found_all


def shipped(samples: Sequence[Sample], facts: Tables) -> list[Guess]:
    """With the numbers that come with the package."""
    return guess_all(samples, facts, {name: family.constants for name, family in facts.families.items()})


def guess_all(samples: Sequence[Sample], facts: Tables, constants: dict[str, Constants]) -> list[Guess]:
    """With these constants."""
    return [_guess(row, constants) for row in seen(samples, facts)]


def _guess(row: Seen, found: dict[str, Constants]) -> Guess:
    constants = found[row.family]
    fitted = constant_values(constants)
    amount, off = estimate_tokens(row.tally, fitted), spread_of(row, fitted)
    low, high = floor(max(0.0, amount - constants.low * off)), ceil(amount + constants.high * off)
    return Guess(row.sample, round(amount), low, high)


# ── others ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _texts(value: Any) -> Iterable[str]:
    """All strings of a body, keys left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in cast("Iterable[Any]", value):
            yield from _texts(item)
    elif isinstance(value, dict):
        for item in cast("dict[str, Any]", value).values():
            yield from _texts(item)


def _said(sample: Sample) -> str:
    """What was said in messages: the text that the plain formulas look at."""
    parts = [part for message in sample.request.messages for part in message.parts]
    return "".join(getattr(part, "text", "") for part in parts)


def seeds(sample: Sample) -> float:
    return len(_said(sample)) / 3.5 * 1.1 + 4 * len(sample.request.messages)


def quarter(sample: Sample) -> float:
    return len(_said(sample)) / 4


def others() -> dict[str, Callable[[Sample], float]]:
    """The other ways to count that are here."""
    found: dict[str, Callable[[Sample], float]] = {"chars / 3.5 * 1.1 + 4": seeds, "chars / 4": quarter}
    if find_spec("bpe_openai"):
        count = Vocabulary("o200k_base")
        found["o200k of the body"] = lambda sample: count(" ".join(_texts(sample.body))[:500_000])
    if find_spec("litellm"):
        found["LiteLLM"] = _litellm()
    return found


def _litellm() -> Callable[[Sample], float]:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    token_counter: Any = import_module("litellm").token_counter

    from penstock._protocols.openai_chat.request_write import write_request

    def count(sample: Sample) -> float:
        try:
            data = msgspec.json.encode(write_request(sample.request).body)
            body = msgspec.json.decode(data)
            return float(token_counter(model=sample.model, messages=body["messages"], tools=body.get("tools")))
        except Exception:  # noqa: BLE001 - it raises whatever it likes on what it does not know
            return float("nan")

    return count


def peer(samples: Sequence[Sample], count: Callable[[Sample], float]) -> list[Guess]:
    found = [(sample, count(sample)) for sample in samples]
    return [Guess(sample, tokens, tokens, tokens) for sample, tokens in found if tokens == tokens]  # noqa: PLR0124 - NaN
