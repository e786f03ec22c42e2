"""Stage and Pipe: a stage takes a batch and returns a batch; a pipe is a list of stages.

Does no IO: `feed` takes the input, `finish` ends it and is called once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock._diagnostics import Diagnostic

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

    def feed(self, items: Sequence[Any] | bytes, /) -> list[Any]:
        """Give a batch to the first stage and return what leaves the last. Bytes are a batch of one chunk."""
        batch: Sequence[Any] = [items] if isinstance(items, bytes) else items
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

        def visit(stage: int, cause: int | None, item: Any) -> int:
            hops.append(Hop(len(hops), stage, cause, item))
            return len(hops) - 1

        trace = PipeTrace(self.stages, visit)
        for item in items:
            trace.feed(item)
        trace.finish()
        return hops


class PipeTrace:
    """Traces a pipe: calls `visit(stage, cause, item)` for each item before it is fed to the next stage.

    What `visit` returns for an item is the `cause` of all that follows from it.
    """

    def __init__(self, stages: Sequence[Stage[Any, Any]], visit: Callable[[int, Any, Any], Any]) -> None:
        self._stages = stages
        self._visit = visit

    def feed(self, item: Any) -> None:
        """One item, through all stages."""
        self._follow(0, None, item)

    def finish(self, first: int = 0) -> None:
        """The end of input, at every stage from the first on: what it brings about has no cause."""
        for number, stage in enumerate(self._stages[first:], first + 1):
            for item in stage.finish():
                self._follow(number, None, item)

    def _follow(self, stage: int, cause: Any, item: Any) -> None:
        token = self._visit(stage, cause, item)
        if stage < len(self._stages):
            for made in self._stages[stage].feed([item]):
                self._follow(stage + 1, token, made)
