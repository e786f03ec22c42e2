"""Shared by the tools that rewrite golden cases: their arguments, and writing only changed files."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def write_changed(wanted: Mapping[Path, bytes]) -> list[Path]:
    """Write the files that are not yet as wanted; gives them."""
    changed = [path for path, data in wanted.items() if not path.exists() or path.read_bytes() != data]
    for path in changed:
        path.write_bytes(wanted[path])
    return changed


def read_arguments(about: str | None) -> argparse.Namespace:
    """`cases`: how the names of cases begin; `to`: further targets."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=[""], help="how their names begin")
    parser.add_argument("--to", nargs="*", default=[], help="write what these targets are sent, too")
    return parser.parse_args()
