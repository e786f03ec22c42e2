"""Tells the oldest glibc that the files of a folder run with: the newest symbol version that any of them asks for."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_VERSION = re.compile(r"\bGLIBC_(\d+(?:\.\d+)+)\b")
_ELF = b"\x7fELF"


def version_of(text: str) -> tuple[int, ...]:
    """Returns `2.28` as numbers that compare."""
    return tuple(int(number) for number in text.split("."))


def elf_files(folder: Path) -> Iterator[Path]:
    """Yields the executables and shared libraries of a folder."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                if file.read(4) == _ELF:
                    yield path


def file_needs(path: Path) -> tuple[int, ...]:
    """Returns the newest version of glibc that a file asks for; empty if it asks for none."""
    done = subprocess.run(["objdump", "-T", str(path)], capture_output=True, text=True, check=True, timeout=60)  # noqa: S603, S607 — PyInstaller needs objdump, too
    return max((version_of(found) for found in _VERSION.findall(done.stdout)), default=())


def needed_glibc(folder: Path) -> tuple[tuple[int, ...], str]:
    """Returns the oldest glibc that a folder runs with, and the file that asks for it."""
    return max((file_needs(path), path.relative_to(folder).as_posix()) for path in elf_files(folder))
