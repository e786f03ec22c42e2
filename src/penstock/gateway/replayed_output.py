"""What a client of the gateway got, made once more for a trace: the same stages as `gateway.writing` has.

Leans on that module for all of it. Nothing here writes to anybody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import events as ev
from penstock.errors import BadAnswer
from penstock.framing import SseParser, SseWriter
from penstock.gateway import refusing, writing
from penstock.gateway.passthrough import Passthrough
from penstock.stage import Pipe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.framing import Frame
    from penstock.gateway.doors.door import Asked
    from penstock.messages.context import Cleared
    from penstock.tracing import Verbatim


def way(asked: Asked, *, teed: bool, cleared: Cleared | None = None) -> tuple[Pipe, Verbatim | None]:
    """The stages behind the events, or what stands in their place."""
    if not asked.request.stream:
        return Pipe(Body(asked, cleared)), Same(asked) if teed else None
    return (Pipe(), Teed(asked)) if teed else (writing.frames(asked), None)


def refusal(asked: Asked) -> tuple[Pipe, Verbatim | None]:
    """The same where nobody answered: a body that says why."""
    return Pipe(Body(asked)), None


class Teed:
    """The upstream's own frames, as a `Passthrough` lets them through."""

    def __init__(self, asked: Asked) -> None:
        self._tee = Passthrough(asked)
        self._parser, self._writer = SseParser(), SseWriter()

    def frame(self, frame: Frame, events: Sequence[ev.AnyEvent], /) -> list[Frame]:
        data = self._tee.feed((b"".join(self._writer.feed([frame])), list(events)))
        return self._parser.feed([data]) if data else []

    def fail(self, fault: ev.Fault, /) -> list[Frame]:
        return self._parser.feed([self._tee.fail(fault)])


class Same:
    """A whole answer as it came."""

    def __init__(self, asked: Asked) -> None:
        self._protocol = asked.protocol

    def frame(self, frame: Frame, _: Sequence[ev.AnyEvent], /) -> list[Frame]:
        return [frame]

    def fail(self, fault: ev.Fault, /) -> list[Frame]:
        return [(b"", refusing.body_of(self._protocol, fault))]


class Body:
    """A stage: the events of a turn as one body, with the event that ends it."""

    def __init__(self, asked: Asked, cleared: Cleared | None = None) -> None:
        self._asked, self._cleared = asked, cleared
        self._events: list[Any] = []

    def feed(self, events: Sequence[Any], /) -> list[Frame]:
        self._events += events
        last = self._events[-1] if self._events else None
        if isinstance(last, ev.Fault):
            return [(b"", refusing.body_of(self._asked.protocol, last))]
        return [(b"", self._body())] if isinstance(last, ev.Finish) else []

    def _body(self) -> bytes:
        try:
            return writing.whole(self._asked, self._events, self._cleared)
        except BadAnswer as error:
            return refusing.body_of(self._asked.protocol, error.fault)

    def finish(self) -> list[Frame]:
        return []
