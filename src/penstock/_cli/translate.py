"""`penstock translate` turns the stream of one protocol into another; `penstock convert` does so for requests.

Diagnostics (what the target cannot express, what was repaired) go to standard error, one line each.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from penstock._cli import common_options
from penstock._cli.terminal import printable
from penstock.errors import InputError
from penstock.events import Fault

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Sequence

    from penstock._diagnostics import Diagnostic


def run_translate(options: Namespace) -> int:
    """Translates until the input ends."""
    from penstock._bridge import translate

    _refuse_overwriting(options)
    watcher, findings = _EventWatcher(), list[Any]()
    with common_options.open_input(options.file) as file:
        chunks = translate(
            common_options.read_chunks(file),
            options.source,
            options.target,
            shaping=(watcher,),
            on_diagnostic=findings.append,
            **common_options.read_codec_options(options, options.source),
        )
        _write_output(options.output, chunks)
    if not options.quiet:
        _print_findings(findings, watcher.fault)
    if not common_options.is_stream(watcher.first_events, findings):
        raise InputError(f"there is nothing of {options.source} in the input")
    return 0


class _EventWatcher:
    """A stage that keeps the first two events, enough to tell a stream from garbage, and the last fault."""

    def __init__(self) -> None:
        self.first_events: list[Any] = []
        self.fault = ""

    def feed(self, events: Sequence[Any], /) -> list[Any]:
        self.first_events += events[: 2 - len(self.first_events)]
        for event in events:
            if type(event) is Fault:
                self.fault = f"{event.kind}: {event.message}"
        return list(events)

    def finish(self) -> list[Any]:
        return []


def run_convert(options: Namespace) -> int:
    """Converts one body."""
    from penstock._lenient_json import as_json
    from penstock._messages.convert import convert

    _refuse_overwriting(options)
    converted = convert(
        common_options.read_input(options.file),
        options.source,
        options.target,
        model=options.model,
        images=options.images,
        max_output=options.max_output,
        prompt_caching=options.prompt_caching,
        strict=options.strict,
    )
    _write_output(options.output, [msgspec.json.format(as_json(converted.body), indent=2).encode() + b"\n"])
    if not options.quiet:
        _print_findings(converted.diagnostics)
    return 0


def _refuse_overwriting(options: Namespace) -> None:
    try:
        same = options.output != "-" and os.path.samefile(options.file, options.output)  # noqa: PTH121  paths as typed
    except OSError:
        return
    if same:
        raise InputError(f"{options.output}: the output would overwrite the input")


def _write_output(name: str, chunks: Iterable[bytes]) -> None:
    """Writes each chunk at once. A file is opened with the first chunk, so input that fails creates none."""
    output: BinaryIO | None = sys.stdout.buffer if name == "-" else None
    with ExitStack() as stack:
        for chunk in chunks:
            if output is None:
                output = stack.enter_context(open(name, "wb"))  # noqa: PTH123
            output.write(chunk)
            output.flush()


def _print_findings(findings: list[Diagnostic], fault: str = "") -> None:
    for row in findings:
        times = f" ({row.count} times)" if row.count > 1 else ""
        common_options.print_message(f"{row.code}: {printable(row.message)}{times}")
    if fault:
        common_options.print_message(f"the stream ends in a fault: {printable(fault)}")
