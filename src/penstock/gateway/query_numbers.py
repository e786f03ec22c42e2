"""Numbers in a query string. Every route that takes one reads it here: finite, in range, or a 400 that names it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

LARGEST = 2**53 - 1  # that every JSON reader takes
END_OF_TIME = 253_402_300_800.0  # seconds since the epoch: the year 10000
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})(?:[eE][+-]?[0-9]{1,3})?")
_SHOWN = 40  # characters of a value that an error quotes


class BadQuery(BadRequest):
    """A parameter of the query is not what it must be."""

    def __init__(self, name: str, expected: str, found: str) -> None:
        super().__init__(expected, found, name)
        self.found = repr(found[:_SHOWN])


def whole_number(
    query: Mapping[str, str], name: str, default: int, *, least: int = 0, most: int = LARGEST
) -> int:  # fmt: skip
    """A whole number from `least` to `most`; the default where there is none."""
    said = query.get(name, "")
    if not said:
        return default
    value = int(said) if _WHOLE.fullmatch(said) else None
    if value is None or not least <= value <= most:
        raise BadQuery(name, f"a whole number from {least} to {most}", said)
    return value


def decimal_number(query: Mapping[str, str], name: str, default: float, *, most: float = END_OF_TIME) -> float:
    """A finite number from 0 to `most`; the default where there is none."""
    said = query.get(name, "")
    if not said:
        return default
    value = float(said) if _DECIMAL.fullmatch(said) else -1.0
    if not 0 <= value <= most:
        raise BadQuery(name, f"a number from 0 to {most:.0f}", said)
    return value
