"""`penstock inspect`: what a stream says, what it means and what comes of it, side by side in the terminal.

Leans on `Pipe.trace` by way of `rows`; `table` and `summary` draw. With `--json`, one object on each line instead.
"""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any

from penstock.cli import reading

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from penstock.cli.ink import Line
    from penstock.cli.rows import Shown
    from penstock.stage import Pipe

EPILOG = """\
examples:
  penstock inspect answer.sse
  penstock inspect --to anthropic --all answer.sse | less -S
  curl -sN https://… | penstock inspect
  penstock inspect --json answer.sse | jq 'select(.kind == "event").event.type'

Each frame of the stream stands in the left column, the canonical events it caused in the middle, what leaves for the
target on the right. What all frames repeat is said once, above; long runs of deltas are folded (--all shows them).
Colours follow NO_COLOR and FORCE_COLOR.
"""
WIDE = 120  # where the terminal does not say


def arguments(parser: ArgumentParser) -> None:
    parser.epilog = EPILOG
    reading.source_arguments(parser)
    parser.add_argument(
        "--to", dest="target", metavar="PROTOCOL", default="vscode", help="what to show on the right (default: vscode)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line: each frame, event, output; a summary")
    parser.add_argument("--all", action="store_true", help="fold no runs of rows that are alike")
    parser.add_argument("--width", metavar="N", type=int, help="columns to use (default: those of the terminal)")
    parser.add_argument("--no-color", action="store_true", help="no colours")


def run(options: Namespace) -> int:
    from penstock import protocols
    from penstock.bridge import bridge
    from penstock.cli.rows import follow
    from penstock.guess import guess

    with reading.opened(options.file) as file:
        data = b"".join(reading.chunks(file))
    source = guess(data, options.framing) if options.source == "auto" else options.source
    pipe = bridge(
        source, options.target, framing=options.framing,
        source_options=reading.settings(options.source_options, protocols.protocol(source).decoder),
        target_options=reading.settings(options.target_options, protocols.protocol(options.target).encoder),
    )  # fmt: skip
    shown = follow(pipe, data)
    about = {
        "source": source, "framing": getattr(pipe.stages[0], "framing", options.framing), "target": options.target,
        "bytes": len(data),
    }  # fmt: skip
    _check(shown, source)
    (_print_json if options.json else _print_table)(options, pipe, shown, about)
    return 0
