"""Bytes → a trace, at once or as they come. Where they come from (a turn, a recording, a file) is a `Source`.

Leans on `tracing` for what happens and on `forms` for how it is told. Slow for long streams: not for the event loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import protocols
from penstock.bridge import encoding, parser
from penstock.diagnostics import Diagnostic
from penstock.errors import InputError
from penstock.events import Fault
from penstock.grammar import Guard
from penstock.guess import guess
from penstock.inspector import forms
from penstock.secrecy import MARK
from penstock.stage import Pipe
from penstock.store import recordings
from penstock.tracing import Finding, Tracer, Whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.inspector.rows import Row
    from penstock.stage import Stage
    from penstock.tracing import Verbatim

CONSUMERS = (
    "openai-chat", "responses", "anthropic", "gemini", "uistream", "vscode", "completions", "aisdk", "events",
)  # fmt: skip
DEFAULT = "vscode"  # what a file is shown as, unless something else is asked for
_HEAD = b"HTTP/"


@dataclass
class Source:
    """What is traced. `own`: the consumer there was, `way` what that one got.

    `end`: how it ended, where that is known; `left`: nobody was there to get an end. `lost`: what is missing,
    `note`: what else is worth a word. `secrets`: what must not be seen of it, besides what nobody may see.
    """

    protocol: str
    chunks: Sequence[tuple[float | None, bytes]]
    framing: str = "auto"
    title: str = ""
    own: str = DEFAULT
    request: str = ""
    row: Row | None = None
    lost: str = ""
    note: str = ""
    shaping: Callable[[], tuple[Stage[Any, Any], ...]] = tuple
    way: Callable[[], tuple[Pipe, Verbatim | None]] | None = None
    end: Fault | None = None
    left: bool = False
    secrets: tuple[str, ...] = ()
    before: tuple[bytes, ...] = ()  # what the own consumer was told before there was an answer

    @property
    def consumers(self) -> list[str]:
        return [*([] if self.own in CONSUMERS else [self.own]), *CONSUMERS]

    def tracer(self, consumer: str) -> Tracer:
        parse: Any = Whole() if self.framing == Whole.framing else parser(self.framing)
        front = Pipe(parse, protocols.decoder(self.protocol), Guard(), *self.shaping())
        if consumer == self.own and self.way is not None:
            return Tracer(front, *self.way())
        return Tracer(front, encoding(consumer, frames=True))


class Reading:
    """A source being traced for one consumer."""

    def __init__(self, source: Source, consumer: str = "") -> None:
        self.source = source
        self.consumer = consumer or source.own
        if self.consumer not in source.consumers:
            raise InputError(f"as: nobody is called {self.consumer[:100]!r}; there is: {', '.join(source.consumers)}")
        self.tracer = source.tracer(self.consumer)
        if self.consumer == source.own:
            self.tracer.say([(b"", payload) for payload in source.before])
        self.shown = forms.Shown(self.tracer)
        self._broken: Fault | None = None

    def take(self, chunks: Iterable[tuple[float | None, bytes]]) -> None:
        """More bytes. What cannot be read ends the trace, in it."""
        try:
            for at, chunk in chunks:
                if self._broken is None:
                    self.tracer.feed(chunk, at)
        except InputError as error:
            self._broken = Fault("malformed", str(error))

    def end(self) -> None:
        """No more bytes."""
        if self.source.left:
            self._half()
            return
        try:
            if self._broken is None and (self.source.end is None or self.source.end.kind == "truncated"):
                self.tracer.finish()
                return
        except InputError as error:
            self._broken = Fault("malformed", str(error))
        self._half()
        self.tracer.finish(self._broken or self.source.end, broken=True)

    def _half(self) -> None:
        step = self.tracer.half()
        if step is not None:
            row = Diagnostic("cut-frame", "the bytes ended in the middle of this frame: nobody has read it")
            self.tracer.findings.append(Finding(step, row))

    def more(self, *, done: bool = False) -> forms.Additions:
        made = self.shown.more(done=done)
        if done and self.source.left and self.source.end is not None:
            made.marks.append(forms.Mark("warning", self.source.end.kind, self.source.end.message))
        return made

    def trace(self, *, done: bool = True) -> forms.Trace:
        """All there is so far."""
        made, source = self.more(done=done), self.source
        return forms.Trace(
            made.frames, made.events, made.outputs, made.marks, made.done, version=forms.VERSION, row=source.row,
            title=source.title, protocol=source.protocol, consumer=self.consumer, consumers=source.consumers,
            timed=any(at is not None for at, _ in source.chunks), request=source.request, lost=source.lost,
            note=source.note,
        )  # fmt: skip


def traced(source: Source, consumer: str = "") -> Reading:
    """A source from its beginning to its end."""
    reading = Reading(source, consumer)
    reading.take(source.chunks)
    reading.end()
    return reading


# ── files ─────────────────────────────────────────────────────────────────────────────────────────


def of_file(data: bytes, name: str = "", protocol: str = "") -> Source:
    """A stream that somebody has saved: one of our recordings, or the bytes alone. What it is, is found out."""
    if not data.strip():
        raise InputError("there is nothing in it")
    if recordings.is_recording(data[:200]):
        return of_recording(recordings.parse(data, name or "the recording"), name, protocol)
    body = _without_head(data)
    return Source(protocol=_known(protocol) or guess(body), chunks=[(None, body)], title=name or "a stream")


def of_recording(recording: recordings.Recording, name: str = "", protocol: str = "") -> Source:
    """A recording of the gateway, or of `penstock record`."""
    header = recording.header
    lost = "the recording was cut at its bound" if header.cut else ""
    note = f"{header.hidden} secrets were taken out of it ({MARK})" if header.hidden else ""
    who = " ".join(filter(None, (header.provider, header.model)))
    return Source(
        protocol=_known(protocol or header.protocol) or guess(recording.data), chunks=recording.chunks,
        framing=header.framing or "auto", title=name or who or "a recording", request=_request(header.request),
        lost=lost, note="; ".join(filter(None, (note, header.note))),
    )  # fmt: skip


def _known(protocol: str) -> str:
    """A protocol that can be read, or an error that lists them."""
    if protocol:
        protocols.decoder(protocol)
    return protocol


def _request(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value).decode()


def _without_head(data: bytes) -> bytes:
    """What `curl -i` saved, less what stands before the body."""
    while data.startswith(_HEAD):
        ends = [at + len(blank) for blank in (b"\r\n\r\n", b"\n\n") if (at := data.find(blank)) >= 0]
        if not ends:
            break
        data = data[min(ends) :]
    return data
