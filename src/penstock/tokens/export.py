"""The counting factors of one model as a small JSON object, so that a thin client counts without asking.

docs/tokens.md describes the client's side step by step; a test runs it in another language and compares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock.tokens.classes import COUNTS
from penstock.tokens.model import FITTED, Media, Picture

if TYPE_CHECKING:
    from penstock.tokens.model import Family, Tables

VERSION = 1


class Factors(msgspec.Struct, frozen=True, kw_only=True):
    """`weights` go by the names of the counts, `constants` by the names of what is counted around text."""

    version: int = VERSION
    tables: str
    model: str
    provider: str
    family: str
    weights: dict[str, float]
    constants: dict[str, float]
    low: float
    high: float
    factor: float
    rendering: str
    media: Media
    picture: Picture

    def json(self) -> bytes:
        return msgspec.json.encode(self)


def factors(model: str, provider: str, family: Family, facts: Tables, factor: float) -> Factors:
    """What is known of a family, in the form that is sent."""
    constants = family.constants
    return Factors(
        tables=facts.version, model=model, provider=provider, family=family.name,
        weights=dict(zip(COUNTS, family.weights, strict=True)),
        constants={name: getattr(constants, name) for name in FITTED}, low=constants.low, high=constants.high,
        factor=round(factor, 4), rendering=family.rendering, media=family.media,
        picture=facts.pictures[family.media.picture],
    )  # fmt: skip
