"""Writes the client's stream from the provider's reads: translated (`Translation`) or unchanged (`Passthrough`).

Both are fed (bytes, events) pairs and return at most one chunk for each. No IO.

Passthrough is for a client that speaks the provider's protocol. It changes bytes in few places. A frame whose data is
neither JSON nor `[DONE]`, half a frame at the end of the stream, and an error after a complete answer are withheld and
counted. In an error frame a credential is replaced by a mark. An error of Gemini is written in the two forms that its
clients read. All other bytes pass as they came: comments, pings, empty frames, line ends. A usage chunk that only the
gateway asked for is left out. If a provider has finished its answer but sends no last frame and does not close, the
gateway stops waiting and writes that frame.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from penstock import _protocols as protocols
from penstock import events as ev
from penstock._bridge import encoding, write_body
from penstock._framing import WRITERS
from penstock._framing.sse import SseParser, SseWriter
from penstock._gateway import error_responses
from penstock._gateway import passthrough_frames as sse
from penstock._pipeline import Pipe
from penstock._text_runs import ExpandRuns
from penstock._transforms.serialize import SerializeParts
from penstock.errors import BadAnswer
from penstock.events import AnyEvent, Fault, Finish, Start

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._engines.engine_interface import ChunkEvents
    from penstock._engines.reply import ModelReply
    from penstock._framing.base import Frame
    from penstock._gateway.endpoints import TurnRequest
    from penstock._messages.context_trimming import Cleared
    from penstock._stream_trace import Verbatim


def can_pass_through(turn_request: TurnRequest, reply: ModelReply) -> bool:
    """Return whether the client can get the provider's bytes unchanged."""
    return turn_request.allow_passthrough and reply.protocol == turn_request.protocol and reply.verbatim


def encode_frames(turn_request: TurnRequest) -> Pipe:
    """Return the stages that encode events as frames of the client's protocol."""
    if turn_request.encoder is not None:
        return Pipe(SerializeParts(), ExpandRuns(), turn_request.encoder())
    return encoding(turn_request.protocol, turn_request.options, frames=True)


def encode_body(turn_request: TurnRequest, events: Sequence[AnyEvent], cleared: Cleared | None = None) -> bytes:
    """Encode a turn as one body of the client's protocol. Raises `BadAnswer` if that is not possible."""
    pipe = encode_frames(turn_request)
    encoded: list[Frame] = [*pipe.feed(events), *pipe.finish()]
    if cleared is not None and turn_request.encode_notice is not None:
        encoded.insert(0, (b"", turn_request.encode_notice(cleared)))
    body = turn_request.body or protocols.protocol(turn_request.protocol).body
    return write_body(body, encoded) if body is not None else b"".join(data for _, data in encoded)


class Translation:
    """Translates events to the client's bytes."""

    __slots__ = ("_begun", "_feed", "_pipe")

    def __init__(self, turn_request: TurnRequest) -> None:
        self._pipe = Pipe(*encode_frames(turn_request).stages, WRITERS[turn_request.framing]())
        self._feed = self._pipe.feed
        self._begun = False

    def feed(self, pair: ChunkEvents) -> bytes:
        events = pair[1]
        if not events:
            return b""
        self._begun = True
        chunks = self._feed(events)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def fail(self, fault: Fault) -> bytes:
        """Return the error that ends an unfinished turn."""
        return self.feed((b"", [fault] if self._begun else [Start(), fault]))

    def finish(self) -> bytes:
        return b"".join(self._pipe.finish())


_SEQUENCE_NUMBER = re.compile(rb'"sequence_number": ?(\d+)')


def client_stream(turn_request: TurnRequest, reply: ModelReply) -> Translation | Passthrough:
    """Return the writer of the client's stream for a reply."""
    if can_pass_through(turn_request, reply) and reply.media.startswith("text/event-stream"):
        return Passthrough(turn_request, reply)
    return Translation(turn_request)


