"""Traces a stream for `penstock inspect` step by step and keeps nothing of it: each step goes to a `StepHandler`."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

from penstock import _protocols as protocols
from penstock._bridge import encoding, parser
from penstock._detect import FRAMES, guess_protocol
from penstock._framing import PARSERS
from penstock._framing.base import expand_frames
from penstock._grammar import Guard
from penstock._pipeline import Pipe
from penstock._stream_trace import BodyParser, KnownEndDecoder
from penstock._text_runs import expand_runs
from penstock.errors import UnknownProtocol, Unrecognised
from penstock.events import Fault, Start

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from penstock._framing.base import Frame


WINDOW = 1_000  # frames before the end that are traced step by step, also if the handler needs no more steps
_WINDOW_BYTES = 4 << 20


class StepHandler(Protocol):
    """Gets the steps as they happen. `cause`: the number of an earlier step; None is the end of input.

    `wants_steps` may become False: further frames are traced in batches, which is faster, except those at the end.
    """

    @property
    def wants_steps(self) -> bool: ...
    def on_skipped(self, frames: Sequence[Frame], events: Sequence[Any], /) -> None: ...
    def on_frame(self, number: int, frame: Frame, /) -> None: ...
    def on_event(self, number: int, cause: int | None, event: Any, /) -> None: ...
    def on_output(self, number: int, cause: int | None, frame: Frame, /) -> None: ...


class StepTracer:
    """Traces one stream: `feed` it chunks, then `finish` it. It counts frames, events, outputs and bytes.

    `has_content`: an event came that garbage does not cause.
    """

    def __init__(self, source: str, target: str, handler: StepHandler, codec_options: Mapping[str, Any]) -> None:
        decode: Any = protocols.decoder(source, **codec_options["source_options"])
        if codec_options["framing"] == BodyParser.framing:
            parse: Any = BodyParser()
            decode = KnownEndDecoder(decode, is_body=True)
        else:
            parse = parser(codec_options["framing"], codec_options["limit"])
        back = encoding(target, codec_options["target_options"], frames=True).stages
        self._decode, self._guard, self._back = decode, Guard(), back
        self.pipe = Pipe(parse, decode, self._guard, *back)
        self._handler = handler
        self._number = 0
        self._waiting: list[Frame] = []  # frames for the next batch, or for the end
        self._waiting_bytes = 0
        self.frames = self.events = self.outputs = self.bytes = 0
        self.has_content = False

    @property
    def framing(self) -> str:
        """The framing as given, or as detected."""
        return getattr(self.pipe.stages[0], "framing", None) or "named"

    def feed(self, chunk: bytes) -> None:
        """Traces a chunk."""
        self.bytes += len(chunk)
        frames: Sequence[Frame] = self.pipe.stages[0].feed([chunk])
        if self._handler.wants_steps:
            for frame in frames:
                self._trace_frame(frame)
        elif frames:
            self._waiting += frames
            self._waiting_bytes += sum([len(data) for _, data in frames])
            if len(self._waiting) > 2 * WINDOW or self._waiting_bytes > 2 * _WINDOW_BYTES:
                self._trace_batch()

    def finish(self) -> None:
        """Ends the input. Every stage may have something left."""
        waiting, self._waiting = self._waiting, []
        for frame in waiting:
            self._trace_frame(frame)
        for frame in self.pipe.stages[0].finish():
            self._trace_frame(frame)
        for event in chain(self._guard.feed(self._decode.finish()), self._guard.finish()):
            self._trace_event(event, None)
        for number, stage in enumerate(self._back, 1):
            left: Any = stage.finish()
            for later in self._back[number:]:
                left = later.feed(left) if left else left
            self._trace_outputs(left, None)

    def _trace_frame(self, frame: Frame) -> None:
        number = self._number
        self._number += 1
        self.frames += 1
        self._handler.on_frame(number, frame)
        for event in self._guard.feed(self._decode.feed([frame])):
            self._trace_event(event, number)

    def _trace_batch(self) -> None:
        """Traces the waiting frames but the last ones at once."""
        kept = size = 0
        for _, data in reversed(self._waiting[-WINDOW:]):
            size += len(data)
            if size > _WINDOW_BYTES:
                size -= len(data)
                break
            kept += 1
        count = len(self._waiting) - kept
        frames, self._waiting, self._waiting_bytes = self._waiting[:count], self._waiting[count:], size
        events: Any = expand_runs(self._guard.feed(self._decode.feed(frames)))
        self._handler.on_skipped(frames, events)
        self.has_content = self.has_content or any(map(_is_content, events))
        outputs: Any = events
        for stage in self._back:
            outputs = stage.feed(outputs)
        outputs = expand_frames(outputs)
        self.frames += len(frames)
        self.events += len(events)
        self.outputs += len(outputs)
        self._number += len(frames) + len(events) + len(outputs)

    def _trace_event(self, event: Any, cause: int | None) -> None:
        number = self._number
        self._number += 1
        self.events += 1
        self.has_content = self.has_content or _is_content(event)
        self._handler.on_event(number, cause, event)
        items: Any = [event]
        for stage in self._back:
            items = stage.feed(items)
        self._trace_outputs(items, number)

    def _trace_outputs(self, frames: Iterable[Frame], cause: int | None) -> None:
        for frame in frames:
            self._handler.on_output(self._number, cause, frame)
            self._number += 1
            self.outputs += 1


def _is_content(event: Any) -> bool:
    """True for an event that garbage does not cause."""
    return event.kind != "truncated" if isinstance(event, Fault) else not isinstance(event, Start)


def _release(held: list[bytes]) -> Iterator[bytes]:
    """Yields chunks and keeps none of them."""
    held.reverse()
    while held:
        yield held.pop()


def detect_source(chunks: Iterator[bytes], framing: str, limit: int) -> tuple[str, Iterator[bytes]]:
    """Returns the protocol of a stream by its first frames, and all of its chunks."""
    if framing not in PARSERS:
        raise UnknownProtocol(framing, PARSERS, "framing")
    parse, held, seen = PARSERS[framing](limit=limit), list[bytes](), 0
    for chunk in chunks:
        held.append(chunk)
        frames = parse.feed([chunk])
        if name := guess_protocol(frames):
            return name, chain(_release(held), chunks)
        seen += len(frames)
        if seen >= FRAMES:
            break
    else:
        rest = parse.finish()
        if name := guess_protocol(rest):
            return name, _release(held)
        seen += len(rest)
    raise Unrecognised(seen, protocols.MODULES)
