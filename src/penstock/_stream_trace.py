"""Traces a stream: each frame, its events, the output frames that they cause, and the diagnostics.

`PipeTrace` says what caused what. Steps are in the order in which they happened. Nothing is cut, redacted or converted
to JSON here; the code that shows the steps does that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, Unpack

import msgspec

from penstock import _protocols as protocols
from penstock._bridge import BridgeOptions, check_bridge_options, encoding, explain_truncation, parser
from penstock._diagnostics import Diagnostic, Diagnostics
from penstock._framing.base import LIMIT, Frame
from penstock._grammar import Guard
from penstock._pipeline import Pipe, PipeTrace
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.events import AnyEvent, Fault


Kind: TypeAlias = Literal["frame", "event", "output"]


class TraceStep(msgspec.Struct, frozen=True, gc=False):
    """A frame that came, an event, or a frame that left. `cause`: the step it followed upon; None is the end of input.

    `of`: the event that an output says; another than its cause where it was held back. `at`: when the chunk came.
    """

    kind: Kind
    cause: int | None
    item: Any
    of: int | None = None
    at: float | None = None


class Finding(NamedTuple):
    """A diagnostic, and the step that was being looked at when it was first made."""

    step: int | None
    row: Diagnostic


class TraceTooLongError(InputError):
    """A trace has more steps than it may have."""


class Verbatim(Protocol):
    """Passes frames through unchanged; replaces the encoder."""

    def frame(self, frame: Frame, events: Sequence[AnyEvent], /) -> list[Frame]:
        """Returns the output frames for a frame."""
        ...

    def fail(self, fault: Fault, /) -> list[Frame]:
        """Returns the output frames for a fault."""
        ...


class KnownEndDecoder:
    """A decoder for one trace. `fault` replaces its `truncated` fault if the reason of the end is known.

    `is_body`: each frame is a whole body, which ends by itself.
    """

    def __init__(self, decoder: Any, *, is_body: bool) -> None:
        self.fault: Fault | None = None
        self.diagnostics = getattr(decoder, "diagnostics", Diagnostics())
        self._decoder = decoder
        self._is_body = is_body

    def feed(self, frames: Sequence[Frame], /) -> list[Any]:
        if self._is_body:
            return [event for _, data in frames for event in self._decoder.body(data)]
        return list(self._decoder.feed(frames))

    def finish(self) -> list[Any]:
        events: list[Any] = self._decoder.finish()
        return events if self.fault is None else explain_truncation(events, self.fault)


class BodyParser:
    """The parser of a non-stream answer: the whole body is one frame."""

    framing = "body"

    def __init__(self) -> None:
        self._chunks: list[bytes] = []

    def feed(self, chunks: Sequence[bytes], /) -> list[Frame]:
        self._chunks += chunks
        return []

    def finish(self) -> list[Frame]:
        return [(b"", data)] if (data := b"".join(self._chunks)) else []


class Tracer:
    """Traces one stream: `feed` it chunks, then `finish` it. `steps` and `findings` grow.

    `front` decodes bytes to events: a parser, a decoder, further stages. `back` encodes events to frames. `verbatim`
    replaces `back` where frames pass through unchanged. `step_limit`: one step more raises `TraceTooLongError`; 0 is
    any number.
    """

    step_limit: int = 0

    def __init__(self, front: Pipe, back: Pipe, verbatim: Verbatim | None = None) -> None:
        parse, decode, *rest = front.stages
        self._decoder = KnownEndDecoder(decode, is_body=isinstance(parse, BodyParser))
        self._verbatim = verbatim
        self._event_stage = len(front.stages)
        stages = () if verbatim is not None else back.stages
        self._last_stage = self._event_stage + len(stages)
        self.pipe: Pipe = Pipe(parse, self._decoder, *rest, *stages)
        self.steps: list[TraceStep] = []
        self.findings: list[Finding] = []
        self._trail = PipeTrace(self.pipe.stages, self._record_step)
        found = (getattr(stage, "diagnostics", None) for stage in self.pipe.stages)
        self._diagnostics = [rows for rows in found if isinstance(rows, Diagnostics)]
        self._diagnostic_count = 0
        self._at: float | None = None
        self._last_step: int | None = None
        self._held_step: int | None = None  # the event that a stage of `back` held and now encodes
        self._event_steps: dict[int, int] = {}  # an event, by identity → its step; the steps keep it alive
        self._open_frame: tuple[int, list[Any]] | None = None  # the frame that is being decoded, and its events

    @property
    def framing(self) -> str:
        """The framing as given, or as detected."""
        return getattr(self.pipe.stages[0], "framing", None) or "named"

    @property
    def events(self) -> list[Any]:
        return [step.item for step in self.steps if step.kind == "event"]

    def feed(self, chunk: bytes, at: float | None = None) -> None:
        """Traces a chunk that came at this time."""
        self._at = at
        self._trail.feed(chunk)
        self._close_frame()

    def finish(self, fault: Fault | None = None, *, broken: bool = False) -> None:
        """Ends the trace. `fault` is the reason of the end, if it is known.

        `broken`: the bytes ended inside a frame, or cannot be read further. What the parser holds is then left out.
        """
        self._decoder.fault = fault
        self._last_step = None
        self._trail.finish(int(broken))
        self._close_frame()
        if self._verbatim is not None and fault is not None:
            self.add_output(self._verbatim.fail(fault))

    def add_output(self, frames: list[Frame], cause: int | None = None, of: int | None = None) -> None:
        """Adds output frames. Without a cause they were not caused by the stream."""
        for frame in frames:
            self._add_step("output", cause, frame, of)

    def add_partial_frame(self) -> int | None:
        """Adds the frame that the end of the bytes cut off, and returns its step; None if there is no such frame."""
        try:
            frames = self.pipe.stages[0].finish()
        except InputError:
            return None
        for frame in frames:
            self._add_step("frame", None, frame)
        return len(self.steps) - 1 if frames else None

    def _record_step(self, stage: int, cause: int | None, item: Any) -> int | None:
        """Adds a step for a frame, an event or an output. Returns the step that causes what follows from the item."""
        if stage == 1:
            self._close_frame()
            self._open_frame = (len(self.steps), [])
            return self._add_step("frame", None, item)
        if stage == self._event_stage:
            self._collect_findings()
            return self._add_event(cause, item)
        if stage == self._last_stage and stage > self._event_stage:
            self._collect_findings()
            of = cause if cause is None or self._held_step is None else self._held_step
            return self._add_step("output", cause, item, of)
        if stage > self._event_stage:
            self._held_step = self._event_steps.get(id(item))
        self._last_step = cause
        return cause

    def _add_event(self, cause: int | None, event: Any) -> int:
        step = self._event_steps[id(event)] = self._add_step("event", cause, event)
        self._held_step = None
        if self._open_frame is not None:
            self._open_frame[1].append(event)
        return step

    def _add_step(self, kind: Kind, cause: int | None, item: Any, of: int | None = None) -> int:
        if self.step_limit and len(self.steps) >= self.step_limit:
            raise TraceTooLongError(f"the trace has more than {self.step_limit:,} steps")
        self.steps.append(TraceStep(kind, cause, item, of, self._at))
        self._last_step = len(self.steps) - 1
        return self._last_step

    def _close_frame(self) -> None:
        """Passes a frame through, after all its events."""
        self._collect_findings()
        if self._open_frame is None:
            return
        (frame, events), self._open_frame = self._open_frame, None
        if self._verbatim is not None:
            first = next((self._event_steps[id(event)] for event in events), None)
            self.add_output(self._verbatim.frame(self.steps[frame].item, events), frame, first)

    def _collect_findings(self) -> None:
        """Attaches new diagnostics to the step that was processed last."""
        count = sum(map(len, self._diagnostics))
        if count != self._diagnostic_count:
            self._diagnostic_count = count
            known = {id(finding.row) for finding in self.findings}
            rows = (row for stage_rows in self._diagnostics for row in stage_rows)
            self.findings += [Finding(self._last_step, row) for row in rows if id(row) not in known]


def tracer(source: str, target: str, **options: Unpack[BridgeOptions]) -> Tracer:
    """Returns a tracer of what `bridge` does with the same arguments, without the bytes at its end."""
    check_bridge_options("tracer", options)
    decode = protocols.decoder(source, **(options.get("source_options") or {}))
    framing = options.get("framing", "auto")
    parse = BodyParser() if framing == BodyParser.framing else parser(framing, options.get("limit", LIMIT))
    front = Pipe(parse, decode, Guard(), *options.get("shaping", ()))
    return Tracer(front, encoding(target, options.get("target_options"), frames=True))
