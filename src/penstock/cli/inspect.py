"""`penstock inspect`: what a stream says, what it means and what comes of it, side by side in the terminal.

Leans on `tracing`; `rows`, `table` and `summary` draw. With `--json`, one object on each line instead.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from penstock.cli import inspect_page, reading

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from penstock.cli.ink import Line
    from penstock.tracing import Step, Tracer

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
WIDE = 120  # where the terminal does not say


def arguments(parser: ArgumentParser) -> None:
    """The command's options."""
    parser.epilog = EPILOG
    reading.source_arguments(parser)
    parser.add_argument(
        "--to", dest="target", metavar="PROTOCOL", default="vscode", help="what to show on the right (default: vscode)"
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object a line: each frame, event, output; a summary"
    )
    parser.add_argument("--all", action="store_true", help="fold no runs of rows that are alike")
    parser.add_argument("--width", metavar="N", type=int, help="columns to use (default: those of the terminal)")
    parser.add_argument("--no-color", action="store_true", help="no colours")
    inspect_page.arguments(parser)


def run(options: Namespace) -> int:
    """Read all of a stream, then show it."""
    from penstock import protocols
    from penstock.errors import InputError
    from penstock.guess import guess
    from penstock.tracing import tracer

    with reading.opened(options.file) as file:
        data = b"".join(reading.chunks(file))
    if inspect_page.wanted(options):
        return inspect_page.run(data, options)
    source = guess(data, options.framing, options.limit) if options.source == "auto" else options.source
    traced = tracer(
        source, options.target, framing=options.framing, limit=options.limit,
        source_options=reading.settings(options.source_options, protocols.protocol(source).decoder),
        target_options=reading.settings(options.target_options, protocols.protocol(options.target).encoder),
    )  # fmt: skip
    traced.feed(data)
    traced.finish()
    stream = Stream(options.file, data, source, options.target, traced)
    if not reading.understood(stream.events, traced.pipe.diagnostics):
        raise InputError(f"there is nothing of {source} in the input")
    if options.json:
        _print_json(stream)
    else:
        _print_table(stream, options)
    return 0


@dataclass
class Stream:
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


def _print_json(stream: Stream) -> None:
    import msgspec

    from penstock.cli.summary import summary

    for number, step in enumerate(stream.steps):
        row = {"kind": step.kind, "number": number, "cause": step.cause, **_item(step)}
        print(msgspec.json.encode(row).decode())
    about = {
        "kind": "summary", "source": stream.source, "framing": stream.traced.framing, "target": stream.target,
        "bytes": len(stream.data), "frames": stream.count("frame"), "events": stream.count("event"),
        "outputs": stream.count("output"),
    }  # fmt: skip
    print(msgspec.json.encode({**about, **summary(stream.events, stream.traced.pipe.diagnostics)}).decode())


def _item(step: Step) -> dict[str, Any]:
    import msgspec

    if step.kind == "event":
        return {"event": step.item}
    name, data = step.item
    try:
        payload = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        payload = data.decode("utf-8", "replace")
    return {"name": name.decode("utf-8", "replace"), "data": payload}


def _print_table(stream: Stream, options: Namespace) -> None:
    from penstock.cli import ink
    from penstock.cli.rows import rows
    from penstock.cli.summary import lines, summary
    from penstock.cli.table import Table

    ink.forgive()
    show = ink.ink(colour=ink.wanted(refused=options.no_color))
    width = options.width or shutil.get_terminal_size((WIDE, 24)).columns
    table = Table(rows(stream.steps), everything=options.all)
    show(ink.fit(_head(stream), width))
    if table.constant:
        show(ink.fit([("in every frame:", "dim"), *table.constant], width))
    show([])
    for line in table.draw(stream.source, stream.target, width):
        show(line)
    show([])
    for label, line in lines(summary(stream.events, stream.traced.pipe.diagnostics)):
        for part in ink.wrap(line, max(width - INDENT, INDENT)):
            show([(f"{label:<{INDENT}}", "dim"), *part])
            label = ""  # noqa: PLW2901  said once


def _head(stream: Stream) -> Line:
    from penstock.cli.ink import plain

    name = "standard input" if stream.file == "-" else plain(PurePath(stream.file).name)
    count = stream.count("frame")
    size = f"{count:,} frame{'s' * (count != 1)}, {len(stream.data):,} bytes"
    way: Line = [(stream.source, "bold"), (f" over {stream.traced.framing} → ", ""), (stream.target, "bold")]
    return [*way, (f"  {size}  {name}", "dim")]
