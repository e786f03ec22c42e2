"""`penstock inspect`: what a stream says, what it means and what comes of it, side by side in the terminal.

Leans on `tracing`; `rows`, `table` and `summary` draw. With `--json`, one object on each line instead.
"""

from __future__ import annotations

import shutil
import sys
import threading
import webbrowser
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from penstock._cli import common_options

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from penstock._cli.terminal import StyledLine
    from penstock._inspector.traces import TraceSource
    from penstock._tracing import Step, Tracer

EPILOG = """\
examples:
  penstock inspect answer.sse
  penstock inspect --to anthropic --all answer.sse | less -S
  curl -sN https://… | penstock inspect
  penstock inspect --web answer.sse
  penstock inspect --html answer.html answer.sse
  penstock inspect --json answer.sse | jq 'select(.kind == "event").event.type'

Each frame of the stream stands in the left column, the canonical events it caused in the middle, what leaves for the
target on the right. What all frames repeat is said once, above; long runs of deltas are folded (--all shows them).
Colours follow NO_COLOR and FORCE_COLOR.
"""
INDENT = 10  # of the summary
DEFAULT_WIDTH = 120  # where the terminal does not say


def add_arguments(parser: ArgumentParser) -> None:
    """The command's options."""
    parser.epilog = EPILOG
    common_options.add_source_options(parser)
    parser.add_argument(
        "--to", dest="target", metavar="PROTOCOL", default="vscode", help="what to show on the right (default: vscode)"
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object a line: each frame, event, output; a summary"
    )
    parser.add_argument("--all", action="store_true", help="fold no runs of rows that are alike")
    parser.add_argument("--width", metavar="N", type=int, help="columns to use (default: those of the terminal)")
    parser.add_argument("--no-color", action="store_true", help="no colours")
    add_page_arguments(parser)


def run(options: Namespace) -> int:
    """Read all of a stream, then show it."""
    from penstock import _protocols as protocols
    from penstock._detect import guess
    from penstock._tracing import tracer
    from penstock.errors import InputError

    with common_options.open_input(options.file) as file:
        data = b"".join(common_options.read_chunks(file))
    if wants_page(options):
        return run_page(data, options)
    source = guess(data, options.framing, options.limit) if options.source == "auto" else options.source
    traced = tracer(
        source,
        options.target,
        framing=options.framing,
        limit=options.limit,
        source_options=common_options.parse_codec_options(options.source_options, protocols.protocol(source).decoder),
        target_options=common_options.parse_codec_options(
            options.target_options, protocols.protocol(options.target).encoder
        ),
    )
    traced.feed(data)
    traced.finish()
    stream = InspectedStream(options.file, data, source, options.target, traced)
    if not common_options.is_stream(stream.events, traced.pipe.diagnostics):
        raise InputError(f"there is nothing of {source} in the input")
    if options.json:
        _print_json(stream)
    else:
        _print_table(stream, options)
    return 0


@dataclass
class InspectedStream:
    """What was inspected, and what was seen of it."""

    file: str
    data: bytes
    source: str
    target: str
    traced: Tracer

    @property
    def steps(self) -> list[Step]:
        return self.traced.steps

    @property
    def events(self) -> list[Any]:
        return self.traced.events

    def count(self, kind: str) -> int:
        return sum(step.kind == kind for step in self.steps)


def _print_json(stream: InspectedStream) -> None:
    import msgspec

    from penstock._cli.inspect_table import summarize_stream

    for number, step in enumerate(stream.steps):
        row = {"kind": step.kind, "number": number, "cause": step.cause, **_step_fields(step)}
        print(msgspec.json.encode(row).decode())
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


def _step_fields(step: Step) -> dict[str, Any]:
    import msgspec

    if step.kind == "event":
        return {"event": step.item}
    name, data = step.item
    try:
        payload = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        payload = data.decode("utf-8", "replace")
    return {"name": name.decode("utf-8", "replace"), "data": payload}


def _print_table(stream: InspectedStream, options: Namespace) -> None:
    from penstock._cli.inspect_table import InspectTable, group_steps, summarize_stream, summary_lines
    from penstock._cli.terminal import create_printer, replace_unencodable, wants_color

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


def _headline(stream: InspectedStream) -> StyledLine:
    from penstock._cli.terminal import printable

    name = "standard input" if stream.file == "-" else printable(PurePath(stream.file).name)
    count = stream.count("frame")
    size = f"{count:,} frame{'s' * (count != 1)}, {len(stream.data):,} bytes"
    way: StyledLine = [(stream.source, "bold"), (f" over {stream.traced.framing} → ", ""), (stream.target, "bold")]
    return [*way, (f"  {size}  {name}", "dim")]


HOST = "127.0.0.1"


def add_page_arguments(parser: ArgumentParser) -> None:
    """The options that make it a page."""
    parser.add_argument("--web", action="store_true", help="show it in a browser, until Ctrl-C")
    parser.add_argument("--port", metavar="N", type=int, default=0, help="where --web listens (default: a free port)")
    parser.add_argument("--no-browser", action="store_true", help="--web only says where it is, and opens nothing")
    parser.add_argument(
        "--html", metavar="FILE", type=Path, help="write the page with the stream in it to a file, secrets removed"
    )


def wants_page(options: Namespace) -> bool:
    """Whether it is a page that is wanted."""
    return bool(options.web or options.html)


def run_page(data: bytes, options: Namespace) -> int:
    """Show a stream, or write it."""
    from penstock._inspector.traces import source_from_file

    name = "standard input" if options.file == "-" else PurePath(options.file).name
    source = source_from_file(data, name, "" if options.source == "auto" else options.source)
    source.own = options.target
    if options.framing != "auto":
        source.framing = options.framing
    if options.html is not None:
        _write_page(source, options.html)
    if options.web:
        _serve_page(source, options)
    return 0


def _write_page(source: TraceSource, path: Path) -> None:
    from penstock._inspector.api import StaticFiles
    from penstock._inspector.export import export_html

    data = export_html(source, StaticFiles())
    path.write_bytes(data)
    print(f"penstock: {path}: {len(data):,} bytes, secrets removed; it opens in any browser", file=sys.stderr)


def _serve_page(source: TraceSource, options: Namespace) -> None:
    from penstock._gateway.config import Serve
    from penstock._http.uvicorn_server import listen
    from penstock._inspector.api import NOT_BUILT, StaticFiles
    from penstock._inspector.single_file import SingleFileApp
    from penstock.errors import InputError

    if not StaticFiles().built:
        raise InputError(f"--web: {NOT_BUILT}")

    def ready(port: int, _: Any) -> None:
        address = f"http://{HOST}:{port}/#/file"
        print(f"penstock shows {source.title} at {address}", file=sys.stderr)
        print("Stop with Ctrl-C.", file=sys.stderr, flush=True)
        if not options.no_browser:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    listen(SingleFileApp(source), Serve(host=HOST, port=options.port, drain=1.0), ready)
