"""Upstream reads → what a client gets: a translation of the events, or the upstream's own bytes where both speak alike.

Both are fed (bytes, events) pairs and give at most one chunk for each. Leans on `bridge` for the encoders; no IO.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import protocols
from penstock.bridge import encoding
from penstock.codec import NO_MORE, Encoder
from penstock.engines.express import Run
from penstock.events import Fault, Start, TextDelta
from penstock.framing import WRITERS
from penstock.shaping.sequence import Sequence
from penstock.stage import Pipe

if TYPE_CHECKING:
    from collections.abc import Sequence as Several

    from penstock.engines.express import Lane
    from penstock.engines.job import Pair
    from penstock.engines.reply import Reply
    from penstock.events import AnyEvent
    from penstock.framing import Frame
    from penstock.gateway.doors.door import Asked
    from penstock.messages.context import Cleared

ALIKE = frozenset({"sse", "ndjson"})  # framings that write every frame in the same way
_MARK = b"\x00"  # stands in no frame
HELD = 2**20  # bytes of an unfinished frame that are held back at most
_USAGE = re.compile(rb"(?m)^data: ?(\{[^\n]*?\"choices\": ?\[\][^\n]*)\r?\n\r?\n")
_NUMBER = re.compile(rb'"sequence_number": ?(\d+)')


def way(asked: Asked, reply: Reply) -> Translation | Tee:
    """The one or the other."""
    return Tee(asked) if tees(asked, reply) and reply.media.startswith("text/event-stream") else Translation(asked)


def tees(asked: Asked, reply: Reply) -> bool:
    """Whether the upstream's own bytes will do."""
    return asked.tee and reply.protocol == asked.protocol and reply.verbatim


def frames(asked: Asked) -> Pipe:
    """Events → the frames of the client's protocol."""
    if asked.encoder is not None:
        return Pipe(Sequence(), asked.encoder())
    return encoding(asked.protocol, asked.options, frames=True)


def whole(asked: Asked, events: Several[AnyEvent], cleared: Cleared | None = None) -> bytes:
    """A turn as one body of the client's protocol."""
    pipe = frames(asked)
    made: list[Frame] = [*pipe.feed(events), *pipe.finish()]
    if cleared is not None and asked.notice is not None:
        made.insert(0, (b"", asked.notice(cleared)))
    body = asked.body or protocols.protocol(asked.protocol).body
    return body(made) if body is not None else b"".join(data for _, data in made)


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


class Tee:
    """The upstream's frames as they are. One that has not come whole waits, so that an error never stands inside it."""

    __slots__ = ("_asked", "_last", "_rest", "_start", "_usage")

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._usage = asked.usage
        self._rest = self._last = b""
        self._start: AnyEvent | None = None

    def feed(self, pair: Pair) -> bytes:
        chunk, events = pair
        if events and self._start is None:
            self._start = events[0]
        if not chunk:
            return self.fail(events[-1]) if events and type(events[-1]) is Fault else b""
        if self._rest:
            chunk = self._rest + chunk
            self._rest = b""
        if chunk[-2:] != b"\n\n":
            chunk = self._cut(chunk)
        self._last = chunk or self._last
        if self._usage or not (b'"choices":[]' in chunk or b'"choices": []' in chunk):
            return chunk
        return _USAGE.sub(_kept, chunk)

    def alike(self, lane: Lane) -> tuple[bytes, bytes] | None:
        """As `Translation.alike`: the frames are what they were."""
        return None if self._rest else (lane.head, lane.tail)

    def _cut(self, chunk: bytes) -> bytes:
        at = max(chunk.rfind(b"\n\n") + 2, chunk.rfind(b"\r\n\r\n") + 4, chunk.rfind(b"\r\r") + 2)
        if at < 4 and len(chunk) < HELD:  # noqa: PLR2004 — not found, three times
            at = 0
        elif at < 4:  # noqa: PLR2004
            at = len(chunk)
        self._rest = chunk[at:]
        return chunk[:at]

    def fail(self, fault: Fault) -> bytes:
        """The fault in the protocol's own words, behind whatever the upstream has said."""
        pipe = frames(self._asked)
        begun = self._start if isinstance(self._start, Start) else Start()
        pipe.feed([begun])
        made: list[Frame] = [*pipe.feed([fault]), *pipe.finish()]
        self._rest = b""
        return b"".join(WRITERS[self._asked.framing]().feed(_numbered(made, self._last)))

    def finish(self) -> bytes:
        rest, self._rest = self._rest, b""
        return rest


def _kept(found: re.Match[bytes]) -> bytes:
    """Nothing in place of a chunk that only tells the usage; any other without a choice stays."""
    try:
        value: Any = msgspec.json.decode(found[1])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return found[0]
    return b"" if value.get("choices") == [] and value.get("usage") else found[0]


def _numbered(made: list[Frame], last: bytes) -> list[Frame]:
    """The frames numbered on from the last ones that went out, where frames have numbers."""
    seen = _NUMBER.findall(last)
    if not seen:
        return made
    first = int(seen[-1]) + 1
    return [
        (name, _NUMBER.sub(b'"sequence_number":%d' % (first + place), data)) for place, (name, data) in enumerate(made)
    ]
