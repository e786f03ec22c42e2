"""Frames of more text, written from a template: the other side of `delta_templates`.

An encoder that has an open part may hold a template. Deltas and runs of that part are then written without its table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock.framing import Frame, FrameRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.text_runs import TextRun

_encode = msgspec.json.Encoder().encode


class FrameTemplate:
    """The frames of more text for one open part: what stands before the JSON string and behind it.

    `keep` is told every text, where an encoder needs them later.
    """

    __slots__ = ("after", "before", "index", "keep", "kind", "name")

    def __init__(
        self, kind: Any, index: int, name: bytes, before: bytes, after: bytes,
        keep: Callable[[str], None] | None = None,
    ) -> None:  # fmt: skip
        self.kind, self.index, self.name, self.before, self.after = kind, index, name, before, after
        self.keep = keep

    def frame(self, text: str) -> Frame:
        """The frame of one text."""
        data = self.before + _encode(text) + self.after
        if self.keep is not None:
            self.keep(text)
        return self.name, data

    def run(self, run: TextRun) -> list[Any]:
        """The frames of a run."""
        if self.keep is not None:
            self.keep(run.text())
        return [FrameRun(self.name, self.before, run.words, self.after)]


NO_TEMPLATE = FrameTemplate(None, -1, b"", b"", b"")
