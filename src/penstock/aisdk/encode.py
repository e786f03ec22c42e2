"""What the encoders of AI SDK streams share: deltas by template, files gathered into one chunk, what is passed over.

A subclass opens parts by noting how their deltas begin; a part that it does not open is left out to its end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import events as ev
from penstock.aisdk.words import write_metadata
from penstock.codec import Encoder
from penstock.frame_templates import NO_TEMPLATE, FrameTemplate
from penstock.jsontext import is_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.events import Extra

encode_json = msgspec.json.Encoder().encode


def metadata(extra: Extra | None, *, reasoning: bool = False, **ours: Any) -> dict[str, Any]:
    """The field of provider metadata, if there is any."""
    found = write_metadata(extra, reasoning=reasoning, **ours)
    return {"providerMetadata": found} if found else {}


def value(json: str) -> Any:
    """Raw JSON as a value; what is none is text."""
    return msgspec.Raw(json.encode()) if is_json(json) else json


class PartEncoder(Encoder, ABC):
    """State: how each open part's deltas begin, the files so far, calls that wait to be known as run.

    A call that the SDK ran leaves as the SDK itself would have sent it: like one of the client's, with its result. So
    it waits for its result, and if none comes it leaves as the provider's: nobody may run it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._clear()

    def _clear(self) -> None:
        self._open: dict[int, bytes] = {}
        self._files: dict[int, tuple[ev.FileStart, list[str]]] = {}
        self._waiting: dict[str, tuple[str, dict[str, Any]]] = {}
        self.template = NO_TEMPLATE

    def _settle(self, call: str | None = None, *, ran: bool = False) -> None:
        """Write the call that waits, or all of them: `ran` if its result, or a question about it, comes next."""
        for name in list(self._waiting) if call is None else [call] if call in self._waiting else []:
            kind, fields = self._waiting.pop(name)
            self._send(kind, **fields, **({} if ran else {"providerExecuted": True}))

    def _send(self, type: str, **fields: Any) -> None:
        self.out.append((b"", encode_json({"type": type, **fields})))

    def _first(self, event: Any) -> bool:
        """Whether the part is of the choice that is written."""
        if event.choice:
            self.lose("choice")
        return not event.choice

    def _text_delta(self, event: ev.TextDelta) -> None:
        if event.logprobs is not None:
            self.lose("logprobs")
        head = self._open.get(event.index)
        if head is not None:
            self._write_delta(event, head, event.text)

    def _delta(self, event: ev.RefusalDelta | ev.ReasoningDelta) -> None:
        head = self._open.get(event.index)
        if head is not None:
            self._write_delta(event, head, event.text)

    def _call_delta(self, event: ev.CallDelta) -> None:
        head = self._open.get(event.index)
        if head is not None:
            self._write_delta(event, head, event.json)

    def _write_delta(self, event: Any, head: bytes, text: str) -> None:
        self.template = FrameTemplate(type(event), event.index, b"", head, b"}")
        self.out.append(self.template.frame(text))

    def _file_start(self, event: ev.FileStart) -> None:
        if self._first(event):
            self._files[event.index] = (event, [])

    def _file_delta(self, event: ev.FileDelta) -> None:
        if event.index in self._files:
            self._files[event.index][1].append(event.data)

    def _file_end(self, event: ev.FileEnd) -> None:
        if event.index in self._files:
            start, pieces = self._files.pop(event.index)
            if event.broken:
                self.lose("cut-file")
                return
            self._file(start, "".join(pieces), event.extra or start.extra)

    @abstractmethod
    def _file(self, start: ev.FileStart, data: str, extra: Extra | None) -> None:
        """Write a whole file."""

    def _unknown(self, event: ev.Unknown) -> None:
        if event.protocol == self.protocol:
            self.out.append((b"", event.data.encode()))
        else:
            self.lose("unknown")

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        ev.TextDelta: _text_delta, ev.RefusalDelta: _delta, ev.ReasoningDelta: _delta, ev.CallDelta: _call_delta,
        ev.FileStart: _file_start, ev.FileDelta: _file_delta, ev.FileEnd: _file_end, ev.Unknown: _unknown,
    }  # fmt: skip
