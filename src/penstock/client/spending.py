"""What was used, by provider and model: every call is counted, each call's usage once, its last word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from penstock.engines.reply import Reply
    from penstock.events import Usage

_FIELDS = ("input", "output", "cached", "written", "reasoning")


class Spent(msgspec.Struct):
    """Tokens and calls. `unknown` are calls that nobody told the usage of; `broken` those that ended in a fault."""

    calls: int = 0
    unknown: int = 0
    broken: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    written: int = 0
    reasoning: int = 0


class Spending:
    """The book."""

    def __init__(self) -> None:
        self.by_model: dict[tuple[str, str], Spent] = {}

    def add(self, reply: Reply) -> None:
        """Count a reply that is over, or was left."""
        row = self.count(reply.provider, reply.model, reply.usage)
        if reply.end is None or hasattr(reply.end, "kind"):
            row.broken += 1

    def count(self, provider: str, model: str, usage: Usage | None) -> Spent:
        row = self.by_model.setdefault((provider, model), Spent())
        row.calls += 1
        if usage is None:
            row.unknown += 1
            return row
        for name in _FIELDS:
            setattr(row, name, getattr(row, name) + (getattr(usage, name) or 0))
        return row

    @property
    def total(self) -> Spent:
        made = Spent()
        for row in self.by_model.values():
            for name in Spent.__struct_fields__:
                setattr(made, name, getattr(made, name) + getattr(row, name))
        return made
