"""Writing requests: what every protocol's writer shares. A `Draft` is a body with what could not be said in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from penstock.diagnostics import Diagnostics

if TYPE_CHECKING:
    from penstock.events import Extra
    from penstock.pick import Object

Losses: TypeAlias = Mapping[str, str]  # what a protocol cannot express → what happens instead
EFFORTS: tuple[tuple[int, str], ...] = ((0, "none"), (1024, "minimal"), (4096, "low"), (16384, "medium"))
BUDGETS: Mapping[str, int] = {
    "none": 0, "minimal": 1024, "low": 4096, "medium": 10240, "high": 24576, "xhigh": 32768, "max": 65536,
}  # fmt: skip


class Draft:
    """A request body and its diagnostics. A loss is a row of the protocol's LOSSES, or it cannot be reported."""

    protocol: ClassVar[str]
    losses: ClassVar[Losses]

    def __init__(self) -> None:
        self.body: Object = {}
        self.diagnostics = Diagnostics(f"{self.protocol} request")

    def lose(self, what: str) -> None:
        """Say that something did not fit, and what was done instead."""
        self.diagnostics.add(f"loss-{what}", f"{self.protocol}: {self.losses[what]}")


def split(extra: Extra | None, protocol: str) -> tuple[Object, Object]:
    """A protocol's own extra fields, and its marks of how things were spelled."""
    own = (extra or {}).get(protocol)
    if not own:
        return {}, {}
    if "_" not in own:
        return own, {}
    return {key: value for key, value in own.items() if key != "_"}, own["_"]


def said(**fields: Any) -> Object:
    """The fields that say something: not None, not empty."""
    return {key: value for key, value in fields.items() if value not in (None, "", [], {})}


def effort_of(budget: int) -> str:
    """The effort that a budget of reasoning tokens amounts to."""
    return next((word for limit, word in EFFORTS if budget <= limit), "high")


def budget_of(effort: str) -> int:
    """The budget of reasoning tokens that an effort amounts to."""
    return BUDGETS.get(effort, BUDGETS["medium"])
