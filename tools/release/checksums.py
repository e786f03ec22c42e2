"""SHA256SUMS, as `sha256sum --check` reads it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

NAME = "SHA256SUMS"


def write_checksums(folder: Path) -> Path:
    """Writes the checksums of all files of a folder."""
    files = sorted(file for file in folder.iterdir() if file.is_file() and file.name != NAME)
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    out = folder / NAME
    out.write_text("".join(lines), "utf-8", newline="\n")
    return out
