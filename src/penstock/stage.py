"""Stage and Pipe: a stage is fed a batch and gives back a batch; a pipe is stages in a row.

Leans on nothing. Does no IO: bytes come in by `feed`, the end of input is `finish`, called once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.diagnostics import Diagnostic

In = TypeVar("In", contravariant=True)
Out = TypeVar("Out")


class Stage(Protocol[In, Out]):
    """Anything that turns batches into batches."""

    def feed(self, items: Sequence[In], /) -> list[Out]: ...

    def finish(self) -> list[Out]: ...


class Hop(NamedTuple):
    """One item as it left a stage: `stage` 0 is what was fed in, `cause` the number of the hop it came from.

    What the end of input brings about has no cause but the end: its `cause` is None at stages after 0.
    """

    number: int
    stage: int
    cause: int | None
    item: Any


class Pipe:
    """Stages in a row, itself a stage."""

    def __init__(self, *stages: Stage[Any, Any]) -> None:
        self.stages = stages

    def feed(self, items: Sequence[Any], /) -> list[Any]:
        """Give a batch to the first stage and return what leaves the last."""
        batch: Sequence[Any] = items
        for stage in self.stages:
            batch = stage.feed(batch)
            if not batch:
                return []
        return batch if isinstance(batch, list) else list(batch)

    def finish(self) -> list[Any]:
        """Tell every stage, front to back, that its input has ended."""
        tail: list[Any] = []
        for stage in self.stages:
            tail = [*(stage.feed(tail) if tail else ()), *stage.finish()]
        return tail

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """What all stages have found so far."""
        return [row for stage in self.stages for row in getattr(stage, "diagnostics", ())]

    def trace(self, items: Iterable[Any]) -> list[Hop]:
        """Feed items one by one to the end and tell which caused which, at every stage."""
        hops: list[Hop] = []
        for item in items:
            self._follow(hops, 0, None, item)
        for number, stage in enumerate(self.stages, 1):
            for item in stage.finish():
                self._follow(hops, number, None, item)
        return hops

    def _follow(self, hops: list[Hop], stage: int, cause: int | None, item: Any) -> None:
        number = len(hops)
        hops.append(Hop(number, stage, cause, item))
        if stage < len(self.stages):
            for made in self.stages[stage].feed([item]):
                self._follow(hops, stage + 1, number, made)
