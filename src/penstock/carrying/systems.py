"""System messages inside a conversation where only the user and the model may speak: the user says them.

Marks in parts of their own stand before and behind the message's parts. A user who writes one part of text, which is
all that most can do, cannot imitate them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import request as rq
from penstock.carrying.marks import SYSTEM

if TYPE_CHECKING:
    from collections.abc import Sequence


def said_by_user(parts: Sequence[rq.AnyPart]) -> list[rq.AnyPart]:
    """The parts of a system message, between its marks."""
    return [rq.Text(SYSTEM[0]), *parts, rq.Text(SYSTEM[1])]


def told_apart(parts: list[rq.AnyPart]) -> list[tuple[rq.Role, list[rq.AnyPart]]]:
    """What the user says, and what the system said between marks; all of it the user's where there are none."""
    if not any(_is(part, SYSTEM[0]) for part in parts):
        return [("user", parts)]
    rows: list[tuple[rq.Role, list[rq.AnyPart]]] = []
    start = place = 0
    while place < len(parts):
        end = _end(parts, place) if _is(parts[place], SYSTEM[0]) else 0
        if end:
            if start < place:
                rows.append(("user", parts[start:place]))
            rows.append(("system", parts[place + 1 : end]))
            start = place = end + 1
        else:
            place += 1
    return [*rows, ("user", parts[start:])] if start < len(parts) or not rows else rows


def _end(parts: list[rq.AnyPart], start: int) -> int:
    """The place of the mark that ends what begins at another; 0 if there is none."""
    return next((place for place in range(start + 1, len(parts)) if _is(parts[place], SYSTEM[1])), 0)


def _is(part: rq.AnyPart, mark: str) -> bool:
    return type(part) is rq.Text and part.text == mark and part.extra is None
