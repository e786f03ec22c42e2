"""Traces the bytes of a `TraceSource` (a turn, a recording or a file), all at once or as they arrive.

`_stream_trace` traces, `schemas` formats the result. Slow for long streams: not for the event loop.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import astuple

from penstock import _protocols as protocols
from penstock._bridge import encoding, parser
from penstock._detect import guess
from penstock._diagnostics import Diagnostic
from penstock._gateway.callers import make_refusal
from penstock._gateway.client_form import ClientForm
from penstock._gateway.client_stream import replay_stages
from penstock._grammar import Guard
from penstock._inspector import schemas
from penstock._inspector.client_encoding import turn_request_of
from penstock._inspector.request_reasons import CUT, NO_REQUEST
from penstock._pipeline import Pipe, Stage
from penstock._redaction import MARK
from penstock._store import recordings
from penstock._stream_trace import BodyParser, Finding, Tracer, TraceTooLongError, Verbatim
from penstock.errors import InputError
from penstock.events import Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from penstock._inspector.schemas import TurnRow
    from penstock._inspector.turn_endings import FaultParty

CONSUMERS = ("openai-chat", "responses", "anthropic", "gemini", "uistream", "vscode", "completions", "aisdk", "events")
DEFAULT = "openai-chat"  # the consumer of a file whose own protocol no client speaks
SLICE_BYTES = 16 * 1024  # that are read at once of a stream that may be refused
_HEAD = b"HTTP/"
_NO_BYTES = "nothing of an answer was recorded: there are no frames"
_ENCODED_ANEW = "what the client got is encoded anew from the recording: it may differ in ids, times and pings"
_COPIED = "row title protocol consumers request request_lost lost note".split()  # from the source to its trace


def format_title(model: str, protocol: str) -> str:
    """Returns the title of a turn: the model that was asked for, and the client's protocol."""
    return f"{model or 'no model'} · {protocol}"


@dataclass
class TraceSource:
    """The bytes to trace. `consumer`: the client's protocol; `client_stages` makes the stages that wrote its response.

    `end`: how the stream ended, if known; `client_left`: the client disconnected before the end. `lost`: what is
    missing; `note`: another remark. `secrets`: values that must not be shown, in addition to the common ones.
    `request_protocol`: the protocol of `request`, if known; `request_cut`: only the beginning of it is there.
    `model` and `provider` answered, if there is no `row`. `fault_by`: who made the error `end`. `gone`: the content of
    the turn is not kept, and `lost` says why. `step_limit`: frames, events and outputs of a trace, of which more are
    refused; 0 is any number.
    """

    protocol: str
    chunks: Sequence[tuple[float | None, bytes]]
    framing: str = "auto"
    title: str = ""
    consumer: str = DEFAULT
    request: str = ""
    request_protocol: str = ""
    request_cut: bool = False
    model: str = ""
    provider: str = ""
    tenant: str = ""
    row: TurnRow | None = None
    lost: str = ""
    note: str = ""
    make_transforms: Callable[[], tuple[Stage[Any, Any], ...]] = tuple
    client_stages: Callable[[], tuple[Pipe, Verbatim | None]] | None = None
    end: Fault | None = None
    client_left: bool = False
    fault_by: FaultParty = ""
    gone: bool = False
    secrets: tuple[str, ...] = ()
    notices: tuple[bytes, ...] = ()  # payloads that the client got before the answer
    step_limit: int = 0

    @property
    def request_lost(self) -> str:
        """Why the request of a turn is not here as a whole; empty if it is."""
        if self.request:
            return CUT if self.request_cut else ""
        if self.row is None:
            return ""
        return self.lost if self.gone else NO_REQUEST

    @property
    def consumers(self) -> list[str]:
        return [*({self.consumer} - {*CONSUMERS}), *CONSUMERS]

    def tracer(self, consumer: str) -> Tracer:
        parse: Any = BodyParser() if self.framing == BodyParser.framing else parser(self.framing)
        front = Pipe(parse, protocols.decoder(self.protocol), Guard(), *self.make_transforms())
        if consumer == self.consumer and self.client_stages is not None:
            return Tracer(front, *self.client_stages())
        return Tracer(front, encoding(consumer, frames=True))