class Passthrough:
    """Passes whole frames through. An unfinished frame waits, so that an error of the gateway never stands inside it.

    `withheld` counts the frames that the client did not get. The decoder counts frames that its strict reader refused:
    only their bytes are checked again. Without a decoder every frame is checked.
    """

    __slots__ = (
        "_buffer _decoder _ended _irregular _last _protocol _reply _rewrites_errors _start _suspect _turn_request "
        "_without_choices withheld"
    ).split()

    def __init__(self, turn_request: TurnRequest, reply: ModelReply | None = None) -> None:
        self._turn_request, self._reply = turn_request, reply
        self._protocol = protocols.protocol(turn_request.protocol)
        self._buffer = sse.FrameBuffer()
        self._decoder = reply.decoder if reply is not None else None
        self._irregular = self._without_choices = 0  # the last values of the decoder
        self._suspect = False  # a frame that it counted may still be in the buffer
        # Clients of this framing read errors in different forms; the writer sends all of them.
        self._rewrites_errors = turn_request.framing == "sse+json"
        self._last = b""
        self._ended = False  # an error or the last frame of the protocol was written
        self._start: AnyEvent | None = None
        self.withheld: int = 0

    def feed(self, pair: ChunkEvents) -> bytes:
        chunk, events = pair
        if events and self._start is None:
            self._start = events[0]
        if not chunk:
            return self._fail_once(events[-1]) if events and type(events[-1]) is Fault else b""
        data = self._buffer.take(chunk)
        if events and type(events[-1]) is Fault:
            return self._write_error(data, events[-1])
        decoder = self._decoder
        if decoder is None:
            data = self._drop_malformed(data)
        elif self._suspect or decoder.irregular != self._irregular:
            # The decoder has counted reads that the reply still holds back, so each of them is checked.
            if self._reply is None or not self._reply.holding:
                self._irregular = decoder.irregular
            data = self._drop_malformed(data)
        self._last = data or self._last
        if events and type(events[-1]) is Finish:
            data = self._write_end(data)
        return self._drop_usage(data)

    def fail(self, fault: Fault) -> bytes:
        """Return the fault in the protocol's error form, to follow what the provider has sent."""
        self._ended = True
        self._buffer.clear()
        start = self._start if isinstance(self._start, Start) else None
        return encode_late_error(self._turn_request, fault, start, self._last)

    def finish(self) -> bytes:
        """Return an unfinished frame that only lacks its blank line, and the protocol's last frame if the answer is
        complete but the provider did not send that frame in time.
        """
        found = sse.split_frames(self._buffer.clear())  # blank lines may precede it
        remaining = [frame for frame in found if sse.is_complete(frame) and not sse.is_error_frame(frame)]
        self.withheld += len(found) - len(remaining)
        rest = b"".join(remaining)
        if self._ended or self._reply is None or not self._reply.end_frame_missing:
            return rest
        self._ended = True
        if rest:  # the last frame must not become part of it
            rest = rest.rstrip(b"\r\n") + b"\n\n"
        has_end = any(mark in rest for mark in self._protocol.end_marks)
        return rest if has_end else rest + self._protocol.end_frame

    # ── frames ────────────────────────────────────────────────────────────────────────────────────

    def _drop_malformed(self, data: bytes) -> bytes:
        self._suspect = bool(self._buffer)
        found = sse.split_frames(data)
        remaining = [frame for frame in found if sse.is_well_formed(frame)]
        self.withheld += len(found) - len(remaining)
        return b"".join(remaining) if len(remaining) < len(found) else data

    def _drop_usage(self, data: bytes) -> bytes:
        """Remove chunks that only report usage, if the client did not ask for them. The decoder tells if there are."""
        if self._turn_request.include_usage:
            return data
        decoder = self._decoder
        if decoder is None:
            return sse.remove_usage_frames(data)
        count = decoder.without_choices - self._without_choices
        if not count:
            return data
        if not self._buffer and (self._reply is None or not self._reply.holding):
            self._without_choices = decoder.without_choices
        return sse.remove_usage_frames(data, several=count > 1)

    def _write_end(self, data: bytes) -> bytes:
        """Return the read that finishes the answer. An error after its last frame is withheld: the answer is complete,
        and in a later read the error would not be seen either.
        """
        end = sse.last_frame_end(data, self._protocol.end_marks)
        has_error = data.rfind(b"error") >= 0
        if end == len(data) and not has_error:
            return data
        found = sse.split_frames(data[end:])
        remaining = [frame for frame in found if not sse.is_error_frame(frame)]
        self.withheld += len(found) - len(remaining)
        answer = self._redact(data[:end]) if has_error else data[:end]
        return b"".join([answer, *remaining])

    def _write_error(self, data: bytes, fault: Fault) -> bytes:
        """Return the read that contains an error. An error that clients cannot read is written in the protocol's form,
        and what follows it is dropped: it might look like a normal end.
        """
        found = sse.split_frames(data)
        index = next((index for index, frame in enumerate(found) if self._is_unreadable(frame)), len(found))
        readable = self._drop_malformed(b"".join(found[:index]))
        self._last = readable or self._last
        written = self._drop_usage(self._redact(readable))
        if any(sse.is_error_frame(frame) for frame in sse.split_frames(written)):
            return written + self._redact(self._drop_malformed(b"".join(found[index:])))
        self.withheld += index < len(found) and not self._rewrites_errors
        return written + self.fail(fault)

    def _is_unreadable(self, frame: bytes) -> bool:
        """Return whether clients of this protocol may overlook the error in a frame."""
        return sse.is_unreadable_error(frame) or (self._rewrites_errors and sse.is_error_frame(frame))

    def _fail_once(self, fault: Fault) -> bytes:
        """Return the fault of a broken stream; nothing if the provider's last frame already was an error."""
        last = sse.split_frames(self._last)
        if last and sse.is_error_frame(last[-1]):
            self._buffer.clear()
            return b""
        return self.fail(fault)

    def _redact(self, data: bytes) -> bytes:
        """Redact credentials in error frames. An error that cannot be searched is withheld."""
        secrets = self._reply.secrets if self._reply is not None else ()
        redacted: list[bytes] = []
        for frame in sse.split_frames(data):
            try:
                redacted.append(sse.redact_frame(frame, secrets))
            except sse.UnredactableError:
                self.withheld += 1
        return b"".join(redacted)


