"""Upstream reads → what a client gets where its protocol is another: a translation of the events.

Fed (bytes, events) pairs; gives at most one chunk for each. Leans on `bridge` for the encoders; no IO. `passthrough` is
the other way, for a client that speaks the provider's protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import protocols
from penstock.bridge import encoding
from penstock.events import Fault, Start
from penstock.framing import WRITERS
from penstock.shaping.sequence import Sequence
from penstock.stage import Pipe
from penstock.text_runs import ExpandRuns
from penstock.whole_body import write_body

if TYPE_CHECKING:
    from collections.abc import Sequence as Several

    from penstock.engines.interface import Pair
    from penstock.engines.reply import Reply
    from penstock.events import AnyEvent
    from penstock.framing import Frame
    from penstock.gateway.doors.door import Asked
    from penstock.messages.context import Cleared


def tees(asked: Asked, reply: Reply) -> bool:
    """Whether the upstream's own bytes will do."""
    return asked.tee and reply.protocol == asked.protocol and reply.verbatim


def frames(asked: Asked) -> Pipe:
    """Events → the frames of the client's protocol."""
    if asked.encoder is not None:
        return Pipe(Sequence(), ExpandRuns(), asked.encoder())
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

    __slots__ = ("_begun", "_feed", "_pipe")

    def __init__(self, asked: Asked) -> None:
        self._pipe = Pipe(*frames(asked).stages, WRITERS[asked.framing]())
        self._feed = self._pipe.feed
        self._begun = False

    def feed(self, pair: Pair) -> bytes:
        events = pair[1]
        if not events:
            return b""
        self._begun = True
        made = self._feed(events)
        return made[0] if len(made) == 1 else b"".join(made)

    def fail(self, fault: Fault) -> bytes:
        """The end of a turn that nobody ended."""
        return self.feed((b"", [fault] if self._begun else [Start(), fault]))

    def finish(self) -> bytes:
        return b"".join(self._pipe.finish())
