"""Runs: consecutive deltas as one item, which the fast path for text passes from stage to stage.

`delta_templates` makes runs of frames that differ in their text alone, `frame_templates` writes them. Guard, `Sequence`
and encoders know runs; other stages get the deltas of one by `expand_runs`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec

from penstock._framing.base import Frame, FrameRun
from penstock.events import AnyEvent, CallDelta, ReasoningDelta, TextDelta

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


DELTAS = frozenset({TextDelta, ReasoningDelta, CallDelta})


class TextRun(msgspec.Struct, eq=False):
    """Consecutive deltas of one part, one for each frame. `words` are their texts as they stand in JSON strings.

    `texts` are the same decoded, where that differs.
    """

    kind: Any
    index: int
    words: list[bytes]
    texts: list[str] | None = None

    def to_deltas(self) -> list[AnyEvent]:
        """Returns one delta for each frame."""
        kind, index = self.kind, self.index
        texts = [word.decode() for word in self.words] if self.texts is None else self.texts
        return [kind(index, text) for text in texts]

    def text(self) -> str:
        """Returns the whole text."""
        return b"".join(self.words).decode() if self.texts is None else "".join(self.texts)

    def to_one_delta(self) -> AnyEvent:
        """Returns one delta for all frames."""
        return cast("AnyEvent", self.kind(self.index, self.text()))


def expand_runs(batch: Sequence[Any]) -> list[Any]:
    """Returns a batch with single deltas in place of runs."""
    if TextRun not in map(type, batch):
        return batch if type(batch) is list else list(batch)  # pyright: ignore[reportUnknownVariableType]
    return [event for one in batch for event in (one.to_deltas() if type(one) is TextRun else (one,))]


def merge_runs(batch: Sequence[Any]) -> Sequence[Any]:
    """Returns a batch with one delta in place of each run."""
    if TextRun not in map(type, batch):
        return batch
    return [one.to_one_delta() if type(one) is TextRun else one for one in batch]


def are_deltas_of(events: Sequence[Any], delta: Any, index: int | None) -> bool:
    """True if all events are deltas of this kind and part. This is so for nine batches in ten."""
    for event in events:
        kind: Any = type(event)  # pyright: ignore[reportUnknownVariableType]
        if kind is TextRun:
            kind = event.kind
        if kind is not delta or event.index != index:
            return False
    return True


class ExpandRuns:
    """A stage before stages that need every single event."""

    def feed(self, events: Sequence[Any], /) -> list[Any]:
        return expand_runs(events)

    def finish(self) -> list[Any]:
        return []


_encode = msgspec.json.Encoder().encode


class FrameTemplate:
    """Writes further text frames of one open part: the bytes before and after the JSON string.

    `keep` gets every text, if the encoder needs them later.
    """

    __slots__ = ("after", "before", "index", "keep", "kind", "name")

    def __init__(
        self, kind: Any, index: int, name: bytes, before: bytes, after: bytes, keep: Callable[[str], None] | None = None
    ) -> None:
        self.kind: Any = kind
        self.index: int = index
        self.name: bytes = name
        self.before: bytes = before
        self.after: bytes = after
        self.keep: Callable[[str], None] | None = keep

    def frame(self, text: str) -> Frame:
        """Returns the frame of one text."""
        data = self.before + _encode(text) + self.after
        if self.keep is not None:
            self.keep(text)
        return self.name, data

    def run(self, run: TextRun) -> list[Any]:
        """Returns the frames of a run."""
        if self.keep is not None:
            self.keep(run.text())
        return [FrameRun(self.name, self.before, run.words, self.after)]


NO_TEMPLATE = FrameTemplate(None, -1, b"", b"", b"")
