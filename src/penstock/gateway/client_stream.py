"""Upstream reads → what a client gets where its protocol is another: a translation of the events.

Fed (bytes, events) pairs; gives at most one chunk for each. Leans on `bridge` for the encoders; no IO. `passthrough` is
the other way, for a client that speaks the provider's protocol.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock import events as ev
from penstock import protocols
from penstock.bridge import encoding, write_body
from penstock.errors import BadAnswer
from penstock.events import Fault, Finish, Start
from penstock.framing import WRITERS, SseParser, SseWriter
from penstock.gateway import error_responses
from penstock.gateway.passthrough_frames import (
    FrameBuffer,
    UnredactableError,
    is_complete,
    is_error_frame,
    is_sound,
    is_unreadable_error,
    last_frame_end,
    redact_frame,
    remove_usage_frames,
    split_frames,
)
from penstock.pipeline import Pipe
from penstock.text_runs import ExpandRuns
from penstock.transforms.serialize import SerializeParts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engines.interface import Pair
    from penstock.engines.reply import Reply
    from penstock.events import AnyEvent
    from penstock.framing import Frame
    from penstock.gateway.endpoints import Asked
    from penstock.messages.context import Cleared
    from penstock.tracing import Verbatim


def tees(asked: Asked, reply: Reply) -> bool:
    """Whether the upstream's own bytes will do."""
    return asked.tee and reply.protocol == asked.protocol and reply.verbatim


def frames(asked: Asked) -> Pipe:
    """Events → the frames of the client's protocol."""
    if asked.encoder is not None:
        return Pipe(SerializeParts(), ExpandRuns(), asked.encoder())
    return encoding(asked.protocol, asked.options, frames=True)


def whole(asked: Asked, events: Sequence[AnyEvent], cleared: Cleared | None = None) -> bytes:
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


_NUMBER = re.compile(rb'"sequence_number": ?(\d+)')


def client_stream(asked: Asked, reply: Reply) -> Translation | Passthrough:
    """What makes the client's bytes of a streamed reply."""
    if tees(asked, reply) and reply.media.startswith("text/event-stream"):
        return Passthrough(asked, reply)
    return Translation(asked)


