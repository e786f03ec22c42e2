"""A traced stream as rows: each frame, the events it caused, what came out for each of those.

Leans on `Pipe.trace`. Knows nothing of how rows look.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.grammar import Guard

if TYPE_CHECKING:
    from penstock.framing import Frame
    from penstock.stage import Pipe


@dataclass
class Effect:
    """One event and the frames that left because of it. No event: what the end of the input made the encoder say."""

    event: Any = None
    outputs: list[Frame] = field(default_factory=list["Frame"])


@dataclass
class Row:
    """One frame and its effects. No frame: the end of the input."""

    number: int
    frame: Frame | None = None
    effects: list[Effect] = field(default_factory=list[Effect])


@dataclass
class Shown:
    """A hop that is worth showing: `kind` is frame, event or output; `cause` the number of the one it comes from."""

    kind: str
    cause: int | None
    item: Any


def follow(pipe: Pipe, data: bytes) -> list[Shown]:
    """Send the data through a bridge and keep what a reader wants to see of every hop.

    Events are taken as they leave the guard, outputs as they leave the encoder; copies in between are left out.
    """
    guard = next(place for place, stage in enumerate(pipe.stages, 1) if isinstance(stage, Guard))
    kinds = {1: "frame", guard: "event", len(pipe.stages) - 1: "output"}
    steps: list[Shown] = []
    shown: dict[int, int | None] = {}  # the number of a hop → that of the step it is or comes from
    for hop in pipe.trace([data]):
        cause = shown[hop.cause] if hop.cause is not None else None
        shown[hop.number] = cause
        if hop.stage in kinds:
            shown[hop.number] = len(steps)
            steps.append(Shown(kinds[hop.stage], cause, hop.item))
    return steps


def rows(steps: list[Shown]) -> list[Row]:
    """The steps as a table."""
    table: list[Row] = []
    end = Row(0)
    row_of: dict[int, Row] = {}
    effect_of: dict[int, Effect] = {}
    for number, step in enumerate(steps):
        if step.kind == "frame":
            row_of[number] = Row(len(table) + 1, step.item)
            table.append(row_of[number])
        elif step.kind == "event":
            effect_of[number] = Effect(step.item)
            (row_of[step.cause] if step.cause is not None else end).effects.append(effect_of[number])
        else:
            _output(step, row_of, effect_of, end).outputs.append(step.item)
    return [*table, end] if end.effects else table


def _output(step: Shown, row_of: dict[int, Row], effect_of: dict[int, Effect], end: Row) -> Effect:
    if step.cause in effect_of:
        return effect_of[step.cause]
    row = row_of.get(step.cause, end) if step.cause is not None else end
    row.effects.append(Effect())
    return row.effects[-1]
