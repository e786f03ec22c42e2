"""`penstock inspect`: prints the frames of a stream, their events and the output beside each other.

`--json` prints one object a line instead. `--web` and `--html` show the inspector's page. Of a recording with its
request, the tokens of the prompt are printed too.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
import webbrowser
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._cli import common_options
from penstock._cli.inspect_rows import KeptRows, RowBuilder, TableEntry
from penstock._cli.inspect_summary import StreamSummary, summary_lines
from penstock._cli.inspect_table import InspectTable, print_breakdown
from penstock._cli.inspect_trace import StepTracer, detect_source
from penstock._cli.progress import show_progress
from penstock._cli.terminal import Printer, StyledLine, create_printer, replace_unencodable, wants_color
from penstock._framing import DETECTED
from penstock._printable_text import printable
from penstock._store.recordings import is_recording
from penstock.errors import InputError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from penstock._cli.inspect_trace import StepHandler
    from penstock._framing.base import Frame
    from penstock._inspector.schemas import PromptBreakdown
    from penstock._inspector.stream_traces import TraceSource

INDENT = 10  # of the summary
DEFAULT_WIDTH = 120  # if the terminal has no size
BLOCK = 1_000  # rows of a table that is printed in parts
MAX_HELD_LINES = 10_000  # of JSON, until it is known that the input is a stream
_IN_MEMORY = 4 << 20  # bytes of a copy of the input that are not in a temporary file


def run_inspect(options: Namespace) -> int:
    """Shows a stream."""
    if options.web or options.html:
        return _run_page(common_options.read_input(options.file), options)
    with closing(StreamInput(options.file, twice=options.all and not options.json)) as given:
        _inspect(given, options)
    return 0


def _inspect(given: StreamInput, options: Namespace) -> None:
    chunks = given.read()
    first = next(chunks)
    breakdown = None
    read_again: Callable[[], Iterable[bytes]] = given.read
    if is_recording(first[:200]):
        recording = _read_recording(b"".join([first, *chunks]), options)
        breakdown = _count_request(recording)
        recorded = [chunk for _, chunk in recording.chunks]
        chunks, read_again = iter(recorded), lambda: recorded
    else:
        chunks = chain([first], chunks)
    source = options.source
    if source == "auto":
        source, chunks = detect_source(chunks, options.framing, options.limit)
    stream = InspectedStream(options, source, chunks, read_again, breakdown)
    (_print_json if options.json else _print_table)(stream)


class StreamInput:
    """The chunks of a file or of standard input. `twice`: they can be read again, from a copy if need be."""

    def __init__(self, name: str, *, twice: bool) -> None:
        self._name = name
        needs_copy = twice and not Path(name).is_file()
        self._copy = tempfile.SpooledTemporaryFile(_IN_MEMORY) if needs_copy else None  # noqa: SIM115
        self._times = 0

    def read(self) -> Iterator[bytes]:
        """Yields the chunks."""
        self._times += 1
        if self._copy is not None and self._times > 1:
            self._copy.seek(0)
            while chunk := self._copy.read(common_options.READ_BYTES):
                yield chunk
            return
        with common_options.open_input(self._name) as file:
            for chunk in show_progress(common_options.read_chunks(file), file):
                if self._copy is not None:
                    self._copy.write(chunk)
                yield chunk

    def close(self) -> None:
        """Deletes the copy."""
        if self._copy is not None:
            self._copy.close()


@dataclass
class InspectedStream:
    """A stream that is to be shown. `breakdown`: the tokens of its request, if the request was recorded."""

    options: Namespace
    source: str
    chunks: Iterable[bytes]
    read_again: Callable[[], Iterable[bytes]]
    breakdown: PromptBreakdown | None = None

    def trace(self, handler: StepHandler, chunks: Iterable[bytes] | None = None) -> StepTracer:
        """Traces all of the stream. Raises an `InputError` if it is none."""
        codec_options = common_options.read_codec_options(self.options, self.source)
        tracer = StepTracer(self.source, self.options.target, handler, codec_options)
        for chunk in self.chunks if chunks is None else chunks:
            tracer.feed(chunk)
        tracer.finish()
        if not tracer.has_content and any(row.code == "malformed" for row in tracer.pipe.diagnostics):
            raise InputError(f"there is nothing of {self.source} in the input")
        return tracer


# ── JSON ──────────────────────────────────────────────────────────────────────────────────────────


class StepJsonWriter:
    """Prints a JSON object for each step. The first lines wait until there is content: garbage prints none."""

    def __init__(self) -> None:
        self.summary = StreamSummary()
        self.wants_steps = True
        self._held: list[str] | None = []

    def on_skipped(self, frames: Sequence[Frame], events: Sequence[Any]) -> None:
        raise AssertionError("every step is printed")  # pragma: no cover

    def on_frame(self, number: int, frame: Frame) -> None:
        self._write({"kind": "frame", "number": number, "cause": None, **_frame_fields(frame)})

    def on_event(self, number: int, cause: int | None, event: Any) -> None:
        self.summary.feed(event)
        self._write({"kind": "event", "number": number, "cause": cause, "event": event})

    def on_output(self, number: int, cause: int | None, frame: Frame) -> None:
        self._write({"kind": "output", "number": number, "cause": cause, **_frame_fields(frame)})

    def flush(self) -> None:
        """Prints the lines that waited."""
        held, self._held = self._held, None
        for line in held or ():
            print(line)

    def _write(self, row: dict[str, Any]) -> None:
        line = msgspec.json.encode(row).decode()
        if self._held is None:
            print(line)
        else:
            self._held.append(line)
            if len(self._held) > MAX_HELD_LINES:
                self.flush()


def _frame_fields(frame: Frame) -> dict[str, Any]:
    name, data = frame
    try:
        payload = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        payload = data.decode("utf-8", "replace")
    return {"name": name.decode("utf-8", "replace"), "data": payload}


def _print_json(stream: InspectedStream) -> None:
    writer = StepJsonWriter()
    tracer = stream.trace(writer)
    writer.flush()
    if stream.breakdown is not None:
        print(msgspec.json.encode({"kind": "breakdown", **msgspec.structs.asdict(stream.breakdown)}).decode())
    about = {
        "kind": "summary",
        "source": stream.source,
        "framing": tracer.framing,
        "target": stream.options.target,
        "bytes": tracer.bytes,
        "frames": tracer.frames,
        "events": tracer.events,
        "outputs": tracer.outputs,
    }
    print(msgspec.json.encode({**about, **writer.summary.result(tracer.pipe.diagnostics)}).decode())


# ── the table ─────────────────────────────────────────────────────────────────────────────────────


def _print_table(stream: InspectedStream) -> None:
    replace_unencodable()
    options, rows = stream.options, KeptRows()
    builder = RowBuilder(rows.add, everything=options.all, kept=rows)
    tracer = stream.trace(builder)
    builder.finish()
    width = options.width or shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns
    printer = create_printer(color=wants_color(refused=options.no_color), width=width)
    table = InspectTable(builder.frames, builder.outputs)
    printer.print_line(_headline(stream, tracer), cut=True)
    if table.constant:
        printer.print_line([("in every frame:", "dim"), *table.constant], cut=True)
    printer.print_line([])
    if options.all and rows.left_out:
        _print_blocks(stream, table, printer)
    else:
        note = [f"{rows.left_out:,} rows are not shown; --all shows them"] if rows.left_out else []
        table.print(printer, stream.source, options.target, [*rows.first, *note, *rows.last])
    printer.print_line([])
    for label, line in summary_lines(builder.summary.result(tracer.pipe.diagnostics)):
        printer.print_labelled(label, line, INDENT)
    if stream.breakdown is not None:
        printer.print_line([])
        print_breakdown(printer, stream.breakdown)


def _print_blocks(stream: InspectedStream, table: InspectTable, printer: Printer) -> None:
    """Prints all rows of a long stream: it is read again, and some rows at a time are printed as a table."""
    block: list[TableEntry] = []

    def print_block() -> None:
        table.print(printer, stream.source, stream.options.target, block)
        block.clear()

    def add(entry: TableEntry) -> None:
        block.append(entry)
        if len(block) == BLOCK:
            print_block()

    builder = RowBuilder(add, everything=True)
    stream.trace(builder, stream.read_again())
    builder.finish()
    if block:
        print_block()


def _headline(stream: InspectedStream, tracer: StepTracer) -> StyledLine:
    file, target = stream.options.file, stream.options.target
    name = "standard input" if file == "-" else printable(PurePath(file).name)
    size = f"{tracer.frames:,} frame{'s' * (tracer.frames != 1)}, {tracer.bytes:,} bytes"
    framing = f" over {tracer.framing} → "
    return [(stream.source, "bold"), (framing, ""), (target, "bold"), (f"  {size}  {name}", "dim")]


# ── recordings ────────────────────────────────────────────────────────────────────────────────────


def _read_recording(data: bytes, options: Namespace) -> TraceSource:
    """Returns a recording of penstock. Its protocol and framing hold unless others are given."""
    from penstock._inspector.stream_traces import source_from_file

    source = source_from_file(data, options.file, "" if options.source == "auto" else options.source)
    options.source = source.protocol
    if options.framing == "auto" and source.framing in DETECTED:
        options.framing = source.framing
    return source


def _count_request(source: TraceSource) -> PromptBreakdown | None:
    if not source.request:
        return None
    from penstock._inspector.request_breakdown import break_down
    from penstock._tokens.estimate import HybridTokenEstimator

    return break_down(source, HybridTokenEstimator())


# ── the page ──────────────────────────────────────────────────────────────────────────────────────

HOST = "127.0.0.1"


def _run_page(data: bytes, options: Namespace) -> int:
    """Shows a stream in a browser, or writes the page to a file."""
    from penstock._inspector.stream_traces import source_from_file

    name = "standard input" if options.file == "-" else PurePath(options.file).name
    source = source_from_file(data, name, "" if options.source == "auto" else options.source)
    source.consumer = options.target
    if options.framing != "auto":
        source.framing = options.framing
    if options.html is not None:
        _write_page(source, options.html)
    if options.web:
        _serve_page(source, options)
    return 0


def _write_page(source: TraceSource, path: Path) -> None:
    from penstock._inspector.file_inspector import export_html
    from penstock._inspector.static_files import StaticFiles

    data = export_html(source, StaticFiles())
    path.write_bytes(data)
    common_options.print_message(f"{path}: {len(data):,} bytes, secrets removed; it opens in any browser")


def _serve_page(source: TraceSource, options: Namespace) -> None:
    from penstock._gateway.config import Serve
    from penstock._http.uvicorn_server import listen
    from penstock._inspector.file_inspector import SingleFileApp
    from penstock._inspector.static_files import NOT_BUILT, StaticFiles

    if not StaticFiles().built:
        raise InputError(f"--web: {NOT_BUILT}")

    def on_ready(port: int, _: Any) -> None:
        address = f"http://{HOST}:{port}/#/file"
        print(f"penstock shows {source.title} at {address}", file=sys.stderr)
        print("Stop with Ctrl-C.", file=sys.stderr, flush=True)
        if not options.no_browser:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    listen(SingleFileApp(source), Serve(host=HOST, port=options.port, drain=1.0), on_ready)