class TraceReader:
    """Traces a source for one consumer."""

    def __init__(self, source: TraceSource, consumer: str = "") -> None:
        self.source = source
        self.consumer: str = consumer or source.consumer
        if self.consumer not in source.consumers:
            raise InputError(f"as: nobody is called {self.consumer[:100]!r}; there is: {', '.join(source.consumers)}")
        self.tracer: Tracer = source.tracer(self.consumer)
        self.tracer.step_limit = source.step_limit
        if self.consumer == source.consumer:
            self.tracer.add_output([(b"", payload) for payload in source.notices])
        self._formatter = schemas.TraceFormatter(self.tracer, source.secrets)
        self._fault: Fault | None = None

    def feed(self, chunks: Iterable[tuple[float | None, bytes]]) -> None:
        """Traces more bytes. Bytes that cannot be read end the trace with a fault."""
        try:
            for at, chunk in chunks:
                # With a limit in slices: a parser reads all frames of a chunk before the first of them is a step.
                size = SLICE_BYTES if self.source.step_limit else max(len(chunk), 1)
                for start in range(0, max(len(chunk), 1), size):
                    if self._fault is None:
                        self.tracer.feed(chunk[start : start + size], at)
        except TraceTooLongError:
            raise too_many_steps(self.source.step_limit) from None
        except InputError as error:
            self._fault = Fault("malformed", str(error))

    def finish(self) -> None:
        """Ends the trace: there are no more bytes."""
        try:
            self._finish()
        except TraceTooLongError:
            raise too_many_steps(self.source.step_limit) from None

    def _finish(self) -> None:
        if self.source.client_left:
            self._note_half_frame()
            return
        try:
            if self._fault is None and (self.source.end is None or self.source.end.kind == "truncated"):
                self.tracer.finish()
                return
        except TraceTooLongError:
            raise
        except InputError as error:
            self._fault = Fault("malformed", str(error))
        self._note_half_frame()
        self.tracer.finish(self._fault or self.source.end, broken=True)

    def _note_half_frame(self) -> None:
        step = self.tracer.add_partial_frame()
        if step is not None:
            row = Diagnostic("cut-frame", "the bytes ended in the middle of this frame: nobody has read it")
            self.tracer.findings.append(Finding(step, row))

    def take_update(self, *, done: bool = False) -> schemas.TraceUpdate:
        update = self._formatter.take_update(done=done)
        update.fault_by = self.source.fault_by
        if done and self.source.client_left and self.source.end is not None:
            update.marks.append(schemas.MarkRow("warning", self.source.end.kind, self.source.end.message))
        return update

    def trace(self, *, done: bool = True) -> schemas.Trace:
        """Returns the trace so far."""
        source = self.source
        copied: dict[str, Any] = {name: getattr(source, name) for name in _COPIED}
        timed = any(at is not None for at, _ in source.chunks)
        update = astuple(self.take_update(done=done))
        return schemas.Trace(*update, version=schemas.VERSION, consumer=self.consumer, timed=timed, **copied)


def too_many_steps(limit: int) -> Exception:
    """Returns the refusal of an uploaded stream with more than so many frames, events and outputs."""
    message = (
        f"this stream has more than {limit:,} frames, events and outputs in all, the most that is shown of an upload: "
        "penstock inspect FILE in a terminal takes any size"
    )
    return make_refusal(413, "too-large", message, code="trace_too_long")


def read_trace(source: TraceSource, consumer: str = "") -> TraceReader:
    """Traces a source to its end."""
    reader = TraceReader(source, consumer)
    reader.feed(source.chunks)
    reader.finish()
    return reader


# ── files ─────────────────────────────────────────────────────────────────────────────────────────


def format_secret_count(count: int) -> str:
    """Returns a sentence about how many secrets were taken out of an answer or a recording."""
    return f"{count:,} {'secret was' if count == 1 else 'secrets were'} taken out of it"


def source_from_file(data: bytes, name: str = "", protocol: str = "", step_limit: int = 0) -> TraceSource:
    """Returns a saved stream, a recording or bare bytes; its protocol is detected. `step_limit`: of its traces."""
    source = _detect_source(data, name, protocol, step_limit)
    source.step_limit = step_limit
    return source


def _detect_source(data: bytes, name: str, protocol: str, most_chunks: int) -> TraceSource:
    if not data.strip():
        raise InputError("there is nothing in it")
    if recordings.is_recording(data[:200]):
        if most_chunks and data.count(b"\n") > most_chunks:  # before all are decoded
            raise too_many_steps(most_chunks)
        return source_from_recording(recordings.parse_recording(data, name or "the recording"), name, protocol)
    body = _without_head(data)
    spoken = _known_protocol(protocol) or guess(body)
    return TraceSource(spoken, [(None, body)], title=name or "a stream", consumer=_file_consumer(spoken))


