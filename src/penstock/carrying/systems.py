"""System messages inside a conversation where only the user and the model may speak: the user says them.

Marks in parts of their own stand before and behind the message's parts, for the model to see. They give nobody a voice:
whoever can write text can write marks. A message becomes the system's again only where the marks are sealed, which is
a field beside the text that a protocol may have (`seal`); whoever can set it could have set the system prompt too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import request as rq
from penstock.carrying.marks import SYSTEM

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.events import Extra


def said_by_user(parts: Sequence[rq.AnyPart], seal: Extra | None = None) -> list[rq.AnyPart]:
    """The parts of a system message, between its marks."""
    return [rq.Text(SYSTEM[0], extra=seal), *parts, rq.Text(SYSTEM[1], extra=seal)]


def told_apart(parts: list[rq.AnyPart], seal: Extra) -> list[tuple[rq.Role, list[rq.AnyPart]]]:
    """What the user says, and what the system said between sealed marks; all of it the user's where there are none."""
    rows: list[tuple[rq.Role, list[rq.AnyPart]]] = []
    start = 0
    opened: int | None = None
    for place, part in enumerate(parts):
        mark = part.text if type(part) is rq.Text and part.extra == seal else ""
        if mark == SYSTEM[0] and opened is None:
            opened = place
        elif mark == SYSTEM[1] and opened is not None:
            if start < opened:
                rows.append(("user", parts[start:opened]))
            rows.append(("system", parts[opened + 1 : place]))
            start, opened = place + 1, None
    return [*rows, ("user", parts[start:])] if start < len(parts) or not rows else rows
