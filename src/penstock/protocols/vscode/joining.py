"""Results and what stands beside them: one message of the host's, two of ours, and one again. Knows nothing of parts.

Units are what one element of the host's content became. The second message notes at which of them it stood.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import request as rq
from penstock.protocols.vscode.settings import NAME
from penstock.reading import keep
from penstock.writing import split

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.pick import Object


def apart(message: rq.Message, units: list[list[rq.AnyPart]]) -> list[rq.Message]:
    """The message with these units, and behind it what goes into one of its own."""
    results = [place for place, unit in enumerate(units) if type(unit[0]) is rq.Result]
    if not results:
        message.parts = [part for unit in units for part in unit]
        return [message]
    others = [place for place in range(len(units)) if place not in results]
    # results stand before what else a user says, and behind what an assistant says
    rows: list[tuple[rq.Role, list[int]]] = [("tool", results), (message.role, others)]
    if message.role == "assistant":
        rows.reverse()
    made = [rq.Message(role, [part for place in row for part in units[place]]) for role, row in rows if row]
    own, marks = split(message.extra, NAME)
    if not others and message.role != "user":
        marks = {**marks, "whose": message.role}
    made[0].extra, made[0].name = keep(NAME, own, **marks), message.name
    if len(made) > 1:
        made[1].extra = keep(NAME, {}, joined=rows[1][1])
    return made


def together(first: list[list[Object]], second: list[list[Object]], places: Any) -> list[list[Object]]:
    """The elements of two messages as those of one."""
    if not isinstance(places, list):
        return [*first, *second]
    made = list(first)
    for place, unit in zip(places, second, strict=False):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        made.insert(place, unit)  # pyright: ignore[reportUnknownArgumentType]
    return [*made, *second[len(places) :]]  # pyright: ignore[reportUnknownArgumentType]


def flat(units: Iterable[Iterable[Object]], host: Sequence[list[Any]]) -> list[Object]:
    """The content of a message, with what is the host's at its places."""
    made = [element for unit in units for element in unit]
    for place, part in host:
        made.insert(place, part)
    return made