def encode_late_error(turn_request: TurnRequest, fault: Fault, start: Start | None = None, last: bytes = b"") -> bytes:
    """Return a fault in the protocol's error form, to follow frames that were sent before. `last` are the last ones."""
    pipe = encode_frames(turn_request)
    start = start or Start()
    name = turn_request.protocol  # marks the start as this protocol's own: the client has its id
    pipe.feed([replace(start, extra={name: {}, **(start.extra or {})})])
    encoded: list[Frame] = [*pipe.feed([fault]), *pipe.finish()]
    return b"".join(WRITERS[turn_request.framing]().feed(_continue_numbers(encoded, last)))


def _continue_numbers(frames: list[Frame], last: bytes) -> list[Frame]:
    """Number the frames after the last ones that were sent, if the protocol numbers frames."""
    seen = _SEQUENCE_NUMBER.findall(last)
    if not seen:
        return frames
    numbered = enumerate(frames, int(seen[-1]) + 1)
    return [(name, _SEQUENCE_NUMBER.sub(b'"sequence_number":%d' % number, data)) for number, (name, data) in numbered]


# ── replay for traces: what the client got, encoded again ─────────────────────────────────────────


def replay_stages(
    turn_request: TurnRequest, *, passthrough: bool, cleared: Cleared | None = None
) -> tuple[Pipe, Verbatim | None]:
    """Return the stages that encode the client's output again for a trace, and what replaces them in passthrough."""
    if not turn_request.request.stream:
        return Pipe(BodyStage(turn_request, cleared)), UnchangedBody(turn_request.protocol) if passthrough else None
    return (Pipe(), PassthroughReplay(turn_request)) if passthrough else (encode_frames(turn_request), None)


def refusal_stages(turn_request: TurnRequest) -> tuple[Pipe, Verbatim | None]:
    """Return the stages for a request that no provider answered: a body with the error."""
    return Pipe(BodyStage(turn_request)), None


class PassthroughReplay:
    """The provider's frames as `Passthrough` writes them."""

    def __init__(self, turn_request: TurnRequest) -> None:
        self._passthrough = Passthrough(turn_request)
        self._parser, self._writer = SseParser(), SseWriter()

    def frame(self, frame: Frame, events: Sequence[ev.AnyEvent], /) -> list[Frame]:
        data = self._passthrough.feed((b"".join(self._writer.feed([frame])), list(events)))
        return self._parser.feed([data]) if data else []

    def fail(self, fault: ev.Fault, /) -> list[Frame]:
        return self._parser.feed([self._passthrough.fail(fault)])


class UnchangedBody(msgspec.Struct):
    """An answer without a stream, as the provider sent it."""

    protocol: str

    def frame(self, frame: Frame, _: Sequence[ev.AnyEvent], /) -> list[Frame]:
        return [frame]

    def fail(self, fault: ev.Fault, /) -> list[Frame]:
        return [(b"", error_responses.error_body(self.protocol, fault))]


class BodyStage:
    """A stage that encodes the events of a turn as one body when the turn ends."""

    def __init__(self, turn_request: TurnRequest, cleared: Cleared | None = None) -> None:
        self._turn_request, self._cleared = turn_request, cleared
        self._events: list[Any] = []

    def feed(self, events: Sequence[Any], /) -> list[Frame]:
        self._events += events
        last = self._events[-1] if self._events else None
        if isinstance(last, ev.Fault):
            return [(b"", error_responses.error_body(self._turn_request.protocol, last))]
        return [(b"", self._body())] if isinstance(last, ev.Finish) else []

    def _body(self) -> bytes:
        try:
            return encode_body(self._turn_request, self._events, self._cleared)
        except BadAnswer as error:
            return error_responses.error_body(self._turn_request.protocol, error.fault)

    def finish(self) -> list[Frame]:
        return []
