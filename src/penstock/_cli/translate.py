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
from penstock._cli.progress import show_progress
from penstock._printable_text import printable
from penstock.errors import InputError
from penstock.events import Fault

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Sequence

    from penstock._diagnostics import Diagnostic


LOSSY = 3
"""The exit code of `translate --strict` if the stream ends in a fault, or something of it is lost."""
_UNREAD = frozenset({"call-unnamed", "malformed", "too-deep", "wrong-shape"})  # what could not be read of the input


def run_translate(options: Namespace) -> int:
    """Translates until the input ends."""
    from penstock._bridge import translate

    _refuse_overwriting(options)
    watcher, findings = _EventWatcher(), list[Any]()
    with common_options.open_input(options.file) as file:
        chunks = translate(
            show_progress(common_options.read_chunks(file), file, shares_terminal=options.output == "-"),
            options.source,
            options.target,
            shaping=(watcher,),
            on_diagnostic=findings.append,
            **common_options.read_codec_options(options, options.source),
        )
        _write_output(options.output, chunks)
    is_stream = common_options.is_stream(watcher.first_events, findings)
    if not options.quiet and (is_stream or not options.json):
        _print_findings(findings, watcher.fault, as_json=options.json)
    if not is_stream:
        raise InputError(f"there is nothing of {options.source} in the input")
    return LOSSY if options.strict and (watcher.fault is not None or any(map(_is_loss, findings))) else 0


def _is_loss(row: Diagnostic) -> bool:
    """True if something of the stream is not in the output."""
    return row.code.startswith("loss-") or row.code in _UNREAD


class _EventWatcher:
    """A stage that keeps the first two events, enough to tell a stream from garbage, and the last fault."""

    def __init__(self) -> None:
        self.first_events: list[Any] = []
        self.fault: Fault | None = None

    def feed(self, events: Sequence[Any], /) -> list[Any]:
        self.first_events += events[: 2 - len(self.first_events)]
        for event in events:
            if type(event) is Fault:
                self.fault = event
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
        _print_findings(converted.diagnostics, as_json=options.json)
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


def _print_findings(findings: list[Diagnostic], fault: Fault | None = None, *, as_json: bool) -> None:
    if as_json:
        ended = {"kind": fault.kind, "message": fault.message} if fault is not None else None
        common_options.print_report({"findings": findings, "fault": ended})
        return
    for row in findings:
        times = f" ({row.count} times)" if row.count > 1 else ""
        common_options.print_message(f"{row.code}: {printable(row.message)}{times}")
    if fault is not None:
        common_options.print_message(f"the stream ends in a fault: {printable(f'{fault.kind}: {fault.message}')}")
