"""The targets of token estimates: how far off families, files and second turns may be, and how often bounds hold."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.token_score import Guess, ninth, score

if TYPE_CHECKING:
    from collections.abc import Sequence

FAMILIES = (
    # families, median, 90th percentile, each alone or all together, tokens that count as no error
    (("gpt", "claude", "gemini", "mistral"), 0.06, 0.30, True, 0.0),
    (("qwen", "grok"), 0.12, 0.45, True, 0.0),
    (("llama", "deepseek", "nova", "glm", "kimi"), 0.12, 0.60, False, 20.0),
)
MEDIA, SECOND, INSIDE, WIDTH = (0.12, 0.60), (0.015, 0.10), (0.88, 0.95), 0.40


class Target(NamedTuple):
    """A figure, its limits, and the number of requests that it is taken from."""

    name: str
    value: float
    most: float
    least: float = 0.0
    number: int = 0

    @property
    def met(self) -> bool:
        return self.least <= self.value <= self.most

    def __str__(self) -> str:
        limit = f"{self.least:.0%} to {self.most:.0%}" if self.least else f"at most {self.most:.1%}"
        return f"{self.name} {self.value:.1%}, {limit}"


def _limits(name: str, errors: Sequence[float], limits: tuple[float, float]) -> list[Target]:
    return [
        Target(f"{name}: median", median(errors), limits[0], number=len(errors)),
        Target(f"{name}: 90th percentile", ninth(errors), limits[1], number=len(errors)),
    ]


def list_targets(guesses: Sequence[Guess], second_turns: Sequence[float]) -> list[Target]:
    """Returns all targets of the families that are there. `second_turns` are errors."""
    found: list[Target] = []
    for names, middle, ninth_, alone, tokens in FAMILIES:
        for group in [(name,) for name in names] if alone else [names]:
            if errors := [guess.error_above(tokens) for guess in guesses if guess.sample.family in group]:
                title = ", ".join(group) + (f" together, from {tokens:.0f} tokens on" if tokens else "")
                found += _limits(title, errors, (middle, ninth_))
    if media := [guess.error for guess in guesses if guess.sample.media]:
        found += _limits("images and files", media, MEDIA)
    if second_turns:
        found += _limits("second turns", second_turns, SECOND)
    return [*found, Target("in bounds:", score(guesses).inside, INSIDE[1], INSIDE[0], len(guesses))]


def list_provider_targets(guesses: Sequence[Guess]) -> list[Target]:
    """Returns the targets of families that stand alone, by numbers that were fitted without the provider."""
    found: list[Target] = []
    for names, middle, ninth_, alone, tokens in FAMILIES:
        for name in names if alone else ():
            if errors := [guess.error_above(tokens) for guess in guesses if guess.sample.family == name]:
                found += _limits(f"{name}, without its provider", errors, (middle, ninth_))
    return found
