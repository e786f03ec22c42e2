"""How far an estimate may be off, in tokens, before anybody has looked at how far such estimates were.

One spread from four sources: framing, text, tools and forms, files. `low` and `high` of a family say how many of them
hold 90% of the recorded requests that the numbers were not fitted to. Leans on `tally`.
"""

from __future__ import annotations

from math import hypot
from typing import TYPE_CHECKING

from penstock.tokens.tally import CALL, FORCED, FORMAT, MESSAGE, RESULT, SCHEMA, SHAPE, TEXT, TOOL, TOOLS

if TYPE_CHECKING:
    from penstock.tokens.tally import Tally

FRAME, EACH, WORDS, AROUND = 2.0, 0.5, 0.05, 0.08
"""Tokens of a prompt, tokens of a message, shares of text and of what stands around the messages."""
_AROUND = (TOOLS, TOOL, SCHEMA, FORCED, FORMAT, SHAPE)


def of_message(tally: Tally, constants: tuple[float, ...]) -> float:
    """Of one message. Those of several add up: text that counts high in one counts high in the next."""
    amounts = tally.amounts
    words = amounts[TEXT] * constants[TEXT] * WORDS
    return words + (amounts[MESSAGE] + amounts[CALL] + amounts[RESULT]) * EACH + tally.risk


def of_frame(tally: Tally, constants: tuple[float, ...]) -> float:
    """Of what stands around the messages."""
    return FRAME + AROUND * sum(tally.amounts[place] * constants[place] for place in _AROUND)


def together(frame: float, messages: float) -> float:
    """Of a whole prompt: the two have nothing to do with each other."""
    return hypot(frame, messages)
