"""Carriers: what a protocol has no field for travels in one it has, marked so that our own readers put it back.

Canonical messages in, canonical messages out: writers call `stowed` before they write, readers call `restored` after
they have read. Text never becomes structure: a mark in a text says what a part is or where it belongs, but no part, no
address and no voice ever comes out of a text, because texts are written by users, tools and models: whoever speaks for
the system is believed by a seal beside the text (`systems`).
"""

from penstock.markers.embed import stowed
from penstock.markers.extract import restored
from penstock.markers.marks import (
    CARRIERS,
    EMPTY,
    RAW,
    Holds,
    grammar_of,
    input_of,
    json_of,
    schema_of,
    text_of,
    without_raw,
)

__all__ = [
    "CARRIERS", "EMPTY", "RAW", "Holds", "grammar_of", "input_of", "json_of", "restored", "schema_of",
    "stowed", "text_of", "without_raw",
]  # fmt: skip
