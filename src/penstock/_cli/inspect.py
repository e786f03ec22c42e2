"""`penstock inspect`: prints the frames of a stream, their events and the output beside each other.

`--json` prints one object a line instead. `--web` and `--html` show the inspector's page. Of a recording with its
request, the tokens of the prompt are printed too.
"""

from __future__ import annotations

import shutil
import sys
import threading
import webbrowser
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._cli import common_options
from penstock._cli.inspect_table import (
    InspectTable,
    group_steps,
    print_breakdown,
    summarize_stream,
    summary_lines,
)
from penstock._cli.terminal import StyledLine, create_printer, printable, replace_unencodable, wants_color
from penstock._detect import guess
from penstock._framing import DETECTED
from penstock._store.recordings import is_recording
from penstock._stream_trace import Tracer, TraceStep, tracer
from penstock.errors import InputError

if TYPE_CHECKING:
    from argparse import Namespace

    from penstock._inspector.schemas import PromptBreakdown
    from penstock._inspector.stream_traces import TraceSource

INDENT = 10  # of the summary
DEFAULT_WIDTH = 120  # if the terminal has no size


def run_inspect(options: Namespace) -> int:
    """Reads all of a stream, then shows it."""
    data = common_options.read_input(options.file)
    if options.web or options.html:
        return _run_page(data, options)
    recording = _read_recording(data, options)
    if recording is not None:
        data = b"".join(chunk for _, chunk in recording.chunks)
    source = guess(data, options.framing, options.limit) if options.source == "auto" else options.source
    traced = tracer(source, options.target, **common_options.read_codec_options(options, source))
    traced.feed(data)
    traced.finish()
    stream = InspectedStream(options.file, data, source, options.target, traced, _count_request(recording))
    if not common_options.is_stream(stream.events, traced.pipe.diagnostics):
        raise InputError(f"there is nothing of {source} in the input")
    if options.json:
        _print_json(stream)
    else:
        _print_table(stream, options)
    return 0


@dataclass
class InspectedStream:
    """A stream and its trace. `breakdown`: the tokens of its request, if the request was recorded."""

    file: str
    data: bytes
    source: str
    target: str
    traced: Tracer
    breakdown: PromptBreakdown | None = None

    @property
    def steps(self) -> list[TraceStep]:
        return self.traced.steps

    @property
    def events(self) -> list[Any]:
        return self.traced.events

    def count(self, kind: str) -> int:
        return sum(step.kind == kind for step in self.steps)


def _print_json(stream: InspectedStream) -> None:
    for number, step in enumerate(stream.steps):
        row = {"kind": step.kind, "number": number, "cause": step.cause, **_step_fields(step)}
        print(msgspec.json.encode(row).decode())
    if stream.breakdown is not None:
        print(msgspec.json.encode({"kind": "breakdown", **msgspec.structs.asdict(stream.breakdown)}).decode())
    about = {
        "kind": "summary",
        "source": stream.source,
        "framing": stream.traced.framing,
        "target": stream.target,
        "bytes": len(stream.data),
        "frames": stream.count("frame"),
        "events": stream.count("event"),
        "outputs": stream.count("output"),
    }
    print(msgspec.json.encode({**about, **summarize_stream(stream.events, stream.traced.pipe.diagnostics)}).decode())


def _step_fields(step: TraceStep) -> dict[str, Any]:
    if step.kind == "event":
        return {"event": step.item}
    name, data = step.item
    try:
        payload = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        payload = data.decode("utf-8", "replace")
    return {"name": name.decode("utf-8", "replace"), "data": payload}


def _print_table(stream: InspectedStream, options: Namespace) -> None:
    replace_unencodable()
    width = options.width or shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns
    printer = create_printer(color=wants_color(refused=options.no_color), width=width)
    table = InspectTable(group_steps(stream.steps), everything=options.all)
    printer.print_line(_headline(stream), cut=True)
    if table.constant:
        printer.print_line([("in every frame:", "dim"), *table.constant], cut=True)
    printer.print_line([])
    table.print(printer, stream.source, stream.target)
    printer.print_line([])
    for label, line in summary_lines(summarize_stream(stream.events, stream.traced.pipe.diagnostics)):
        printer.print_labelled(label, line, INDENT)
    if stream.breakdown is not None:
        printer.print_line([])
        print_breakdown(printer, stream.breakdown)


def _read_recording(data: bytes, options: Namespace) -> TraceSource | None:
    """Returns a recording of penstock; None for bare bytes. Its protocol and framing hold unless others are given."""
    if not is_recording(data[:200]):
        return None
    from penstock._inspector.stream_traces import source_from_file

    source = source_from_file(data, options.file, "" if options.source == "auto" else options.source)
    options.source = source.protocol
    if options.framing == "auto" and source.framing in DETECTED:
        options.framing = source.framing
    return source


def _count_request(source: TraceSource | None) -> PromptBreakdown | None:
    if source is None or not source.request:
        return None
    from penstock._inspector.request_breakdown import break_down
    from penstock._tokens.estimate import HybridTokenEstimator

    return break_down(source, HybridTokenEstimator())


def _headline(stream: InspectedStream) -> StyledLine:
    name = "standard input" if stream.file == "-" else printable(PurePath(stream.file).name)
    count = stream.count("frame")
    size = f"{count:,} frame{'s' * (count != 1)}, {len(stream.data):,} bytes"
    framing = f" over {stream.traced.framing} → "
    return [(stream.source, "bold"), (framing, ""), (stream.target, "bold"), (f"  {size}  {name}", "dim")]


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
    from penstock._inspector.api_router import StaticFiles
    from penstock._inspector.file_inspector import export_html

    data = export_html(source, StaticFiles())
    path.write_bytes(data)
    common_options.print_message(f"{path}: {len(data):,} bytes, secrets removed; it opens in any browser")


def _serve_page(source: TraceSource, options: Namespace) -> None:
    from penstock._gateway.config import Serve
    from penstock._http.uvicorn_server import listen
    from penstock._inspector.api_router import NOT_BUILT, StaticFiles
    from penstock._inspector.file_inspector import SingleFileApp

    if not StaticFiles().built:
        raise InputError(f"--web: {NOT_BUILT}")

    def on_ready(port: int, _: Any) -> None:
        address = f"http://{HOST}:{port}/#/file"
        print(f"penstock shows {source.title} at {address}", file=sys.stderr)
        print("Stop with Ctrl-C.", file=sys.stderr, flush=True)
        if not options.no_browser:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    listen(SingleFileApp(source), Serve(host=HOST, port=options.port, drain=1.0), on_ready)
