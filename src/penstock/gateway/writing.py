"""Upstream reads → what a client gets where its protocol is another: a translation of the events.

Fed (bytes, events) pairs; gives at most one chunk for each. Leans on `bridge` for the encoders; no IO. `passthrough` is
the other way, for a client that speaks the provider's protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import protocols
from penstock.bridge import encoding
from penstock.codec import NO_MORE, Encoder
from penstock.engines.express import Run
from penstock.events import Fault, Start, TextDelta
from penstock.framing import WRITERS
from penstock.shaping.sequence import Sequence
from penstock.stage import Pipe
from penstock.whole_body import write_body

if TYPE_CHECKING:
    from collections.abc import Sequence as Several

    from penstock.engines.express import Lane
    from penstock.engines.job import Pair
    from penstock.engines.reply import Reply
    from penstock.events import AnyEvent
    from penstock.framing import Frame
    from penstock.gateway.doors.door import Asked
    from penstock.messages.context import Cleared

ALIKE = frozenset({"sse", "sse+json", "ndjson"})  # framings that write every text frame in the same way
_MARK = b"\x00"  # stands in no frame


def tees(asked: Asked, reply: Reply) -> bool:
    """Whether the upstream's own bytes will do."""
    return asked.tee and reply.protocol == asked.protocol and reply.verbatim


def frames(asked: Asked) -> Pipe:
    """Events → the frames of the client's protocol."""
    if asked.encoder is not None:
        return Pipe(Sequence(), asked.encoder())
    return encoding(asked.protocol, asked.options, frames=True)


def whole(asked: Asked, events: Several[AnyEvent], cleared: Cleared | None = None) -> bytes:
    """A turn as one body of the client's protocol. Raises `BadAnswer` if it cannot be written as one."""
    pipe = frames(asked)
    made: list[Frame] = [*pipe.feed(events), *pipe.finish()]
    if cleared is not None and asked.notice is not None:
        made.insert(0, (b"", asked.notice(cleared)))
    body = asked.body or protocols.protocol(asked.protocol).body
    return write_body(body, made) if body is not None else b"".join(data for _, data in made)


class Translation:
    """Events → the client's bytes."""

    __slots__ = ("_begun", "_encoder", "_feed", "_frame", "_more", "_order", "_pipe", "_plain", "_write")

    def __init__(self, asked: Asked) -> None:
        stages, writer = frames(asked).stages, WRITERS[asked.framing]()
        self._pipe = Pipe(*stages, writer)
        self._feed, self._write = self._pipe.feed, writer.feed
        self._begun = False
        encoder: Any
        *order, encoder = stages
        plain = isinstance(encoder, Encoder) and type(encoder).feed is Encoder.feed
        self._encoder: Encoder | None = encoder if plain and all(type(one) is Sequence for one in order) else None
        self._order: Any = order[0] if order else None
        self._more = NO_MORE
        self._plain = asked.framing in ALIKE
        self._frame = (b"", b"")  # what stands before the words of a frame and behind them

    def feed(self, pair: Pair) -> bytes:
        events = pair[1]
        if not events:
            return b""
        event = events[0]
        if len(events) == 1 and type(event) is TextDelta and self._encoder is not None:
            # Nine reads in ten are one more word of an open text: no stage has more to do than write it.
            frame = self._encoder.word(event)
            if frame is not None and (self._order is None or self._order.passing(TextDelta, event.index)):
                return self._write([frame])[0]
        self._begun = True
        made = self._feed(events) if Run not in map(type, events) else self._mixed(events)
        return made[0] if len(made) == 1 else b"".join(made)

    def _mixed(self, events: list[Any]) -> list[bytes]:
        """What is made of events with runs among them."""
        made: list[bytes] = []
        others: list[Any] = []
        for event in events:
            if type(event) is not Run:
                others.append(event)
                continue
            made += self._feed(others)
            others = []
            made += self._run(event)
        return made + self._feed(others)

    def _run(self, run: Run) -> list[bytes]:
        """Frames that differ in their words alone are written by one join."""
        frame = self.alike(run)
        if frame is None:
            return self._feed(run.events())
        before, behind = frame
        return [b"%b%b%b" % (before, (behind + before).join(run.words), behind)]

    def alike(self, run: Run | Lane) -> tuple[bytes, bytes] | None:
        """What stands before the words of every frame of a run, and behind them; None where they differ in more."""
        encoder = self._encoder
        if encoder is None or encoder.more[0] != run.index or run.kind is not TextDelta or not self._plain:
            return None
        if self._order is not None and not self._order.passing(TextDelta, run.index):
            return None
        if encoder.more is not self._more:
            self._more = encoder.more
            _, name, line = encoder.more
            before, _, behind = self._write([(name, line % _MARK)])[0].partition(_MARK)
            self._frame = (before + b'"', b'"' + behind)
        return self._frame

    def fail(self, fault: Fault) -> bytes:
        """The end of a turn that nobody ended."""
        return self.feed((b"", [fault] if self._begun else [Start(), fault]))

    def finish(self) -> bytes:
        return b"".join(self._pipe.finish())
