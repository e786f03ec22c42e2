"""Writes what the golden cases expect anew from what the code does now; the difference is then read in git.

`python -m tests.support.rewrite_streams` takes every case and every file it has; with an argument, the cases whose name begins so
(`anthropic/tool`); with `--to openai-chat`, it adds what one more target is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import _codec as codec
from tests.support import run_streams as running
from tests.support.rewrite_options import read_arguments, write_changed
from tests.support.stream_cases import Case, cases, lines

if TYPE_CHECKING:
    from pathlib import Path


def rewrite(case: Case, more: list[str]) -> list[Path]:
    """Write the case's files; gives those that changed."""
    events = case.decoded()
    wanted = {case.book: lines(events)}
    targets = case.outputs() | {name: case.path / f"to-{name}.{running.row(name).writes}" for name in more}
    wanted |= {path: case.written(target, events) for target, path in targets.items()}
    return write_changed(wanted)


def main() -> None:
    args = read_arguments(__doc__)
    codec.STRICT = True
    for case in cases():
        if case.id.startswith(tuple(args.cases)):
            for path in rewrite(case, args.to):
                print(path.relative_to(path.parents[4]))  # noqa: T201  (its output is its product)


if __name__ == "__main__":
    main()