class Passthrough:
    """Fed (bytes, events) pairs; gives the bytes of whole frames. An unfinished frame waits, so that an error of the
    gateway never stands inside one. `withheld` counts the frames that the client did not get.

    The decoder counts frames that its strict reader refused, so that only their bytes are read a second time. Without
    a decoder every frame is.
    """

    __slots__ = (
        "_asked",
        "_buffer",
        "_decoder",
        "_irregular",
        "_last",
        "_over",
        "_protocol",
        "_reply",
        "_rewrites_errors",
        "_start",
        "_suspect",
        "_usage",
        "withheld",
    )

    def __init__(self, asked: Asked, reply: Reply | None = None) -> None:
        self._asked, self._reply = asked, reply
        self._protocol = protocols.protocol(asked.protocol)
        self._usage = asked.usage
        self._buffer = FrameBuffer()
        self._decoder = reply.decoder if reply is not None else None
        self._irregular = 0  # as `Decoder.irregular` at the last look
        self._suspect = False  # a frame that was counted there may still wait in the buffer
        self._rewrites_errors = asked.framing == "sse+json"  # its readers know different forms: the writer has all
        self._last = b""
        self._over = False  # an end was written: an error, or the last frame of the protocol
        self._start: AnyEvent | None = None
        self.withheld = 0

    def feed(self, pair: Pair) -> bytes:
        chunk, events = pair
        if events and self._start is None:
            self._start = events[0]
        if not chunk:
            return self._fail_once(events[-1]) if events and type(events[-1]) is Fault else b""
        data = self._buffer.take(chunk)
        if events and type(events[-1]) is Fault:
            return self._failed(data, events[-1])
        decoder = self._decoder
        if decoder is None:
            data = self._without_malformed(data)
        elif self._suspect or decoder.irregular != self._irregular:
            # Reads that the reply holds back were counted before the first of them came here: each is looked at.
            if self._reply is None or not self._reply.holding:
                self._irregular = decoder.irregular
            data = self._without_malformed(data)
        self._last = data or self._last
        if events and type(events[-1]) is Finish:
            data = self._ended(data)
        return self._without_usage(data)

    def fail(self, fault: Fault) -> bytes:
        """The fault in the protocol's error form, behind whatever the upstream has sent."""
        self._over = True
        pipe = frames(self._asked)
        begun = self._start if isinstance(self._start, Start) else Start()
        name = self._asked.protocol  # marks it as this protocol's own: the client was told its id
        pipe.feed([replace(begun, extra={name: {}, **(begun.extra or {})})])
        made: list[Frame] = [*pipe.feed([fault]), *pipe.finish()]
        self._buffer.clear()
        return b"".join(WRITERS[self._asked.framing]().feed(_numbered(made, self._last)))

    def finish(self) -> bytes:
        """An unfinished frame at the end of the stream, if nothing of it is missing but its blank line; and the last
        frame of the protocol, where the answer is complete but the provider let us wait too long for that frame.
        """
        found = split_frames(self._buffer.clear())  # blank lines may stand before it
        kept = [frame for frame in found if is_complete(frame) and not is_error_frame(frame)]  # errors: see `_ended`
        self.withheld += len(found) - len(kept)
        rest = b"".join(kept)
        if self._over or self._reply is None or not self._reply.end_frame_missing:
            return rest
        self._over = True
        if rest:  # what follows must not become part of it
            rest = rest.rstrip(b"\r\n") + b"\n\n"
        has_end = any(mark in rest for mark in self._protocol.end_marks)
        return rest if has_end else rest + self._protocol.end_frame

    # ── frames ────────────────────────────────────────────────────────────────────────────────────

    def _without_malformed(self, data: bytes) -> bytes:
        self._suspect = bool(self._buffer)
        found = split_frames(data)
        kept = [frame for frame in found if is_sound(frame)]
        self.withheld += len(found) - len(kept)
        return b"".join(kept) if len(kept) < len(found) else data

    def _without_usage(self, data: bytes) -> bytes:
        return data if self._usage else remove_usage_frames(data)

    def _ended(self, data: bytes) -> bytes:
        """The read in which the answer ends well. An error behind its last frame is withheld: the answer is complete,
        and in a later read that error would not have been seen.
        """
        end = last_frame_end(data, self._protocol.end_marks)
        if end == len(data) and b"error" not in data:
            return data
        found = split_frames(data[end:])
        kept = [frame for frame in found if not is_error_frame(frame)]
        self.withheld += len(found) - len(kept)
        answer = self._redacted(data[:end]) if b"error" in data else data[:end]
        return b"".join([answer, *kept])

    def _failed(self, data: bytes, fault: Fault) -> bytes:
        """The read that holds an error. If clients cannot read it as it is, it is written in the protocol's form, and
        what follows it is dropped: it might look like a normal end.
        """
        found = split_frames(data)
        place = next((place for place, frame in enumerate(found) if self._is_unreadable(frame)), len(found))
        sound = self._without_malformed(b"".join(found[:place]))
        self._last = sound or self._last
        made = self._without_usage(self._redacted(sound))
        if any(is_error_frame(frame) for frame in split_frames(made)):
            return made + self._redacted(self._without_malformed(b"".join(found[place:])))
        self.withheld += place < len(found) and not self._rewrites_errors
        return made + self.fail(fault)

    def _is_unreadable(self, frame: bytes) -> bool:
        """Whether clients of this protocol may overlook an error."""
        return is_unreadable_error(frame) or (self._rewrites_errors and is_error_frame(frame))

    def _fail_once(self, fault: Fault) -> bytes:
        """The fault of a stream that broke off; nothing where the upstream's own error was the last thing it sent."""
        last = split_frames(self._last)
        if last and is_error_frame(last[-1]):
            self._buffer.clear()
            return b""
        return self.fail(fault)

    def _redacted(self, data: bytes) -> bytes:
        """The frames with credentials removed from errors. An error that cannot be searched is withheld."""
        secrets = self._reply.secrets if self._reply is not None else ()
        made: list[bytes] = []
        for frame in split_frames(data):
            try:
                made.append(redact_frame(frame, secrets))
            except UnredactableError:
                self.withheld += 1
        return b"".join(made)


def _numbered(made: list[Frame], last: bytes) -> list[Frame]:
    """The frames numbered on from the last ones that went out, where frames have numbers."""
    seen = _NUMBER.findall(last)
    if not seen:
        return made
    first = int(seen[-1]) + 1
    return [
        (name, _NUMBER.sub(b'"sequence_number":%d' % (first + place), data)) for place, (name, data) in enumerate(made)
    ]


def way(asked: Asked, *, teed: bool, cleared: Cleared | None = None) -> tuple[Pipe, Verbatim | None]:
    """The stages behind the events, or what stands in their place."""
    if not asked.request.stream:
        return Pipe(Body(asked, cleared)), Same(asked) if teed else None
    return (Pipe(), Teed(asked)) if teed else (frames(asked), None)


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
        return [(b"", error_responses.body_of(self._protocol, fault))]


class Body:
    """A stage: the events of a turn as one body, with the event that ends it."""

    def __init__(self, asked: Asked, cleared: Cleared | None = None) -> None:
        self._asked, self._cleared = asked, cleared
        self._events: list[Any] = []

    def feed(self, events: Sequence[Any], /) -> list[Frame]:
        self._events += events
        last = self._events[-1] if self._events else None
        if isinstance(last, ev.Fault):
            return [(b"", error_responses.body_of(self._asked.protocol, last))]
        return [(b"", self._body())] if isinstance(last, ev.Finish) else []

    def _body(self) -> bytes:
        try:
            return whole(self._asked, self._events, self._cleared)
        except BadAnswer as error:
            return error_responses.body_of(self._asked.protocol, error.fault)

    def finish(self) -> list[Frame]:
        return []
