"""What a turn says about the prompt before it, and about itself as part of the next prompt.

Of a turn in several steps the first step's input is the prompt as it was asked; what the steps added belongs to the
reply. Reasoning is apart, since it is seldom sent back. Leans on the canonical `Turn` and `Usage`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.events import Usage
from penstock.request import Call, Result, Turn
from penstock.tokens.keys import said

if TYPE_CHECKING:
    from collections.abc import Iterable


class Outcome(NamedTuple):
    """`inside`: the provider ran tools, and its figure is not that of the prompt. `output` is without reasoning."""

    input: int | None
    output: int | None = None
    reasoning: int = 0
    reply: bytes | None = None
    inside: bool = False


def outcome(seen: Turn | Usage | int) -> Outcome:
    """What there is to be learned from what a provider reported."""
    if isinstance(seen, int):
        return Outcome(seen)
    if isinstance(seen, Usage):
        return Outcome(seen.input if seen.exact else None)
    usage = seen.usage
    if usage is None or not usage.exact or seen.fault is not None:
        return Outcome(None)
    first, last = (seen.steps[0], seen.steps[-1]) if seen.steps else (usage, usage)
    parts = [part for part in seen.parts if not getattr(part, "choice", 0)]
    return Outcome(first.input, _sent_back(first, last), last.reasoning or 0, said(parts), _inside(parts))


def _sent_back(first: Usage, last: Usage) -> int | None:
    if last.output is None or first.input is None or last.input is None:
        return None
    return last.input - first.input + last.output - (last.reasoning or 0)


def _inside(parts: Iterable[Any]) -> bool:
    return any(isinstance(part, Call | Result) and part.by == "provider" for part in parts)
