"""Bytes → a trace, at once or as they come. Where they come from (a turn, a recording, a file) is a `Source`.

Leans on `tracing` for what happens and on `forms` for how it is told. Slow for long streams: not for the event loop.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import _protocols as protocols
from penstock._bridge import encoding, parser
from penstock._detect import guess
from penstock._diagnostics import Diagnostic
from penstock._gateway.callers import make_refusal
from penstock._grammar import Guard
from penstock._inspector import schemas
from penstock._pipeline import Pipe, Stage
from penstock._redaction import MARK
from penstock._store import recordings
from penstock._tracing import Finding, Tracer, Verbatim, Whole
from penstock.errors import InputError
from penstock.events import Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from penstock._inspector.schemas import TurnRow

CONSUMERS = ("openai-chat", "responses", "anthropic", "gemini", "uistream", "vscode", "completions", "aisdk", "events")
DEFAULT = "vscode"  # what a file is shown as, unless something else is asked for
_HEAD = b"HTTP/"


@dataclass
class TraceSource:
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
    row: TurnRow | None = None
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


class TraceReader:
    """A source being traced for one consumer."""

    def __init__(self, source: TraceSource, consumer: str = "") -> None:
        self.source = source
        self.consumer = consumer or source.own
        if self.consumer not in source.consumers:
            raise InputError(f"as: nobody is called {self.consumer[:100]!r}; there is: {', '.join(source.consumers)}")
        self.tracer = source.tracer(self.consumer)
        if self.consumer == source.own:
            self.tracer.say([(b"", payload) for payload in source.before])
        self.shown = schemas.TraceFormatter(self.tracer)
        self._broken: Fault | None = None

    def feed(self, chunks: Iterable[tuple[float | None, bytes]]) -> None:
        """More bytes. What cannot be read ends the trace, in it."""
        try:
            for at, chunk in chunks:
                if self._broken is None:
                    self.tracer.feed(chunk, at)
        except InputError as error:
            self._broken = Fault("malformed", str(error))

    def finish(self) -> None:
        """No more bytes."""
        if self.source.left:
            self._note_half_frame()
            return
        try:
            if self._broken is None and (self.source.end is None or self.source.end.kind == "truncated"):
                self.tracer.finish()
                return
        except InputError as error:
            self._broken = Fault("malformed", str(error))
        self._note_half_frame()
        self.tracer.finish(self._broken or self.source.end, broken=True)

    def _note_half_frame(self) -> None:
        step = self.tracer.half()
        if step is not None:
            row = Diagnostic("cut-frame", "the bytes ended in the middle of this frame: nobody has read it")
            self.tracer.findings.append(Finding(step, row))

    def take_update(self, *, done: bool = False) -> schemas.TraceUpdate:
        made = self.shown.take_update(done=done)
        if done and self.source.left and self.source.end is not None:
            made.marks.append(schemas.MarkRow("warning", self.source.end.kind, self.source.end.message))
        return made

    def trace(self, *, done: bool = True) -> schemas.Trace:
        """All there is so far."""
        made, source = self.take_update(done=done), self.source
        return schemas.Trace(
            made.frames,
            made.events,
            made.outputs,
            made.marks,
            made.done,
            version=schemas.VERSION,
            row=source.row,
            title=source.title,
            protocol=source.protocol,
            consumer=self.consumer,
            consumers=source.consumers,
            timed=any(at is not None for at, _ in source.chunks),
            request=source.request,
            lost=source.lost,
            note=source.note,
        )


def read_trace(source: TraceSource, consumer: str = "") -> TraceReader:
    """A source from its beginning to its end."""
    reading = TraceReader(source, consumer)
    reading.feed(source.chunks)
    reading.finish()
    return reading


# ── files ─────────────────────────────────────────────────────────────────────────────────────────


def source_from_file(data: bytes, name: str = "", protocol: str = "") -> TraceSource:
    """A stream that somebody has saved: one of our recordings, or the bytes alone. What it is, is found out."""
    if not data.strip():
        raise InputError("there is nothing in it")
    if recordings.is_recording(data[:200]):
        return source_from_recording(recordings.parse_recording(data, name or "the recording"), name, protocol)
    body = _without_head(data)
    return TraceSource(
        protocol=_known_protocol(protocol) or guess(body), chunks=[(None, body)], title=name or "a stream"
    )


def source_from_recording(recording: recordings.Recording, name: str = "", protocol: str = "") -> TraceSource:
    """A recording of the gateway, or of `penstock record`."""
    header = recording.header
    lost = "the recording was cut at its bound" if header.cut else ""
    note = f"{header.hidden} secrets were taken out of it ({MARK})" if header.hidden else ""
    who = " ".join(filter(None, (header.provider, header.model)))
    return TraceSource(
        protocol=_known_protocol(protocol or header.protocol) or guess(recording.data),
        chunks=recording.chunks,
        framing=header.framing or "auto",
        title=name or who or "a recording",
        request=_request_text(header.request),
        lost=lost,
        note="; ".join(filter(None, (note, header.note))),
    )


def _known_protocol(protocol: str) -> str:
    """A protocol that can be read, or an error that lists them."""
    if protocol:
        protocols.decoder(protocol)
    return protocol


def _request_text(value: Any) -> str:
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


MAX_LISTED = 500  # the latest of them
SLACK = 2  # seconds between when a turn is said to have begun and when its recording is
_STAMP = "%Y%m%d-%H%M%S"


class RecordingRow(msgspec.Struct):
    """A file in the list."""

    name: str
    time: float
    size: int
    title: str


class RecordingFolder:
    """The folder of recordings; `path` None: there is none."""

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def list_recordings(self) -> list[RecordingRow]:
        """The latest, newest first."""
        if self.path is None:
            return []
        found = sorted(self._files(), key=lambda row: row[0].name, reverse=True)
        return [RecordingRow(path.name, when, size, _title(path.name)) for path, when, size in found[:MAX_LISTED]]

    def _files(self) -> list[tuple[Path, float, int]]:
        made: list[tuple[Path, float, int]] = []
        for path in self.path.glob(f"*{recordings.SUFFIX}") if self.path is not None else ():
            try:
                about = path.stat()
            except OSError:  # it has made room for another
                continue
            made.append((path, about.st_mtime, about.st_size))
        return made

    def open(self, name: str) -> TraceSource:
        """A recording by the name of its file."""
        if self.path is None or name not in {path.name for path, _, _ in self._files()}:
            raise make_refusal(404, "not-found", f"there is no recording {name[:100]!r}")
        return source_from_recording(recordings.read_recording(self.path / name), name)

    def names(self) -> frozenset[str]:
        """The seconds at which recordings began, by their names."""
        return frozenset(path.name[: len("YYYYMMDD-HHMMSS")] for path, _, _ in self._files())

    def find_turn(self, id: str, began: float) -> TraceSource | None:
        """The recording of a turn that began then, if there is one."""
        if self.path is None or not id:
            return None
        for second in file_stamps(began):
            for path in self.path.glob(f"{second}-*{recordings.SUFFIX}"):
                recording = recordings.read_recording(path)
                if recording.header.id == id:
                    return source_from_recording(recording, path.name)
        return None


def file_stamps(began: float) -> list[str]:
    """How the names of recordings of that time begin."""
    return [time.strftime(_STAMP, time.gmtime(began + slack)) for slack in range(-1, SLACK + 1)]


def _title(name: str) -> str:
    """`20261115-101112-0007-groq-llama.tape` → `groq-llama`."""
    return name.removesuffix(recordings.SUFFIX).split("-", 3)[-1]
