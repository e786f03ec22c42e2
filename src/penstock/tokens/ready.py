"""One provider's model, ready to count: its family's constants, its counter, and the factor learned so far.

Leans on `tally` for what there is to count and on `spread` for how far it may be off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.tokens import spread
from penstock.tokens.tally import HIDDEN, REASONING, TEXT, tokens, values

if TYPE_CHECKING:
    from penstock.request import Message, Request
    from penstock.tokens.model import Family
    from penstock.tokens.shelf import Count
    from penstock.tokens.tally import Counter

KEEPS = 50.0  # a family that pays so much for hidden reasoning reads it again


class Ready:
    """`salt` tells its counts from those of others; `exact` if its texts are counted by a real tokeniser."""

    __slots__ = ("constants", "counter", "factor", "family", "high", "low", "name", "salt")

    def __init__(self, name: str, family: Family, counter: Counter, salt: bytes, *, exact: bool) -> None:
        self.name = name
        self.family = family
        self.counter = counter
        self.salt = salt
        fitted = list(values(family.constants))
        if exact:
            fitted[TEXT] = 1.0  # the fitted scale mends what counting by classes gets wrong
        self.constants = tuple(fitted)
        self.low, self.high = family.constants.low, family.constants.high
        self.factor = 1.0

    def message(self, message: Message) -> Count:
        tally = self.counter.message(message)
        return tokens(tally, self.constants), spread.of_message(tally, self.constants)

    def thought(self, message: Message, reasoning: float) -> float:
        """What of a turn's reasoning is read again when the turn comes back."""
        amounts = self.counter.message(message).amounts
        if amounts[HIDDEN]:
            return reasoning if self.constants[HIDDEN] > KEEPS else 0.0
        return min(reasoning, amounts[REASONING] * self.constants[REASONING])

    def frame(self, request: Request) -> Count:
        tally = self.counter.frame(request)
        return tokens(tally, self.constants), spread.of_frame(tally, self.constants)
