"""One factor for each provider and model, learned from what providers reported: a bounded exponential average.

A single odd sample moves it by a few percent at most, whatever it says. Pure: a factor in, a factor out; where it is
kept is the store's business.
"""

from __future__ import annotations

import msgspec

LEAST, MOST = 0.5, 2.0
LEAP = 0.25  # no sample is believed to be further off than this
SLOW = 0.15  # the weight of a sample once there are many
SOLID = 150.0  # a prompt of fewer tokens says less


class Factor(msgspec.Struct, frozen=True):
    """Actual by estimated, and from how many turns that is known."""

    value: float = 1.0
    turns: int = 0


def learned(factor: Factor, estimated: float, actual: float) -> Factor:
    """The factor after one more turn."""
    if estimated <= 0 or actual <= 0:
        return factor
    now = factor.value
    seen = min(max(actual / estimated, now * (1 - LEAP)), now * (1 + LEAP))
    weight = max(SLOW, 1 / (factor.turns + 2)) * min(1.0, estimated / SOLID)
    return Factor(min(max(now + weight * (seen - now), LEAST), MOST), factor.turns + 1)


def read(data: bytes | None) -> Factor:
    """A stored factor; what cannot be read, or is out of bounds, has not been learned by this version."""
    try:
        found = msgspec.json.decode(data or b"{}", type=Factor)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Factor()
    return found if LEAST <= found.value <= MOST else Factor()


def written(factor: Factor) -> bytes:
    """A factor as a store keeps it."""
    return msgspec.json.encode(factor)
