"""Writes archives whose bytes depend on their content alone: sorted entries, one time, fixed modes, no owners.

The time is SOURCE_DATE_EPOCH (https://reproducible-builds.org/docs/source-date-epoch/), or 1980, the first year that a
zip file can hold.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import time
import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_FIRST = 315532800  # 1980-01-01
_EXECUTABLE, _PLAIN = 0o755, 0o644
_UNIX = 3  # of a zip file: its modes are those of Unix
_REGULAR = 0o100000


def source_date_epoch() -> int:
    """Returns the time of all entries, in seconds since 1970."""
    return max(_FIRST, int(os.environ.get("SOURCE_DATE_EPOCH", _FIRST)))


def file_mode(mode: int) -> int:
    """Returns one of two modes: umask and checkout no longer show."""
    return _EXECUTABLE if mode & 0o100 else _PLAIN


def rewrite_zip(file: Path) -> None:
    """Writes a zip file again: the same content, in bytes that can be made again."""
    moment = time.gmtime(source_date_epoch())
    fresh = file.with_suffix(".new")
    with zipfile.ZipFile(file) as before, zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as after:
        for row in sorted(before.infolist(), key=lambda row: row.filename):
            made = zipfile.ZipInfo(row.filename, moment[:6])
            made.compress_type = zipfile.ZIP_DEFLATED
            made.create_system = _UNIX
            made.external_attr = (_REGULAR | file_mode(row.external_attr >> 16)) << 16
            after.writestr(made, before.read(row))
    fresh.replace(file)


def write_tar(out: Path, root: Path, names: Iterable[str]) -> None:
    """Writes a compressed tar file of some files below a folder."""
    with (
        out.open("wb") as raw,
        gzip.GzipFile("", "wb", 9, raw, mtime=source_date_epoch()) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name in sorted(names):
            data = (root / name).read_bytes()
            row = tarfile.TarInfo(name)
            row.size, row.mtime = len(data), source_date_epoch()
            row.mode = file_mode((root / name).stat().st_mode)
            tar.addfile(row, io.BytesIO(data))


def extract_tar(file: Path, folder: Path) -> None:
    """Unpacks a tar file of our own. Python 3.11.2, which Debian 12 has, knows no filters."""
    with tarfile.open(file) as tar:
        if hasattr(tarfile, "data_filter"):
            tar.extractall(folder, filter="data")
        else:
            tar.extractall(folder)  # noqa: S202 — our own
