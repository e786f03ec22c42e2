"""How this program can be called again: a hint must name a command that runs where it is read."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

NAME = "penstock"


def find_command() -> str:
    """`penstock` if a shell finds this very program by that name, else the path that it was started by.

    `make serve` starts `.venv/bin/penstock`, which the shell that reads the hints does not find.
    """
    started, found = Path(sys.argv[0]), shutil.which(NAME)
    if started.name == "__main__.py" and started.parent.name == NAME:
        return NAME if found else f"{_shorten(sys.executable)} -m {NAME}"
    if started.stem != NAME or not started.exists():  # called by another program, or by its name
        return NAME
    return NAME if found and Path(found).resolve() == started.resolve() else _shorten(sys.argv[0])


def _shorten(path: str) -> str:
    """The path from the current folder if it lies inside, as a shell reads it. Links are not followed."""
    whole = os.path.abspath(path)  # noqa: PTH100 — `Path.resolve` would leave a virtual environment by its links
    here = os.getcwd()  # noqa: PTH109
    inside = os.path.commonpath([whole, here]) == here
    return shlex.quote(os.path.relpath(whole, here) if inside else whole)
