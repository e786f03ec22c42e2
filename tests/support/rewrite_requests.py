"""Writes what the golden requests expect anew from what the code does now; the difference is then read in git.

`python -m tests.support.rewrite_requests` takes every case and every file it has; with an argument, the cases whose name begins
so; with `--to gemini`, it adds what one more target is sent. Findings are shown, to be put into `about.toml` by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support import request_protocols as requesting
from tests.support.request_cases import Case, cases, pretty
from tests.support.rewrite_options import read_arguments, write_changed

if TYPE_CHECKING:
    from pathlib import Path


def rewrite(case: Case, more: list[str]) -> list[Path]:
    """Write the case's files; gives those that changed."""
    request = case.read()
    wanted = {case.path / "canonical.json": pretty(request)}
    for target in {*case.targets, *more} - {case.source}:
        draft = requesting.write(target, request)
        wanted[case.path / f"{target}.json"] = pretty(draft.body)
        codes = sorted({finding.code for finding in draft.diagnostics})
        if codes != sorted(case.findings(target)):
            print(f"{case.id}: {target} = {codes}".replace("'", '"'))  # noqa: T201 — that is what it is for
    return write_changed(wanted)


def main() -> None:
    args = read_arguments(__doc__)
    for case in cases():
        if case.id.startswith(tuple(args.cases)):
            for path in rewrite(case, args.to):
                print(path)  # noqa: T201 — as above


if __name__ == "__main__":
    main()