def source_from_recording(recording: recordings.Recording, name: str = "", protocol: str = "") -> TraceSource:
    """Returns a recording of the gateway or of `penstock record`. `protocol`: if the recording does not name one."""
    header, data = recording.header, recording.data
    hidden = f"{format_secret_count(header.hidden)} ({MARK})" if header.hidden else ""
    who = " ".join(filter(None, (header.provider, header.model)))
    lost = "the recording was cut at its bound" if header.cut else "" if data else _NO_BYTES
    source = TraceSource(
        protocol=_known_protocol(protocol or header.protocol) or (guess(data) if data else "events"),
        chunks=recording.chunks,
        framing=header.framing or "auto",
        title=name or who or "a recording",
        request=_request_text(header.request),
        model=header.model,
        provider=header.provider,
        lost=lost,
        note="; ".join(filter(None, (hidden, header.note))),
    )
    _set_client(source, header)
    return source


def _set_client(source: TraceSource, header: recordings.RecordingHeader) -> None:
    """Has the trace show what the client got, if the recording tells its form."""
    if not header.client:
        if header.id and source.chunks:  # of a gateway
            source.note = "; ".join(filter(None, (source.note, _ENCODED_ANEW)))
        return
    try:
        form = msgspec.convert(header.client, ClientForm)
    except msgspec.ValidationError:
        return
    passthrough = header.passthrough
    source.consumer = form.protocol
    source.client_stages = lambda: replay_stages(turn_request_of(form), passthrough=passthrough)


def _file_consumer(protocol: str) -> str:
    """Returns who a file is shown for at first: a client of the stream's own protocol, if clients speak it."""
    return protocol if protocol in CONSUMERS else DEFAULT


def _known_protocol(protocol: str) -> str:
    """Returns the protocol. Raises an error that lists all, if it is unknown."""
    if protocol:
        protocols.decoder(protocol)
    return protocol


def _request_text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value).decode()


def _without_head(data: bytes) -> bytes:
    """Returns the body of what `curl -i` saved."""
    while data.startswith(_HEAD):
        ends = [at + len(blank) for blank in (b"\r\n\r\n", b"\n\n") if (at := data.find(blank)) >= 0]
        if not ends:
            break
        data = data[min(ends) :]
    return data


MAX_LISTED = 500  # the latest
SLACK = 2  # seconds between the times of a turn and of its recording
_STAMP = "%Y%m%d-%H%M%S"


class RecordingRow(msgspec.Struct):
    """A recording in the list."""

    name: str
    time: float
    size: int
    title: str


class RecordingFolder:
    """The folder of recordings; `path` is None if there is none."""

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def list_recordings(self) -> list[RecordingRow]:
        """Returns the latest recordings, newest first."""
        if self.path is None:
            return []
        found = sorted(self._files(), key=lambda row: row[0].name, reverse=True)
        return [RecordingRow(path.name, when, size, _title(path.name)) for path, when, size in found[:MAX_LISTED]]

    def _files(self) -> list[tuple[Path, float, int]]:
        files: list[tuple[Path, float, int]] = []
        for path in self.path.glob(f"*{recordings.SUFFIX}") if self.path is not None else ():
            with suppress(OSError):  # it was deleted to make room for another
                stat = path.stat()
                files.append((path, stat.st_mtime, stat.st_size))
        return files

    def open(self, name: str) -> TraceSource:
        """Returns the recording with this file name."""
        if self.path is None or name not in {path.name for path, _, _ in self._files()}:
            raise make_refusal(404, "not-found", f"there is no recording {name[:100]!r}")
        return source_from_recording(recordings.read_recording(self.path / name), name)

    def names(self) -> frozenset[str]:
        """Returns the start times of all recordings, as in their file names."""
        return frozenset(path.name[: len("YYYYMMDD-HHMMSS")] for path, _, _ in self._files())

    def find_turn(self, id: str, began: float, protocol: str = "") -> TraceSource | None:
        """Returns the recording of a turn that began then, if there is one. `protocol`: of its answer, if known."""
        if self.path is None or not id:
            return None
        for second in file_stamps(began):
            for path in self.path.glob(f"{second}-*{recordings.SUFFIX}"):
                recording = recordings.read_recording(path)
                if recording.header.id == id:
                    known = recording.header.protocol or protocol
                    return source_from_recording(recording, path.name, known)
        return None


def file_stamps(began: float) -> list[str]:
    """Returns how the file names of recordings of that time begin."""
    return [time.strftime(_STAMP, time.gmtime(began + slack)) for slack in range(-1, SLACK + 1)]


def _title(name: str) -> str:
    """`20261115-101112-0007-groq-llama.tape` → `groq-llama`."""
    return name.removesuffix(recordings.SUFFIX).split("-", 3)[-1]
