"""Traces a stream: each frame, its events, the output frames that they cause, and the diagnostics.

`Pipe.trail` says what caused what. Steps are in the order in which they happened. Nothing is cut, redacted or converted
to JSON here; the code that shows the steps does that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from penstock import _protocols as protocols
from penstock._bridge import encoding, parser
from penstock._diagnostics import Diagnostic, Diagnostics
from penstock._framing.frame import LIMIT, Frame
from penstock._grammar import Guard
from penstock._pipeline import Pipe, Stage
from penstock.errors import InputError
from penstock.events import AnyEvent, Fault

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


Kind: TypeAlias = Literal["frame", "event", "output"]


class Step(msgspec.Struct, frozen=True, gc=False):
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


class Verbatim(Protocol):
    """Passes frames through unchanged; replaces the encoder."""

    def frame(self, frame: Frame, events: Sequence[AnyEvent], /) -> list[Frame]:
        """Returns the output frames for a frame."""
        ...

    def fail(self, fault: Fault, /) -> list[Frame]:
        """Returns the output frames for a fault."""
        ...


class Told:
    """A decoder, whose own word for an end that never came may be replaced by what is known of it.

    `whole`: what comes is one body, which ends by itself.
    """

    def __init__(self, decoder: Any, *, whole: bool) -> None:
        self.fault: Fault | None = None
        self.diagnostics = getattr(decoder, "diagnostics", Diagnostics())
        self._decoder = decoder
        self._body = decoder.body if whole else None

    def feed(self, frames: Sequence[Frame], /) -> list[Any]:
        if self._body is None:
            return list(self._decoder.feed(frames))
        return [event for _, data in frames for event in self._body(data)]

    def finish(self) -> list[Any]:
        fault = self.fault
        tail: list[Any] = self._decoder.finish()
        if fault is None:
            return tail
        return [fault if type(event) is Fault and event.kind == "truncated" else event for event in tail]


class Whole:
    """In place of a parser, where the answer is one body: all of it is one frame."""

    framing = "body"

    def __init__(self) -> None:
        self._chunks: list[bytes] = []

    def feed(self, chunks: Sequence[bytes], /) -> list[Frame]:
        self._chunks += chunks
        return []

    def finish(self) -> list[Frame]:
        return [(b"", data)] if (data := b"".join(self._chunks)) else []


class Tracer:
    """`front` makes events of bytes, its parser first and its decoder second; `back` makes frames of events.

    With `verbatim` what leaves is asked of that one, and `back` is left out. `feed` it chunks, then `finish` it:
    `steps` and `findings` grow.
    """

    def __init__(self, front: Pipe, back: Pipe, verbatim: Verbatim | None = None) -> None:
        parse, decode, *rest = front.stages
        self._told = Told(decode, whole=isinstance(parse, Whole))
        self._verbatim = verbatim
        self._event = len(front.stages)
        stages = () if verbatim is not None else back.stages
        self._last = self._event + len(stages)
        self.pipe: Pipe = Pipe(parse, self._told, *rest, *stages)
        self.steps: list[Step] = []
        self.findings: list[Finding] = []
        self._trail = self.pipe.trail(self._visit)
        found = (getattr(stage, "diagnostics", None) for stage in self.pipe.stages)
        self._books = [book for book in found if isinstance(book, Diagnostics)]
        self._noted = 0
        self._at: float | None = None
        self._seen: int | None = None  # the last step there was
        self._of: dict[int, int] = {}  # an event, by identity → its step; the steps keep it alive
        self._open: tuple[int | None, list[Any]] | None = None  # the frame whose events are coming, and those

    @property
    def framing(self) -> str:
        """The framing as named, or as found out."""
        return getattr(self.pipe.stages[0], "framing", None) or "named"

    @property
    def events(self) -> list[Any]:
        return [step.item for step in self.steps if step.kind == "event"]

    def feed(self, chunk: bytes, at: float | None = None) -> None:
        """Bytes, and when they came."""
        self._at = at
        self._trail.feed(chunk)
        self._settle()

    def finish(self, fault: Fault | None = None, *, broken: bool = False) -> None:
        """The end of the bytes. `fault`: why, where that is known better than that they ended.

        `broken`: they ended in the middle, or cannot be read on: what the parser still holds is nobody's frame.
        """
        self._told.fault = fault
        self._seen = None
        self._trail.finish(int(broken))
        self._settle()
        if self._verbatim is not None and fault is not None:
            self._leave(self._verbatim.fail(fault), None, None)

    # ── as it goes ────────────────────────────────────────────────────────────────────────────────

    def say(self, frames: list[Frame]) -> None:
        """Adds output frames without a traced cause."""
        self._leave(frames, None, None)

    def half(self) -> int | None:
        """The step of a frame that never became whole, if there is one: shown, and read by nobody."""
        try:
            rest = self.pipe.stages[0].finish()
        except InputError:
            return None
        for frame in rest:
            self._step("frame", None, frame)
        return len(self.steps) - 1 if rest else None

    def _visit(self, stage: int, cause: int | None, item: Any) -> int | None:
        """Note an item that is one to show; gives the step that is the cause of what comes of it."""
        if stage == 1:
            self._settle()
            self._open = (len(self.steps), [])
            return self._step("frame", None, item)
        if stage == self._event:
            self._note()
            return self._told_event(cause, item)
        if stage == self._last and stage > self._event:
            self._note()
            of = cause if cause is None or self._held is None else self._held
            return self._step("output", cause, item, of)
        if stage > self._event:
            self._held = self._of.get(id(item))
        self._seen = cause
        return cause

    _held: int | None = None

    def _told_event(self, cause: int | None, event: Any) -> int:
        step = self._step("event", cause, event)
        self._of[id(event)] = step
        self._held = None
        if self._open is not None:
            self._open[1].append(event)
        return step

    def _step(self, kind: Kind, cause: int | None, item: Any, of: int | None = None) -> int:
        self.steps.append(Step(kind, cause, item, of, self._at))
        self._seen = len(self.steps) - 1
        return self._seen

    def _settle(self) -> None:
        """Passes a frame through, after all its events."""
        self._note()
        if self._open is None:
            return
        (frame, events), self._open = self._open, None
        if self._verbatim is not None and frame is not None:
            first = next((self._of[id(event)] for event in events), None)
            self._leave(self._verbatim.frame(self.steps[frame].item, events), frame, first)

    def _leave(self, frames: list[Frame], cause: int | None, of: int | None) -> None:
        for frame in frames:
            self._step("output", cause, frame, of)

    def _note(self) -> None:
        """Attaches new diagnostics to the step that was processed last."""
        count = 0
        for book in self._books:
            count += len(book)
        if count != self._noted:
            self._noted = count
            known = {id(finding.row) for finding in self.findings}
            rows = (row for book in self._books for row in book)
            self.findings += [Finding(self._seen, row) for row in rows if id(row) not in known]


def tracer(
    source: str,
    target: str,
    *,
    framing: str = "auto",
    limit: int = LIMIT,
    shaping: tuple[Stage[Any, Any], ...] = (),
    source_options: Mapping[str, Any] | None = None,
    target_options: Mapping[str, Any] | None = None,
) -> Tracer:
    """A tracer of what `bridge` with the same arguments does, less the writing of bytes at its end."""
    decode = protocols.decoder(source, **(source_options or {}))
    parse = Whole() if framing == Whole.framing else parser(framing, limit)
    return Tracer(Pipe(parse, decode, Guard(), *shaping), encoding(target, target_options, frames=True))
