"""Stage and Pipe: a stage takes a batch and returns a batch; a pipe is a list of stages.

Does no IO: `feed` takes the input, `finish` ends it and is called once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import typing_extensions

    from penstock._diagnostics import Diagnostic

    PipeIn = typing_extensions.TypeVar("PipeIn", default=Any)
    PipeOut = typing_extensions.TypeVar("PipeOut", default=Any)
else:  # defaults of type variables come with Python 3.13; only type checkers need them
    PipeIn, PipeOut = TypeVar("PipeIn"), TypeVar("PipeOut")

In = TypeVar("In", contravariant=True)
Out = TypeVar("Out")


class Stage(Protocol[In, Out]):
    """Anything that converts batches to batches."""

    def feed(self, items: Sequence[In], /) -> list[Out]: ...

    def finish(self) -> list[Out]: ...


class Hop(NamedTuple):
    """One item as it left a stage. `stage` 0 is the input; `cause` is the number of the hop that it follows from.

    At stages after 0 a `cause` of None means the end of input.
    """

    number: int
    stage: int
    cause: int | None
    item: Any


class Pipe(Generic[PipeIn, PipeOut]):
    r"""A sequence of stages, which is a stage, too. A bridge is a `Pipe[bytes, bytes]`.

    Examples:
        >>> import penstock
        >>> from penstock.framing import SseParser
        >>> pipe = Pipe(SseParser(), penstock.decoder("openai-chat"))
        >>> [type(event).__name__ for event in pipe.feed(b'data: {"choices":[{"delta":{"content":"Hi"}}]}\n\n')]
        ['Start', 'TextStart', 'TextDelta']
        >>> [type(event).__name__ for event in pipe.finish()]  # the answer is not complete
        ['TextEnd', 'Fault']
    """

    def __init__(self, *stages: Stage[Any, Any]) -> None:
        self.stages: tuple[Stage[Any, Any], ...] = stages

    def feed(self, items: Sequence[PipeIn] | bytes, /) -> list[PipeOut]:
        """Feeds a batch through all stages. Bytes are a batch of one chunk."""
        batch: Sequence[Any] = items
        if isinstance(items, bytes | bytearray | memoryview):
            batch = [bytes(items)]
        elif isinstance(items, str):
            raise InputError("feed: expected bytes, found str; call .encode() on the text")
        for stage in self.stages:
            batch = stage.feed(batch)
            if not batch:
                return []
        return batch if isinstance(batch, list) else list(batch)

    def finish(self) -> list[PipeOut]:
        """Finishes every stage, from first to last."""
        tail: list[Any] = []
        for stage in self.stages:
            tail = [*(stage.feed(tail) if tail else ()), *stage.finish()]
        return tail

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """The diagnostics of all stages so far."""
        return [row for stage in self.stages for row in getattr(stage, "diagnostics", ())]

    def trace(self, items: Iterable[Any]) -> list[Hop]:
        """Feeds items one by one and returns a hop for each item at each stage, with its cause."""
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
        """Feeds one item through all stages."""
        self._follow(0, None, item)

    def finish(self, first: int = 0) -> None:
        """Ends the input at every stage, beginning with `first`. What follows has no cause."""
        for number, stage in enumerate(self._stages[first:], first + 1):
            for item in stage.finish():
                self._follow(number, None, item)

    def _follow(self, stage: int, cause: Any, item: Any) -> None:
        token = self._visit(stage, cause, item)
        if stage < len(self._stages):
            for made in self._stages[stage].feed([item]):
                self._follow(stage + 1, token, made)
