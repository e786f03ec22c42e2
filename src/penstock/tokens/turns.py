"""What a turn says about the prompt before it, and about itself as part of the next prompt.

Of a turn in several steps only the last step's input counts: the sum would count the prompt once for each step. What
earlier steps added is in it, so such a turn teaches no factor. Reasoning is apart, since it is seldom sent back. Leans
on the canonical `Turn` and `Usage`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.events import Usage
from penstock.fold import StreamUsage
from penstock.request import Call, Result, Turn
from penstock.tokens.keys import said

if TYPE_CHECKING:
    from collections.abc import Iterable


class Outcome(NamedTuple):
    """`inside`: the provider ran tools, and its figure is not that of the prompt. `steps`: the figure holds what
    earlier steps added. `output` is without reasoning.
    """

    input: int | None
    output: int | None = None
    reasoning: int = 0
    reply: bytes | None = None
    inside: bool = False
    steps: bool = False


def outcome(seen: Turn | Usage | int) -> Outcome:
    """What there is to be learned from what a provider reported."""
    if isinstance(seen, int):
        return Outcome(seen)
    if isinstance(seen, StreamUsage):
        return outcome(seen.turn) if seen.turn is not None else Outcome(None)
    if isinstance(seen, Usage):
        return Outcome(seen.input if seen.exact else None)
    usage = seen.usage
    if usage is None or not usage.exact or seen.fault is not None:
        return Outcome(None)
    last = seen.steps[-1] if seen.steps else usage
    parts = [part for part in seen.parts if not getattr(part, "choice", 0)]
    output = None if last.output is None else last.output - (last.reasoning or 0)
    return Outcome(last.input, output, last.reasoning or 0, said(parts), _inside(parts), len(seen.steps) > 1)


def _inside(parts: Iterable[Any]) -> bool:
    return any(isinstance(part, Call | Result) and part.by == "provider" for part in parts)
