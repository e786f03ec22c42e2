"""Passthrough: the upstream's own frames, for a client that speaks the same protocol.

Bytes change in few places. A frame whose data is neither JSON nor `[DONE]`, half a frame at the end of the stream,
and an error behind a complete answer are withheld and counted. In an error frame a credential is replaced by a mark.
An error of Gemini is written in the two forms that its clients read, with its own content.
All other bytes pass as they came: comments, pings, empty frames, line ends. (Beside that, a chunk of usage that the
client did not ask for is left out, because the gateway itself asked for it. And where a provider has said how its
answer ends, but sends no last frame and does not close, the gateway stops waiting and writes that frame.)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from penstock import protocols
from penstock.events import Fault, Finish, Start
from penstock.framing import WRITERS
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
from penstock.gateway.writing import Translation, frames, tees

if TYPE_CHECKING:
    from penstock.engines.interface import Pair
    from penstock.engines.reply import Reply
    from penstock.events import AnyEvent
    from penstock.framing import Frame
    from penstock.gateway.doors.door import Asked

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
