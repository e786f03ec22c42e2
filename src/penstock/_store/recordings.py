"""Recordings: files that hold one exchange, its request and the bytes of its answer with the time of each chunk.

The first line is a JSON object (`Header`), every further line a chunk: `[seconds since the first line, "text"]`, or
`[seconds, null, "base64"]` for bytes that are no UTF-8. The joined chunks are the answer, byte for byte.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

FORM = "penstock-recording"
VERSION = 1
SUFFIX = ".tape"


class RecordingHeader(msgspec.Struct, kw_only=True, omit_defaults=True, tag_field="form", tag=FORM):
    """What was asked of whom, and how the answer began. `cut`: the answer was longer than what is kept of it."""

    version: int = VERSION
    id: str = ""  # of the turn, as the journal has it
    time: float = 0.0  # since the epoch
    protocol: str = ""  # of the answer
    framing: str = ""
    provider: str = ""
    model: str = ""
    url: str = ""
    method: str = "POST"
    request_headers: dict[str, str] = {}
    request: Any = None  # the body: a JSON value, or a text
    status: int = 200
    headers: dict[str, str] = {}
    hidden: int = 0  # secrets that were taken out
    cut: bool = False
    note: str = ""


class Recording(msgspec.Struct):
    """A recording in memory."""

    header: RecordingHeader
    chunks: list[tuple[float, bytes]]

    @property
    def data(self) -> bytes:
        """The answer."""
        return b"".join(chunk for _, chunk in self.chunks)


def write_recording(path: Path, header: RecordingHeader, chunks: Iterable[tuple[float, bytes]]) -> None:
    """Put a recording in a file, which is there as a whole or not at all.

    Another process may be writing to the same name: the unfinished file has the process's number in its own.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}.part")
    fresh.unlink(missing_ok=True)
    fresh.touch(0o600)
    with fresh.open("wb") as file:
        file.write(msgspec.json.encode(header) + b"\n")
        for line in map(_line, chunks):
            file.write(line)
    fresh.replace(path)


def _line(chunk: tuple[float, bytes]) -> bytes:
    at, data = round(chunk[0], 6), chunk[1]
    try:
        return msgspec.json.encode([at, data.decode()]) + b"\n"
    except UnicodeDecodeError:
        return msgspec.json.encode([at, None, b64encode(data).decode()]) + b"\n"


def read_recording(path: Path) -> Recording:
    """A recording from its file. What is wrong with one is an `InputError` that names the line."""
    with path.open("rb") as file:
        header = _header(path, file.readline())
        return Recording(header, list(_chunks(path, file)))


def parse(data: bytes, name: str) -> Recording:
    """The same from the bytes of one; `name` is what it is called in errors."""
    first, *rest = data.lstrip().split(b"\n")
    return Recording(_header(name, first), list(_chunks(name, filter(bytes.strip, rest))))


def is_recording(beginning: bytes) -> bool:
    """Whether a file that begins so is one."""
    return beginning.lstrip().startswith(b'{"form":"penstock-recording"')


def _header(path: Path | str, line: bytes) -> RecordingHeader:
    try:
        header = msgspec.json.decode(line, type=RecordingHeader)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}:1: not a recording of penstock: {error}") from None
    if header.version > VERSION:
        raise InputError(f"{path}:1: a recording of version {header.version}, and {VERSION} is the newest known here")
    return header


def _chunks(path: Path | str, lines: Iterable[bytes]) -> Iterator[tuple[float, bytes]]:
    for number, line in enumerate(lines, 2):
        try:
            at, text, *data = msgspec.json.decode(line, type=list[Any])
            yield float(at), b64decode(data[0], validate=True) if text is None else text.encode()
        except (msgspec.MsgspecError, ValueError, IndexError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(f"{path}:{number}: not a chunk of a recording: {error}") from None
