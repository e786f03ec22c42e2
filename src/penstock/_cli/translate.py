"""`penstock translate`: one protocol's stream in, another's out, as it arrives.

Leans on `penstock.translate`. Writes what is findings and not output to standard error, one line each.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from penstock._cli import common_options
from penstock._cli.terminal import printable

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

    from penstock._diagnostics import Diagnostic

EPILOG = """\
examples:
  penstock translate --to openai-chat answer.sse
  penstock translate --from gemini --to anthropic --option model=mine answer.json -o answer.sse
  curl -sN https://… | penstock translate --to vscode

The output flows as the input does. Findings (what the target cannot say, what was odd) go to standard error.
Exit code: 0, also for a stream that ends in a fault of its own; 2 for input that cannot be used.
"""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's options."""
    parser.epilog = EPILOG
    common_options.add_source_options(parser)
    parser.add_argument("--to", dest="target", metavar="PROTOCOL", required=True, help="what the output is to speak")
    parser.add_argument("-o", "--output", metavar="FILE", default="-", help="where to write; - is standard output")
    parser.add_argument("-q", "--quiet", action="store_true", help="no findings on standard error")


def run(options: Namespace) -> int:
    """Translate until the input ends."""
    from penstock import _protocols as protocols
    from penstock._translation import translate
    from penstock.errors import InputError

    if options.output != "-" and is_same_file(options.file, options.output):
        raise InputError(f"{options.output}: the output would overwrite the input")
    source = None if options.source == "auto" else protocols.protocol(options.source).decoder
    seen, findings = _EventWatcher(), list[Any]()
    with common_options.open_input(options.file) as file, OutputFile(options.output) as output:
        for chunk in translate(
            common_options.read_chunks(file),
            options.source,
            options.target,
            framing=options.framing,
            limit=options.limit,
            shaping=(seen,),
            on_diagnostic=findings.append,
            source_options=common_options.parse_codec_options(options.source_options, source),
            target_options=common_options.parse_codec_options(
                options.target_options, protocols.protocol(options.target).encoder
            ),
        ):
            output.write(chunk)
    if not options.quiet:
        print_findings(findings, seen.fault)
    if not common_options.is_stream(seen.kept, findings):
        raise InputError(f"there is nothing of {options.source} in the input")
    return 0


class _EventWatcher:
    """Event → event: keeps two events, enough to tell a stream from garbage, and the last fault in words."""

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.fault = ""

    def feed(self, events: Sequence[Any], /) -> list[Any]:
        from penstock.events import Fault

        self.kept += events[: 2 - len(self.kept)]
        for event in events:
            if type(event) is Fault:
                self.fault = f"{event.kind}: {event.message}"
        return list(events)

    def finish(self) -> list[Any]:
        return []


class OutputFile:
    """Standard output, or a file that is opened when there is something to write."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._file: BinaryIO | None = sys.stdout.buffer if name == "-" else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None and self._name != "-":
            self._file.close()

    def write(self, chunk: bytes) -> None:
        if self._file is None:
            self._file = open(self._name, "wb")  # noqa: PTH123, SIM115  closed in __exit__
        self._file.write(chunk)
        self._file.flush()


def print_findings(findings: list[Diagnostic], fault: str = "") -> None:
    """Findings on standard error, one line each."""
    for row in findings:
        times = f" ({row.count} times)" if row.count > 1 else ""
        print(f"penstock: {row.code}: {printable(row.message)}{times}", file=sys.stderr)
    if fault:
        print(f"penstock: the stream ends in a fault: {printable(fault)}", file=sys.stderr)


def is_same_file(one: str, other: str) -> bool:
    """Whether two names are of one file."""
    try:
        return os.path.samefile(one, other)  # noqa: PTH121  paths as they were typed
    except OSError:
        return False
