"""A traced stream as rows: each frame, the events it caused, what came out for each of those.

Leans on `tracing` for the steps. Knows nothing of how rows look.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.framing import Frame
    from penstock.tracing import Step


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


def rows(steps: list[Step]) -> list[Row]:
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


def _output(step: Step, row_of: dict[int, Row], effect_of: dict[int, Effect], end: Row) -> Effect:
    if step.cause in effect_of:
        return effect_of[step.cause]
    row = row_of.get(step.cause, end) if step.cause is not None else end
    row.effects.append(Effect())
    return row.effects[-1]
