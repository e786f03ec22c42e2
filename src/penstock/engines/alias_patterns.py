"""Aliases whose names hold `*`: which of them a model's name matches, and what the target becomes.

An exact name wins over every pattern, then the pattern with the most characters besides `*`. A pattern without a slash
matches no name with one: `claude-*` and `*` leave `provider/model` alone. Only `*` is special, because names of models
hold brackets (`claude-sonnet-4-5[1m]`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

STAR = "*"


def is_pattern(name: str) -> bool:
    """Whether the name of an alias stands for several names."""
    return STAR in name


def find_alias(name: str, aliases: Mapping[str, str | list[str]]) -> list[str] | None:
    """The targets of the alias that a name means, exactly or by pattern; None if there is none."""
    exact = aliases.get(name)
    if exact is not None:
        return [exact] if isinstance(exact, str) else list(exact)
    pattern = best_pattern(name, tuple(aliases))
    if not pattern:
        return None
    found = aliases[pattern]
    return [_carry_over(name, pattern, one) for one in ([found] if isinstance(found, str) else found)]


def best_pattern(name: str, patterns: Sequence[str]) -> str:
    """The pattern that matches a name with the most characters; the first of equals. Empty if none does."""
    found = [pattern for pattern in patterns if is_pattern(pattern) and _matched(name, pattern) is not None]
    return max(found, key=lambda pattern: len(pattern.replace(STAR, "")), default="")


def _matched(name: str, pattern: str) -> re.Match[str] | None:
    if "/" in name and "/" not in pattern:
        return None
    return _compiled(pattern).fullmatch(name)


@lru_cache(1000)
def _compiled(pattern: str) -> re.Pattern[str]:
    """A star takes as little as it can and does not give it back, so that many stars cost linear time each."""
    first, *rest = pattern.split(STAR)
    if not rest:
        return re.compile(re.escape(first))
    middle = "".join(f"(?>(.*?){re.escape(text)})" for text in rest[:-1])
    return re.compile(f"{re.escape(first)}{middle}(.*){re.escape(rest[-1])}", re.DOTALL)


def _carry_over(name: str, pattern: str, target: str) -> str:
    """The target with what the pattern's star stands for; several stars are filled in order."""
    found = _matched(name, pattern)
    if not is_pattern(target) or found is None:
        return target
    stars = list(found.groups())
    return "".join(
        piece if not number else f"{stars[min(number, len(stars)) - 1]}{piece}"
        for number, piece in enumerate(target.split(STAR))
    )
